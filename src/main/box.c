/* box.c: from the settings to a box that may be started: keys, folders, the lock on them.
 * Everything that can be refused is refused here. Trusts the operator, and root's folders. */
#include "main/box.h"

#include "sallyport/fsuser.h"
#include "sallyport/log.h"
#include "sallyport/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define STAND_IN "sallyport-check-XXXXXX"

#define KEY_MIN 16u
#define LOCK_ROUNDS 200 /* an earlier daemon's broker may still be ending what it had */
#define LOCK_NAP_MS 50

/* ---- keys ---- */

static int read_keys(const char *list, struct sp_config *c, char *err, size_t errlen)
{
    if (list == NULL) {
        (void)snprintf(err, errlen, "RUNBOX_API_KEY isn't set: the box serves nobody without one.");
        return -1;
    }
    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        for (size_t i = 0; i < n; i++)
            if (list[i] <= ' ' || list[i] > '~') {
                (void)snprintf(err, errlen,
                               "RUNBOX_API_KEY holds a blank, or what isn't visible ASCII.");
                return -1;
            }
        if (n < KEY_MIN || c->nkeys == SP_API_KEYS_MAX) {
            (void)snprintf(err, errlen,
                           n < KEY_MIN ? "RUNBOX_API_KEY has a key of less than %u characters."
                                       : "RUNBOX_API_KEY has more than %u keys.",
                           n < KEY_MIN ? KEY_MIN : (unsigned)SP_API_KEYS_MAX);
            return -1;
        }
        struct sp_sha256 h;
        sp_sha256_init(&h);
        sp_sha256_add(&h, list, n);
        sp_sha256_end(&h, c->api_key[c->nkeys++]);
        list += n;
        if (*list == ',' && *++list == '\0') {
            (void)snprintf(err, errlen, "RUNBOX_API_KEY ends in a comma.");
            return -1;
        }
    }
    return 0;
}

/* ---- folders ---- */

static int refuse(const char *path, const char *why, char *err, size_t errlen)
{
    (void)snprintf(err, errlen, "RUNBOX_ROOT: %.200s%s%s.", path, why[0] == ':' ? "" : " ", why);
    return -1;
}

static int refuse_errno(const char *path, char *err, size_t errlen)
{
    char why[200];
    (void)snprintf(why, sizeof why, ": %s", strerror(errno));
    return refuse(path, why, err, errlen);
}

/* Where a folder that is missing would be made; the longest way up there is none but "/". */
static void parent_of(char *path)
{
    char *slash = strrchr(path, '/');
    while (slash > path && slash[1] == '\0') { /* at the end it means nothing */
        *slash = '\0';
        slash = strrchr(path, '/');
    }
    slash[slash == path ? 1 : 0] = '\0';
}

/* A look at a root that isn't there: could it be made? root: its name all the same. */
static int judge_missing(const char *path, char root[PATH_MAX], char *err, size_t errlen)
{
    char parent[PATH_MAX];
    if (snprintf(root, PATH_MAX, "%s", path) >= PATH_MAX)
        return refuse(path, "is too long a path", err, errlen);
    memcpy(parent, root, PATH_MAX);
    parent_of(parent);
    return faccessat(AT_FDCWD, parent, W_OK, AT_EACCESS) == 0 ? 0 : refuse_errno(path, err, errlen);
}

static int find_root(const struct settings *s, bool look, char root[PATH_MAX], char *err,
                     size_t errlen)
{
    struct stat st;
    if (s->root[0] != '/')
        return refuse(s->root, "isn't an absolute path", err, errlen);
    if (look && stat(s->root, &st) != 0 && errno == ENOENT)
        return judge_missing(s->root, root, err, errlen);
    bool made = !look && mkdir(s->root, 0711) == 0;
    if (!look && !made && errno != EEXIST)
        return refuse_errno(s->root, err, errlen);
    if (made && chmod(s->root, 0711) != 0) /* whatever our umask is */
        return refuse_errno(s->root, err, errlen);
    if (realpath(s->root, root) == NULL || stat(root, &st) != 0)
        return refuse_errno(s->root, err, errlen);
    if (!S_ISDIR(st.st_mode) || strcmp(root, "/") == 0)
        return refuse(s->root, "isn't a folder for that", err, errlen);
    return 0;
}

/* Makes or checks one of the two folders below the root, the registry's or ours, or with look only
 * checks it; the descriptor, -1, or with look -ENOENT where it is still to be made. What root has
 * of an earlier start becomes theirs. */
static int folder(const char *path, mode_t mode, uid_t uid, gid_t gid, bool look, char *err,
                  size_t errlen)
{
    struct stat st;
    if (look && lstat(path, &st) != 0 && errno == ENOENT)
        return -ENOENT;
    if (!look && mkdir(path, mode) != 0 && errno != EEXIST)
        return refuse_errno(path, err, errlen);
    int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return refuse_errno(path, err, errlen);
    if (fstat(fd, &st) != 0)
        (void)refuse_errno(path, err, errlen);
    else if (st.st_uid != uid && st.st_uid != 0 && st.st_uid != geteuid())
        (void)refuse(path, "belongs to a user that it shouldn't", err, errlen);
    else if (!look && (chown(path, uid, gid) != 0 || (uid == geteuid() && chmod(path, mode) != 0)))
        (void)refuse_errno(path, err, errlen);
    else if ((st.st_mode & 07777 & ~mode) != 0 && uid != geteuid())
        (void)refuse(path, "is open to others", err, errlen);
    else
        return fd;
    close(fd);
    return -1;
}

static bool is_empty(const char *path)
{
    DIR *d = opendir(path);
    const struct dirent *e = NULL;
    while (d != NULL && (e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            break;
    if (d != NULL)
        closedir(d);
    return e == NULL;
}

/* A table of ids that is gone while folders are there would give their ids to others. Its folder is
 * its owner's alone, and root without CAP_DAC_OVERRIDE can't look into it. */
static int check_table(const char *root, uid_t owner, char *err, size_t errlen)
{
    char path[PATH_MAX];
    struct stat st;
    (void)snprintf(path, sizeof path, "%.4000s/workspaces", root);
    if (is_empty(path))
        return 0;
    (void)snprintf(path, sizeof path, "%.4000s/state/" SP_REGISTRY_FILE, root);
    sp_fs_user(owner);
    bool gone = stat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR);
    sp_fs_user((uid_t)-1);
    return gone ? refuse(root, "has workspaces, but not the table of their user ids", err, errlen)
                : 0;
}

static int lock(int fd, const char *root, char *err, size_t errlen)
{
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return refuse_errno(root, err, errlen);
        if (i == LOCK_ROUNDS)
            return refuse(root, "is in use by another daemon", err, errlen);
        (void)poll(NULL, 0, LOCK_NAP_MS);
    }
    return 0;
}

static int name_folders(const struct settings *s, struct sp_config *c, bool look,
                        char root[PATH_MAX], char *err, size_t errlen)
{
    if (find_root(s, look, root, err, errlen) != 0 ||
        check_table(root, c->registry_uid, err, errlen) != 0)
        return -1;
    /* Their names get a slash and 64 digits more. */
    if (snprintf(c->workspace, sizeof c->workspace, "%.4000s/workspaces", root) > 3900 ||
        snprintf(c->state, sizeof c->state, "%.4000s/state", root) > 3900)
        return refuse(root, "is too long a path", err, errlen);
    return 0;
}

static int open_folders(const struct settings *s, struct sp_config *c, int *workspaces_fd,
                        char *err, size_t errlen)
{
    char root[PATH_MAX];
    if (name_folders(s, c, false, root, err, errlen) != 0)
        return -1;
    int state = folder(c->state, 0700, c->registry_uid, c->registry_gid, false, err, errlen);
    if (state < 0)
        return -1;
    close(state);
    int path = folder(c->workspace, 0711, geteuid(), getegid(), false, err, errlen);
    if (path < 0)
        return -1;
    close(path);
    *workspaces_fd = open(c->workspace, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*workspaces_fd < 0)
        return refuse_errno(c->workspace, err, errlen);
    /* The broker holds this descriptor, too: the lock goes when both are dead. */
    return lock(*workspaces_fd, root, err, errlen);
}

static int read_settings(const struct settings *s, struct sp_config *c, char *err, size_t errlen)
{
    c->mode = SP_MODE_BOX;
    c->max_running = (uint32_t)s->max_running; /* the table bounds these */
    c->queue_max = (uint32_t)s->queue;
    c->quota = s->quota;
    c->retention_ms = s->retention;
    c->sweep_interval_ms = s->sweep_interval;
    c->cell_idle_ms = s->cell_idle;
    c->spare_cells = (uint32_t)s->spare_cells; /* the table bounds it */
    c->log_json = s->log_json != 0;
    sp_log_as_json(c->log_json);
    return read_keys(s->api_key, c, err, errlen) != 0 ? -1 : box_choose_ids(s, c, err, errlen);
}

int box_prepare(const struct settings *s, struct sp_config *c, int *workspaces_fd, char *err,
                size_t errlen)
{
    if (read_settings(s, c, err, errlen) != 0 ||
        open_folders(s, c, workspaces_fd, err, errlen) != 0)
        return -1;
    return box_clear_pool(c, *workspaces_fd, false, err, errlen);
}

/* ---- a look ---- */

static char stand_in[sizeof STAND_IN + 16]; /* "": the folder of workspaces is there */
static char nominal[sizeof((struct sp_config *)0)->workspace];

/* The view is tried around a folder. */
static int make_stand_in(struct sp_config *c, char *err, size_t errlen)
{
    static const char *const at[] = {"/tmp", "/run", "/dev/shm"};
    bool made = false;
    for (int i = 0; !made && i < 3; i++) {
        (void)snprintf(stand_in, sizeof stand_in, "%s/" STAND_IN, at[i]);
        made = mkdtemp(stand_in) != NULL;
    }
    if (!made)
        stand_in[0] = '\0';
    if (!made || chmod(stand_in, 0711) != 0)
        return refuse(c->workspace, "isn't there, nor can a folder for a try be made in /tmp", err,
                      errlen);
    (void)snprintf(c->workspace, sizeof c->workspace, "%s", stand_in);
    return 0;
}

int box_look(const struct settings *s, struct sp_config *c, char *err, size_t errlen)
{
    char root[PATH_MAX];
    if (read_settings(s, c, err, errlen) != 0 || name_folders(s, c, true, root, err, errlen) != 0)
        return -1;
    memcpy(nominal, c->workspace, sizeof nominal);
    int state = folder(c->state, 0700, c->registry_uid, c->registry_gid, true, err, errlen);
    if (state >= 0)
        close(state);
    int path =
        state == -1 ? -1 : folder(c->workspace, 0711, geteuid(), getegid(), true, err, errlen);
    if (path == -1)
        return -1;
    if (path == -ENOENT)
        return make_stand_in(c, err, errlen);
    close(path);
    int fd = open(c->workspace, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return refuse_errno(c->workspace, err, errlen);
    int r = box_clear_pool(c, fd, true, err, errlen);
    close(fd);
    return r;
}

void box_look_at_way(struct sp_config *c)
{
    struct stat st;
    memcpy(c->workspace, nominal, sizeof nominal);
    while (stand_in[0] != '\0' && stat(c->workspace, &st) != 0 && strcmp(c->workspace, "/") != 0)
        parent_of(c->workspace);
}

void box_look_end(struct sp_config *c)
{
    if (stand_in[0] != '\0')
        (void)rmdir(stand_in);
    stand_in[0] = '\0';
    if (nominal[0] != '\0')
        memcpy(c->workspace, nominal, sizeof nominal);
}
