/* metrics.c: counters, histograms with fixed buckets, and their page. See metrics.h. Trusts its
 * callers in the front. */
#include "metrics.h"

#include "sallyport/box.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define STATUSES 600u
#define BUCKETS 14u

/* Upper bounds: from what a bare command takes to what a client waits for. */
static const struct {
    uint64_t us;
    const char *text;
} bounds[BUCKETS] = {{1000, "0.001"},    {2500, "0.0025"},  {5000, "0.005"},  {10000, "0.01"},
                     {25000, "0.025"},   {50000, "0.05"},   {100000, "0.1"},  {250000, "0.25"},
                     {1000000, "1"},     {2500000, "2.5"},  {10000000, "10"}, {30000000, "30"},
                     {120000000, "120"}, {600000000, "600"}};

struct histogram {
    uint64_t bucket[BUCKETS], count, sum_us; /* a value counts in its own bucket alone */
};

static struct {
    uint64_t requests[ROUTE_COUNT][STATUSES], aborted[ROUTE_COUNT];
    struct histogram request[ROUTE_COUNT], command;
    uint64_t errors[SP_E_COUNT], outcomes[OUTCOME_COUNT], timeouts[WAIT_COUNT];
    uint64_t in, out, connections, tls_failures, running, front_restarts, broker_restarts;
    double start;
} m;

static const char *const route_names[ROUTE_COUNT] = {
    [ROUTE_OTHER] = "other",
    [ROUTE_HEALTHZ] = "/healthz",
    [ROUTE_EXECUTE] = "/execute",
    [ROUTE_FILES] = "/files",
    [ROUTE_METRICS] = "/metrics",
    [ROUTE_READY] = BOX_READY,
    [ROUTE_V1_EXEC] = BOX_EXEC,
    [ROUTE_V1_FILES] = BOX_FILES,
    [ROUTE_V1_BATCH] = BOX_BATCH,
    [ROUTE_V1_LIST] = BOX_LIST,
    [ROUTE_V1_ARCHIVE] = BOX_ARCHIVE,
    [ROUTE_V1_PATH] = BOX_PATH,
    [ROUTE_V1_USAGE] = BOX_USAGE,
    [ROUTE_V1_WORKSPACE] = BOX_WORKSPACE,
    [ROUTE_V1_CAPABILITIES] = BOX_CAPABILITIES,
};
static const char *const outcome_names[OUTCOME_COUNT] = {
    [COMMAND_EXITED] = "exited",       [COMMAND_SIGNALLED] = "signalled",
    [COMMAND_TIMED_OUT] = "timed_out", [COMMAND_CANCELLED] = "cancelled",
    [COMMAND_LOST] = "lost",
};
static const char *const wait_names[WAIT_COUNT] = {
    [WAIT_HEAD] = "head", [WAIT_IDLE] = "idle", [WAIT_STALL] = "stall"};

/* ---- counting ---- */

uint64_t metrics_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u + 1;
}

void metrics_init(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    memset(&m, 0, sizeof m);
    m.start = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void observe(struct histogram *h, uint64_t us)
{
    unsigned i = 0;
    while (i < BUCKETS && us > bounds[i].us)
        i++;
    if (i < BUCKETS)
        h->bucket[i]++;
    h->count++;
    h->sum_us += us;
}

void metrics_request(enum metrics_route r, int status, uint64_t us)
{
    m.requests[r][status > 0 && status < (int)STATUSES ? status : 0]++;
    observe(&m.request[r], us);
}

void metrics_aborted(enum metrics_route r)
{
    m.aborted[r]++;
}

void metrics_bytes(uint64_t in, uint64_t out)
{
    m.in += in;
    m.out += out;
}

void metrics_connection(void)
{
    m.connections++;
}

void metrics_tls_failure(void)
{
    m.tls_failures++;
}

void metrics_timeout(enum metrics_wait w)
{
    m.timeouts[w]++;
}

void metrics_error(enum sp_err e)
{
    m.errors[sp_err_valid((uint32_t)e) ? e : SP_E_INTERNAL]++;
}

void metrics_command_begin(void)
{
    m.running++;
}

void metrics_command_end(enum metrics_outcome o, uint64_t us)
{
    m.running--;
    m.outcomes[o]++;
    observe(&m.command, us);
}

void metrics_restarts(uint64_t front, uint64_t broker)
{
    m.front_restarts = front;
    m.broker_restarts = broker;
}

/* ---- the page ---- */

struct page {
    bool (*put)(void *arg, const char *p, size_t n);
    void *arg;
    bool ok;
};

__attribute__((format(printf, 2, 3))) static void line(struct page *p, const char *fmt, ...)
{
    char text[300];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    p->ok = p->ok && n > 0 && (size_t)n < sizeof text && p->put(p->arg, text, (size_t)n);
}

static void family(struct page *p, const char *name, const char *type, const char *help)
{
    line(p, "# HELP sallyport_%s %s\n# TYPE sallyport_%s %s\n", name, help, name, type);
}

static void single(struct page *p, const char *name, const char *type, const char *help,
                   uint64_t value)
{
    family(p, name, type, help);
    line(p, "sallyport_%s %" PRIu64 "\n", name, value);
}

/* label: "" or a label with its comma behind. */
static void histogram(struct page *p, const char *name, const char *label,
                      const struct histogram *h)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        sum += h->bucket[i];
        line(p, "sallyport_%s_bucket{%sle=\"%s\"} %" PRIu64 "\n", name, label, bounds[i].text, sum);
    }
    line(p, "sallyport_%s_bucket{%sle=\"+Inf\"} %" PRIu64 "\n", name, label, h->count);
    size_t n = strlen(label);
    char braces[64] = "";
    if (n > 0)
        (void)snprintf(braces, sizeof braces, "{%.*s}", (int)n - 1, label);
    line(p, "sallyport_%s_sum%s %" PRIu64 ".%06" PRIu64 "\n", name, braces, h->sum_us / 1000000u,
         h->sum_us % 1000000u);
    line(p, "sallyport_%s_count%s %" PRIu64 "\n", name, braces, h->count);
}

static void requests(struct page *p)
{
    family(p, "requests_total", "counter", "Requests answered, by route and status.");
    for (unsigned r = 0; r < ROUTE_COUNT; r++)
        for (unsigned s = 0; s < STATUSES; s++)
            if (m.requests[r][s] > 0)
                line(p, "sallyport_requests_total{route=\"%s\",code=\"%u\"} %" PRIu64 "\n",
                     route_names[r], s, m.requests[r][s]);
    family(p, "requests_aborted_total", "counter",
           "Requests whose connection ended before the answer did.");
    for (unsigned r = 0; r < ROUTE_COUNT; r++)
        if (m.aborted[r] > 0)
            line(p, "sallyport_requests_aborted_total{route=\"%s\"} %" PRIu64 "\n", route_names[r],
                 m.aborted[r]);
    family(p, "request_duration_seconds", "histogram",
           "Time from a request's head to the last byte of its answer.");
    for (unsigned r = 0; r < ROUTE_COUNT; r++) {
        char label[48];
        (void)snprintf(label, sizeof label, "route=\"%s\",", route_names[r]);
        if (m.request[r].count > 0)
            histogram(p, "request_duration_seconds", label, &m.request[r]);
    }
    family(p, "errors_total", "counter", "Errors answered, by code.");
    for (uint32_t e = 1; e < SP_E_COUNT; e++)
        if (m.errors[e] > 0)
            line(p, "sallyport_errors_total{code=\"%s\"} %" PRIu64 "\n",
                 sp_err_name((enum sp_err)e), m.errors[e]);
    family(p, "timeouts_total", "counter",
           "Waits for a client that were given up: for a head, a next request, progress.");
    for (unsigned w = 0; w < WAIT_COUNT; w++)
        line(p, "sallyport_timeouts_total{wait=\"%s\"} %" PRIu64 "\n", wait_names[w],
             m.timeouts[w]);
}

static void commands(struct page *p, uint64_t queued)
{
    single(p, "commands_running", "gauge", "Commands that run now.", m.running);
    single(p, "commands_queued", "gauge", "Commands asked for and not started yet.", queued);
    family(p, "commands_total", "counter",
           "Commands ended. timed_out and cancelled ones were killed.");
    for (unsigned o = 0; o < OUTCOME_COUNT; o++)
        line(p, "sallyport_commands_total{outcome=\"%s\"} %" PRIu64 "\n", outcome_names[o],
             m.outcomes[o]);
    family(p, "command_duration_seconds", "histogram", "Time that commands ran.");
    histogram(p, "command_duration_seconds", "", &m.command);
}

bool metrics_write(const struct metrics_gauges *g, bool (*put)(void *arg, const char *p, size_t n),
                   void *arg)
{
    struct page p = {put, arg, true};
    family(&p, "build_info", "gauge", "1; the version is its label.");
    line(&p, "sallyport_build_info{version=\"%s\"} 1\n", SP_VERSION);
    family(&p, "start_time_seconds", "gauge", "When this front started; counts began at 0 then.");
    line(&p, "sallyport_start_time_seconds %.3f\n", m.start);
    single(&p, "draining", "gauge", "1 while the daemon stops.", g->draining);
    single(&p, "connections_open", "gauge", "Client connections now.", g->connections);
    single(&p, "connections_limit", "gauge", "Client connections at most.", g->max_connections);
    single(&p, "connections_total", "counter", "Client connections accepted.", m.connections);
    single(&p, "tls_failures_total", "counter", "TLS handshakes that failed.", m.tls_failures);
    single(&p, "received_bytes_total", "counter", "Bytes read from clients.", m.in);
    single(&p, "sent_bytes_total", "counter", "Bytes sent to clients.", m.out);
    requests(&p);
    commands(&p, g->queued);
    family(&p, "restarts_total", "counter", "Processes that died and were started anew.");
    line(&p, "sallyport_restarts_total{role=\"front\"} %" PRIu64 "\n", m.front_restarts);
    line(&p, "sallyport_restarts_total{role=\"broker\"} %" PRIu64 "\n", m.broker_restarts);
    return p.ok;
}
