/* list.c: a folder as JSON, for GET. Names are bytes that commands chose: repaired and escaped,
 * with the true bytes percent-encoded beside when they had to be repaired.
 *
 * The JSON goes to a memfd that is sealed before it leaves, so that the front can send it like a
 * file. Memory is bounded by the entry cap; the JSON itself goes through a small buffer. */
#include "cell/descend.h"
#include "cell/files.h"
#include "cell/names.h"
#include "sallyport/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define DENTS (64u << 10)

struct out {
    int fd, err;
    size_t n;
    uint64_t total;
    char buf[32u << 10];
};

static int read_names(int dir, size_t max, struct sp_names *s, bool *truncated)
{
    char *buf = malloc(DENTS);
    if (buf == NULL)
        return -ENOMEM;
    int err = 0;
    while (err == 0 && !*truncated) {
        long got = syscall(SYS_getdents64, dir, buf, DENTS);
        if (got <= 0) {
            err = got < 0 ? -errno : 0;
            break;
        }
        for (long i = 0; i < got && err == 0;) {
            const struct dirent64 *e = (const void *)(buf + i);
            i += e->d_reclen;
            if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
                continue;
            if (s->count == max) {
                *truncated = true;
                break;
            }
            err = sp_names_add(s, e->d_type, e->d_name);
        }
    }
    free(buf);
    return err;
}

static void flush(struct out *o)
{
    size_t done = 0;
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

static void put(struct out *o, const char *s, size_t n)
{
    while (n > 0) {
        if (o->n == sizeof o->buf)
            flush(o);
        size_t k = sizeof o->buf - o->n;
        k = k < n ? k : n;
        memcpy(o->buf + o->n, s, k);
        o->n += k;
        s += k;
        n -= k;
    }
}

static void put_str(struct out *o, const char *s)
{
    put(o, s, strlen(s));
}

static void put_escaped(struct out *o, const char *s, size_t n)
{
    while (n > 0) {
        if (sizeof o->buf - o->n < 64)
            flush(o);
        size_t used = 0;
        o->n += sp_json_escape(s, n, o->buf + o->n, sizeof o->buf - o->n, &used);
        s += used;
        n -= used;
    }
}

static void put_percent(struct out *o, const char *s, size_t n)
{
    static const char hex[] = "0123456789ABCDEF";
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        char e[3] = {'%', hex[c >> 4], hex[c & 15]};
        bool as_is = c != 0 && strchr(plain, c) != NULL;
        put(o, as_is ? s + i : e, as_is ? 1 : sizeof e);
    }
}

static const char *type_name(mode_t mode)
{
    return S_ISREG(mode)   ? "file"
           : S_ISDIR(mode) ? "directory"
           : S_ISLNK(mode) ? "symlink"
                           : "other";
}

static void put_entry(struct out *o, const char *name, const struct stat *st)
{
    char text[160];
    size_t n = strlen(name);
    put_str(o, "{\"name\":\"");
    put_escaped(o, name, n);
    if (!sp_utf8_valid(name, n)) {
        put_str(o, "\",\"raw\":\"");
        put_percent(o, name, n);
    }
    long long sec = st->st_mtim.tv_sec;
    long ms = st->st_mtim.tv_nsec / 1000000;
    bool below = sec < 0; /* the fraction of a time before 1970 counts upwards from its second */
    if (below && ms > 0) {
        sec++;
        ms = 1000 - ms;
    }
    snprintf(text, sizeof text,
             "\",\"type\":\"%s\",\"size\":%lld,\"mode\":\"%04o\",\"mtime\":%s%lld.%03ld}",
             type_name(st->st_mode), (long long)st->st_size, st->st_mode & 07777u, below ? "-" : "",
             below ? -sec : sec, ms);
    put_str(o, text);
}

static void put_all(struct out *o, int dir, const struct sp_names *s, bool truncated,
                    const char *path, size_t n)
{
    bool first = true;
    put_str(o, "{\"path\":\"");
    put_escaped(o, path, n);
    put_str(o, "\",\"entries\":[");
    for (size_t i = 0; i < s->count && o->err == 0; i++) {
        struct stat st = {0};
        unsigned char type;
        const char *name = sp_names_get(s, i, &type);
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno == ENOENT)
                continue; /* gone since we read the folder */
            /* A folder that may be read but not searched: the type is all there is to know. */
            st = (struct stat){.st_mode = (mode_t)DTTOIF(type)};
        }
        if (!first)
            put(o, ",", 1);
        first = false;
        put_entry(o, name, &st);
    }
    put_str(o, truncated ? "],\"truncated\":true}" : "],\"truncated\":false}");
    flush(o);
}

static int new_memfd(void)
{
    int fd = memfd_create("listing", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = memfd_create("listing", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

/* ---- a whole tree ---- */

#define TREE_PATH 65536u /* what is deeper isn't gone into, and the listing says so */

struct tree {
    struct out *o;
    struct sp_descend d;
    char path[TREE_PATH]; /* of the current folder, with a slash behind it; "" the first */
    size_t len, count, max;
    bool truncated;
};

/* One entry; a folder is entered. 0 or -errno. */
static int tree_entry(struct tree *t, const struct sp_entry *e)
{
    struct stat st;
    char name[NAME_MAX + 1];
    size_t n = strlen(e->name);
    if (t->count == t->max || n > NAME_MAX || n + 2 > sizeof t->path - t->len) {
        t->truncated = true;
        return 0;
    }
    if (fstatat(sp_descend_fd(&t->d), e->name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT)
            return 0; /* gone since we read the folder */
        st = (struct stat){.st_mode = (mode_t)DTTOIF(e->type)};
    }
    memcpy(t->path + t->len, e->name, n + 1);
    if (t->count++ > 0)
        put(t->o, ",", 1);
    put_entry(t->o, t->path, &st);
    if (!S_ISDIR(st.st_mode))
        return 0;
    memcpy(name, e->name, n + 1);
    int err = sp_descend_push(&t->d, -1, name, false);
    if (err == 0) {
        t->len += n + 1;
        t->path[t->len - 1] = '/';
    }
    /* What is closed to us, is a mount or isn't a folder any more is listed, but not gone into. */
    return err == -EACCES || err == -EXDEV || err == -ENOTDIR || err == -ENOENT ? 0 : err;
}

static int walk_tree(struct tree *t, int dir)
{
    struct sp_entry e;
    char name[NAME_MAX + 1];
    sp_descend_init(&t->d);
    int err = sp_descend_push(&t->d, dir, ".", false);
    while (err == 0 && t->d.depth > 0 && t->o->err == 0 && !t->truncated) {
        int got = sp_descend_next(&t->d, &e);
        if (got > 0) {
            err = tree_entry(t, &e);
        } else if (got == 0) {
            err = sp_descend_pop(&t->d, name);
            size_t n = t->d.depth > 0 ? strlen(name) + 1 : t->len;
            t->len -= n < t->len ? n : t->len;
        } else {
            err = got;
        }
    }
    sp_descend_free(&t->d);
    return err == -ESTALE ? -EAGAIN : err; /* moved under our feet */
}

static int seal(struct out *o, struct sp_result *r)
{
    if (o->err == 0 && (lseek(o->fd, 0, SEEK_SET) != 0 || fcntl(o->fd, F_ADD_SEALS, SEALS) != 0))
        o->err = -errno;
    if (o->err != 0) {
        if (o->fd >= 0)
            close(o->fd);
        return o->err;
    }
    r->fd = o->fd;
    r->size = o->total;
    r->mtime_ns = 0;
    r->etag[0] = '\0';
    return 0;
}

int sp_list_tree(int dir, const char *path, size_t n, size_t max, struct sp_result *r)
{
    struct tree *t = calloc(1, sizeof *t);
    struct out *o = calloc(1, sizeof *o);
    int err = t == NULL || o == NULL ? -ENOMEM : 0;
    if (err == 0) {
        o->fd = new_memfd();
        o->err = o->fd < 0 ? o->fd : 0;
        t->o = o;
        t->max = max;
        put_str(o, "{\"path\":\"");
        put_escaped(o, path, n);
        put_str(o, "\",\"entries\":[");
        err = walk_tree(t, dir);
        put_str(o, t->truncated ? "],\"truncated\":true}" : "],\"truncated\":false}");
        flush(o);
        if (o->err == 0)
            o->err = err;
        err = seal(o, r);
    }
    free(t);
    free(o);
    return err;
}

int sp_list(int dir, const char *path, size_t n, size_t max, struct sp_result *r)
{
    struct sp_names s = {0};
    bool truncated = false;
    struct out *o = malloc(sizeof *o);
    int err = o == NULL ? -ENOMEM : read_names(dir, max, &s, &truncated);
    if (err == 0) {
        sp_names_sort(&s);
        o->fd = new_memfd();
        o->err = o->fd < 0 ? o->fd : 0;
        o->n = 0;
        o->total = 0;
        put_all(o, dir, &s, truncated, path, n);
        err = seal(o, r);
    }
    sp_names_free(&s);
    free(o);
    return err;
}
