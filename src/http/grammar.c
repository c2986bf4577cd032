/* grammar.c: character classes and small rules shared by the HTTP parsers. No locale, no libc
 * ctype: what is a digit must not depend on the environment. All input is a stranger's. */
#include "grammar.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

static bool alnum(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

bool sp_is_tchar(char c)
{
    return alnum(c) || one_of(c, "!#$%&'*+-.^_`|~");
}

static bool is_sub_delim(char c)
{
    return one_of(c, "!$&'()*+,;=");
}

static bool is_unreserved(char c)
{
    return alnum(c) || one_of(c, "-._~");
}

bool sp_is_pchar(char c)
{
    return is_unreserved(c) || is_sub_delim(c) || c == ':' || c == '@';
}

int sp_hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool sp_pct_byte(struct sp_slice in, size_t i, char *out)
{
    int hi = in.n - i >= 3 ? sp_hex_value(in.p[i + 1]) : -1;
    int lo = hi >= 0 ? sp_hex_value(in.p[i + 2]) : -1;
    *out = (char)(uint8_t)(lo >= 0 ? hi << 4 | lo : 0);
    return lo >= 0;
}

bool sp_is_value_char(char c)
{
    uint8_t b = (uint8_t)c;
    return b == '\t' || (b >= 0x20 && b != 0x7f);
}

bool sp_is_token(struct sp_slice s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!sp_is_tchar(s.p[i]))
            return false;
    return s.n > 0;
}

bool sp_slice_is(struct sp_slice s, const char *lit)
{
    return strlen(lit) == s.n && strncasecmp(s.p, lit, s.n) == 0;
}

struct sp_slice sp_trim(struct sp_slice s)
{
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s.p++;
        s.n--;
    }
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

bool sp_parse_length(struct sp_slice s, uint64_t *out)
{
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        uint64_t d = (uint64_t)(s.p[i] - '0');
        if (v > (INT64_MAX - d) / 10)
            return false;
        v = v * 10 + d;
    }
    *out = v;
    return s.n > 0;
}

static bool is_reg_name(struct sp_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '%') {
            char byte;
            if (!sp_pct_byte(s, i, &byte))
                return false;
            i += 2;
        } else if (!is_unreserved(s.p[i]) && !is_sub_delim(s.p[i])) {
            return false;
        }
    }
    return s.n > 0;
}

/* The inside of the brackets. No zone, no IPvFuture: nobody uses them in a Host. */
static bool is_ipv6(struct sp_slice s)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr addr;
    if (s.n >= sizeof text || memchr(s.p, 0, s.n))
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    return inet_pton(AF_INET6, text, &addr) == 1;
}

static bool is_port(struct sp_slice s)
{
    uint64_t v = 0;
    return s.n == 0 || (s.n <= 5 && sp_parse_length(s, &v) && v <= 65535);
}

bool sp_is_authority(struct sp_slice s)
{
    struct sp_slice host = s, port = {NULL, 0};
    bool literal = s.n && s.p[0] == '[';
    const char *end = s.n ? memchr(s.p, literal ? ']' : ':', s.n) : NULL;
    if (literal && !end)
        return false;
    if (end) {
        const char *stop = s.p + s.n, *colon = literal ? end + 1 : end;
        host = literal ? (struct sp_slice){s.p + 1, (size_t)(end - s.p) - 1}
                       : (struct sp_slice){s.p, (size_t)(end - s.p)};
        if (colon < stop) {
            if (*colon != ':')
                return false;
            port = (struct sp_slice){colon + 1, (size_t)(stop - colon) - 1};
        }
    }
    return (literal ? is_ipv6(host) : is_reg_name(host)) && is_port(port);
}
