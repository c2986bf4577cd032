/* route.c: which handler a request goes to, and all checks that need no body. The request is
 * hostile; its head has passed the strict grammar. */
#include "box.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is(struct sp_slice s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

static bool has_body(const struct conn *c)
{
    return c->head.chunked || (c->head.has_length && c->head.length > 0);
}

void route_ignore_body(struct conn *c)
{
    if (has_body(c))
        c->unread_body = true;
}

static void refuse_method(struct conn *c, const char *allow)
{
    if (c->head.method == SP_M_UNKNOWN)
        reply_error(c, SP_E_UNKNOWN_METHOD, NULL);
    else
        reply_error_extra(c, SP_E_BAD_METHOD, NULL, allow);
}

static void health(struct conn *c)
{
    if (c->head.method != SP_M_GET && c->head.method != SP_M_HEAD) {
        refuse_method(c, "Allow: GET, HEAD\r\n");
        return;
    }
    route_ignore_body(c);
    if (c->head.has_query) {
        reply_error(c, SP_E_BAD_QUERY, NULL);
        return;
    }
    static const char ok[] = "{\"status\":\"ok\"}\n", draining[] = "{\"status\":\"draining\"}\n";
    if (front.draining)
        reply_json(c, 503, "", draining, sizeof draining - 1);
    else
        reply_json(c, 200, "", ok, sizeof ok - 1);
}

/* "application/json", with parameters or without. */
static bool is_json(struct sp_slice type)
{
    static const char want[] = "application/json";
    size_t n = sizeof want - 1;
    if (type.p == NULL)
        return true;
    if (type.n < n || strncasecmp(type.p, want, n) != 0)
        return false;
    return type.n == n || type.p[n] == ';' || type.p[n] == ' ' || type.p[n] == '\t';
}

void route_execute(struct conn *c)
{
    enum sp_err e = SP_OK;
    if (c->head.has_query)
        e = SP_E_BAD_QUERY;
    else if (!is_json(c->head.content_type))
        e = SP_E_BAD_MEDIA_TYPE;
    else if (c->head.content_encoding.p != NULL && !is(c->head.content_encoding, "identity"))
        e = SP_E_BAD_MEDIA_TYPE;
    else if (c->head.has_length && c->head.length > FRONT_JSON_MAX)
        e = SP_E_BODY_TOO_LARGE;
    else if (front.draining)
        e = SP_E_DRAINING;
    if (e != SP_OK)
        reply_error(c, e, NULL);
    else
        exec_begin(c);
}

/* Decodes and checks what follows "/files". */
static bool file_path(struct conn *c, struct sp_slice raw, bool *must_dir)
{
    *must_dir = false;
    if (raw.n > 0) { /* the slash after "files" */
        raw.p++;
        raw.n--;
    }
    c->path = malloc(raw.n + 1);
    size_t n = 0;
    if (c->path == NULL || !sp_pct_decode(raw, c->path, &n)) {
        reply_error(c, c->path == NULL ? SP_E_OVERLOADED : SP_E_BAD_PATH, NULL);
        return false;
    }
    if (n > 0 && c->path[n - 1] == '/') {
        n--;
        *must_dir = true;
    }
    if ((n == 0 && *must_dir) || sp_path_check(c->path, n) != SP_OK) {
        reply_error(c, SP_E_BAD_PATH, NULL);
        return false;
    }
    c->path[n] = '\0';
    c->path_len = n;
    return true;
}

static void files(struct conn *c, struct sp_slice raw)
{
    enum sp_method m = c->head.method;
    if (m != SP_M_GET && m != SP_M_HEAD && m != SP_M_PUT && m != SP_M_DELETE) {
        refuse_method(c, "Allow: GET, HEAD, PUT, DELETE\r\n");
        return;
    }
    if (m != SP_M_PUT)
        route_ignore_body(c);
    bool must_dir;
    if (!file_path(c, raw, &must_dir))
        return;
    if (m != SP_M_DELETE && c->head.has_query) {
        reply_error(c, SP_E_BAD_QUERY, NULL);
        return;
    }
    if ((m == SP_M_PUT || m == SP_M_DELETE) && (c->path_len == 0 || (must_dir && m == SP_M_PUT))) {
        reply_error(c, SP_E_BAD_PATH, NULL);
        return;
    }
    if (m == SP_M_PUT)
        upload_begin(c);
    else
        files_begin(c, c->path, c->path_len, must_dir);
}

static bool put_page(void *arg, const char *p, size_t n)
{
    return reply_append(arg, p, n);
}

/* Made before its head, as its length has to be known. */
void route_metrics(struct conn *c)
{
    route_ignore_body(c);
    if (c->head.has_query) {
        reply_error(c, SP_E_BAD_QUERY, NULL);
        return;
    }
    struct metrics_gauges g = {.connections = front.nconns,
                               .max_connections = front.max_conns,
                               .draining = front.draining};
    for (h2o_linklist_t *l = front.conns.next; l != &front.conns; l = l->next) {
        const struct conn *o = H2O_STRUCT_FROM_MEMBER(struct conn, all, l);
        g.queued += o->op == SP_OP_EXEC && o->state == CONN_WAIT;
    }
    c->out_len = 0;
    bool ok = metrics_write(&g, put_page, c);
    char *page = c->out;
    size_t n = c->out_len;
    c->out = NULL;
    c->out_len = c->out_cap = 0;
    if (ok)
        reply_text(c, METRICS_TYPE, page, n);
    else
        reply_error(c, SP_E_OVERLOADED, NULL);
    free(page);
}

static enum metrics_route kind_of(struct sp_slice p)
{
    if (is(p, "/healthz"))
        return ROUTE_HEALTHZ;
    if (is(p, "/execute"))
        return ROUTE_EXECUTE;
    if (front.cfg->metrics && is(p, "/metrics"))
        return ROUTE_METRICS;
    if (p.n >= 6 && memcmp(p.p, "/files", 6) == 0 && (p.n == 6 || p.p[6] == '/'))
        return ROUTE_FILES;
    return ROUTE_OTHER;
}

void route_request(struct conn *c)
{
    struct sp_slice p = c->head.path;
    if (front.cfg->mode == SP_MODE_BOX) {
        box_route(c);
        return;
    }
    c->kind = kind_of(p);
    if (c->kind == ROUTE_HEALTHZ)
        health(c);
    else if (c->kind == ROUTE_EXECUTE && c->head.method != SP_M_POST)
        refuse_method(c, "Allow: POST\r\n");
    else if (c->kind == ROUTE_EXECUTE)
        route_execute(c);
    else if (c->kind == ROUTE_METRICS && c->head.method != SP_M_GET && c->head.method != SP_M_HEAD)
        refuse_method(c, "Allow: GET, HEAD\r\n");
    else if (c->kind == ROUTE_METRICS)
        route_metrics(c);
    else if (c->kind == ROUTE_FILES)
        files(c, (struct sp_slice){p.p + 6, p.n - 6});
    else if (c->head.method == SP_M_UNKNOWN)
        reply_error(c, SP_E_UNKNOWN_METHOD, NULL);
    else
        reply_error(c, SP_E_NO_ROUTE, NULL);
}
