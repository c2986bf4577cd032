/* boxroute.c: the box's addresses: who may ask, for whom, and what of it can be refused before the
 * body. The request is hostile; its head has passed the strict grammar. */
#include "box.h"
#include "identity.h"

#include "sallyport/box.h"
#include "sallyport/query.h"
#include "sallyport/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct sp_query query; /* of the request at hand */

/* Reads the query; names: those allowed. False: answered. */
static bool read_query(struct conn *c, const char *const *names)
{
    struct sp_slice in = c->head.has_query ? c->head.query : (struct sp_slice){"", 0};
    enum sp_query_error e = sp_query_parse(in, &query);
    if (e != SP_QUERY_OK) {
        reply_error(c, SP_E_BAD_QUERY, sp_query_error_text(e));
        return false;
    }
    struct sp_slice other = sp_query_stranger(&query, names);
    if (other.p != NULL)
        reply_error(c, SP_E_BAD_QUERY, "There is a parameter that this address doesn't have.");
    return other.p == NULL;
}

enum { PATH_MAY_MISS = 1, PATH_NOT_ROOT = 2, PATH_NO_SLASH = 4 };

/* Takes `path` out of the query. False: answered. */
static bool read_path(struct conn *c, unsigned rules, bool *must_dir)
{
    struct sp_slice v = sp_query_get(&query, BOX_Q_PATH);
    *must_dir = false;
    if (v.p == NULL && (rules & PATH_MAY_MISS) == 0) {
        reply_error(c, SP_E_BAD_QUERY, "The parameter \"path\" is missing.");
        return false;
    }
    c->path = malloc(v.n + 1);
    if (c->path == NULL) {
        reply_error(c, SP_E_OVERLOADED, NULL);
        return false;
    }
    size_t n = v.p != NULL ? v.n : 0;
    if (n > 0)
        memcpy(c->path, v.p, n);
    if (n == 1 && v.p[0] == '.') /* the workspace, as people write it */
        n = 0;
    if (n > 1 && v.p[n - 1] == '/') {
        n--;
        *must_dir = true;
    }
    c->path[n] = '\0';
    c->path_len = n;
    bool fits = sp_path_check(c->path, n) == SP_OK && !((rules & PATH_NOT_ROOT) && n == 0) &&
                !((rules & PATH_NO_SLASH) && *must_dir);
    if (!fits)
        reply_error(c, SP_E_BAD_PATH, NULL);
    return fits;
}

/* ---- handlers ---- */

/* "multipart/..." of any kind: the parser refuses what isn't form-data. */
static bool is_multipart(const struct conn *c)
{
    static const char want[] = "multipart/";
    struct sp_slice t = c->head.content_type;
    return t.p != NULL && t.n >= sizeof want - 1 && strncasecmp(t.p, want, sizeof want - 1) == 0;
}

static void multipart(struct conn *c, enum parts_kind kind)
{
    struct sp_msg terms = {.flags = 0};
    enum sp_err e = upload_terms(&c->head, &terms);
    if (kind != PARTS_FILE && terms_there(&c->head)) /* of which file? */
        e = SP_E_BAD_REQUEST;
    if (e != SP_OK)
        reply_error(c, e, NULL);
    else
        parts_begin(c, kind);
}

static void exec(struct conn *c)
{
    static const char *const none[] = {NULL};
    if (!read_query(c, none))
        return;
    if (is_multipart(c))
        multipart(c, PARTS_EXEC);
    else
        route_execute(c);
}

static void download(struct conn *c)
{
    static const char *const names[] = {BOX_Q_PATH, NULL};
    bool must_dir;
    route_ignore_body(c);
    if (!read_query(c, names) || !read_path(c, 0, &must_dir))
        return;
    c->want = WANT_FILE;
    struct sp_msg m = {.op = SP_OP_OPEN, .path = {c->path, c->path_len}};
    m.flags = must_dir ? SP_OPEN_MUST_DIR : 0;
    files_open(c, &m);
}

/* A folder, in which the parts say the names. */
static void upload_parts(struct conn *c, enum parts_kind kind)
{
    static const char *const names[] = {BOX_Q_PATH, NULL};
    bool must_dir;
    if (read_query(c, names) && read_path(c, PATH_MAY_MISS, &must_dir))
        multipart(c, kind);
}

static void batch(struct conn *c)
{
    upload_parts(c, PARTS_BATCH);
}

static void upload(struct conn *c)
{
    static const char *const names[] = {BOX_Q_PATH, NULL};
    bool must_dir;
    if (is_multipart(c))
        upload_parts(c, PARTS_FILE);
    else if (read_query(c, names) && read_path(c, PATH_NOT_ROOT | PATH_NO_SLASH, &must_dir))
        upload_begin(c);
}

static void files(struct conn *c)
{
    if (c->head.method == SP_M_POST)
        upload(c);
    else
        download(c);
}

static void list(struct conn *c)
{
    static const char *const names[] = {BOX_Q_PATH, BOX_Q_RECURSIVE, NULL};
    bool must_dir, tree = false;
    route_ignore_body(c);
    if (!read_query(c, names))
        return;
    if (!sp_query_flag(&query, BOX_Q_RECURSIVE, &tree)) {
        reply_error(c, SP_E_BAD_QUERY, "\"recursive\" must be true or false.");
        return;
    }
    if (!read_path(c, PATH_MAY_MISS, &must_dir))
        return;
    c->want = WANT_LISTING;
    struct sp_msg m = {.op = SP_OP_OPEN, .path = {c->path, c->path_len}};
    m.flags = tree ? SP_OPEN_TREE : SP_OPEN_MUST_DIR;
    files_open(c, &m);
}

static void archive(struct conn *c)
{
    static const char *const names[] = {BOX_Q_PATH, NULL};
    bool must_dir;
    route_ignore_body(c);
    if (!read_query(c, names) || !read_path(c, PATH_MAY_MISS, &must_dir))
        return;
    struct sp_msg m = {.op = SP_OP_ARCHIVE, .path = {c->path, c->path_len}};
    (void)link_request(c, &m);
}

static void path(struct conn *c)
{
    static const char *const put[] = {BOX_Q_PATH, NULL};
    static const char *const del[] = {BOX_Q_PATH, BOX_Q_RECURSIVE, NULL};
    bool must_dir, recursive = false;
    if (c->head.method == SP_M_PUT) {
        if (read_query(c, put) && read_path(c, PATH_NOT_ROOT | PATH_NO_SLASH, &must_dir))
            upload_begin(c);
        return;
    }
    route_ignore_body(c);
    if (!read_query(c, del))
        return;
    if (!sp_query_flag(&query, BOX_Q_RECURSIVE, &recursive)) {
        reply_error(c, SP_E_BAD_QUERY, "\"recursive\" must be true or false.");
        return;
    }
    if (!read_path(c, PATH_NOT_ROOT, &must_dir))
        return;
    files_delete(c, (struct sp_slice){c->path, c->path_len}, recursive, must_dir);
}

/* USAGE and REMOVE: the whole workspace. */
static void whole(struct conn *c, uint8_t op)
{
    static const char *const none[] = {NULL};
    route_ignore_body(c);
    if (!read_query(c, none))
        return;
    struct sp_msg m = {.op = op, .path = {"", 0}};
    (void)link_request(c, &m);
}

static void usage(struct conn *c)
{
    whole(c, SP_OP_USAGE);
}

static void remove_all(struct conn *c)
{
    if (terms_there(&c->head)) /* a workspace has no tag and no time */
        reply_error(c, SP_E_BAD_REQUEST, "A condition has no meaning here.");
    else
        whole(c, SP_OP_REMOVE);
}

void box_message(struct conn *c, const struct sp_msg *m)
{
    uint8_t op = c->op;
    char json[200];
    link_forget(c, false);
    if (m->op == SP_OP_FAIL) {
        enum sp_err e = (enum sp_err)m->err;
        reply_error_extra(c, e, e == SP_E_BUSY ? "The workspace is in use." : NULL,
                          e == SP_E_BUSY ? BOX_RETRY : "");
    } else if (m->op == SP_OP_DONE && op == SP_OP_USAGE) {
        int n = snprintf(json, sizeof json, "{\"bytes\":%llu,\"entries\":%llu,\"quota\":%llu}\n",
                         (unsigned long long)m->size, (unsigned long long)m->ino,
                         (unsigned long long)front.cfg->quota);
        reply_json(c, 200, "", json, (size_t)n);
    } else if (m->op == SP_OP_DONE) {
        reply_head(c, 204, NULL, 0, "");
        if (c->state != CONN_DEAD)
            reply_start(c);
    } else {
        conn_close(c);
    }
}

bool box_wrong_kind(struct conn *c, bool listing)
{
    if (c->want != WANT_FILE || !listing)
        return false;
    reply_error(c, SP_E_IS_DIRECTORY, NULL);
    return true;
}

/* ---- routes ---- */

static const struct route {
    const char *path;
    unsigned methods;
    bool open;     /* without a key */
    bool identity; /* with one */
    enum metrics_route kind;
    void (*run)(struct conn *c);
} routes[] = {
    {BOX_EXEC, ROUTE_POST, false, true, ROUTE_V1_EXEC, exec},
    {BOX_FILES, ROUTE_GET | ROUTE_HEAD | ROUTE_POST, false, true, ROUTE_V1_FILES, files},
    {BOX_BATCH, ROUTE_POST, false, true, ROUTE_V1_BATCH, batch},
    {BOX_LIST, ROUTE_GET | ROUTE_HEAD, false, true, ROUTE_V1_LIST, list},
    {BOX_ARCHIVE, ROUTE_GET, false, true, ROUTE_V1_ARCHIVE, archive},
    {BOX_PATH, ROUTE_PUT | ROUTE_DELETE, false, true, ROUTE_V1_PATH, path},
    {BOX_USAGE, ROUTE_GET, false, true, ROUTE_V1_USAGE, usage},
    {BOX_WORKSPACE, ROUTE_DELETE, false, true, ROUTE_V1_WORKSPACE, remove_all},
    {BOX_CAPABILITIES, ROUTE_GET | ROUTE_HEAD, false, false, ROUTE_V1_CAPABILITIES,
     box_capabilities},
    {BOX_METRICS, ROUTE_GET | ROUTE_HEAD, false, false, ROUTE_METRICS, route_metrics},
    {BOX_HEALTH, ROUTE_GET | ROUTE_HEAD, true, false, ROUTE_HEALTHZ, route_health},
    {BOX_READY, ROUTE_GET | ROUTE_HEAD, true, false, ROUTE_READY, box_ready},
};

static const struct route *find(struct sp_slice p)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (strlen(routes[i].path) == p.n && memcmp(routes[i].path, p.p, p.n) == 0)
            return &routes[i];
    return NULL;
}

size_t box_routes(char *out, size_t cap)
{
    size_t at = 0;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        at += (size_t)snprintf(out + at, cap - at, "%s\"%s\"", i > 0 ? "," : "", routes[i].path);
    return at;
}

static bool set_identity(struct conn *c)
{
    char hex[2 * SP_KEY_LEN + 1];
    const char *why;
    enum sp_err e = identity_read(c->in, c->head.size, c->key, &why);
    if (e != SP_OK) {
        reply_error(c, e, why);
        return false;
    }
    c->has_key = true;
    sp_hex(c->key, SP_KEY_LEN, hex);
    free(c->space);
    if (asprintf(&c->space, "%s/%s", front.cfg->workspace, hex) < 0) {
        c->space = NULL;
        reply_error(c, SP_E_OVERLOADED, NULL);
        return false;
    }
    return true;
}

void box_route(struct conn *c)
{
    const struct route *r = find(c->head.path);
    /* What is there is nobody's business who doesn't have a key. */
    if ((r == NULL || !r->open) && !identity_authorised(c->in, c->head.size, front.cfg)) {
        reply_error_extra(c, SP_E_UNAUTHORIZED, NULL, BOX_CHALLENGE);
        return;
    }
    if (r == NULL) {
        reply_error(c, c->head.method == SP_M_UNKNOWN ? SP_E_UNKNOWN_METHOD : SP_E_NO_ROUTE, NULL);
        return;
    }
    c->route = r->path;
    c->kind = r->kind;
    if (route_method(c, r->methods) && (!r->identity || set_identity(c)))
        r->run(c);
}
