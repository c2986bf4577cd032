/* probe.c: see probe.h. A kernel that has a system call may still refuse it (a boot parameter, an
 * outer filter, a container): only having done it tells. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct args {
    int abi;
    uid_t uid;
    gid_t gid;
    pid_t parent;
};

/* Runs f in a child; its result as an errno is the exit status. */
static int in_child(int (*f)(const struct args *), struct args a)
{
    a.parent = getpid();
    pid_t pid = fork();
    if (pid < 0)
        return -errno;
    if (pid == 0) {
        int r = f(&a);
        _exit(r == 0 ? 0 : r < 0 && r > -126 ? -r : 126);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    if (!WIFEXITED(status))
        return -ESRCH;
    return -WEXITSTATUS(status);
}

static int no_new_privs(const struct args *a)
{
    (void)a;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -errno;
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ? 0 : -EPERM;
}

static int caps(const struct args *a)
{
    int r = no_new_privs(a);
    return r == 0 ? sp_confine_caps(NULL, 0) : r;
}

static int ids(const struct args *a)
{
    return sp_confine_ids(a->uid, a->gid);
}

/* A filter that does one thing to getppid, and nothing to any other call. */
static int filter_getppid(uint32_t action)
{
    struct sock_filter ins[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {sizeof ins / sizeof ins[0], ins};
    int r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : -errno;
    if (r == 0 && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) != 0)
        r = -errno;
    return r;
}

/* Ends by SIGSYS, where a filter may kill. */
static int dies_of_it(const struct args *a)
{
    (void)a;
    int r = filter_getppid(SECCOMP_RET_KILL_PROCESS);
    if (r == 0)
        (void)syscall(SYS_getppid);
    return r == 0 ? -ENOSYS : r;
}

static int seccomp_works(const struct args *a)
{
    uint32_t kill_process = SECCOMP_RET_KILL_PROCESS;
    /* gVisor filters, but can't be asked: EINVAL. (It ends the thread, not the process.) */
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kill_process) != 0 && errno != EINVAL)
        return -errno;
    int r = in_child(dies_of_it, *a);
    if (r != -ESRCH)
        return r == 0 ? -ENOSYS : r;
    r = filter_getppid(SECCOMP_RET_ERRNO | ENOTTY);
    if (r != 0)
        return r;
    return syscall(SYS_getppid) == -1 && errno == ENOTTY ? 0 : -ENOSYS;
}

static int landlock(const struct args *a)
{
    int r = no_new_privs(a);
    if (r == 0)
        r = sp_landlock_front(a->abi);
    if (r != 0)
        return r;
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 && errno == EACCES ? 0 : -EPERM;
}

static int signal_scope(const struct args *a)
{
    if (kill(a->parent, 0) != 0)
        return -errno;
    int r = landlock(a);
    if (r != 0)
        return r;
    return kill(a->parent, 0) != 0 && errno == EPERM ? 0 : -ENOSYS;
}

int sp_probe_no_new_privs(void)
{
    return in_child(no_new_privs, (struct args){0});
}

int sp_probe_caps(void)
{
    return in_child(caps, (struct args){0});
}

int sp_probe_ids(uid_t uid, gid_t gid)
{
    return in_child(ids, (struct args){.uid = uid, .gid = gid});
}

int sp_probe_seccomp(void)
{
    return in_child(seccomp_works, (struct args){0});
}

int sp_probe_landlock(int abi)
{
    return abi < 1 ? -ENOSYS : in_child(landlock, (struct args){.abi = abi});
}

int sp_probe_signal_scope(int abi)
{
    return abi < 6 ? -ENOSYS : in_child(signal_scope, (struct args){.abi = abi});
}

/* In a child: for the first process of a PID namespace it always works. */
static int reaper(const struct args *a)
{
    (void)a;
    return sp_confine_reaper() == 0 ? 0 : -EINVAL;
}

int sp_probe_reaper(void)
{
    return in_child(reaper, (struct args){0});
}

int sp_probe_openat2(void)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
    long fd = syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof how);
    if (fd >= 0) {
        close((int)fd);
        return 0;
    }
    /* No answer for the folder that we happen to be in is an answer about the call. */
    return errno == ENOENT || errno == EACCES ? 0 : -errno;
}
