/* log.c: one line a message on stderr, in one write(2). What is logged may hold bytes of a
 * stranger, so everything that could end the line, move a terminal's cursor or turn text around is
 * escaped. Allocates nothing and opens nothing: usable in every role after confinement. */
#include "sallyport/log.h"

#include "sallyport/civil.h"
#include "sallyport/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MAX 1024
#define LINE_MAX_BYTES 2048 /* below PIPE_BUF: lines of several processes don't mix in a pipe */

static const char *log_role = "?";
static enum sp_log_level log_level = SP_LOG_INFO;
static bool log_json;

void sp_log_init(const char *role, enum sp_log_level level)
{
    log_role = role;
    log_level = level;
}

void sp_log_as_json(bool on)
{
    log_json = on;
}

/* Well-formed, and neither a C1 control, a line or paragraph separator, nor a bidi control. */
static size_t harmless(const char *p, size_t n)
{
    size_t bad, len = sp_utf8_next(p, n, &bad);
    uint8_t a = (uint8_t)p[0], b = len > 1 ? (uint8_t)p[1] : 0, c = len > 2 ? (uint8_t)p[2] : 0;
    if (len == 1)
        return a >= 0x20 && a < 0x7f && a != '\\';
    if (len == 2 && a == 0xc2 && b < 0xa0)
        return 0;
    if (len == 3 && a == 0xe2 && b == 0x80 && c >= 0xa8 && c <= 0xae)
        return 0;
    if (len == 3 && a == 0xe2 && b == 0x81 && c >= 0xa6 && c <= 0xa9)
        return 0;
    return len;
}

/* What isn't harmless at p, spelled out; *took: bytes of it. */
static size_t spell(const char *p, size_t n, char out[8], size_t *took)
{
    size_t bad, len = sp_utf8_next(p, n, &bad);
    uint8_t a = (uint8_t)p[0];
    *took = 1;
    if (!log_json)
        return (size_t)snprintf(out, 8, "\\x%02x", a);
    if (len < 2)
        return sp_json_escape(p, len ? len : bad, out, 8, took);
    unsigned code = len == 2 ? (a & 0x1fu) << 6 : (a & 0x0fu) << 12 | ((uint8_t)p[1] & 0x3fu) << 6;
    *took = len;
    return (size_t)snprintf(out, 8, "\\u%04x", code | ((uint8_t)p[len - 1] & 0x3fu));
}

static size_t escape(const char *in, size_t n, char *out, size_t cap, size_t *used)
{
    size_t to = 0, at = 0;
    while (at < n) {
        char one[8];
        size_t len = log_json && in[at] == '"' ? 0 : harmless(in + at, n - at), took = len;
        size_t k = len ? len : spell(in + at, n - at, one, &took);
        if (k > cap - to)
            break;
        memcpy(out + to, len ? in + at : one, k);
        at += took;
        to += k;
    }
    *used = at;
    return to;
}

/* Puts the line's beginning; the rest is for the message. */
static size_t begin(char *line, size_t cap, enum sp_log_level l)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct sp_civil c = sp_civil_from(now.tv_sec);
    const char *level = l >= SP_LOG_ERROR && l <= SP_LOG_DEBUG ? names[l] : "?";
    int n = snprintf(
        line, cap,
        log_json ? "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ\",\"role\":\"%s\","
                   "\"level\":\"%s\",\"message\":\""
                 : "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ %s %s ",
        c.year, c.month, c.day, c.hour, c.minute, c.second, now.tv_nsec / 1000000, log_role, level);
    return n < 0 ? 0 : (size_t)n < 200 ? (size_t)n : 200;
}

static void put(char *line, size_t at)
{
    line[at++] = '\n';
    while (write(STDERR_FILENO, line, at) < 0 && errno == EINTR)
        ;
}

void sp_log(enum sp_log_level l, const char *fmt, ...)
{
    if (l > log_level)
        return;
    int saved = errno;
    char text[TEXT_MAX], line[LINE_MAX_BYTES];
    size_t at = begin(line, sizeof line, l), used = 0;
    errno = saved; /* for %m */
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    at += escape(text, len, line + at, sizeof line - at - 8, &used);
    if (n < 0 || (size_t)n >= sizeof text || used < len) {
        memcpy(line + at, "...", 3);
        at += 3;
    }
    if (log_json) {
        memcpy(line + at, "\"}", 2);
        at += 2;
    }
    put(line, at);
    errno = saved;
}

void sp_log_request(const struct sp_log_request *r)
{
    if (log_level < SP_LOG_INFO)
        return;
    int saved = errno;
    char line[LINE_MAX_BYTES], status[8] = "null", who[16] = "null";
    size_t at = begin(line, sizeof line, SP_LOG_INFO);
    const char *quote = log_json ? "\"" : "";
    if (r->status != 0)
        (void)snprintf(status, sizeof status, "%d", r->status);
    if (r->identity[0] != '\0')
        (void)snprintf(who, sizeof who, "%s%.8s%s", quote, r->identity, quote);
    size_t room = sizeof line - at - 1; /* the strings are short: see log.h */
    int n = snprintf(
        line + at, room,
        log_json ? "request\",\"id\":%llu,\"method\":\"%s\",\"route\":\"%s\",\"status\":%s,"
                   "\"bytes\":%llu,\"duration_ms\":%llu.%03u,\"identity\":%s}"
                 : "request id=%llu method=%s route=%s status=%s bytes=%llu "
                   "duration_ms=%llu.%03u identity=%s",
        (unsigned long long)r->id, r->method, r->route, status, (unsigned long long)r->bytes,
        (unsigned long long)(r->duration_us / 1000), (unsigned)(r->duration_us % 1000), who);
    if (n > 0 && (size_t)n < room)
        put(line, at + (size_t)n);
    errno = saved;
}
