/* metrics.h: what the front counts, and the page that tells it in the Prometheus text format 0.0.4.
 * Pure: no loop, no socket; one thread. A new front counts from zero, as scrapers expect of a
 * restart. Labels are our own words: nothing a client sent gets into the page. */
#ifndef SP_METRICS_H
#define SP_METRICS_H

#include "sallyport/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The seat's routes, then the box's. */
enum metrics_route {
    ROUTE_OTHER,
    ROUTE_HEALTHZ,
    ROUTE_EXECUTE,
    ROUTE_FILES,
    ROUTE_METRICS,
    ROUTE_READY,
    ROUTE_V1_EXEC,
    ROUTE_V1_FILES,
    ROUTE_V1_BATCH,
    ROUTE_V1_LIST,
    ROUTE_V1_ARCHIVE,
    ROUTE_V1_PATH,
    ROUTE_V1_USAGE,
    ROUTE_V1_WORKSPACE,
    ROUTE_V1_CAPABILITIES,
    ROUTE_COUNT
};

enum metrics_outcome {
    COMMAND_EXITED,
    COMMAND_SIGNALLED,
    COMMAND_TIMED_OUT,
    COMMAND_CANCELLED, /* its client left, or we are stopping: killed */
    COMMAND_LOST,      /* with its cell */
    OUTCOME_COUNT
};

enum metrics_wait { WAIT_HEAD, WAIT_IDLE, WAIT_STALL, WAIT_COUNT };

struct metrics_gauges {
    uint64_t connections, max_connections;
    uint64_t queued; /* commands asked for and not started */
    bool draining;
};

uint64_t metrics_now_us(void); /* CLOCK_MONOTONIC, never 0 */
/* Sets the time of start. */
void metrics_init(void);
/* An answer is out. us: since the head was whole. */
void metrics_request(enum metrics_route r, int status, uint64_t us);
/* The connection ended before the answer did. */
void metrics_aborted(enum metrics_route r);
void metrics_bytes(uint64_t in, uint64_t out);
void metrics_connection(void);  /* one more was accepted */
void metrics_tls_failure(void); /* a handshake that came to nothing */
void metrics_timeout(enum metrics_wait w);
void metrics_error(enum sp_err e); /* an error was answered */
void metrics_command_begin(void);
void metrics_command_end(enum metrics_outcome o, uint64_t us);
/* How often main has started a front and a broker anew. */
void metrics_restarts(uint64_t front, uint64_t broker);

/* Hands the page out piece by piece. False: put said so. */
bool metrics_write(const struct metrics_gauges *g, bool (*put)(void *arg, const char *p, size_t n),
                   void *arg);
#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

#endif
