/* usage.c: what a tree takes on disk: blocks and entries, as du -x counts them. Follows no link and
 * enters no mount; a file with several names counts once. Trusts nothing about the tree: a folder
 * that its owner shut to himself is opened for the count, or a quota would end at its door. */
#include "cell/descend.h"
#include "cell/files.h"
#include "cell/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEEN_MAX (1u << 22) /* 64 MiB of table; names beyond that count each */

struct seen {
    struct {
        dev_t dev;
        ino_t ino;
    } * slot; /* ino 0: free */
    size_t count, cap;
};

struct tally {
    struct seen seen;
    uint64_t bytes, entries;
};

static size_t slot_of(const struct seen *s, dev_t dev, ino_t ino)
{
    uint64_t h = ((uint64_t)ino ^ (uint64_t)dev << 32) * 0x9e3779b97f4a7c15ull;
    size_t i = (size_t)(h >> 20) & (s->cap - 1);
    while (s->slot[i].ino != 0 && (s->slot[i].ino != ino || s->slot[i].dev != dev))
        i = (i + 1) & (s->cap - 1);
    return i;
}

static bool grow(struct seen *s)
{
    struct seen bigger = {.cap = s->cap == 0 ? 256 : s->cap * 2};
    if (bigger.cap > SEEN_MAX || (bigger.slot = calloc(bigger.cap, sizeof *bigger.slot)) == NULL)
        return false;
    for (size_t i = 0; i < s->cap; i++) {
        if (s->slot[i].ino != 0)
            bigger.slot[slot_of(&bigger, s->slot[i].dev, s->slot[i].ino)] = s->slot[i];
    }
    bigger.count = s->count;
    free(s->slot);
    *s = bigger;
    return true;
}

/* True the first time. */
static bool first_time(struct seen *s, const struct stat *st)
{
    if (st->st_ino == 0 || (s->count * 2 >= s->cap && !grow(s)))
        return true;
    size_t i = slot_of(s, st->st_dev, st->st_ino);
    if (s->slot[i].ino != 0)
        return false;
    s->slot[i].dev = st->st_dev;
    s->slot[i].ino = st->st_ino;
    s->count++;
    return true;
}

static void count(struct tally *t, const struct stat *st)
{
    if (!S_ISDIR(st->st_mode) && st->st_nlink > 1 && !first_time(&t->seen, st))
        return;
    t->bytes += (uint64_t)st->st_blocks * 512u;
    t->entries++;
}

static int one_entry(struct sp_descend *d, const struct sp_entry *e, struct tally *t)
{
    struct stat st;
    char name[NAME_MAX + 1];
    if (fstatat(sp_descend_fd(d), e->name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT || errno == EACCES ? 0 : -errno;
    if (!S_ISDIR(st.st_mode)) {
        count(t, &st);
        return 0;
    }
    strncpy(name, e->name, NAME_MAX);
    name[NAME_MAX] = '\0';
    int err = sp_descend_push(d, -1, name, SP_CLOSED_LENT);
    if (err == 0 && fstat(sp_descend_fd(d), &st) != 0)
        return -errno;
    if (err == 0 || err == -EACCES) /* closed to us: itself still counts */
        count(t, &st);
    return err == -EXDEV || err == -ENOTDIR || err == -ENOENT || err == -EACCES ? 0 : err;
}

static int count_tree(int top, struct tally *t)
{
    struct sp_descend d;
    struct sp_entry e;
    char name[NAME_MAX + 1];
    sp_descend_init(&d);
    int err = sp_descend_push(&d, top, ".", SP_CLOSED_LENT);
    while (err == 0 && d.depth > 0) {
        int got = sp_descend_next(&d, &e);
        if (got < 0)
            err = got;
        else if (got == 0)
            err = sp_descend_pop(&d, name);
        else
            err = one_entry(&d, &e, t);
    }
    sp_descend_free(&d);
    return err;
}

enum sp_err sp_file_usage(const struct sp_workspace *w, const char *path, size_t n,
                          struct sp_result *r)
{
    struct stat st;
    struct tally t = {0};
    int top = n == 0 ? fcntl(w->root, F_DUPFD_CLOEXEC, 0) /* which may be shut, too */
                     : sp_resolve_open(w->root, path, n, O_PATH, 0, w->use_openat2);
    if (n == 0 && top < 0)
        top = -errno;
    if (top < 0)
        return sp_err_from_errno(-top);
    int err = fstat(top, &st) == 0 ? 0 : -errno;
    if (err == 0 && S_ISDIR(st.st_mode)) {
        t.bytes = (uint64_t)st.st_blocks * 512u; /* its own blocks; entries are what is below it */
        err = count_tree(top, &t);
    } else if (err == 0) {
        count(&t, &st);
    }
    close(top);
    free(t.seen.slot);
    if (err != 0)
        return err == -ESTALE ? SP_E_OVERLOADED : sp_err_from_errno(-err);
    r->size = t.bytes;
    r->entries = t.entries;
    return SP_OK;
}
