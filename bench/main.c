/* main.c: interleaved rounds of the same work by the daemon, by a peer (0: none) and bare, and a
 * line for each work: `name daemon_p50 daemon_p95 peer_p50 peer_p95 bare_p50 bare_p95`, in
 * microseconds. bench/run.py makes the table. usage: bench PORT WORKSPACE PEER_PORT PEER_FOLDER
 * SHELL ROUNDS GET_MAX */
#include "bench.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OURS, PEER, BARE, WAYS };

struct samples {
    uint64_t *v;
    size_t n;
};

struct setting {
    uint16_t port[2];
    const char *folder[2], *shell;
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
    if (s->n == 0)
        return 0;
    qsort(s->v, s->n, sizeof *s->v, by_value);
    size_t i = s->n * percent / 100;
    return s->v[i < s->n ? i : s->n - 1];
}

static void report(const char *name, struct samples s[WAYS])
{
    printf("%s", name);
    for (int w = 0; w < WAYS; w++) {
        printf(" %llu %llu", (unsigned long long)quantile(&s[w], 50),
               (unsigned long long)quantile(&s[w], 95));
        free(s[w].v);
    }
    printf("\n");
    fflush(stdout);
}

static void expect(int got, int want)
{
    if (got == want)
        return;
    fprintf(stderr, "bench: answered %d, not %d\n", got, want);
    exit(1);
}

static uint64_t exec_once(int fd, const char *json)
{
    uint64_t t = bench_now_us();
    expect(client_request(fd, "POST", "/execute", json, strlen(json)), 200);
    return bench_now_us() - t;
}

static void bench_exec(const struct setting *g, const char *name, const char *command,
                       size_t rounds)
{
    struct samples s[WAYS] = {0};
    char json[256];
    snprintf(json, sizeof json, "{\"command\":\"%s\"}", command);
    int fd[2] = {client_connect(g->port[OURS]), g->port[PEER] ? client_connect(g->port[PEER]) : -1};
    size_t warm = rounds / 10 + 2;
    for (size_t i = 0; i < rounds + warm; i++) {
        uint64_t t[WAYS] = {0};
        for (size_t k = 0; k < WAYS; k++) { /* each is first, after the others, in turn */
            size_t w = (i + k) % WAYS;
            if (w == BARE)
                t[w] = bare_spawn(g->shell, command);
            else if (fd[w] >= 0)
                t[w] = exec_once(fd[w], json);
        }
        for (int w = 0; i >= warm && w < WAYS; w++)
            add(&s[w], t[w]);
    }
    close(fd[OURS]);
    if (fd[PEER] >= 0)
        close(fd[PEER]);
    report(name, s);
}

static uint64_t put_once(int fd, size_t size, bool first)
{
    uint64_t t = bench_now_us();
    int status = client_put(fd, "/files/bench.bin", size);
    uint64_t took = bench_now_us() - t;
    if (status != 200)
        expect(status, first ? 201 : 200);
    return took;
}

static uint64_t get_once(int fd)
{
    uint64_t t = bench_now_us();
    expect(client_request(fd, "GET", "/files/bench.bin", NULL, 0), 200);
    return bench_now_us() - t;
}

static void bench_transfers(const struct setting *g, const char *label, size_t size, size_t rounds)
{
    struct samples get[WAYS] = {0}, put[WAYS] = {0};
    char file[4200], name[64];
    snprintf(file, sizeof file, "%s/bench.bin", g->folder[OURS]);
    int fd[2] = {client_connect(g->port[OURS]), g->port[PEER] ? client_connect(g->port[PEER]) : -1};
    for (size_t i = 0; i < rounds + 1; i++) {
        uint64_t p[WAYS] = {0}, q[WAYS] = {0};
        for (size_t k = 0; k < WAYS; k++) { /* each is first, after the others, in turn */
            size_t w = (i + k) % WAYS;
            if (w == BARE)
                p[w] = bare_put(g->folder[OURS], size);
            else if (fd[w] >= 0)
                p[w] = put_once(fd[w], size, i == 0);
        }
        for (size_t k = 0; k < WAYS; k++) {
            size_t w = (i + k) % WAYS;
            if (w == BARE)
                q[w] = bare_get(file, size);
            else if (fd[w] >= 0)
                q[w] = get_once(fd[w]);
        }
        for (int w = 0; i > 0 && w < WAYS; w++) { /* the first warms the page cache */
            add(&put[w], p[w]);
            add(&get[w], q[w]);
        }
    }
    for (int w = 0; w < BARE; w++) {
        if (fd[w] < 0)
            continue;
        expect(client_request(fd[w], "DELETE", "/files/bench.bin", NULL, 0), 204);
        close(fd[w]);
    }
    snprintf(name, sizeof name, "get-%s", label);
    report(name, get);
    snprintf(name, sizeof name, "put-%s", label);
    report(name, put);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *label;
        size_t size, part;
    } sizes[] = {
        {"1k", 1u << 10, 1}, {"1m", 1u << 20, 2}, {"32m", 32u << 20, 20}, {"1g", 1u << 30, 200}};
    if (argc != 8) {
        fprintf(stderr,
                "usage: bench PORT WORKSPACE PEER_PORT PEER_FOLDER SHELL ROUNDS LARGEST_MIB\n");
        return 2;
    }
    struct setting g = {
        {(uint16_t)strtoul(argv[1], NULL, 10), (uint16_t)strtoul(argv[3], NULL, 10)},
        {argv[2], argv[4]},
        argv[5]};
    size_t rounds = (size_t)strtoul(argv[6], NULL, 10), largest = strtoul(argv[7], NULL, 10) << 20;
    memset(bench_buf, 'x', sizeof bench_buf);
    bench_exec(&g, "exec-true", "true", rounds);
    bench_exec(&g, "exec-python-pass", "python3 -c pass", rounds / 8 + 3);
    bench_exec(&g, "exec-output-1m", "yes some-words-of-text | head -c 1048576", rounds / 8 + 3);
    bench_exec(&g, "exec-output-100m", "yes some-words-of-text | head -c 104857600",
               rounds / 40 + 3);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].size <= largest)
            bench_transfers(&g, sizes[i].label, sizes[i].size, rounds / sizes[i].part + 2);
    return 0;
}
