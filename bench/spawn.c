/* spawn.c: for each line on stdin one bare spawn of the shell that is named, and its microseconds
 * on stdout: for the benchmarks in Python, whose own way to start a process takes as long again.
 * Trusts its caller. */
#include "bench.h"

#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char line[16];
    if (argc != 2)
        return 2;
    while (fgets(line, sizeof line, stdin) != NULL) {
        printf("%" PRIu64 "\n", bare_spawn(argv[1], "true"));
        (void)fflush(stdout);
    }
    return 0;
}
