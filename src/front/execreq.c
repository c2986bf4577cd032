/* execreq.c: an /execute body, by jansson, checked member by member. The body is hostile:
 * syntax is jansson's business, everything after it is checked here. */
#include "execreq.h"

#include "sallyport/proto.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JSON_DEPTH_MAX 32
#define JSON_VALUES_MAX 512 /* more than SP_ENV_COUNT_MAX and the members */

struct reader {
    struct exec_request *req;
    const char *workspace;
    uint64_t default_ms, max_ms;
    bool have_timeout;
    char *why;
    size_t whylen;
};

__attribute__((format(printf, 3, 4))) static enum sp_err refuse(struct reader *r, enum sp_err e,
                                                                const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->why, r->whylen, fmt, ap);
    va_end(ap);
    return e;
}

/* Looked at before jansson is let near it, whose own limit is 2048 levels, and which takes a
 * hundred times longer for a body of tiny values than for one of text: all others wait meanwhile.
 */
static void measure(const char *p, size_t n, unsigned *depth, unsigned *commas)
{
    unsigned now = 0;
    bool in_string = false;
    *depth = *commas = 0;
    for (size_t i = 0; i < n; i++) {
        if (in_string) {
            if (p[i] == '\\')
                i++;
            else if (p[i] == '"')
                in_string = false;
        } else if (p[i] == '"') {
            in_string = true;
        } else if (p[i] == '{' || p[i] == '[') {
            if (++now > *depth)
                *depth = now;
        } else if ((p[i] == '}' || p[i] == ']') && now > 0) {
            now--;
        } else if (p[i] == ',') {
            ++*commas;
        }
    }
}

static char *copy_string(const json_t *v, size_t *len)
{
    *len = json_string_length(v);
    char *s = malloc(*len + 1);
    if (s != NULL)
        memcpy(s, json_string_value(v), *len + 1);
    return s;
}

static bool has_nul(const json_t *v)
{
    return memchr(json_string_value(v), 0, json_string_length(v)) != NULL;
}

static enum sp_err read_command(struct reader *r, const json_t *v)
{
    if (!json_is_string(v) || json_string_length(v) == 0)
        return refuse(r, SP_E_BAD_FIELD, "\"command\" must be a string that is not empty.");
    if (has_nul(v))
        return refuse(r, SP_E_BAD_FIELD, "\"command\" holds a NUL character.");
    if (json_string_length(v) > SP_COMMAND_MAX)
        return refuse(r, SP_E_COMMAND_TOO_LONG, "\"command\" is longer than %u bytes.",
                      SP_COMMAND_MAX);
    r->req->command = copy_string(v, &r->req->command_len);
    return r->req->command == NULL ? SP_E_OVERLOADED : SP_OK;
}

static enum sp_err set_timeout(struct reader *r, const char *name, double ms)
{
    if (r->have_timeout)
        return refuse(r, SP_E_BAD_FIELD, "\"timeout\" and \"timeout_ms\" exclude each other.");
    if (!isfinite(ms) || ms <= 0)
        return refuse(r, SP_E_BAD_FIELD, "\"%s\" must be over 0.", name);
    if (ms > (double)r->max_ms)
        return refuse(r, SP_E_BAD_FIELD, "\"%s\" is over the limit of %llu ms.", name,
                      (unsigned long long)r->max_ms);
    r->have_timeout = true;
    r->req->timeout_ms = ms < 1 ? 1 : (uint64_t)ms;
    return SP_OK;
}

static enum sp_err read_timeout(struct reader *r, const json_t *v)
{
    if (!json_is_number(v))
        return refuse(r, SP_E_BAD_FIELD, "\"timeout\" must be a number of seconds.");
    return set_timeout(r, "timeout", json_number_value(v) * 1000.0);
}

static enum sp_err read_timeout_ms(struct reader *r, const json_t *v)
{
    if (!json_is_integer(v))
        return refuse(r, SP_E_BAD_FIELD, "\"timeout_ms\" must be a whole number of milliseconds.");
    return set_timeout(r, "timeout_ms", (double)json_integer_value(v));
}

/* An absolute folder below the workspace becomes relative; trailing slashes go. */
static enum sp_err read_cwd(struct reader *r, const json_t *v)
{
    if (!json_is_string(v) || has_nul(v))
        return refuse(r, SP_E_BAD_FIELD, "\"cwd\" must be a string without NUL.");
    const char *s = json_string_value(v);
    size_t n = json_string_length(v), w = strlen(r->workspace);
    while (n > 1 && s[n - 1] == '/')
        n--;
    if (n > 0 && s[0] == '/') {
        bool root = w == 1; /* the workspace is "/" itself */
        if (n < w || memcmp(s, r->workspace, w) != 0 || (!root && n > w && s[w] != '/'))
            return refuse(r, SP_E_OUTSIDE_WORKSPACE, "\"cwd\" is outside the workspace.");
        size_t skip = root || n == w ? w : w + 1;
        s += skip;
        n -= skip;
    }
    if (n == 1 && s[0] == '.')
        n = 0;
    if (sp_path_check(s, n) != SP_OK)
        return refuse(r, SP_E_BAD_FIELD, "\"cwd\" is not a path that can be used here.");
    r->req->cwd = strndup(s, n);
    r->req->cwd_len = n;
    return r->req->cwd == NULL ? SP_E_OVERLOADED : SP_OK;
}

static bool env_name_ok(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char ch = s[i];
        bool alpha = (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z') || ch == '_';
        if (!alpha && !(i > 0 && ch >= '0' && ch <= '9'))
            return false;
    }
    return n > 0;
}

static enum sp_err read_env(struct reader *r, json_t *v)
{
    if (!json_is_object(v))
        return refuse(r, SP_E_BAD_FIELD, "\"env\" must be an object of strings.");
    if (json_object_size(v) > SP_ENV_COUNT_MAX)
        return refuse(r, SP_E_BAD_FIELD, "\"env\" has more than %u members.", SP_ENV_COUNT_MAX);
    char *env = malloc(SP_ENV_BYTES_MAX);
    if (env == NULL)
        return SP_E_OVERLOADED;
    r->req->env = env;
    for (void *it = json_object_iter(v); it != NULL; it = json_object_iter_next(v, it)) {
        const char *key = json_object_iter_key(it);
        const json_t *val = json_object_iter_value(it);
        size_t kn = strlen(key);
        if (!env_name_ok(key, kn))
            return refuse(r, SP_E_BAD_FIELD,
                          "\"env\" has a name that is not [A-Za-z_][A-Za-z0-9_]*.");
        if (!json_is_string(val) || has_nul(val))
            return refuse(r, SP_E_BAD_FIELD, "\"env\": every value must be a string without NUL.");
        size_t vn = json_string_length(val), at = r->req->env_len;
        if (kn + vn + 2 > SP_ENV_BYTES_MAX - at)
            return refuse(r, SP_E_BAD_FIELD, "\"env\" is longer than %u bytes.", SP_ENV_BYTES_MAX);
        memcpy(env + at, key, kn);
        env[at + kn] = '=';
        memcpy(env + at + kn + 1, json_string_value(val), vn + 1);
        r->req->env_len = at + kn + vn + 2;
        r->req->nenv++;
    }
    return SP_OK;
}

static enum sp_err read_stdin(struct reader *r, const json_t *v)
{
    if (!json_is_string(v))
        return refuse(r, SP_E_BAD_FIELD, "\"stdin\" must be a string.");
    r->req->stdin_text = copy_string(v, &r->req->stdin_len);
    return r->req->stdin_text == NULL ? SP_E_OVERLOADED : SP_OK;
}

static enum sp_err read_member(struct reader *r, const char *key, json_t *v)
{
    if (strcmp(key, "command") == 0)
        return read_command(r, v);
    if (strcmp(key, "timeout") == 0)
        return read_timeout(r, v);
    if (strcmp(key, "timeout_ms") == 0)
        return read_timeout_ms(r, v);
    if (strcmp(key, "cwd") == 0)
        return read_cwd(r, v);
    if (strcmp(key, "env") == 0)
        return read_env(r, v);
    if (strcmp(key, "stdin") == 0)
        return read_stdin(r, v);
    size_t n = strnlen(key, 40);
    for (size_t i = 0; i < n; i++)
        if (key[i] < ' ' || key[i] > '~')
            return refuse(r, SP_E_BAD_FIELD, "There is a member that is not one of this request.");
    return refuse(r, SP_E_BAD_FIELD, "\"%.*s\" is not a member of this request.", (int)n, key);
}

static enum sp_err read_object(struct reader *r, json_t *root)
{
    if (!json_is_object(root))
        return refuse(r, SP_E_BAD_FIELD, "The body must be a JSON object.");
    for (void *it = json_object_iter(root); it != NULL; it = json_object_iter_next(root, it)) {
        enum sp_err e = read_member(r, json_object_iter_key(it), json_object_iter_value(it));
        if (e != SP_OK)
            return e;
    }
    if (r->req->command == NULL)
        return refuse(r, SP_E_BAD_FIELD, "\"command\" is missing.");
    if (!r->have_timeout)
        r->req->timeout_ms = r->default_ms;
    return SP_OK;
}

/* ---- jansson's memory ---- */

/* jansson doesn't survive an allocation that fails: it goes on without the character that it had no
 * room for, so that another command would run, and then writes beyond a string's end. So we leave
 * it from within its allocation, and free what it had. It holds nothing else. */
union block {
    struct {
        union block *prev, *next;
    } in;
    max_align_t align;
};

static union block blocks = {.in = {&blocks, &blocks}};
static jmp_buf no_memory;

static void *allocate(size_t n)
{
    union block *b = n <= SIZE_MAX - sizeof *b ? malloc(sizeof *b + n) : NULL;
    if (b == NULL)
        longjmp(no_memory, 1);
    b->in.prev = &blocks;
    b->in.next = blocks.in.next;
    b->in.next->in.prev = blocks.in.next = b;
    return b + 1;
}

static void release(void *p)
{
    if (p == NULL)
        return;
    union block *b = (union block *)p - 1;
    b->in.prev->in.next = b->in.next;
    b->in.next->in.prev = b->in.prev;
    free(b);
}

/* False: no memory. *root is NULL where the text isn't JSON. Nothing of jansson's that allocates
 * may be called on it afterwards. */
static bool load(const char *body, size_t n, json_t **root, json_error_t *err)
{
    json_set_alloc_funcs(allocate, release);
    if (setjmp(no_memory) != 0) {
        for (union block *b = blocks.in.next, *next; b != &blocks; b = next) {
            next = b->in.next;
            free(b);
        }
        blocks.in.prev = blocks.in.next = &blocks;
        return false;
    }
    *root = json_loadb(body, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, err);
    return true;
}

enum sp_err exec_request_read(const char *body, size_t n, const char *workspace,
                              uint64_t default_ms, uint64_t max_ms, struct exec_request *req,
                              char *why, size_t whylen)
{
    memset(req, 0, sizeof *req);
    why[0] = '\0';
    struct reader r = {.req = req,
                       .workspace = workspace,
                       .default_ms = default_ms,
                       .max_ms = max_ms,
                       .why = why,
                       .whylen = whylen};
    unsigned depth, commas;
    measure(body, n, &depth, &commas);
    if (depth > JSON_DEPTH_MAX)
        return refuse(&r, SP_E_BAD_JSON, "The body is nested deeper than %d levels.",
                      JSON_DEPTH_MAX);
    if (commas >= JSON_VALUES_MAX)
        return refuse(&r, SP_E_BAD_FIELD, "The body has more than %d values.", JSON_VALUES_MAX);
    json_error_t err;
    json_t *root = NULL;
    if (!load(body, n, &root, &err))
        return SP_E_OVERLOADED;
    if (root == NULL)
        return refuse(&r, SP_E_BAD_JSON, "The body is not valid JSON (line %d, column %d).",
                      err.line, err.column);
    enum sp_err e = read_object(&r, root);
    json_decref(root);
    if (e == SP_OK && req->cwd == NULL && (req->cwd = strdup("")) == NULL)
        e = SP_E_OVERLOADED;
    if (e != SP_OK)
        exec_request_free(req);
    return e;
}

void exec_request_free(struct exec_request *req)
{
    free(req->command);
    free(req->cwd);
    free(req->env);
    free(req->stdin_text);
    memset(req, 0, sizeof *req);
}
