/* proto.c: every message as bytes. One table says for each op what it may carry; encoder, decoder
 * and checks all read that table, so that they can't disagree. The decoder trusts nobody; the
 * encoder applies the same checks, so that we never send what the other side must call a breach.
 *
 * A message is u8 op, u8 flags, u32 id, then the op's fields in the order of enum field. */
#include "sallyport/proto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum field {
    F_COMMAND = 1 << 0,
    F_CWD = 1 << 1,
    F_ENV = 1 << 2, /* u32 count, bytes */
    F_TIMEOUT = 1 << 3,
    F_PATH = 1 << 4,
    F_ETAG = 1 << 5,
    F_SIZE = 1 << 6,
    F_MTIME = 1 << 7,
    F_INO = 1 << 8,
    F_EXIT = 1 << 9, /* u32 exit code, u8 signal, u64 duration */
    F_ERR = 1 << 10,
    F_KEY = 1 << 11,      /* or none */
    F_MUST_KEY = 1 << 12, /* with F_KEY */
    F_UID = 1 << 13,
    F_TERMS = 1 << 14, /* where a flag of SP_IF_ANY is set: tags, tags, time */
    F_DATA = 1 << 15,  /* where the flag WHOLE is set: bytes, instead of descriptors */
};

struct shape {
    bool known;
    bool op;       /* belongs to an operation: id is not 0; else it is 0 */
    uint8_t flags; /* those defined */
    uint8_t min_fds, max_fds;
    unsigned fields;
};

#define EXEC_FLAGS (SP_EXEC_STDIN | SP_EXEC_LIVE)
#define EXIT_FLAGS (SP_EXIT_TIMED_OUT | SP_EXIT_CANCELLED | SP_EXIT_OOM | SP_EXIT_QUOTA)
#define KEY (F_KEY | F_MUST_KEY)
#define OPEN_FLAGS (SP_OPEN_MUST_DIR | SP_OPEN_TREE | SP_OPEN_WHOLE)
#define FILE_FLAGS (SP_FILE_LISTING | SP_FILE_WHOLE)
#define DELETE_FLAGS (SP_DELETE_RECURSIVE | SP_DELETE_MUST_DIR | SP_IF_ANY)
#define DONE_FLAGS (SP_DONE_CREATED | SP_DONE_PARTIAL)
#define PUT_FLAGS (SP_PUT_NEW_ONLY | SP_PUT_WHOLE | SP_PUT_STAGED | SP_IF_ANY)

/* clang-format off */
static const struct shape shapes[SP_OP_COUNT] = {
    /*                 known  op     flags                fds   fields */
    [SP_OP_EXEC]     = {true, true,  EXEC_FLAGS,          0, 0, F_COMMAND | F_CWD | F_ENV | F_TIMEOUT | F_KEY},
    [SP_OP_CANCEL]   = {true, true,  SP_CANCEL_TIMEOUT,   0, 0, 0},
    [SP_OP_OPEN]     = {true, true,  OPEN_FLAGS,          0, 0, F_PATH | F_KEY},
    [SP_OP_PUT]      = {true, true,  PUT_FLAGS,           0, 0, F_PATH | F_TERMS | F_KEY | F_DATA},
    [SP_OP_COMMIT]   = {true, true,  0,                   0, 0, F_SIZE},
    [SP_OP_DELETE]   = {true, true,  DELETE_FLAGS,        0, 0, F_PATH | F_TERMS | F_KEY},
    [SP_OP_USAGE]    = {true, true,  0,                   0, 0, F_PATH | F_KEY},
    [SP_OP_ARCHIVE]  = {true, true,  0,                   0, 0, F_PATH | F_KEY},
    [SP_OP_REMOVE]   = {true, true,  0,                   0, 0, KEY},
    [SP_OP_STARTED]  = {true, true,  0,                   2, 3, 0},
    [SP_OP_EXITED]   = {true, true,  EXIT_FLAGS,          0, 2, F_EXIT},
    [SP_OP_FILE]     = {true, true,  FILE_FLAGS,          1, 1, F_ETAG | F_SIZE | F_MTIME | F_DATA},
    [SP_OP_STAGED]   = {true, true,  0,                   0, 0, F_SIZE},
    [SP_OP_READY]    = {true, true,  0,                   1, 1, 0},
    [SP_OP_DONE]     = {true, true,  DONE_FLAGS,          0, 0, F_ETAG | F_SIZE | F_MTIME | F_INO},
    [SP_OP_FAIL]     = {true, true,  0,                   0, 0, F_ERR},
    [SP_OP_STREAM]   = {true, true,  0,                   1, 1, 0},
    [SP_OP_DRAIN]    = {true, false, 0,                   0, 0, 0},
    [SP_OP_KILL_ALL] = {true, false, 0,                   0, 0, 0},
    [SP_OP_BEGIN]    = {true, false, 0,                   0, 0, F_SIZE | F_INO},
    [SP_OP_TLS]      = {true, false, 0,                   1, 1, 0},
    [SP_OP_FRONT]    = {true, false, 0,                   1, 1, 0},
    [SP_OP_UP]       = {true, false, 0,                   0, 0, 0},
    [SP_OP_BREACH]   = {true, false, 0,                   0, 0, 0},
    [SP_OP_REGISTRY] = {true, false, 0,                   1, 1, 0},
    [SP_OP_NAME]     = {true, true,  0,                   0, 0, KEY},
    [SP_OP_TOUCH]    = {true, false, 0,                   0, 0, KEY},
    [SP_OP_RETIRE]   = {true, true,  0,                   0, 0, KEY},
    [SP_OP_FREED]    = {true, true,  0,                   0, 0, KEY},
    [SP_OP_DUE]      = {true, true,  0,                   0, 0, F_SIZE},
    [SP_OP_NAMED]    = {true, true,  0,                   0, 0, KEY | F_UID},
    [SP_OP_ADOPT]    = {true, false, 0,                   2, 2, KEY | F_UID},
    [SP_OP_PORT]     = {true, false, 0,                   1, 1, 0},
};
/* clang-format on */

static const struct shape *shape_of(uint8_t op)
{
    return op < SP_OP_COUNT && shapes[op].known ? &shapes[op] : NULL;
}

/* ---- checks, the same for both directions ---- */

static bool name_char(char c, bool first)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

/* nenv strings "K=V", each with its NUL, and nothing else. */
static bool env_ok(struct sp_slice env, uint32_t nenv)
{
    if (nenv > SP_ENV_COUNT_MAX || env.n > SP_ENV_BYTES_MAX)
        return false;
    const char *p = env.p;
    size_t left = env.n;
    for (uint32_t i = 0; i < nenv; i++) {
        size_t len = left ? strnlen(p, left) : 0;
        if (len == left)
            return false; /* no NUL before the end */
        size_t k = 0;
        while (k < len && name_char(p[k], k == 0))
            k++;
        if (k == 0 || p[k] != '=')
            return false;
        p += len + 1;
        left -= len + 1;
    }
    return left == 0;
}

static bool path_ok(struct sp_slice s)
{
    return sp_path_check(s.p, s.n) == SP_OK;
}

static bool command_ok(struct sp_slice s)
{
    return s.n >= 1 && s.n <= SP_COMMAND_MAX && !memchr(s.p, 0, s.n);
}

/* It goes into a header between quotes: RFC 9110's etagc without obs-text. */
static bool tags_ok(struct sp_slice s, size_t max)
{
    if (s.n > max)
        return false;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] <= ' ' || s.p[i] == '"' || s.p[i] > '~')
            return false;
    return true;
}

static bool terms_ok(const struct sp_msg *m)
{
    return tags_ok(m->etag, m->flags & SP_IF_MATCH ? SP_TAGS_MAX : 0) &&
           tags_ok(m->none, m->flags & SP_IF_NONE_MATCH ? SP_TAGS_MAX : 0) &&
           (m->flags & SP_IF_UNMODIFIED || m->mtime_ns == 0);
}

static unsigned fields_of(const struct shape *s, uint8_t flags)
{
    unsigned fields = s->fields;
    if (!(flags & SP_IF_ANY))
        fields &= ~(unsigned)F_TERMS;
    if (!(flags & SP_PUT_WHOLE))
        fields &= ~(unsigned)F_DATA;
    return fields;
}

static bool fds_ok(const struct shape *s, uint8_t flags, int nfds)
{
    return fields_of(s, flags) & F_DATA ? nfds == 0 : nfds >= s->min_fds && nfds <= s->max_fds;
}

/* Where the flag WHOLE is set. */
static bool data_ok(const struct sp_msg *m)
{
    if (m->op == SP_OP_PUT && (m->flags & SP_PUT_STAGED) != 0)
        return false; /* its end comes later */
    return m->data.n <= SP_WHOLE_MAX && (m->op != SP_OP_FILE || m->data.n == m->size);
}

static bool exit_ok(const struct sp_msg *m)
{
    return m->exit_code >= 0 && m->exit_code <= 255 && m->signal <= 64; /* the kernel's _NSIG */
}

static bool msg_ok(const struct sp_msg *m, const struct shape *s)
{
    if ((m->flags & ~s->flags) || (m->id != 0) != s->op)
        return false;
    if ((s->fields & F_COMMAND) && !command_ok(m->command))
        return false;
    if ((s->fields & F_CWD) && !path_ok(m->cwd))
        return false;
    if ((s->fields & F_ENV) && !env_ok(m->env, m->nenv))
        return false;
    if ((s->fields & F_PATH) && !path_ok(m->path))
        return false;
    if ((s->fields & F_ETAG) && !tags_ok(m->etag, SP_ETAG_MAX))
        return false;
    if ((s->fields & F_TERMS) && !terms_ok(m))
        return false;
    if ((fields_of(s, m->flags) & F_DATA) && !data_ok(m))
        return false;
    if ((s->fields & F_SIZE) && m->size > INT64_MAX) /* off_t at the receiver */
        return false;
    if ((s->fields & F_EXIT) && !exit_ok(m))
        return false;
    if ((s->fields & F_KEY) && m->key.n != SP_KEY_LEN && (m->key.n != 0 || s->fields & F_MUST_KEY))
        return false;
    return !(s->fields & F_ERR) || sp_err_valid(m->err);
}

/* ---- bytes ---- */

size_t sp_msg_encode(const struct sp_msg *m, uint8_t *buf, size_t cap)
{
    const struct shape *s = shape_of(m->op);
    if (!s || !msg_ok(m, s))
        return 0;
    struct sp_wr w;
    const unsigned fields = fields_of(s, m->flags);
    sp_wr_init(&w, buf, cap < SP_FRAME_MAX ? cap : SP_FRAME_MAX);
    sp_wr_u8(&w, m->op);
    sp_wr_u8(&w, m->flags);
    sp_wr_u32(&w, m->id);
    if (fields & F_COMMAND)
        sp_wr_bytes(&w, m->command.p, m->command.n);
    if (fields & F_CWD)
        sp_wr_bytes(&w, m->cwd.p, m->cwd.n);
    if (fields & F_ENV) {
        sp_wr_u32(&w, m->nenv);
        sp_wr_bytes(&w, m->env.p, m->env.n);
    }
    if (fields & F_TIMEOUT)
        sp_wr_u64(&w, m->timeout_ms);
    if (fields & F_PATH)
        sp_wr_bytes(&w, m->path.p, m->path.n);
    if (fields & F_ETAG)
        sp_wr_bytes(&w, m->etag.p, m->etag.n);
    if (fields & F_SIZE)
        sp_wr_u64(&w, m->size);
    if (fields & F_MTIME)
        sp_wr_u64(&w, (uint64_t)m->mtime_ns);
    if (fields & F_INO)
        sp_wr_u64(&w, m->ino);
    if (fields & F_EXIT) {
        sp_wr_u32(&w, (uint32_t)m->exit_code); /* 0..255: checked */
        sp_wr_u8(&w, m->signal);
        sp_wr_u64(&w, m->duration_us);
    }
    if (fields & F_ERR)
        sp_wr_u16(&w, m->err);
    if (fields & F_KEY)
        sp_wr_bytes(&w, m->key.p, m->key.n);
    if (fields & F_UID)
        sp_wr_u32(&w, m->uid);
    if (fields & F_TERMS) {
        sp_wr_bytes(&w, m->etag.p, m->etag.n);
        sp_wr_bytes(&w, m->none.p, m->none.n);
        sp_wr_u64(&w, (uint64_t)m->mtime_ns);
    }
    if (fields & F_DATA)
        sp_wr_bytes(&w, m->data.p, m->data.n);
    return w.bad ? 0 : w.len;
}

bool sp_msg_decode(struct sp_msg *m, const uint8_t *buf, size_t len, int nfds)
{
    static const struct sp_slice none = {"", 0};
    *m = (struct sp_msg){.command = none,
                         .cwd = none,
                         .env = none,
                         .path = none,
                         .etag = none,
                         .none = none,
                         .data = none,
                         .key = none};
    struct sp_rd r;
    sp_rd_init(&r, buf, len);
    m->op = sp_rd_u8(&r);
    m->flags = sp_rd_u8(&r);
    m->id = sp_rd_u32(&r);
    const struct shape *s = r.bad ? NULL : shape_of(m->op);
    if (!s || !fds_ok(s, m->flags, nfds))
        return false;
    const unsigned fields = fields_of(s, m->flags);
    if (fields & F_COMMAND)
        m->command = sp_rd_str(&r, SP_COMMAND_MAX);
    if (fields & F_CWD)
        m->cwd = sp_rd_str(&r, SP_PATH_BYTES_MAX);
    if (fields & F_ENV) {
        m->nenv = sp_rd_u32(&r);
        m->env = sp_rd_bytes(&r, SP_ENV_BYTES_MAX);
    }
    if (fields & F_TIMEOUT)
        m->timeout_ms = sp_rd_u64(&r);
    if (fields & F_PATH)
        m->path = sp_rd_str(&r, SP_PATH_BYTES_MAX);
    if (fields & F_ETAG)
        m->etag = sp_rd_str(&r, SP_ETAG_MAX);
    if (fields & F_SIZE)
        m->size = sp_rd_u64(&r);
    if (fields & F_MTIME)
        m->mtime_ns = (int64_t)sp_rd_u64(&r);
    if (fields & F_INO)
        m->ino = sp_rd_u64(&r);
    if (fields & F_EXIT) {
        uint32_t code = sp_rd_u32(&r);
        m->exit_code = code <= 255 ? (int32_t)code : -1; /* msg_ok refuses -1 */
        m->signal = sp_rd_u8(&r);
        m->duration_us = sp_rd_u64(&r);
    }
    if (fields & F_ERR)
        m->err = sp_rd_u16(&r);
    if (fields & F_KEY)
        m->key = sp_rd_bytes(&r, SP_KEY_LEN);
    if (fields & F_UID)
        m->uid = sp_rd_u32(&r);
    if (fields & F_TERMS) {
        m->etag = sp_rd_str(&r, SP_TAGS_MAX);
        m->none = sp_rd_str(&r, SP_TAGS_MAX);
        m->mtime_ns = (int64_t)sp_rd_u64(&r);
    }
    if (fields & F_DATA)
        m->data = sp_rd_bytes(&r, SP_WHOLE_MAX);
    return sp_rd_done(&r) && msg_ok(m, s);
}

/* ---- sending ---- */

#define SMALL 4608 /* all but most EXECs: those go through the heap, not 200 KiB of stack */
#define FIXED 64   /* more than the numbers and lengths of any message */

static int refuse(const int *fds, int nfds, int r)
{
    for (int i = 0; i < nfds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return r;
}

struct bytes {
    uint8_t *p, *large; /* large: to be freed, or NULL */
    size_t n;
};

/* 0, or -EINVAL, -ENOBUFS. */
static int bytes_of(const struct sp_msg *m, int nfds, uint8_t small[SMALL], struct bytes *b)
{
    const struct shape *s = shape_of(m->op);
    if (!s || !fds_ok(s, m->flags, nfds))
        return -EINVAL;
    size_t cap = FIXED + m->command.n + m->cwd.n + m->env.n + m->path.n + m->etag.n + m->none.n +
                 m->data.n + m->key.n;
    *b = (struct bytes){.p = small};
    if (cap > SMALL) {
        cap = cap < SP_FRAME_MAX ? cap : SP_FRAME_MAX;
        b->p = b->large = malloc(cap);
        if (!b->large)
            return -ENOBUFS;
    }
    b->n = sp_msg_encode(m, b->p, cap > SMALL ? cap : SMALL);
    if (b->n > 0)
        return 0;
    free(b->large);
    return -EINVAL;
}

int sp_msg_send(struct sp_chan *c, const struct sp_msg *m, const int *fds, int nfds)
{
    uint8_t small[SMALL] __attribute__((uninitialized)); /* encode fills what is sent */
    struct bytes b;
    int r = bytes_of(m, nfds, small, &b);
    if (r != 0)
        return refuse(fds, nfds, r);
    r = sp_chan_send(c, b.p, b.n, fds, nfds);
    free(b.large);
    return r;
}

int sp_msg_try(const struct sp_chan *c, const struct sp_msg *m, const int *fds, int nfds)
{
    uint8_t small[SMALL] __attribute__((uninitialized));
    struct bytes b;
    int r = bytes_of(m, nfds, small, &b);
    if (r != 0)
        return r;
    r = sp_chan_try(c, b.p, b.n, fds, nfds);
    free(b.large);
    return r;
}

int sp_msg_fail(struct sp_chan *c, uint32_t id, enum sp_err e)
{
    struct sp_msg m = {.op = SP_OP_FAIL, .id = id};
    m.err = (uint16_t)(sp_err_valid((uint32_t)e) ? e : SP_E_INTERNAL);
    return sp_msg_send(c, &m, NULL, 0);
}
