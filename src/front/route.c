/* route.c: which handler a request goes to, and all checks that need no body. The request is
 * hostile; its head has passed the strict grammar. */
#include "box.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define FILES "/files"

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

bool route_method(struct conn *c, unsigned methods)
{
    static const char *const names[] = {[SP_M_GET] = "GET",
                                        [SP_M_HEAD] = "HEAD",
                                        [SP_M_PUT] = "PUT",
                                        [SP_M_POST] = "POST",
                                        [SP_M_DELETE] = "DELETE"};
    char allow[80] = "Allow: ";
    size_t at = strlen(allow);
    if ((methods & 1u << c->head.method) != 0)
        return true;
    if (c->head.method == SP_M_UNKNOWN) {
        reply_error(c, SP_E_UNKNOWN_METHOD, NULL);
        return false;
    }
    for (unsigned m = 0; m < sizeof names / sizeof names[0]; m++)
        if (methods & 1u << m)
            at += (size_t)snprintf(allow + at, sizeof allow - at, "%s%s", at > 7 ? ", " : "",
                                   names[m]);
    (void)snprintf(allow + at, sizeof allow - at, "\r\n");
    reply_error_extra(c, SP_E_BAD_METHOD, NULL, allow);
    return false;
}

void route_health(struct conn *c)
{
    static const char ok[] = "{\"status\":\"ok\"}\n", draining[] = "{\"status\":\"draining\"}\n";
    route_ignore_body(c);
    if (c->head.has_query)
        reply_error(c, SP_E_BAD_QUERY, NULL);
    else if (front.draining)
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
    else if (!sp_no_coding(&c->head))
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

static void files(struct conn *c)
{
    enum sp_method m = c->head.method;
    const size_t skip = sizeof FILES - 1;
    if (m != SP_M_PUT)
        route_ignore_body(c);
    bool must_dir;
    if (!file_path(c, (struct sp_slice){c->head.path.p + skip, c->head.path.n - skip}, &must_dir))
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

/* ---- the seat's addresses ---- */

static const struct route {
    const char *path;
    unsigned methods;
    enum metrics_route kind;
    void (*run)(struct conn *c);
} routes[] = {
    {"/healthz", ROUTE_GET | ROUTE_HEAD, ROUTE_HEALTHZ, route_health},
    {"/execute", ROUTE_POST, ROUTE_EXECUTE, route_execute},
    {FILES, ROUTE_GET | ROUTE_HEAD | ROUTE_PUT | ROUTE_DELETE, ROUTE_FILES, files},
    {"/metrics", ROUTE_GET | ROUTE_HEAD, ROUTE_METRICS, route_metrics},
};

/* All but /files stand alone. */
static const struct route *find(struct sp_slice p)
{
    const size_t n = sizeof FILES - 1;
    struct sp_slice top =
        p.n > n && p.p[n] == '/' && memcmp(p.p, FILES, n) == 0 ? (struct sp_slice){p.p, n} : p;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (is(top, routes[i].path) && (routes[i].kind != ROUTE_METRICS || front.cfg->metrics))
            return &routes[i];
    return NULL;
}

void route_request(struct conn *c)
{
    if (c->head.secure && c->tls == NULL) {
        reply_error(c, SP_E_BAD_REQUEST, "The target is of https, and this port speaks no TLS.");
        return;
    }
    if (front.cfg->mode == SP_MODE_BOX) {
        box_route(c);
        return;
    }
    const struct route *r = find(c->head.path);
    if (r == NULL) {
        reply_error(c, c->head.method == SP_M_UNKNOWN ? SP_E_UNKNOWN_METHOD : SP_E_NO_ROUTE, NULL);
        return;
    }
    c->kind = r->kind;
    if (route_method(c, r->methods))
        r->run(c);
}
