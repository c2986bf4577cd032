/* launch.c: starts one role of the daemon from another, in namespaces of its own where asked.
 *
 * A role is a fresh exec of this very binary, found through a descriptor opened at start. Between
 * clone(CLONE_VM) and exec only raw system calls are made: the child runs in our memory. Trusts its
 * caller.
 *
 * With a user namespace there are two clones. The first child takes the ids, the second is born in
 * the namespaces that these ids then own, as a sibling (CLONE_PARENT): whoever called has one
 * child, the role. It keeps the namespace's capabilities over exec by the ambient set, as a user id
 * that isn't mapped yet has none otherwise; the role writes its maps itself (sp_userns_settle),
 * since ours can't be written while we aren't dumpable.
 *
 * Started by another user than root with capabilities (as a service manager does it), main's and
 * the broker's children keep them in the same way, until each gives up what it doesn't need. */
#include "sallyport/role.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARK_ABOVE 64 /* descriptors wait here while their places are still taken */
#define STACK_SIZE (64u << 10)
#define NO_SANITIZE __attribute__((no_sanitize("address", "undefined")))

static const struct sp_role_ns no_ns;

struct launch {
    const struct sp_fdmap *map;
    int n;
    int null_fd, binary;
    char *const *argv;
    char *const *envp;
    const struct sp_role_ns *ns;
    bool keep; /* capabilities */
    char *inner_stack;
    /* Written by the children: we share memory. */
    pid_t inner;
    int err;
};

/* Places every descriptor. First all are parked high, so that no move clobbers a source. */
static int place(const struct launch *l, int *exec_fd)
{
    int parked[SP_FDMAP_MAX];
    int null_fd = fcntl(l->null_fd, F_DUPFD_CLOEXEC, PARK_ABOVE);
    *exec_fd = fcntl(l->binary, F_DUPFD_CLOEXEC, PARK_ABOVE);
    if (null_fd < 0 || *exec_fd < 0)
        return errno;
    for (int i = 0; i < l->n; i++) {
        parked[i] = fcntl(l->map[i].from, F_DUPFD_CLOEXEC, PARK_ABOVE);
        if (parked[i] < 0)
            return errno;
    }
    /* Not ~0: gVisor takes the numbers for signed, as descriptors are. */
    if (syscall(SYS_close_range, 3, INT_MAX, CLOSE_RANGE_CLOEXEC) != 0)
        return errno;
    if (dup2(null_fd, STDIN_FILENO) < 0)
        return errno;
    for (int i = 0; i < l->n; i++)
        if (dup2(parked[i], l->map[i].to) < 0)
            return errno;
    return 0;
}

/* Over exec, all that there is: where exec knows no root (in a new user namespace, or because we
 * aren't root) there is no other way. */
NO_SANITIZE static int keep_caps(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    if (syscall(SYS_capget, &head, data) != 0)
        return errno;
    for (int i = 0; i < 2; i++)
        data[i].inheritable = data[i].permitted;
    if ((data[0].permitted | data[1].permitted) == 0)
        return 0;
    if (syscall(SYS_capset, &head, data) != 0)
        return errno;
    for (unsigned cap = 0; cap < 64; cap++) {
        uint32_t bit = UINT32_C(1) << (cap % 32);
        if ((data[cap / 32].permitted & bit) != 0 &&
            prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) != 0)
            return errno;
    }
    return 0;
}

/* Runs in the child, on its own stack but in our memory. Returns only after a failure. */
NO_SANITIZE static int child(void *arg)
{
    struct launch *l = arg;
    int exec_fd = -1;
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig < NSIG; sig++)
        (void)sigaction(sig, &dfl, NULL); /* KILL, STOP and libc's own two refuse */
    setsid();                             /* ^C and a terminal's ioctls stay with main */
    l->err = l->keep ? keep_caps() : 0;
    if (l->err == 0)
        l->err = place(l, &exec_fd);
    if (l->err == 0) {
        sigset_t none;
        sigemptyset(&none);
        (void)sigprocmask(SIG_SETMASK, &none, NULL);
        (void)syscall(SYS_execveat, exec_fd, "", l->argv, l->envp, AT_EMPTY_PATH);
        l->err = errno;
    }
    _exit(127);
}

/* By raw calls: libc's would act on what it takes for our other threads. The memory is our
 * parent's, and fs.suid_dumpable=1 opens it to all of the new user's: it is shut at once, and in
 * the instant between by our capabilities, as who traces us must have them too. */
NO_SANITIZE static int take_ids(const struct sp_role_ns *ns)
{
    if (!ns->switch_ids)
        return 0;
    (void)prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    if (syscall(SYS_setgroups, 0, NULL) != 0 ||
        syscall(SYS_setresgid, ns->gid, ns->gid, ns->gid) != 0 ||
        syscall(SYS_setresuid, ns->uid, ns->uid, ns->uid) != 0)
        return errno;
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : errno;
}

/* The child between: it ends as soon as the role runs. */
NO_SANITIZE static int outer(void *arg)
{
    struct launch *l = arg;
    l->err = take_ids(l->ns);
    if (l->err == 0) {
        l->inner = clone(
            child, l->inner_stack,
            CLONE_VM | CLONE_VFORK | CLONE_PARENT | CLONE_NEWUSER | l->ns->flags | SIGCHLD, l);
        if (l->inner < 0)
            l->err = errno;
    }
    _exit(0);
}

/* Nothing, but under a sanitizer its options: a role that can't find them would
 * report leaks of a kind that the tests turn off. */
static char **child_env(char *room[5])
{
    int n = 0;
#ifdef SP_SANITIZE
    static const char *const names[] = {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS",
                                        "TSAN_OPTIONS"};
    for (int i = 0; i < 4; i++) {
        const char *v = getenv(names[i]);
        char *pair = NULL;
        if (v != NULL && asprintf(&pair, "%s=%s", names[i], v) >= 0)
            room[n++] = pair;
    }
#endif
    room[n] = NULL;
    return room;
}

static void wait_for(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* What is cloned further inherits the cgroup. */
static pid_t first(struct launch *l, int (*fn)(void *), char *top, int flags)
{
    static const uint64_t no_token[2];
    if (l->ns->cgroup <= 0)
        return clone(fn, top, flags | SIGCHLD, l);
    pid_t pid = sp_cgroup_clone(l->ns->cgroup, (uint64_t)flags, fn, top - STACK_SIZE, STACK_SIZE, l,
                                no_token);
    if (pid < 0) {
        errno = -pid;
        return -1;
    }
    return pid;
}

static pid_t start(struct launch *l, char *top)
{
    l->inner_stack = top - STACK_SIZE;
    if (!l->ns->user)
        return first(l, child, top, CLONE_VM | CLONE_VFORK | l->ns->flags);
    pid_t pid = first(l, outer, top, CLONE_VM | CLONE_VFORK);
    if (pid < 0)
        return pid;
    wait_for(pid);
    if (l->inner > 0)
        return l->inner;
    errno = l->err != 0 ? l->err : ECHILD; /* none: it was killed before it got there */
    return -1;
}

static pid_t launch(struct launch *l)
{
    const size_t room = (size_t)STACK_SIZE * 2;
    char *stack =
        mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return -errno;
    /* A handler of ours must not run in the child while it shares our memory. */
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    int dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
    pid_t pid = start(l, stack + room);
    int err = errno;
    if (dumpable >= 0 && dumpable <= 1) /* the child's change of ids was one to our memory */
        (void)prctl(PR_SET_DUMPABLE, dumpable, 0, 0, 0);
    sigprocmask(SIG_SETMASK, &old, NULL);
    munmap(stack, room);
    if (pid < 0)
        return -err;
    if (l->err != 0) { /* it never became a role */
        wait_for(pid);
        return -l->err;
    }
    return pid;
}

pid_t sp_role_spawn_in(const char *role, const struct sp_fdmap *map, int n,
                       const struct sp_role_ns *ns)
{
    char name[] = "sallyport", option[32];
    char *argv[] = {name, option, NULL}, *env_room[5];
    int len = snprintf(option, sizeof option, "--role=%s", role);
    if (len < 0 || (size_t)len >= sizeof option || n < 0 || n > SP_FDMAP_MAX)
        return -EINVAL;
    for (int i = 0; i < n; i++)
        if (map[i].from < 0 || map[i].to <= STDERR_FILENO || map[i].to >= PARK_ABOVE)
            return -EINVAL;
    int binary = sp_role_binary(role);
    if (binary < 0)
        return -EBADF;
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0)
        return -errno;
    struct launch l = {.map = map,
                       .n = n,
                       .null_fd = null_fd,
                       .binary = binary,
                       .argv = argv,
                       .ns = ns != NULL ? ns : &no_ns};
    l.keep = l.ns->user || geteuid() != 0;
    char **env = child_env(env_room);
    l.envp = env;
    pid_t pid = launch(&l);
    close(null_fd);
    for (int i = 0; env[i] != NULL; i++)
        free(env[i]);
    return pid;
}

pid_t sp_role_spawn(const char *role, const struct sp_fdmap *map, int n)
{
    return sp_role_spawn_in(role, map, n, NULL);
}
