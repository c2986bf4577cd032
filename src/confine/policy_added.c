/* policy_added.c: the operator's system call rules for commands: are they sound, and does a command
 * still start under them? The operator is trusted, their typing isn't: a rule that keeps every
 * command from starting is better found before the first one. */
#include "policy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRY_MS 10000u

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2u
#endif

/* What the spawner thread and its child do until the shell runs. */
static const char *const needed[] = {
    "clone",     "execve",       "exit",           "exit_group", "futex",        "write",
    "setsid",    "prctl",        "getppid",        "dup2",       "fchdir",       "close_range",
    "prlimit64", "rt_sigaction", "rt_sigprocmask", "seccomp",    "rt_sigreturn", "mmap",
    "munmap",    "mprotect",     "getpid",
};

static bool refuses(uint32_t action)
{
    return action != SECCOMP_RET_ALLOW && action != SECCOMP_RET_LOG;
}

static int check_needed(const struct sp_policy *p, struct sp_policy_error *e)
{
    for (size_t i = 0; i < p->nadded; i++) {
        const struct sp_rule *r = &p->rules[i];
        if (r->nr == SYS_clone3) {
            if (e != NULL)
                e->added = true;
            return sp_policy_fail(e, r->line,
                                  "clone3 has its flags where no filter can look, so it "
                                  "is the daemon's own");
        }
        if (r->nconds > 0 || !refuses(r->action))
            continue;
        for (size_t k = 0; k < sizeof needed / sizeof needed[0]; k++)
            if (seccomp_syscall_resolve_name_arch(SCMP_ARCH_NATIVE, needed[k]) == r->nr) {
                if (e != NULL)
                    e->added = true;
                return sp_policy_fail(e, r->line, "no command starts without %s", needed[k]);
            }
    }
    return 0;
}

int sp_policy_check_added(const char *added, size_t len, struct sp_policy_error *e)
{
    size_t n;
    const char *text = sp_policy_text(SP_FILTER_COMMAND, &n);
    struct sp_policy *p = text == NULL ? NULL : malloc(sizeof *p);
    if (p == NULL)
        return text == NULL ? -ENOENT : -ENOMEM;
    int r = sp_policy_parse_added(added, len, false, text, n, p, e);
    if (r == 0)
        r = check_needed(p, e);
    free(p);
    return r;
}

/* ---- the trial ---- */

/* As the cell's child does, in the same order; by hand, as this folder doesn't know the cell's. */
__attribute__((noreturn)) static void become_shell(const struct sp_config *c)
{
    char sh[] = "sh", opt[] = "-c", nothing[] = ":", path[] = "PATH=/usr/bin:/bin";
    char *argv[] = {sh, opt, nothing, NULL}, *envp[] = {path, NULL};
    struct rlimit files;
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t none;
    (void)setsid();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)getppid();
    (void)getpid();
    (void)syscall(SYS_close_range, INT_MAX, INT_MAX, CLOSE_RANGE_UNSHARE);
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        (void)dup2(null_fd, i);
    if (chdir(c->workspace) != 0)
        _exit(126);
    (void)syscall(SYS_close_range, 3, INT_MAX, 0); /* not ~0: see the cell's */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        (void)setrlimit(RLIMIT_NOFILE, &files);
    (void)sigaction(SIGPIPE, &plain, NULL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    execve(c->shell, argv, envp);
    _exit(126);
}

/* In a child: the filter can't be taken off again. */
__attribute__((noreturn)) static void run_trial(const struct sp_config *c, struct sock_fprog *prog)
{
    int status = 0;
    (void)setpgid(0, 0);
    if (c->switch_uid && sp_confine_ids(c->command_uid, c->command_gid) != 0)
        _exit(125);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, prog) != 0)
        _exit(125);
    pid_t pid = fork();
    if (pid == 0)
        become_shell(c);
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            _exit(125);
    if (pid < 0)
        _exit(125);
    if (WIFSIGNALED(status))
        (void)kill(getpid(), WTERMSIG(status));
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 125);
}

/* Its wait status, or -1 when it took too long. */
static int await_trial(pid_t pid)
{
    const struct timespec nap = {.tv_nsec = 2000000};
    int status;
    for (unsigned ms = 0; ms < TRY_MS; ms += 2) {
        pid_t got = waitpid(pid, &status, WNOHANG);
        if (got == pid)
            return status;
        if (got < 0 && errno != EINTR)
            return -1;
        (void)nanosleep(&nap, NULL);
    }
    (void)kill(-pid, SIGKILL);
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return -1;
}

int sp_policy_try_added(const struct sp_config *c, const char *added, size_t len,
                        struct sp_policy_error *e)
{
    void *bpf = NULL;
    size_t n = 0, text_len;
    const char *text = sp_policy_text(SP_FILTER_COMMAND, &text_len);
    if (text == NULL)
        return -ENOENT;
    int r = sp_policy_compile_added(added, len, false, text, text_len, &bpf, &n, e);
    if (r != 0)
        return r;
    struct sock_fprog prog = {(unsigned short)n, bpf};
    pid_t pid = fork();
    if (pid == 0)
        run_trial(c, &prog);
    int status = pid < 0 ? -1 : await_trial(pid);
    free(bpf);
    if (pid < 0)
        return -EAGAIN;
    if (status == 0)
        return 0;
    if (e != NULL)
        e->added = true;
    if (status == -1)
        return sp_policy_fail(e, 0, "under these rules the shell doesn't come to an end");
    if (WIFSIGNALED(status))
        return sp_policy_fail(e, 0, "under these rules signal %d ends the shell", WTERMSIG(status));
    return sp_policy_fail(e, 0, "under these rules the shell ends with status %d",
                          WEXITSTATUS(status));
}
