/* home.c: the folders of the box's workspaces. The folder that holds them is main's user's, and
 * nobody else can make a name in it: what stands there under an identity's name we made, at worst
 * halfway. Only names are touched here; what is in a workspace is its cell's. */
#include "broker/box.h"
#include "sallyport/fsuser.h"
#include "sallyport/log.h"
#include "sallyport/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* All of them, or NULL with errno. */
static DIR *homes(void)
{
    int fd = openat(SP_FD_EXTRA, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL && fd >= 0)
        close(fd);
    return d;
}

/* Whether the owner of a folder that is new has another one. The registry gives ids that were never
 * given, so it is older than the folders then: its file was lost, or came out of a backup without
 * them. Ids go up, so the folders need to be looked at once, and again only where the pool has come
 * to its end. 0 or -errno. */
static int is_first(const char *name, uid_t uid)
{
    static uid_t highest;
    static bool looked;
    if (looked && uid > highest) {
        highest = uid;
        return 0;
    }
    DIR *d = homes();
    if (d == NULL)
        return -errno;
    const struct dirent *e;
    struct stat st;
    int r = 0;
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.' || strcmp(e->d_name, name) == 0 ||
            fstatat(SP_FD_EXTRA, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        r = st.st_uid == uid ? -EPERM : r;
        highest = st.st_uid > highest ? st.st_uid : highest;
    }
    highest = uid > highest ? uid : highest;
    looked = true;
    closedir(d);
    if (r != 0)
        sp_log(SP_LOG_ERROR, "user id %u has a workspace that the registry doesn't know of", uid);
    return r;
}

/* Ours until its owner is set: a folder that still belongs to us was left halfway. */
static int make(const char *name, uid_t uid, mode_t *mode)
{
    struct stat st;
    bool made = mkdirat(SP_FD_EXTRA, name, 0700) == 0;
    if (!made && errno != EEXIST)
        return -errno;
    int r = made ? is_first(name, uid) : 0;
    if (r != 0) {
        (void)unlinkat(SP_FD_EXTRA, name, AT_REMOVEDIR);
        return r;
    }
    if (fstatat(SP_FD_EXTRA, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    *mode = st.st_mode & 07777;
    if (st.st_uid == uid)
        return 0;
    if (st.st_uid != geteuid() && st.st_uid != 0) /* root's: main ran as that then */
        return -EPERM; /* another identity's: the registry and the folder don't agree */
    if (fchownat(SP_FD_EXTRA, name, uid, uid, AT_SYMLINK_NOFOLLOW) != 0)
        return -errno;
    return 0;
}

int box_home_open(const struct box *x, const struct slot *s)
{
    char name[2 * SP_KEY_LEN + 1];
    uid_t uid = x->work[s - x->b->slot].uid;
    mode_t mode = 0;
    sp_hex(s->key, SP_KEY_LEN, name);
    int r = make(name, uid, &mode);
    if (r != 0)
        return r;
    /* With the owner's eyes: root without CAP_DAC_OVERRIDE can't look into it. And with the owner's
     * hands: a command may have shut its home to itself, which nobody could use or empty then. */
    sp_fs_user(uid);
    int fd = -1;
    if ((mode & 0700) == 0700 ||
        fchmodat(SP_FD_EXTRA, name, mode | 0700, 0) == 0) /* no link: only we make names there */
        fd = openat(SP_FD_EXTRA, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = fd < 0 ? -errno : fd;
    sp_fs_user((uid_t)-1);
    return r;
}

/* The name, in d, of a folder that belongs to the user and isn't called so; NULL: none. */
static const char *other_home(DIR *d, uid_t uid, const char *name)
{
    const struct dirent *e;
    struct stat st;
    while ((e = readdir(d)) != NULL)
        if (e->d_name[0] != '.' && strcmp(e->d_name, name) != 0 &&
            fstatat(SP_FD_EXTRA, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_uid == uid)
            return e->d_name;
    return NULL;
}

int box_home_claim(const struct box *x, const struct slot *s)
{
    char name[2 * SP_KEY_LEN + 1];
    sp_hex(s->key, SP_KEY_LEN, name);
    int r = 0;
    DIR *d = homes();
    if (d == NULL)
        return -errno;
    const char *other = other_home(d, x->work[s - x->b->slot].uid, name);
    if (other != NULL && renameat2(SP_FD_EXTRA, other, SP_FD_EXTRA, name, RENAME_NOREPLACE) != 0)
        r = -errno;
    closedir(d);
    return r;
}

int box_home_remove(const struct slot *s)
{
    char name[2 * SP_KEY_LEN + 1];
    sp_hex(s->key, SP_KEY_LEN, name);
    return unlinkat(SP_FD_EXTRA, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -errno;
}
