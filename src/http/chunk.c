/* chunk.c: the chunked coding (RFC 9112 7.1) byte by byte, with its extensions and trailers checked
 * and thrown away. Strict: two readers that disagree on a chunk's length disagree on where the next
 * request begins. All input is a stranger's. */
#include "sallyport/http.h"

#include "grammar.h"

#define SIZE_DIGITS 16u
#define SIZE_LINE_MAX 256u
#define TRAILERS_MAX 8192u

enum state {
    S_SIZE,      /* the first digit */
    S_SIZE_MORE, /* digits, or what may follow them */
    S_EXT_GAP,   /* white space before ';' */
    S_EXT_START, /* white space, then a name */
    S_EXT_NAME,
    S_EXT_EQ_GAP, /* white space after a name: '=' or ';' */
    S_VAL_START,  /* white space, then a token or a quoted string */
    S_VAL_TOKEN,
    S_VAL_QUOTED,
    S_VAL_ESCAPE, /* after a backslash */
    S_VAL_END,    /* after the closing quote */
    S_SIZE_LF,
    S_DATA,
    S_DATA_CR,
    S_DATA_LF,
    S_TRAILER, /* the start of a line */
    S_TRAILER_NAME,
    S_TRAILER_VALUE,
    S_TRAILER_LF,
    S_END_LF,
    S_DONE,
    S_BAD
};

void sp_chunk_init(struct sp_chunk *c)
{
    *c = (struct sp_chunk){.state = S_SIZE};
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

static enum state size_digit(struct sp_chunk *c, char b)
{
    int v = sp_hex_value(b);
    /* c->line counts this digit already. */
    if (v < 0 || c->line > SIZE_DIGITS || c->left > (uint64_t)INT64_MAX >> 4)
        return S_BAD;
    c->left = c->left << 4 | (uint64_t)v;
    return S_SIZE_MORE;
}

/* What may come after a size, a name or a value that is complete. */
static enum state after_part(char b, enum state gap)
{
    if (b == '\r')
        return S_SIZE_LF;
    if (b == ';')
        return S_EXT_START;
    return blank(b) ? gap : S_BAD;
}

/* quoted-string's inside: qdtext, and in an escape the quote and backslash too. */
static enum state quoted(char b, bool escaped)
{
    if (!sp_is_value_char(b))
        return S_BAD;
    if (escaped)
        return S_VAL_QUOTED;
    return b == '"' ? S_VAL_END : b == '\\' ? S_VAL_ESCAPE : S_VAL_QUOTED;
}

/* The size line after the size. */
static enum state extension(enum state s, char b)
{
    switch (s) {
    case S_EXT_GAP:
        return blank(b) ? s : b == ';' ? S_EXT_START : S_BAD;
    case S_EXT_START:
        return blank(b) ? s : sp_is_tchar(b) ? S_EXT_NAME : S_BAD;
    case S_EXT_NAME:
        if (sp_is_tchar(b))
            return s;
        return b == '=' ? S_VAL_START : after_part(b, S_EXT_EQ_GAP);
    case S_EXT_EQ_GAP:
        return blank(b) ? s : b == '=' ? S_VAL_START : b == ';' ? S_EXT_START : S_BAD;
    case S_VAL_START:
        if (blank(b))
            return s;
        return b == '"' ? S_VAL_QUOTED : sp_is_tchar(b) ? S_VAL_TOKEN : S_BAD;
    case S_VAL_TOKEN:
        return sp_is_tchar(b) ? s : after_part(b, S_EXT_GAP);
    case S_VAL_QUOTED:
        return quoted(b, false);
    case S_VAL_ESCAPE:
        return quoted(b, true);
    case S_VAL_END:
        return after_part(b, S_EXT_GAP);
    default:
        return S_BAD;
    }
}

static enum state size_line(struct sp_chunk *c, enum state s, char b)
{
    if (++c->line > SIZE_LINE_MAX)
        return S_BAD;
    if (s == S_SIZE)
        return size_digit(c, b);
    if (s == S_SIZE_MORE)
        return sp_hex_value(b) >= 0 ? size_digit(c, b) : after_part(b, S_EXT_GAP);
    if (s != S_SIZE_LF)
        return extension(s, b);
    c->line = 0;
    return b != '\n' ? S_BAD : c->left ? S_DATA : S_TRAILER;
}

static enum state trailer(struct sp_chunk *c, enum state s, char b)
{
    if (++c->extra > TRAILERS_MAX)
        return S_BAD;
    switch (s) {
    case S_TRAILER: /* a folded line begins with no tchar */
        return b == '\r' ? S_END_LF : sp_is_tchar(b) ? S_TRAILER_NAME : S_BAD;
    case S_TRAILER_NAME:
        return b == ':' ? S_TRAILER_VALUE : sp_is_tchar(b) ? s : S_BAD;
    case S_TRAILER_VALUE:
        return b == '\r' ? S_TRAILER_LF : sp_is_value_char(b) ? s : S_BAD;
    case S_TRAILER_LF:
        return b == '\n' ? S_TRAILER : S_BAD;
    case S_END_LF:
        return b == '\n' ? S_DONE : S_BAD;
    default:
        return S_BAD;
    }
}

static enum state step(struct sp_chunk *c, enum state s, char b)
{
    if (s <= S_SIZE_LF)
        return size_line(c, s, b);
    if (s == S_DATA_CR)
        return b == '\r' ? S_DATA_LF : S_BAD;
    if (s == S_DATA_LF)
        return b == '\n' ? S_SIZE : S_BAD;
    return trailer(c, s, b);
}

int sp_chunk_next(struct sp_chunk *c, const char *in, size_t n, size_t *used, const char **data,
                  size_t *dn)
{
    size_t at = 0;
    *data = NULL;
    *dn = 0;
    while (at < n && c->state != S_DONE && c->state != S_BAD && c->state != S_DATA)
        c->state = (int)step(c, (enum state)c->state, in[at++]);
    if (c->state == S_DATA && at < n) {
        *data = in + at;
        *dn = c->left < n - at ? (size_t)c->left : n - at;
        at += *dn;
        c->left -= *dn;
        if (c->left == 0)
            c->state = S_DATA_CR;
    }
    *used = at;
    return c->state == S_BAD ? -1 : c->state == S_DONE;
}
