/* boxinfo.c: what the box says of itself: whether it lives, whether it can work, what it offers.
 * /ready runs a command as an identity's would run, under a user id and in a workspace of its own;
 * what it said last holds for some seconds, so that nobody can make it work by asking. */
#include "box.h"
#include "identity.h"

#include "sallyport/box.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"
#include "sallyport/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROBE_HOLDS_MS 5000u
#define PROBE_TIMEOUT_MS 10000u

static struct {
    bool known, well, running;
    uint64_t at;
} probe;

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

void box_log(struct conn *c, int status)
{
    static const char *const methods[] = {
        [SP_M_GET] = "GET",        [SP_M_HEAD] = "HEAD",     [SP_M_PUT] = "PUT",
        [SP_M_POST] = "POST",      [SP_M_DELETE] = "DELETE", [SP_M_OTHER] = "other",
        [SP_M_UNKNOWN] = "unknown"};
    static uint64_t last_id;
    char hex[2 * SP_KEY_LEN + 1] = "";
    if (front.cfg->mode != SP_MODE_BOX || c->began_us == 0)
        return;
    if (c->space != NULL) /* a client named it */
        sp_hex(c->key, SP_KEY_LEN, hex);
    bool understood = c->head.path.p != NULL;
    const struct sp_log_request r = {.id = ++last_id,
                                     .method = understood ? methods[c->head.method] : "none",
                                     .route = c->route != NULL ? c->route : "none",
                                     .identity = hex,
                                     .status = status,
                                     .bytes = c->bytes_out,
                                     .duration_us = metrics_now_us() - c->began_us};
    sp_log_request(&r);
}

static bool plain(struct conn *c)
{
    route_ignore_body(c);
    if (c->head.has_query)
        reply_error(c, SP_E_BAD_QUERY, NULL);
    return !c->head.has_query;
}

static void say(struct conn *c, int status, const char *word)
{
    char json[64];
    int n = snprintf(json, sizeof json, "{\"status\":\"%s\"}\n", word);
    reply_json(c, status, "", json, (size_t)n);
}

static void say_ready(struct conn *c)
{
    if (front.draining)
        say(c, 503, "draining");
    else
        say(c, probe.well ? 200 : 503, probe.well ? "ready" : "failing");
}

void box_ready(struct conn *c)
{
    if (!plain(c))
        return;
    bool fresh = probe.known && now_ms() - probe.at < PROBE_HOLDS_MS;
    if (front.draining || fresh || (probe.running && probe.known)) {
        say_ready(c);
        return;
    }
    c->exec = exec_state_new(c);
    if (c->exec == NULL) {
        reply_error(c, SP_E_OVERLOADED, NULL);
        return;
    }
    identity_probe(c->key);
    c->has_key = c->probe = probe.running = true;
    struct sp_msg m = {.op = SP_OP_EXEC, .command = {"exit 0", 6}, .timeout_ms = PROBE_TIMEOUT_MS};
    m.cwd = m.env = (struct sp_slice){"", 0};
    (void)link_request(c, &m);
}

void box_probed(struct conn *c, bool well)
{
    probe.running = false;
    probe.known = true;
    probe.well = well;
    probe.at = now_ms();
    c->probe = false;
    say_ready(c);
}

void box_probe_dropped(struct conn *c)
{
    if (c->probe)
        probe.running = false; /* the next one asks again */
    c->probe = false;
}

void box_capabilities(struct conn *c)
{
    const struct sp_config *f = front.cfg;
    char json[2048];
    if (!plain(c))
        return;
    int n = snprintf(
        json, sizeof json,
        "{\"name\":\"sallyport\",\"version\":\"" SP_VERSION "\",\"mode\":\"box\",\"limits\":{"
        "\"default_timeout_ms\":%llu,\"max_timeout_ms\":%llu,\"max_output\":%llu,"
        "\"max_upload\":%llu,\"max_concurrency\":%u,\"queue\":%u,\"quota\":%llu,"
        "\"retention_ms\":%llu},\"layers\":[",
        (unsigned long long)f->default_timeout_ms, (unsigned long long)f->max_timeout_ms,
        (unsigned long long)f->max_output, (unsigned long long)f->max_upload, f->max_running,
        f->queue_max, (unsigned long long)f->quota, (unsigned long long)f->retention_ms);
    size_t at = (size_t)n;
    bool first = true;
    for (unsigned i = 0; i < SP_LAYER_COUNT; i++) {
        if ((f->layers & 1u << i) == 0)
            continue;
        at += (size_t)snprintf(json + at, sizeof json - at, "%s\"%s\"", first ? "" : ",",
                               sp_layer_name((enum sp_layer)i));
        first = false;
    }
    at += (size_t)snprintf(json + at, sizeof json - at, "],\"routes\":[");
    at += box_routes(json + at, sizeof json - at);
    at += (size_t)snprintf(json + at, sizeof json - at, "]}\n");
    reply_json(c, 200, "", json, at);
}
