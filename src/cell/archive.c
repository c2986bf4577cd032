/* archive.c: walks a folder and writes it as tar, by libarchive. Trusts nothing about the tree: see
 * archiver.h. libarchive gets names, numbers and bytes; it opens nothing.
 *
 * Memory: one list of names for each folder between the top and where the walk is, bounded in sum;
 * one buffer; one path. */
#include "cell/archiver.h"
#include "cell/descend.h"
#include "cell/names.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <iconv.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK (60 * 1024) /* a multiple of tar's record of 10 KiB, below a pipe's 64 KiB */
#define RECORD (10 * 1024)

struct folder {
    struct sp_names names;
    size_t next, path_len; /* of what is before the names */
};

struct walk {
    struct archive *tar;
    struct archive_entry *entry;
    struct sp_descend tree;
    struct folder *folder; /* one for each that is open, the top first */
    size_t folders, cap, memory;
    struct sp_archive_count *count;
    int out, out_err; /* 0, or -errno of writing */
    char path[SP_ARCHIVE_PATH + NAME_MAX + 2];
    char buf[BLOCK];
};

/* Names are UTF-8 to whoever reads the archive; in the C locale libarchive can't tell. */
static locale_t utf8;

void sp_archive_init(void)
{
    utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    iconv_t warm = iconv_open("UTF-8", "UTF-8"); /* reads the table of conversions, once */
    if (warm != (iconv_t)-1)
        (void)iconv_close(warm);
}

/* libarchive's table of all formats has this function beside it, and with the table come all
 * compressors and an XML parser. The pax writer calls it for types that we never hand to it. */
void __archive_write_entry_filetype_unsupported(struct archive *a, struct archive_entry *entry,
                                                const char *format);
void __archive_write_entry_filetype_unsupported(struct archive *a, struct archive_entry *entry,
                                                const char *format)
{
    archive_set_error(a, EINVAL, "%s: can't hold type %o", format,
                      (unsigned)archive_entry_filetype(entry));
}

static la_ssize_t to_pipe(struct archive *a, void *arg, const void *p, size_t n)
{
    struct walk *w = arg;
    ssize_t k = -1;
    while (w->out_err == 0 && (k = write(w->out, p, n)) < 0)
        if (errno != EINTR)
            w->out_err = -errno;
    if (k < 0) {
        archive_set_error(a, EPIPE, "the reader is gone");
        return -1;
    }
    w->count->bytes += (uint64_t)k;
    return k;
}

/* ---- one entry ---- */

/* 0, -errno. A warning is that a name isn't UTF-8: it was stored as it is, and marked. */
static int put_header(struct walk *w, const struct stat *st, const char *target)
{
    struct archive_entry *e = archive_entry_clear(w->entry);
    archive_entry_copy_pathname(e, w->path);
    archive_entry_set_filetype(e, st->st_mode & S_IFMT);
    archive_entry_set_perm(e, st->st_mode & 0777);
    archive_entry_set_uid(e, 0);
    archive_entry_set_gid(e, 0);
    archive_entry_set_mtime(e, st->st_mtim.tv_sec, 0);
    archive_entry_set_size(e, S_ISREG(st->st_mode) ? st->st_size : 0);
    if (target != NULL)
        archive_entry_copy_symlink(e, target);
    int r = archive_write_header(w->tar, e);
    if (r == ARCHIVE_OK || r == ARCHIVE_WARN) {
        w->count->entries++;
        return 0;
    }
    return w->out_err != 0 ? w->out_err : archive_errno(w->tar) == ENOMEM ? -ENOMEM : -EIO;
}

static int put_link(struct walk *w, const char *name, const struct stat *st)
{
    char target[PATH_MAX];
    ssize_t n = readlinkat(sp_descend_fd(&w->tree), name, target, sizeof target - 1);
    if (n < 0)
        return errno == ENOENT || errno == EINVAL ? 0 : -errno; /* gone, or no link any more */
    target[n] = '\0';
    return put_header(w, st, target);
}

/* As many bytes as the header says; libarchive fills what is missing. */
static int put_bytes(struct walk *w, int fd, uint64_t left)
{
    while (left > 0) {
        ssize_t n = read(fd, w->buf, left < sizeof w->buf ? (size_t)left : sizeof w->buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break; /* it shrank */
        if (archive_write_data(w->tar, w->buf, (size_t)n) != n)
            return w->out_err != 0 ? w->out_err : -EIO;
        left -= (uint64_t)n;
    }
    int r = archive_write_finish_entry(w->tar);
    return r == ARCHIVE_OK ? 0 : w->out_err != 0 ? w->out_err : -EIO;
}

static int put_file(struct walk *w, const char *name)
{
    struct stat st;
    int fd = openat(sp_descend_fd(&w->tree), name,
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
            return -errno;
        w->count->left_out += errno != ENOENT;
        return 0;
    }
    int err = fstat(fd, &st) == 0 ? 0 : -errno;
    if (err == 0 && !S_ISREG(st.st_mode)) {
        w->count->left_out++; /* swapped since we looked */
    } else if (err == 0) {
        err = put_header(w, &st, NULL);
        if (err == 0)
            err = put_bytes(w, fd, st.st_size > 0 ? (uint64_t)st.st_size : 0);
    }
    close(fd);
    return err;
}

/* ---- folders ---- */

/* Takes the current folder's names. */
static int read_folder(struct walk *w, size_t path_len)
{
    struct sp_entry e;
    int got, err = 0;
    if (w->folders == w->cap) {
        size_t cap = w->cap == 0 ? 32 : w->cap * 2;
        struct folder *f = reallocarray(w->folder, cap, sizeof *f);
        if (f == NULL)
            return -ENOMEM;
        w->folder = f;
        w->cap = cap;
    }
    struct folder *f = &w->folder[w->folders++];
    *f = (struct folder){.path_len = path_len};
    while ((got = sp_descend_next(&w->tree, &e)) > 0 && err == 0) {
        err = sp_names_add(&f->names, e.type, e.name);
        if (err == 0 && w->memory + sp_names_memory(&f->names) > SP_ARCHIVE_NAMES)
            err = -E2BIG;
    }
    w->memory += sp_names_memory(&f->names);
    sp_names_sort(&f->names);
    return err != 0 ? err : got;
}

static void drop_folder(struct walk *w)
{
    struct folder *f = &w->folder[--w->folders];
    w->memory -= sp_names_memory(&f->names);
    sp_names_free(&f->names);
}

static int put_folder(struct walk *w, const char *name, const struct stat *st, size_t path_len)
{
    memcpy(w->path + path_len, "/", 2); /* so it is named in tar */
    int err = put_header(w, st, NULL);
    if (err != 0)
        return err;
    err = sp_descend_push(&w->tree, -1, name, SP_CLOSED_STAYS);
    if (err == 0)
        return read_folder(w, path_len + 1);
    if (err == -EXDEV || err == -EACCES)
        w->count->left_out++;
    return err == -EXDEV || err == -EACCES || err == -ENOENT || err == -ENOTDIR ? 0 : err;
}

static int put_entry(struct walk *w, const char *name, size_t prefix)
{
    struct stat st;
    size_t n = strlen(name);
    if (prefix + n + 1 > SP_ARCHIVE_PATH) {
        w->count->left_out++;
        return 0;
    }
    memcpy(w->path + prefix, name, n + 1);
    if (fstatat(sp_descend_fd(&w->tree), name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        w->count->left_out += errno != ENOENT;
        return errno == ENOENT || errno == EACCES ? 0 : -errno;
    }
    if (S_ISDIR(st.st_mode))
        return put_folder(w, name, &st, prefix + n);
    if (S_ISREG(st.st_mode))
        return put_file(w, name);
    if (S_ISLNK(st.st_mode))
        return put_link(w, name, &st);
    w->count->left_out++;
    return 0;
}

static int walk_all(struct walk *w, int dir)
{
    char left[NAME_MAX + 1];
    unsigned char type;
    int err = sp_descend_push(&w->tree, dir, ".", SP_CLOSED_STAYS);
    if (err == 0)
        err = read_folder(w, 0);
    while (err == 0 && w->folders > 0) {
        struct folder *f = &w->folder[w->folders - 1];
        if (f->next < f->names.count) {
            err = put_entry(w, sp_names_get(&f->names, f->next++, &type), f->path_len);
        } else {
            drop_folder(w);
            err = sp_descend_pop(&w->tree, left);
        }
    }
    return err;
}

static int open_tar(struct walk *w)
{
    w->tar = archive_write_new();
    w->entry = archive_entry_new();
    if (w->tar == NULL || w->entry == NULL)
        return -ENOMEM;
    /* "Restricted": a plain ustar header wherever it says all. */
    if (archive_write_set_format_pax_restricted(w->tar) != ARCHIVE_OK ||
        archive_write_set_bytes_per_block(w->tar, BLOCK) != ARCHIVE_OK ||
        archive_write_set_bytes_in_last_block(w->tar, RECORD) != ARCHIVE_OK ||
        archive_write_open(w->tar, w, NULL, to_pipe, NULL) != ARCHIVE_OK)
        return -ENOMEM;
    return 0;
}

int sp_archive_write(int dir, int out, struct sp_archive_count *count)
{
    *count = (struct sp_archive_count){0};
    struct walk *w = calloc(1, sizeof *w);
    if (w == NULL)
        return -ENOMEM;
    locale_t before = utf8 != (locale_t)0 ? uselocale(utf8) : (locale_t)0;
    w->out = out;
    w->count = count;
    sp_descend_init(&w->tree);
    int err = open_tar(w);
    if (err == 0)
        err = walk_all(w, dir);
    if (err == 0 && archive_write_close(w->tar) != ARCHIVE_OK)
        err = w->out_err != 0 ? w->out_err : -EIO;
    if (err != 0)
        w->out_err = w->out_err != 0 ? w->out_err : err; /* no end for what isn't whole */
    while (w->folders > 0)
        drop_folder(w);
    sp_descend_free(&w->tree);
    free(w->folder);
    archive_entry_free(w->entry);
    (void)archive_write_free(w->tar);
    if (before != (locale_t)0)
        (void)uselocale(before);
    free(w);
    return err;
}
