/* many.c: throughput of `true` with several clients at once: each a connection and an identity of
 * its own in the box, then the same at the peer, then as many threads that spawn bare; in turns of
 * half a second. Prints `many-N daemon peer bare`, commands a second, the medians of the turns.
 * usage: bench-many PORT PEER_PORT SHELL KEY CLIENTS TURNS */
#include "bench.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TURN_US 500000u
#define CLIENTS_MAX 256u
#define TURNS_MAX 64u

enum { OURS, PEER, BARE, WAYS };

struct client {
    pthread_t thread;
    unsigned number;
    int way;
    size_t done;
};

static uint16_t port[2];
static const char *shell, *key;
static uint64_t until;

static void *work(void *arg)
{
    static const char json[] = "{\"command\":\"true\"}";
    struct client *c = arg;
    char headers[512];
    snprintf(headers, sizeof headers,
             "Authorization: Bearer %s\r\nX-Runbox-Identity: many-%u\r\nContent-Type: "
             "application/json\r\n",
             key, c->number);
    client_headers = headers;
    int fd = c->way == BARE ? -1 : client_connect(port[c->way]);
    for (c->done = 0; bench_now_us() < until; c->done++) {
        if (c->way == BARE)
            (void)bare_spawn(shell, "true");
        else if (client_request(fd, "POST", "/v1/exec", json, sizeof json - 1) != 200)
            bench_die("a command was refused");
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

static double turn(int way, unsigned clients, uint64_t length)
{
    static struct client c[CLIENTS_MAX];
    uint64_t began = bench_now_us();
    size_t done = 0;
    until = began + length;
    for (unsigned i = 0; i < clients; i++) {
        c[i] = (struct client){.number = i, .way = way};
        if (pthread_create(&c[i].thread, NULL, work, &c[i]) != 0)
            bench_die("pthread_create");
    }
    for (unsigned i = 0; i < clients; i++) {
        pthread_join(c[i].thread, NULL);
        done += c[i].done;
    }
    return (double)done * 1e6 / (double)(bench_now_us() - began);
}

static int by_value(const void *a, const void *b)
{
    double x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static double rate[WAYS][TURNS_MAX];
    if (argc != 7) {
        fprintf(stderr, "usage: bench-many PORT PEER_PORT SHELL KEY CLIENTS TURNS\n");
        return 2;
    }
    port[OURS] = (uint16_t)strtoul(argv[1], NULL, 10);
    port[PEER] = (uint16_t)strtoul(argv[2], NULL, 10);
    shell = argv[3];
    key = argv[4];
    unsigned clients = (unsigned)strtoul(argv[5], NULL, 10);
    unsigned turns = (unsigned)strtoul(argv[6], NULL, 10);
    if (clients == 0 || clients > CLIENTS_MAX || turns == 0 || turns > TURNS_MAX)
        return 2;
    for (int w = 0; w < WAYS; w++) /* identities get their processes */
        (void)turn(w, clients, TURN_US);
    for (unsigned t = 0; t < turns; t++)
        for (int w = 0; w < WAYS; w++)
            rate[w][t] = turn(w, clients, TURN_US);
    printf("many-%u", clients);
    for (int w = 0; w < WAYS; w++) {
        qsort(rate[w], turns, sizeof rate[w][0], by_value);
        printf(" %.0f", rate[w][turns / 2]);
    }
    printf("\n");
    return 0;
}
