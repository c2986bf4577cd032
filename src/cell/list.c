/* list.c: a folder as JSON, for GET. Names are bytes that commands chose.
 *
 * The JSON goes to a memfd that is sealed before it leaves, so that the front can send it like a
 * file. Memory is bounded by the entry cap; the JSON itself goes through small buffers. Most of a
 * long list's time is one stat an entry: two threads share it. */
#include "cell/descend.h"
#include "cell/entries.h"
#include "cell/files.h"
#include "cell/names.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
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
#define OUT (32u << 10)

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

/* ---- one folder, in chunks that two threads take in turn ---- */

#define CHUNK 512u  /* entries */
#define ALONE 4096u /* up to so many a second thread isn't worth its start */
#ifdef SP_SANITIZE
#define HELPER_STACK (2u << 20)
#else
#define HELPER_STACK (64u << 10)
#endif

struct listing {
    const struct sp_names *names;
    struct sp_out *o; /* of who writes, see `written` */
    int dir;
    bool first;            /* nothing was written yet */
    bool full;             /* SP_LIST_BYTES would be exceeded */
    size_t taken, written; /* chunks */
    pthread_mutex_t lock;
    pthread_cond_t turn;
};

/* Each entry with a comma before it. */
static void format_chunk(const struct listing *l, size_t from, struct sp_out *to)
{
    size_t end = from + CHUNK < l->names->count ? from + CHUNK : l->names->count;
    for (size_t i = from; i < end; i++) {
        struct stat st = {0};
        unsigned char type;
        const char *name = sp_names_get(l->names, i, &type);
        if (fstatat(l->dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno == ENOENT)
                continue; /* gone since we read the folder */
            /* A folder that may be read but not searched: the type is all there is to know. */
            st = (struct stat){.st_mode = (mode_t)DTTOIF(type)};
        }
        sp_out_bytes(to, ",", 1);
        sp_out_entry(to, name, &st);
    }
}

/* Chunks are taken as they come and written in their order. */
static void *work(void *arg)
{
    struct listing *l = arg;
    struct sp_out mine = {.fd = -1, .cap = CHUNK * SP_ENTRY_MAX};
    mine.buf = malloc(mine.cap); /* few of its pages are ever touched */
    pthread_mutex_lock(&l->lock);
    while (mine.buf != NULL && l->o->err == 0 && !l->full && l->taken * CHUNK < l->names->count) {
        size_t chunk = l->taken++;
        pthread_mutex_unlock(&l->lock);
        mine.n = 0;
        format_chunk(l, chunk * CHUNK, &mine);
        pthread_mutex_lock(&l->lock);
        while (l->written != chunk)
            pthread_cond_wait(&l->turn, &l->lock);
        if (l->full || l->o->total + l->o->n + mine.n > SP_LIST_BYTES) {
            l->full = true; /* the later chunks, too: what is listed has no holes */
            mine.n = 0;
        }
        size_t comma = l->first && mine.n > 0 ? 1 : 0;
        l->first = l->first && mine.n == 0;
        sp_out_bytes(l->o, mine.buf + comma, mine.n - comma);
        l->written++;
        pthread_cond_broadcast(&l->turn);
    }
    bool alone = mine.buf == NULL && l->taken * CHUNK < l->names->count;
    if (alone && l->taken == l->written)
        l->o->err = -ENOMEM; /* no other thread is at it */
    pthread_mutex_unlock(&l->lock);
    free(mine.buf);
    return NULL;
}

static bool start_helper(pthread_t *t, struct listing *l)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return false;
    (void)pthread_attr_setstacksize(&attr, HELPER_STACK);
    bool ok = pthread_create(t, &attr, work, l) == 0; /* all signals are blocked, as in us */
    pthread_attr_destroy(&attr);
    return ok;
}

static void put_all(struct sp_out *o, int dir, const struct sp_names *s, bool truncated,
                    const char *path, size_t n)
{
    struct listing l = {.names = s, .o = o, .dir = dir, .first = true};
    pthread_t other;
    sp_out_text(o, "{\"path\":\"");
    sp_out_escaped(o, path, n);
    sp_out_text(o, "\",\"entries\":[");
    pthread_mutex_init(&l.lock, NULL);
    pthread_cond_init(&l.turn, NULL);
    /* It inherits all of our confinement. Without it the list takes longer. */
    bool helped = s->count > ALONE && start_helper(&other, &l);
    (void)work(&l);
    if (helped)
        pthread_join(other, NULL);
    pthread_cond_destroy(&l.turn);
    pthread_mutex_destroy(&l.lock);
    sp_out_text(o, truncated || l.full ? "],\"truncated\":true}" : "],\"truncated\":false}");
}

static int new_memfd(void)
{
    int fd = memfd_create("listing", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = memfd_create("listing", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd < 0 ? -errno : fd;
}

static struct sp_out *new_out(void)
{
    struct sp_out *o = calloc(1, sizeof *o + OUT);
    if (o != NULL) {
        o->buf = (char *)(o + 1);
        o->cap = OUT;
        o->fd = -1;
        o->make = new_memfd;
    }
    return o;
}

/* ---- a whole tree ---- */

#define TREE_PATH 65536u /* what is deeper isn't gone into, and the listing says so */

struct tree {
    struct sp_out *o;
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
    if (t->count == t->max || t->o->total + t->o->n > SP_LIST_BYTES || n > NAME_MAX ||
        n + 2 > sizeof t->path - t->len) {
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
        sp_out_bytes(t->o, ",", 1);
    sp_out_entry(t->o, t->path, &st);
    if (!S_ISDIR(st.st_mode))
        return 0;
    memcpy(name, e->name, n + 1);
    int err = sp_descend_push(&t->d, -1, name, SP_CLOSED_STAYS);
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
    int err = sp_descend_push(&t->d, dir, ".", SP_CLOSED_STAYS);
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

/* What is short enough is copied, and costs no file. */
static bool copied(const struct sp_out *o, struct sp_result *r)
{
    if (o->err != 0 || o->fd >= 0 || o->n > SP_WHOLE_MAX || (r->data = malloc(o->n)) == NULL)
        return false;
    memcpy(r->data, o->buf, o->n);
    r->flags |= SP_FILE_WHOLE;
    r->size = o->n;
    return true;
}

static int seal(struct sp_out *o, bool whole, struct sp_result *r)
{
    r->mtime_ns = 0;
    r->etag[0] = '\0';
    r->flags = SP_FILE_LISTING;
    if (whole && copied(o, r))
        return 0;
    sp_out_flush(o);
    if (o->err == 0 && (lseek(o->fd, 0, SEEK_SET) != 0 || fcntl(o->fd, F_ADD_SEALS, SEALS) != 0))
        o->err = -errno;
    if (o->err != 0) {
        if (o->fd >= 0)
            close(o->fd);
        return o->err;
    }
    r->fd = o->fd;
    r->size = o->total;
    return 0;
}

int sp_list_tree(int dir, const char *path, size_t n, size_t max, bool whole, struct sp_result *r)
{
    struct tree *t = calloc(1, sizeof *t);
    struct sp_out *o = new_out();
    int err = t == NULL || o == NULL ? -ENOMEM : 0;
    if (err == 0) {
        t->o = o;
        t->max = max;
        sp_out_text(o, "{\"path\":\"");
        sp_out_escaped(o, path, n);
        sp_out_text(o, "\",\"entries\":[");
        err = walk_tree(t, dir);
        sp_out_text(o, t->truncated ? "],\"truncated\":true}" : "],\"truncated\":false}");
        if (o->err == 0)
            o->err = err;
        err = seal(o, whole, r);
    }
    free(t);
    free(o);
    return err;
}

int sp_list(int dir, const char *path, size_t n, size_t max, bool whole, struct sp_result *r)
{
    struct sp_names s = {0};
    bool truncated = false;
    struct sp_out *o = new_out();
    int err = o == NULL ? -ENOMEM : read_names(dir, max, &s, &truncated);
    if (err == 0) {
        sp_names_sort(&s);
        put_all(o, dir, &s, truncated, path, n);
        err = seal(o, whole, r);
    }
    sp_names_free(&s);
    free(o);
    return err;
}
