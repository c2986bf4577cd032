/* held.c: what a held shell saves: a daemon that holds one, one that doesn't, and a bare spawn,
 * asked for `true` in turn with a pause before each; then the same two daemons without pauses.
 * Prints `paced NAME p50 p95 ratio_p50 ratio_p95` in microseconds and against the bare spawn, and
 * `bursts NAME commands/s ratio` against the daemon without. bench/held.py starts the daemons, and
 * makes the table. usage: bench-held SHELL ROUNDS PAUSE_MS PORT_ON PORT_OFF */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ON, OFF, BARE, KINDS };
#define BURST 50u

struct bench {
    const char *shell;
    int fd[BARE];
    size_t rounds;
    uint64_t *times[KINDS];
};

static const char *const names[KINDS] = {"on", "off", "bare"};

static uint64_t once(struct bench *b, int kind)
{
    static const char json[] = "{\"command\":\"true\"}";
    if (kind == BARE)
        return bare_spawn(b->shell, "true");
    uint64_t t = bench_now_us();
    if (client_request(b->fd[kind], "POST", "/execute", json, sizeof json - 1) != 200) {
        fprintf(stderr, "bench-held: a command failed\n");
        exit(1);
    }
    return bench_now_us() - t;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static void paced(struct bench *b, long pause_ms)
{
    const struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
    for (size_t i = 0; i < b->rounds; i++) {
        for (size_t k = 0; k < KINDS; k++) {
            size_t kind = (i + k) % KINDS; /* so that none is always the next after another */
            nanosleep(&pause, NULL);
            b->times[kind][i] = once(b, (int)kind);
        }
    }
    for (int k = 0; k < KINDS; k++)
        qsort(b->times[k], b->rounds, sizeof(uint64_t), by_value);
    size_t p50 = b->rounds / 2, p95 = b->rounds * 95 / 100;
    for (int k = 0; k < KINDS; k++)
        printf("paced %s %llu %llu %.3f %.3f\n", names[k], (unsigned long long)b->times[k][p50],
               (unsigned long long)b->times[k][p95],
               (double)b->times[k][p50] / (double)b->times[BARE][p50],
               (double)b->times[k][p95] / (double)b->times[BARE][p95]);
}

static void bursts(struct bench *b)
{
    size_t n = b->rounds / BURST + 1;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < BARE; k++) {
            size_t kind = (i + k) % BARE;
            uint64_t t = bench_now_us();
            for (unsigned r = 0; r < BURST; r++)
                (void)once(b, (int)kind);
            b->times[kind][i] = bench_now_us() - t;
        }
    }
    for (int k = 0; k < BARE; k++)
        qsort(b->times[k], n, sizeof(uint64_t), by_value);
    for (int k = 0; k < BARE; k++)
        printf("bursts %s %.0f %.3f\n", names[k], BURST * 1e6 / (double)b->times[k][n / 2],
               (double)b->times[OFF][n / 2] / (double)b->times[k][n / 2]);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: bench-held SHELL ROUNDS PAUSE_MS PORT_ON PORT_OFF\n");
        return 2;
    }
    struct bench b = {.shell = argv[1], .rounds = (size_t)strtoul(argv[2], NULL, 10)};
    for (int k = 0; k < KINDS; k++)
        b.times[k] = calloc(b.rounds + 1, sizeof(uint64_t));
    b.fd[ON] = client_connect((uint16_t)strtoul(argv[4], NULL, 10));
    b.fd[OFF] = client_connect((uint16_t)strtoul(argv[5], NULL, 10));
    for (int i = 0; i < 20; i++)
        for (int k = 0; k < KINDS; k++)
            (void)once(&b, k);
    paced(&b, strtol(argv[3], NULL, 10));
    bursts(&b);
    return 0;
}
