/* entries.c: the JSON of a folder's entries, through a buffer into a file. Names are bytes that
 * commands chose: repaired and escaped, with the true bytes percent-encoded beside where they had
 * to be. */
#include "cell/entries.h"
#include "sallyport/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void sp_out_flush(struct sp_out *o)
{
    size_t done = 0;
    if (o->fd < 0 && o->err == 0) {
        o->fd = o->make();
        o->err = o->fd < 0 ? o->fd : 0;
    }
    while (o->err == 0 && done < o->n) {
        ssize_t k = write(o->fd, o->buf + done, o->n - done);
        if (k < 0 && errno != EINTR)
            o->err = -errno;
        else if (k > 0)
            done += (size_t)k;
    }
    o->total += o->n;
    o->n = 0;
}

void sp_out_bytes(struct sp_out *o, const char *s, size_t n)
{
    while (n > 0) {
        if (o->n == o->cap)
            sp_out_flush(o);
        size_t k = o->cap - o->n;
        k = k < n ? k : n;
        memcpy(o->buf + o->n, s, k);
        o->n += k;
        s += k;
        n -= k;
    }
}

void sp_out_text(struct sp_out *o, const char *s)
{
    sp_out_bytes(o, s, strlen(s));
}

void sp_out_escaped(struct sp_out *o, const char *s, size_t n)
{
    while (n > 0) {
        if (o->cap - o->n < 64)
            sp_out_flush(o);
        size_t used = 0;
        o->n += sp_json_escape(s, n, o->buf + o->n, o->cap - o->n, &used);
        s += used;
        n -= used;
    }
}

static void put_percent(struct sp_out *o, const char *s, size_t n)
{
    static const char hex[] = "0123456789ABCDEF";
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        char e[3] = {'%', hex[c >> 4], hex[c & 15]};
        bool as_is = c != 0 && strchr(plain, c) != NULL;
        sp_out_bytes(o, as_is ? s + i : e, as_is ? 1 : sizeof e);
    }
}

bool sp_brief_get(int dir, const char *name, unsigned char type, struct sp_brief *b)
{
    struct stat st;
    *b = (struct sp_brief){0};
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        b->mode = (mode_t)DTTOIF(type); /* its folder may be read but not searched */
        return errno != ENOENT;
    }
    b->size = st.st_size < 0 ? 0 : st.st_size;
    b->seconds = st.st_mtim.tv_sec;
    b->nanoseconds = (uint32_t)st.st_mtim.tv_nsec;
    b->mode = st.st_mode;
    return true;
}

static const char *type_name(mode_t mode)
{
    return S_ISREG(mode)   ? "file"
           : S_ISDIR(mode) ? "directory"
           : S_ISLNK(mode) ? "symlink"
                           : "other";
}

/* Decimal, at least `digits` of them; where it ends. */
static char *put_number(char *to, uint64_t v, int digits)
{
    char text[20];
    int n = 0;
    do {
        text[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0 || n < digits);
    while (n > 0)
        *to++ = text[--n];
    return to;
}

static char *put_word(char *to, const char *word)
{
    size_t n = strlen(word);
    memcpy(to, word, n);
    return to + n;
}

/* What follows the name. By hand: printf would take half of a long list's time. */
static size_t format_rest(char *text, const struct sp_brief *b)
{
    char *to = put_word(text, "\",\"type\":\"");
    to = put_word(to, type_name(b->mode));
    to = put_word(to, "\",\"size\":");
    to = put_number(to, (uint64_t)b->size, 1);
    to = put_word(to, ",\"mode\":\"");
    for (int shift = 9; shift >= 0; shift -= 3)
        *to++ = (char)('0' + (b->mode >> shift & 7));
    to = put_word(to, "\",\"mtime\":");
    int64_t sec = b->seconds;
    uint64_t ms = b->nanoseconds / 1000000;
    if (sec < 0) { /* the fraction of a time before 1970 counts upwards from its second */
        if (ms > 0) {
            sec++;
            ms = 1000 - ms;
        }
        *to++ = '-';
    }
    to = put_number(to, sec < 0 ? 0 - (uint64_t)sec : (uint64_t)sec, 1);
    *to++ = '.';
    to = put_number(to, ms, 3);
    *to++ = '}';
    return (size_t)(to - text);
}

void sp_out_entry(struct sp_out *o, const char *name, const struct sp_brief *b)
{
    char rest[160];
    size_t n = strlen(name);
    sp_out_text(o, "{\"name\":\"");
    sp_out_escaped(o, name, n);
    if (!sp_utf8_valid(name, n)) {
        sp_out_text(o, "\",\"raw\":\"");
        put_percent(o, name, n);
    }
    sp_out_bytes(o, rest, format_rest(rest, b));
}
