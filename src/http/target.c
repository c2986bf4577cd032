/* target.c: percent encoding (RFC 3986 2.1) and the one query we know. All input is a
 * stranger's; what a path may be after decoding is sp_path_check's rule. */
#include "sallyport/http.h"

#include "grammar.h"

#include <string.h>

bool sp_pct_decode(struct sp_slice in, char *out, size_t *n)
{
    size_t to = 0;
    for (size_t i = 0; i < in.n; i++) {
        char c = in.p[i];
        if (c == '%') {
            if (!sp_pct_byte(in, i, &c))
                return false;
            i += 2;
        } else if (!sp_is_pchar(c) && c != '/') {
            return false;
        }
        out[to++] = c;
    }
    *n = to;
    return true;
}

size_t sp_pct_encode(const char *in, size_t n, char *out)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)in[i];
        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
            c == '-' || c == '.' || c == '_' || c == '~') {
            out[to++] = in[i];
        } else {
            out[to++] = '%';
            out[to++] = hex[c >> 4];
            out[to++] = hex[c & 15];
        }
    }
    return to;
}

static bool exactly(struct sp_slice s, const char *lit)
{
    return s.n == strlen(lit) && memcmp(s.p, lit, s.n) == 0;
}

bool sp_query_bool(struct sp_slice query, const char *name, bool *val)
{
    size_t len = strlen(name);
    *val = false;
    if (query.n == 0)
        return true;
    /* One parameter, so a second one is a '&' in the value, which no value has. */
    if (query.n <= len || memcmp(query.p, name, len) != 0 || query.p[len] != '=')
        return false;
    struct sp_slice v = {query.p + len + 1, query.n - len - 1};
    *val = exactly(v, "true") || exactly(v, "1");
    return *val || exactly(v, "false") || exactly(v, "0");
}
