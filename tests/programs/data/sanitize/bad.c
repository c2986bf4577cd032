/* bad.c: writes behind its memory where its argument is over 2. */
#include <stdlib.h>

int main(int c, char **v)
{
    char *p = malloc(2);
    int n = atoi(v[c - 1]);
    p[n > 2 ? 2 : 0] = 1;
    int r = p[0] == 9;
    free(p);
    return r;
}
