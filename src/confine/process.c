/* process.c: what a role gives up of itself: privileges, ids, capabilities, resources. Trusts
 * the settings that main wrote; believes the kernel only after reading back what it did. */
#include "sallyport/confine.h"
#include "sanitize.h"

#include <cap-ng.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef SP_SANITIZE
static atomic_int confined;
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return confined;
}

void sp_sanitizer_confined(void)
{
    confined = 1;
}
#endif

static int lower(int what, uint64_t want)
{
    struct rlimit now;
    if (getrlimit((__rlimit_resource_t)what, &now) != 0)
        return -errno;
    rlim_t to = now.rlim_max != RLIM_INFINITY && now.rlim_max < want ? now.rlim_max : want;
    struct rlimit then = {.rlim_cur = to, .rlim_max = to};
    return setrlimit((__rlimit_resource_t)what, &then) == 0 ? 0 : -errno;
}

int sp_confine_basics(bool die_with_parent)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return -errno;
    if (die_with_parent && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
        return -errno;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1 || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
        return -EPERM;
    umask(022);
    sp_sanitizer_confined();
    return lower(RLIMIT_CORE, 0);
}

int sp_confine_reaper(void)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
        return 0;
    return errno == EINVAL ? 1 : -errno;
}

static bool kept(const int *keep, int n, unsigned cap)
{
    for (int i = 0; i < n; i++)
        if (keep[i] >= 0 && (unsigned)keep[i] == cap)
            return true;
    return false;
}

struct cap_sets {
    uint64_t effective, permitted, inheritable;
};

/* By the call itself: libcap-ng reads /proc/self/status besides, each time. */
static int read_caps(struct cap_sets *c)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2] = {0}; /* valgrind knows of the kernel's first one alone */
    if (syscall(SYS_capget, &head, d) != 0)
        return -errno;
    c->effective = (uint64_t)d[1].effective << 32 | d[0].effective;
    c->permitted = (uint64_t)d[1].permitted << 32 | d[0].permitted;
    c->inheritable = (uint64_t)d[1].inheritable << 32 | d[0].inheritable;
    return 0;
}

/* Reads the kernel's sets and compares. The bounding set can only be lowered with CAP_SETPCAP;
 * without it, it does nothing once no_new_privs is set, as then no exec gains a capability. */
static int verify_caps(const int *keep, int n)
{
    bool nnp = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    struct cap_sets have = {0};
    int r = read_caps(&have);
    if (r != 0)
        return r;
    for (unsigned cap = 0; cap < 64; cap++) {
        bool ok = kept(keep, n, cap);
        if (!ok && ((have.effective | have.permitted | have.inheritable) >> cap & 1) != 0)
            return -EPERM;
        if (!ok && !nnp && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1) /* -1: past the last */
            return -EPERM;
        /* The kernel holds none that isn't permitted and inheritable. */
        if (ok && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, cap, 0, 0) == 1)
            return -EPERM;
    }
    return 0;
}

/* By hand: libcap-ng stops at the last capability that it was built with, a newer kernel has more.
 */
static int drop_bounding(void)
{
    for (unsigned cap = 0; cap < 64; cap++) {
        int bound = prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
        if (bound < 0)
            return 0;
        if (bound == 1 && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0)
            return -errno;
    }
    return 0;
}

static int set_caps(const bool may[64], bool setpcap)
{
    capng_clear(CAPNG_SELECT_CAPS);
    for (unsigned cap = 0; cap < 64; cap++)
        if (may[cap] &&
            capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED | CAPNG_INHERITABLE, cap) !=
                0)
            return -EINVAL;
    if (setpcap && capng_update(CAPNG_ADD, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_SETPCAP) != 0)
        return -EINVAL;
    return capng_apply(CAPNG_SELECT_CAPS) == 0 ? 0 : -EPERM;
}

/* EINVAL: a kernel without ambient capabilities (gVisor), so none is set. */
static int clear_ambient(void)
{
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL)
        return -errno;
    return 0;
}

int sp_confine_caps(const int *keep, int n)
{
    if (n < 0 || (n > 0 && keep == NULL))
        return -EINVAL;
    struct cap_sets have = {0};
    int r = read_caps(&have);
    if (r != 0)
        return r;
    bool may[64], setpcap = (have.effective >> CAP_SETPCAP & 1) != 0;
    for (unsigned cap = 0; cap < 64; cap++)
        may[cap] = kept(keep, n, cap) && cap <= CAP_LAST_CAP && (have.permitted >> cap & 1) != 0;
    r = clear_ambient();
    if (r != 0)
        return r;
    /* What is kept becomes inheritable while the bounding set still allows that; then the bounding
     * set goes, whole: a child of user id 0 has after exec what it inherits, and nothing else. */
    r = set_caps(may, setpcap);
    if (r == 0 && setpcap)
        r = drop_bounding();
    if (r == 0)
        r = set_caps(may, false);
    return r == 0 ? verify_caps(keep, n) : r;
}

int sp_caps_to_keep(const struct sp_config *c, int keep[SP_KEEP_MAX])
{
    int n = 0;
    if (c->switch_uid) {
        keep[n++] = CAP_SETUID;
        keep[n++] = CAP_SETGID;
        keep[n++] = CAP_KILL;
        if (c->mode == SP_MODE_BOX)
            keep[n++] = CAP_CHOWN; /* new folders are given to their users */
    }
    /* A user namespace gives its own. */
    if (!c->user_ns && (c->cell_ns != 0 || c->front_ns != 0))
        keep[n++] = CAP_SYS_ADMIN;
    if (!c->user_ns && c->net_none && c->cell_ns != 0)
        keep[n++] = CAP_NET_ADMIN; /* the loopback device is brought up with it */
    return n;
}

/* True if none of the old ids can be taken again. */
static bool no_way_back(uid_t uid, gid_t gid)
{
    uid_t r, e, s;
    gid_t gr, ge, gs;
    if (getresuid(&r, &e, &s) != 0 || getresgid(&gr, &ge, &gs) != 0)
        return false;
    if (r != uid || e != uid || s != uid || gr != gid || ge != gid || gs != gid)
        return false;
    if (getgroups(0, NULL) != 0)
        return false;
    if (uid != 0 && (setuid(0) == 0 || seteuid(0) == 0))
        return false;
    if (gid != 0 && (setgid(0) == 0 || setegid(0) == 0))
        return false;
    return true;
}

/* The kernel sets dumpable to what fs.suid_dumpable says: 1 would open us to all of that user's
 * until it is 0 again. Capabilities, kept so long, shut it: who traces us must have them too. */
static int take_uid(uid_t uid)
{
    (void)prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    if (setresuid(uid, uid, uid) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        return -errno;
    (void)prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0);
    return 0;
}

int sp_confine_ids(uid_t uid, gid_t gid)
{
    int death = 0; /* the kernel clears it when ids change */
    if (prctl(PR_GET_PDEATHSIG, &death, 0, 0, 0) != 0)
        return -errno;
    if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0)
        return -errno;
    int r = take_uid(uid);
    if (r != 0)
        return r;
    capng_clear(CAPNG_SELECT_CAPS);
    r = clear_ambient();
    if (r != 0)
        return r;
    if (capng_apply(CAPNG_SELECT_CAPS) != 0 || !no_way_back(uid, gid))
        return -EPERM;
    struct cap_sets left = {0};
    r = read_caps(&left);
    if (r != 0 || (left.effective | left.permitted | left.inheritable) != 0)
        return r != 0 ? r : -EPERM;
    if (death != 0 && prctl(PR_SET_PDEATHSIG, death, 0, 0, 0) != 0)
        return -errno;
    return 0;
}

/* Memory is RLIMIT_DATA, not RLIMIT_AS: since Linux 4.7 it counts all private writable memory, but
 * not the address space that Go, Java and V8 reserve by the hundred GiB and never touch. Only makes
 * getrlimit and setrlimit calls: fit for between clone and exec. */
int sp_confine_limits(const struct sp_config *c)
{
    const struct {
        int what;
        uint64_t to;
    } set[] = {
        {RLIMIT_NPROC, c->limit_procs},       {RLIMIT_DATA, c->limit_memory},
        {RLIMIT_CPU, c->limit_cpu_s},         {RLIMIT_FSIZE, c->limit_file_bytes},
        {RLIMIT_NOFILE, c->limit_open_files},
    };
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) {
        int r = set[i].to == 0 ? 0 : lower(set[i].what, set[i].to);
        if (r != 0)
            return r;
    }
    return lower(RLIMIT_CORE, 0);
}
