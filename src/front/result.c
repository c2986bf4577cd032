/* result.c: a command's result as JSON, made piece by piece while the client takes it, so that
 * an answer costs no more memory than what was captured. The captured bytes are hostile. */
#include "front.h"

#include "sallyport/utf8.h"

#include <stdio.h>
#include <string.h>

static const char *signal_name(unsigned sig)
{
    static const char *const names[] = {
        [1] = "SIGHUP",   [2] = "SIGINT",   [3] = "SIGQUIT",    [4] = "SIGILL",
        [5] = "SIGTRAP",  [6] = "SIGABRT",  [7] = "SIGBUS",     [8] = "SIGFPE",
        [9] = "SIGKILL",  [10] = "SIGUSR1", [11] = "SIGSEGV",   [12] = "SIGUSR2",
        [13] = "SIGPIPE", [14] = "SIGALRM", [15] = "SIGTERM",   [16] = "SIGSTKFLT",
        [24] = "SIGXCPU", [25] = "SIGXFSZ", [26] = "SIGVTALRM", [27] = "SIGPROF",
        [29] = "SIGIO",   [30] = "SIGPWR",  [31] = "SIGSYS"};
    return sig < sizeof names / sizeof *names ? names[sig] : NULL;
}

size_t exec_result_members(const struct exec_state *x, char *buf, size_t n)
{
    char sig[24] = "null";
    const char *name = signal_name(x->signal);
    if (name != NULL)
        snprintf(sig, sizeof sig, "\"%s\"", name);
    else if (x->signal != 0)
        snprintf(sig, sizeof sig, "\"SIG%u\"", (unsigned)x->signal);
    int r =
        snprintf(buf, n, "\"exit_code\":%d,\"signal\":%s,\"timed_out\":%s,%s\"duration_ms\":%llu",
                 x->exit_code, sig, (x->flags & SP_EXIT_TIMED_OUT) != 0 ? "true" : "false",
                 (x->flags & SP_EXIT_OOM) != 0 ? "\"oom_killed\":true," : "",
                 (unsigned long long)(x->duration_us / 1000));
    if (front.cfg->mode == SP_MODE_BOX && r > 0 && (size_t)r < n)
        r += snprintf(buf + r, n - (size_t)r, ",\"quota_exceeded\":%s",
                      (x->flags & SP_EXIT_QUOTA) != 0 ? "true" : "false");
    return r > 0 ? (size_t)r : 0;
}

static size_t tail(const struct exec_state *x, char *buf, size_t n)
{
    char how[200];
    (void)exec_result_members(x, how, sizeof how);
    int r = snprintf(buf, n, "\",%s,\"stdout_truncated\":%s,\"stderr_truncated\":%s}\n", how,
                     x->out.truncated ? "true" : "false", x->err.truncated ? "true" : "false");
    return r > 0 ? (size_t)r : 0;
}

static const char open_out[] = "{\"stdout\":\"", open_err[] = "\",\"stderr\":\"";

uint64_t exec_result_length(struct conn *c)
{
    const struct exec_state *x = c->exec;
    char buf[300];
    return sizeof open_out - 1 + sp_json_escaped_len(x->out.buf, x->out.len) + sizeof open_err - 1 +
           sp_json_escaped_len(x->err.buf, x->err.len) + tail(x, buf, sizeof buf);
}

/* False: there is no memory, and neither is the connection any more, nor its exec_state. */
static bool put(struct conn *c, const char *p, size_t n)
{
    if (reply_append(c, p, n))
        return true;
    conn_close(c);
    return false;
}

/* One stream's bytes; true when it is done. */
static bool fill_stream(struct conn *c, const struct capture *cap, char *buf)
{
    struct exec_state *x = c->exec;
    size_t used;
    size_t n =
        sp_json_escape(cap->buf + x->part_pos, cap->len - x->part_pos, buf, FRONT_OUT_CHUNK, &used);
    x->part_pos += used;
    return put(c, buf, n) && x->part_pos >= cap->len;
}

bool exec_result_fill(struct conn *c)
{
    static char buf[FRONT_OUT_CHUNK];
    struct exec_state *x = c->exec;
    size_t before = c->out_len;
    while (c->state != CONN_DEAD && c->out_len - before < FRONT_OUT_CHUNK / 2) {
        bool next = true;
        if (x->part == 0)
            next = put(c, open_out, sizeof open_out - 1);
        else if (x->part == 1)
            next = x->out.len == 0 || fill_stream(c, &x->out, buf);
        else if (x->part == 2)
            next = put(c, open_err, sizeof open_err - 1);
        else if (x->part == 3)
            next = x->err.len == 0 || fill_stream(c, &x->err, buf);
        else if (x->part == 4)
            next = put(c, buf, tail(x, buf, sizeof buf));
        else
            return false;
        if (next) {
            x->part++;
            x->part_pos = 0;
        }
    }
    return c->state != CONN_DEAD;
}
