/* main.c: interleaved rounds of the daemon's work and the bare work, and a line of medians for
 * each: `name daemon_p50 daemon_p95 bare_p50 bare_p95 ratio_p50 ratio_p95`, in microseconds.
 * bench/run.py makes the table. usage: bench PORT WORKSPACE SHELL ROUNDS */
#include "bench.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRANSFER ((size_t)32 << 20)

struct samples {
    uint64_t *v;
    size_t n;
};

static void add(struct samples *s, uint64_t v)
{
    s->v = realloc(s->v, (s->n + 1) * sizeof *s->v);
    if (s->v == NULL)
        bench_die("realloc");
    s->v[s->n++] = v;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static uint64_t quantile(struct samples *s, unsigned percent)
{
    qsort(s->v, s->n, sizeof *s->v, by_value);
    size_t i = s->n * percent / 100;
    return s->v[i < s->n ? i : s->n - 1];
}

static void report(const char *name, struct samples *ours, struct samples *bare)
{
    double o50 = (double)quantile(ours, 50), o95 = (double)quantile(ours, 95);
    double b50 = (double)quantile(bare, 50), b95 = (double)quantile(bare, 95);
    printf("%s %.0f %.0f %.0f %.0f %.3f %.3f\n", name, o50, o95, b50, b95, o50 / b50, o95 / b95);
    fflush(stdout);
}

static void expect(int got, int want)
{
    if (got == want)
        return;
    fprintf(stderr, "bench: the daemon answered %d, not %d\n", got, want);
    exit(1);
}

static uint64_t exec_once(int fd, const char *json)
{
    uint64_t t = bench_now_us();
    expect(client_request(fd, "POST", "/execute", json, strlen(json)), 200);
    return bench_now_us() - t;
}

static void bench_exec(uint16_t port, const char *shell, size_t rounds)
{
    struct samples ours = {0}, bare = {0};
    int fd = client_connect(port);
    for (int i = 0; i < 20; i++) {
        (void)exec_once(fd, "{\"command\":\"true\"}");
        (void)bare_spawn(shell, "true");
    }
    for (size_t i = 0; i < rounds; i++) {
        add(&ours, exec_once(fd, "{\"command\":\"true\"}"));
        add(&bare, bare_spawn(shell, "true"));
    }
    close(fd);
    report("exec-true", &ours, &bare);
}

static void bench_transfers(uint16_t port, const char *workspace, size_t rounds)
{
    struct samples get = {0}, bget = {0}, put = {0}, bput = {0};
    char file[4200];
    snprintf(file, sizeof file, "%s/bench.bin", workspace);
    int fd = client_connect(port);
    for (size_t i = 0; i < rounds + 1; i++) {
        uint64_t t = bench_now_us();
        int status = client_put(fd, "/files/bench.bin", TRANSFER);
        uint64_t took = bench_now_us() - t;
        expect(status, i == 0 ? 201 : 200);
        uint64_t b = bare_put(workspace, TRANSFER);
        t = bench_now_us();
        expect(client_request(fd, "GET", "/files/bench.bin", NULL, 0), 200);
        uint64_t gtook = bench_now_us() - t;
        uint64_t bg = bare_get(file, TRANSFER);
        if (i == 0)
            continue; /* warms the page cache */
        add(&put, took);
        add(&bput, b);
        add(&get, gtook);
        add(&bget, bg);
    }
    expect(client_request(fd, "DELETE", "/files/bench.bin", NULL, 0), 204);
    close(fd);
    report("get-32m", &get, &bget);
    report("put-32m", &put, &bput);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: bench PORT WORKSPACE SHELL ROUNDS\n");
        return 2;
    }
    uint16_t port = (uint16_t)strtoul(argv[1], NULL, 10);
    size_t rounds = (size_t)strtoul(argv[4], NULL, 10);
    memset(bench_buf, 'x', sizeof bench_buf);
    bench_exec(port, argv[3], rounds);
    bench_transfers(port, argv[2], rounds / 20 + 5);
    return 0;
}
