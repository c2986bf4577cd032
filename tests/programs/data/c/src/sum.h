long sum(const long *v, long n);
