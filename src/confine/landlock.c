/* landlock.c: the rule sets of the roles, by raw system calls. Trusts the embedded text and main's
 * settings. Whatever the kernel's version can't do is left out, downwards to ABI 1; the
 * plan decides whether that is enough. */
#include "landlock.h"
#include "sanitize.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What can be granted on a file that is no folder; more is refused by the kernel. */
#define ON_FILE                                                                                    \
    (SP_LL_EXECUTE | SP_LL_WRITE_FILE | SP_LL_READ_FILE | SP_LL_TRUNCATE | SP_LL_IOCTL_DEV)

struct set {
    int fd;
    uint64_t handled; /* file rights */
};

int sp_landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, SP_LL_CREATE_VERSION);
    if (abi < 0)
        return 0;
    return abi > SP_LL_ABI_MAX ? SP_LL_ABI_MAX : (int)abi;
}

static uint64_t fs_rights(int abi)
{
    uint64_t r = SP_LL_REFER - 1; /* all of ABI 1 */
    if (abi >= 2)
        r |= SP_LL_REFER;
    if (abi >= 3)
        r |= SP_LL_TRUNCATE;
    if (abi >= 5)
        r |= SP_LL_IOCTL_DEV;
    return r;
}

/* tcp: whether TCP is taken away, too. */
static int set_open(struct set *s, int abi, bool tcp)
{
    int have = sp_landlock_abi();
    if (abi > have)
        abi = have;
    if (abi < 1)
        return -EOPNOTSUPP;
    struct sp_ll_attr a = {.fs = fs_rights(abi)};
    if (tcp && abi >= 4)
        a.net = SP_LL_BIND_TCP | SP_LL_CONNECT_TCP;
    if (abi >= 6)
        a.scoped = SP_LL_SCOPE_ABSTRACT_UNIX | SP_LL_SCOPE_SIGNAL;
    /* An older kernel takes the longer struct while the part that it doesn't know is zero. The
     * descriptor is close-on-exec from birth. */
    long fd = syscall(SYS_landlock_create_ruleset, &a, sizeof a, 0);
    if (fd < 0)
        return -errno;
    s->fd = (int)fd;
    s->handled = a.fs;
    return 0;
}

static int set_allow(const struct set *s, int fd, uint64_t rights)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    struct sp_ll_beneath b = {.allowed = rights & s->handled, .fd = fd};
    if (!S_ISDIR(st.st_mode))
        b.allowed &= ON_FILE;
    if (b.allowed == 0)
        return 0;
    if (syscall(SYS_landlock_add_rule, s->fd, SP_LL_RULE_PATH_BENEATH, &b, 0) != 0)
        return -errno;
    return 0;
}

/* A path that isn't there, or isn't to be reached, grants nothing. */
static int set_allow_path(const struct set *s, const char *path, uint64_t rights)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP ? 0
                                                                                        : -errno;
    int r = set_allow(s, fd, rights);
    close(fd);
    return r;
}

/* Restricts the calling thread if all went well so far, and closes the set. */
static int set_enforce(struct set *s, int r)
{
    if (r == 0 && syscall(SYS_landlock_restrict_self, s->fd, 0) != 0)
        r = -errno;
    close(s->fd);
    sp_sanitizer_confined();
    return r;
}

static int allow_workspace(const struct set *s, const char *path, int fd, uint64_t rights)
{
    if (fd >= 0)
        return set_allow(s, fd, rights);
    fd = path == NULL ? -1 : open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return path == NULL ? -EBADF : -errno;
    int r = set_allow(s, fd, rights);
    close(fd);
    return r;
}

/* The workspace's line is for later: see sp_landlock_cell. */
static int allow_line(void *arg, enum sp_path_word word, const char *path)
{
    return path == NULL ? 0 : set_allow_path(arg, path, sp_landlock_rights(word));
}

int sp_landlock_front(int abi)
{
    struct set s = {.fd = -1};
    int r = set_open(&s, abi, true);
    return r == 0 ? set_enforce(&s, 0) : r;
}

/* Of the cell and its commands: made once, as a set may be put on twice. */
static struct {
    struct set set;
    bool whole; /* with the workspace, and on the caller */
} shared = {.set = {.fd = -1}};

static void shared_drop(void)
{
    if (shared.set.fd >= 0)
        close(shared.set.fd);
    shared.set.fd = -1;
    shared.whole = false;
}

int sp_landlock_cell_begin(int abi, const char *shell, const char *added, bool own_root)
{
    struct set *s = &shared.set;
    shared_drop();
    int r = set_open(s, abi, false);
    if (r != 0)
        return r;
    r = sp_landlock_each(added, allow_line, s);
    if (r == 0 && shell != NULL)
        r = set_allow_path(s, shell, SP_LL_EXEC);
    if (r == 0 && own_root) /* to list: nothing is in it that isn't theirs to know */
        r = set_allow_path(s, "/", SP_LL_READ_DIR);
    if (r != 0)
        shared_drop();
    return r;
}

int sp_landlock_cell(int abi, const char *workspace, int workspace_fd, const char *shell,
                     const char *added, bool own_root)
{
    int r = 0;
    if (shared.set.fd < 0 || shared.whole)
        r = sp_landlock_cell_begin(abi, shell, added, own_root);
    if (r == 0)
        r = allow_workspace(&shared.set, workspace, workspace_fd,
                            sp_landlock_rights(SP_PATH_WORKSPACE));
    if (r == 0 && syscall(SYS_landlock_restrict_self, shared.set.fd, 0) != 0)
        r = -errno;
    sp_sanitizer_confined();
    if (r == 0)
        shared.whole = true;
    else
        shared_drop();
    return r;
}

/* The same rules as a second, inner domain: what is in it may signal only what is in it. */
int sp_landlock_command(int abi, const char *workspace, int workspace_fd, const char *shell,
                        const char *added, bool own_root)
{
    if (!shared.whole) {
        int r = sp_landlock_cell(abi, workspace, workspace_fd, shell, added, own_root);
        shared_drop();
        return r;
    }
    struct set last = shared.set;
    shared.set.fd = -1;
    shared.whole = false;
    return set_enforce(&last, 0);
}

int sp_landlock_registry(int abi, const char *folder)
{
    struct set s = {.fd = -1};
    int r = set_open(&s, abi, true);
    if (r != 0)
        return r;
    uint64_t rights =
        SP_LL_READ | SP_LL_WRITE_FILE | SP_LL_TRUNCATE | SP_LL_MAKE_REG | SP_LL_REMOVE_FILE;
    return set_enforce(&s, set_allow_path(&s, folder, rights));
}

int sp_landlock_files(int abi, int workspace_fd)
{
    struct set s = {.fd = -1};
    int r = set_open(&s, abi, true);
    if (r != 0)
        return r;
    /* What the file operations do, and no more: no execution, no links or special files to make. */
    uint64_t rights = SP_LL_READ | SP_LL_WRITE_FILE | SP_LL_TRUNCATE | SP_LL_REFER |
                      SP_LL_MAKE_REG | SP_LL_MAKE_DIR | SP_LL_REMOVE_FILE | SP_LL_REMOVE_DIR;
    return set_enforce(&s, set_allow(&s, workspace_fd, rights));
}

int sp_landlock_reader(int abi, int workspace_fd)
{
    struct set s = {.fd = -1};
    int r = set_open(&s, abi, true);
    return r == 0 ? set_enforce(&s, set_allow(&s, workspace_fd, SP_LL_READ)) : r;
}
