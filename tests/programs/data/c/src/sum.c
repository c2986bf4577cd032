#include "sum.h"
long sum(const long *v, long n)
{
    long s = 0;
    while (n--)
        s += *v++;
    return s;
}
