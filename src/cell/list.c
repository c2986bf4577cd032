/* list.c: a folder as JSON, for GET. Names are bytes that commands chose.
 *
 * The JSON goes to a memfd that is sealed before it leaves, so that the front can send it like a
 * file. Memory is bounded by the entry cap; the JSON itself goes through small buffers. */
#include "cell/descend.h"
#include "cell/entries.h"
#include "cell/files.h"
#include "cell/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define OUT (32u << 10)

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
    struct sp_brief b;
    char name[NAME_MAX + 1];
    size_t n = strlen(e->name);
    if (t->count == t->max || t->o->total + t->o->n > SP_LIST_BYTES || n > NAME_MAX ||
        n + 2 > sizeof t->path - t->len) {
        t->truncated = true;
        return 0;
    }
    if (!sp_brief_get(sp_descend_fd(&t->d), e->name, e->type, &b))
        return 0; /* gone since we read the folder */
    memcpy(t->path + t->len, e->name, n + 1);
    if (t->count++ > 0)
        sp_out_bytes(t->o, ",", 1);
    sp_out_entry(t->o, t->path, &b);
    if (!S_ISDIR(b.mode))
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
    struct sp_out *o = new_out();
    bool truncated = false;
    if (o == NULL)
        return -ENOMEM;
    sp_out_text(o, "{\"path\":\"");
    sp_out_escaped(o, path, n);
    sp_out_text(o, "\",\"entries\":[");
    int err = sp_folder_list(dir, max, o, &truncated);
    sp_out_text(o, truncated ? "],\"truncated\":true}" : "],\"truncated\":false}");
    if (o->err == 0)
        o->err = err;
    err = seal(o, whole, r);
    free(o);
    return err;
}
