/* remove.c: DELETE. The thing itself is removed, never what a link points to; a folder's tree goes
 * only when asked for, and never across a mount.
 *
 * A running command may fill the tree while it is emptied. Each folder that turns out not to be
 * empty after all is gone through again, a bounded number of times for the whole request. */
#include "cell/descend.h"
#include "cell/files.h"
#include "cell/resolve.h"
#include "cell/terms.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define AGAIN_MAX 256

static int unlink_at(int dir, const char *name, int flags)
{
    return unlinkat(dir, name, flags) == 0 ? 0 : -errno;
}

/* Removes an entry of the current folder, or enters it. 0 or -errno. */
static int one_entry(struct sp_descend *d, const struct sp_entry *e)
{
    char name[NAME_MAX + 1];
    int err = -EISDIR;
    /* Some times: it may turn from a file to a folder or back while we look. */
    for (int i = 0; i < 4; i++) {
        if (e->type != DT_DIR || i > 0)
            err = unlink_at(sp_descend_fd(d), e->name, 0);
        if (err != -EISDIR)
            return err == -ENOENT ? 0 : err;
        strncpy(name, e->name, NAME_MAX); /* e's buffer may be freed while going down */
        name[NAME_MAX] = '\0';
        err = sp_descend_push(d, -1, name, SP_CLOSED_OPENED);
        if (err != -ENOTDIR)
            return err == -ENOENT ? 0 : err;
    }
    return err;
}

/* Leaves the current folder and removes it; enters it again if something is in it. */
static int close_folder(struct sp_descend *d, int parent, unsigned *again)
{
    char name[NAME_MAX + 1];
    int err = sp_descend_pop(d, name);
    if (err != 0)
        return err;
    err = unlink_at(d->depth > 0 ? sp_descend_fd(d) : parent, name, AT_REMOVEDIR);
    if (err == -ENOENT || err == 0)
        return 0;
    if ((err == -ENOTEMPTY || err == -EEXIST) && ++*again <= AGAIN_MAX)
        return sp_descend_push(d, parent, name, SP_CLOSED_OPENED);
    return err;
}

static int remove_tree(int parent, const char *name)
{
    struct sp_descend d;
    struct sp_entry e;
    unsigned again = 0;
    sp_descend_init(&d);
    int err = sp_descend_push(&d, parent, name, SP_CLOSED_OPENED);
    while (err == 0 && d.depth > 0) {
        int got = sp_descend_next(&d, &e);
        if (got < 0)
            err = got;
        else if (got == 0)
            err = close_folder(&d, parent, &again);
        else
            err = one_entry(&d, &e);
    }
    sp_descend_free(&d);
    return err;
}

static enum sp_err code(int err)
{
    switch (-err) {
    case 0:
        return SP_OK;
    case EXDEV:   /* another file system: not entered */
    case ESTALE:  /* moved while we were in it */
    case EISDIR:  /* keeps changing its type */
    case ENOTDIR: /* the same, of a folder */
        return SP_E_NOT_EMPTY;
    default:
        return sp_err_from_errno(-err);
    }
}

/* Removes a folder only, by rmdir, which never takes anything else. */
static int remove_folder(int parent, const char *name, uint8_t flags)
{
    int err = unlink_at(parent, name, AT_REMOVEDIR);
    if ((err == -ENOTEMPTY || err == -EEXIST) && (flags & SP_DELETE_RECURSIVE) != 0)
        err = remove_tree(parent, name);
    return err;
}

/* The first try, where there are conditions: nobody else who looks first comes between the look and
 * it. A folder with content stays for now. */
static enum sp_err if_it_holds(const struct sp_workspace *w, const char *path, size_t n,
                               uint8_t flags, const struct sp_terms *t, int parent,
                               const char *name, int *err)
{
    struct stat st;
    enum sp_err e = SP_OK;
    bool folder = false, want_folder = (flags & SP_DELETE_MUST_DIR) != 0;
    *err = 0;
    sp_turn_take();
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        *err = -errno;
    else
        folder = S_ISDIR(st.st_mode);
    if (*err == 0 && want_folder && !folder)
        *err = -ENOTDIR;
    if (*err == 0) /* what would fail without them fails as it would */
        e = sp_terms_check(t, w, path, n, true, &st);
    if (*err == 0 && e == SP_OK)
        *err = unlink_at(parent, name, folder ? AT_REMOVEDIR : 0);
    sp_turn_end();
    return e;
}

static int remove_any(int parent, const char *name, uint8_t flags)
{
    int err = -EISDIR;
    if ((flags & SP_DELETE_MUST_DIR) != 0)
        return remove_folder(parent, name, flags);
    for (int i = 0; i < 4 && (err == -EISDIR || err == -ENOTDIR); i++) {
        err = unlink_at(parent, name, 0);
        if (err == -EISDIR)
            err = remove_folder(parent, name, flags);
    }
    return err;
}

enum sp_err sp_file_delete(const struct sp_workspace *w, const char *path, size_t n, uint8_t flags,
                           const struct sp_terms *t)
{
    char name[SP_RESOLVE_NAME];
    if (n == 0)
        return SP_E_BAD_PATH;
    int parent = sp_resolve_parent(w->root, path, n, false, w->use_openat2, name);
    if (parent < 0)
        return parent == -EINVAL ? SP_E_BAD_PATH : sp_err_from_errno(-parent);
    enum sp_err e = SP_OK;
    int err = 0;
    if (t == NULL)
        err = remove_any(parent, name, flags);
    else
        e = if_it_holds(w, path, n, flags, t, parent, name, &err);
    if (e == SP_OK && t != NULL && (err == -ENOTEMPTY || err == -EEXIST))
        err = remove_folder(parent, name, flags);
    close(parent);
    if (e == SP_OK && err == -ENOTDIR && (flags & SP_DELETE_MUST_DIR) != 0)
        return SP_E_NOT_A_DIRECTORY;
    return e != SP_OK ? e : code(err);
}
