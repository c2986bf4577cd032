/* mixed.c: how long /healthz takes while others execute, upload and download without a pause: one
 * call every 5 ms, in a thread that waits for nothing else. (Python's threads take turns of 5 ms,
 * which was most of what they measured.) Prints each call's microseconds. Trusts the daemon.
 * usage: bench-mixed PORT SECONDS */
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK (8u << 20)
#define PAUSE_US 5000u

enum { EXEC, PUT, GET, GET_TOO, LOADS };

static uint16_t port;
static atomic_bool stop;

static void *load(void *arg)
{
    static const char json[] = "{\"command\":\"head -c 100000 /dev/zero\"}";
    int what = *(const int *)arg, fd = client_connect(port);
    while (!stop) {
        int status = what == EXEC  ? client_request(fd, "POST", "/execute", json, sizeof json - 1)
                     : what == PUT ? client_put(fd, "/files/h.bin", BLOCK)
                                   : client_request(fd, "GET", "/files/h.bin", "", 0);
        if (status < 200 || status > 299)
            bench_die("the load was refused");
    }
    close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: bench-mixed PORT SECONDS\n");
        return 2;
    }
    port = (uint16_t)strtoul(argv[1], NULL, 10);
    uint64_t seconds = strtoull(argv[2], NULL, 10);
    memset(bench_buf, 'x', sizeof bench_buf);
    int fd = client_connect(port), kind[LOADS] = {EXEC, PUT, GET, GET_TOO};
    (void)client_put(fd, "/files/h.bin", BLOCK);
    pthread_t thread[LOADS];
    for (int i = 0; i < LOADS; i++)
        if (pthread_create(&thread[i], NULL, load, &kind[i]) != 0)
            bench_die("pthread_create");
    uint64_t end = bench_now_us() + seconds * 1000000u;
    while (bench_now_us() < end) {
        usleep(PAUSE_US);
        uint64_t began = bench_now_us();
        if (client_request(fd, "GET", "/healthz", "", 0) != 200)
            bench_die("/healthz failed");
        printf("%llu\n", (unsigned long long)(bench_now_us() - began));
    }
    stop = true;
    for (int i = 0; i < LOADS; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
