/* commit.c: gives a received file its name, all or nothing.
 *
 * linkat makes a new name and refuses one that exists; replacing needs a name to rename from. Where
 * a condition was asked for it is checked again here.
 * Trusts nothing about the folder, which a command may change meanwhile. */
#include "cell/put.h"
#include "cell/quota.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRIES 16

enum sp_err sp_put_check(const struct sp_workspace *w, const struct sp_put *p, mode_t *mode)
{
    struct stat st = {0};
    bool there = fstatat(p->parent, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (!there && errno != ENOENT)
        return sp_err_from_errno(errno);
    *mode = there ? st.st_mode : 0;
    if (there && S_ISDIR(st.st_mode))
        return SP_E_IS_A_DIRECTORY;
    if ((p->flags & SP_PUT_NEW_ONLY) != 0 && there)
        return SP_E_PRECONDITION_FAILED;
    return sp_terms_check(&p->terms, w, p->path, p->path_len, there, &st);
}

/* Names the file `name`, which must not exist. 0 or -errno. */
static int link_as(const struct sp_put *p, const char *name)
{
    if (p->temp[0] != '\0') { /* it has a name already: a second one; drop removes the first */
        return linkat(p->parent, p->temp, p->parent, name, 0) == 0 ? 0 : -errno;
    }
    /* By the descriptor itself since Linux 6.10 and where we may; else through /proc. */
    if (linkat(p->file, "", p->parent, name, AT_EMPTY_PATH) == 0)
        return 0;
    if (errno == EEXIST || errno == ENOSPC || errno == EDQUOT)
        return -errno;
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", p->file);
    return linkat(AT_FDCWD, self, p->parent, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : -errno;
}

/* File systems without hard links (FAT, some network ones) can rename, which is all that a new name
 * without NEW_ONLY needs. */
static bool no_links(int err)
{
    return err == -EPERM || err == -EOPNOTSUPP || err == -EMLINK || err == -ENOSYS;
}

static int give_temp_name(struct sp_put *p)
{
    char temp[sizeof p->temp];
    int err = p->temp[0] != '\0' ? 0 : -EEXIST;
    for (int i = 0; i < TRIES && err == -EEXIST; i++) {
        err = sp_put_temp_name(temp);
        if (err == 0)
            err = link_as(p, temp);
        if (err == 0)
            memcpy(p->temp, temp, sizeof temp);
    }
    return err;
}

static int replace(struct sp_put *p)
{
    int err = give_temp_name(p);
    if (err == 0 && p->replaced < 0) /* only faster */
        p->replaced = openat(p->parent, p->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (err == 0 && renameat(p->parent, p->temp, p->parent, p->name) != 0)
        err = -errno;
    if (err == 0)
        p->temp[0] = '\0';
    return err;
}

static int rename_new(struct sp_put *p)
{
    if (renameat2(p->parent, p->temp, p->parent, p->name, RENAME_NOREPLACE) != 0)
        return -errno;
    p->temp[0] = '\0';
    return 0;
}

/* One go, with the target looked at afresh. -EAGAIN: it appeared or went meanwhile. */
static int place(const struct sp_workspace *w, struct sp_put *p, enum sp_err *e, bool *created)
{
    mode_t mode = 0;
    *e = sp_put_check(w, p, &mode);
    if (*e != SP_OK)
        return 0;
    *created = mode == 0;
    if (fchmod(p->file, S_ISREG(mode) ? mode & 0777u : 0644u) != 0)
        return -errno;
    if (mode != 0)
        return replace(p);
    int err = p->temp[0] != '\0' ? rename_new(p) : link_as(p, p->name);
    if (err == -EINVAL || (p->temp[0] != '\0' && no_links(err)))
        err = link_as(p, p->name); /* no RENAME_NOREPLACE here */
    if (p->temp[0] != '\0' && no_links(err) && (p->flags & SP_PUT_NEW_ONLY) == 0)
        err = replace(p);
    return err == -EEXIST ? -EAGAIN : err;
}

/* Of its path: as many folders and one file may be new. */
static uint64_t components(const struct sp_put *p)
{
    uint64_t n = 1;
    for (size_t i = 0; i < p->path_len; i++)
        n += p->path[i] == '/';
    return n;
}

enum sp_err sp_put_commit(const struct sp_workspace *w, struct sp_put *p, uint64_t size,
                          struct sp_result *r)
{
    struct stat st;
    enum sp_err e = SP_OK;
    bool created = false;
    int err = -EAGAIN;
    if (size != p->received) {
        sp_put_drop(p);
        return SP_E_INTERNAL;
    }
    sp_turn_take();
    for (int i = 0; i < TRIES && err == -EAGAIN; i++)
        err = place(w, p, &e, &created);
    if (err == 0 && e == SP_OK)
        sp_put_unname(p); /* before the look: a name less changes the tag */
    if (err == 0 && e == SP_OK && fstat(p->file, &st) != 0) /* it is placed: no failure any more */
        st = (struct stat){.st_size = (off_t)size};         /* a tag that fits no file's state */
    sp_turn_end();
    if (err == 0 && e == SP_OK) {
        sp_quota_keep(p->quota, p->taken, (uint64_t)st.st_blocks * 512u, components(p));
        p->taken = 0;
    }
    sp_put_drop(p);
    if (e != SP_OK)
        return e;
    switch (-err) {
    case 0:
        r->flags = created ? SP_DONE_CREATED : 0;
        sp_file_stat(r, &st);
        return SP_OK;
    case EISDIR: /* became a folder after the last look */
    case ENOTEMPTY:
        return SP_E_IS_A_DIRECTORY;
    case EFBIG:
        return SP_E_NO_SPACE;
    case ENOENT: /* the folder was removed under the upload */
    default:
        return sp_err_from_errno(-err);
    }
}
