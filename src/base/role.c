/* role.c: starts one role of the daemon from another and hands it what it needs.
 *
 * A role is a fresh exec of this very binary, found through a descriptor opened at start. Between
 * clone(CLONE_VM) and exec only raw system calls are made: the child runs in our memory. Trusts its
 * caller; sp_config_load trusts only a sealed memfd, which nobody can change after main wrote it.
 */
#include "sallyport/role.h"
#include "sallyport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define PARK_ABOVE 64 /* descriptors wait here while their places are still taken */
#define STACK_SIZE (64u << 10)

static int self_fd = -1;

static bool terminated(const char *s, size_t cap)
{
    return memchr(s, '\0', cap) != NULL;
}

static bool config_sane(const struct sp_config *c)
{
    return c->magic == SP_CONFIG_MAGIC && c->size == sizeof *c &&
           terminated(c->workspace, sizeof c->workspace) && terminated(c->shell, sizeof c->shell) &&
           terminated(c->command_paths, sizeof c->command_paths) && c->workspace[0] == '/' &&
           c->shell[0] == '/' && c->nlisten <= SP_LISTEN_MAX && c->env_len <= sizeof c->env &&
           c->nkeys <= SP_API_KEYS_MAX && terminated(c->state, sizeof c->state) &&
           terminated(c->cell_name, sizeof c->cell_name) &&
           (c->env_len == 0 || c->env[c->env_len - 1] == '\0');
}

const struct sp_config *sp_config_load(void)
{
    struct stat st;
    int seals = fcntl(SP_FD_CONFIG, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(SP_FD_CONFIG, &st) != 0 ||
        st.st_size != (off_t)sizeof(struct sp_config)) {
        sp_log(SP_LOG_ERROR, "no settings at descriptor %d: a role is started by main alone",
               SP_FD_CONFIG);
        _exit(2);
    }
    void *p = mmap(NULL, sizeof(struct sp_config), PROT_READ, MAP_PRIVATE, SP_FD_CONFIG, 0);
    if (p == MAP_FAILED || !config_sane(p)) {
        sp_log(SP_LOG_ERROR, "the settings handed down are not of this version");
        _exit(2);
    }
    return p;
}

static int write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int sp_sealed_memfd(const char *name, const void *data, size_t len)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    int err = write_all(fd, data, len);
    if (err == 0 && lseek(fd, 0, SEEK_SET) != 0)
        err = -errno;
    if (err == 0 && fcntl(fd, F_ADD_SEALS, SEALS) != 0)
        err = -errno;
    if (err != 0) {
        close(fd);
        return err;
    }
    return fd;
}

int sp_role_init_self(bool inherited)
{
    if (inherited) {
        struct stat st;
        if (fstat(SP_FD_SELF, &st) != 0)
            return -errno;
        if (!S_ISREG(st.st_mode))
            return -EBADF;
        self_fd = SP_FD_SELF;
        if (fcntl(SP_FD_SELF, F_SETFD, FD_CLOEXEC) != 0)
            return -errno;
        return self_fd;
    }
    if (self_fd < 0)
        self_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
    return self_fd < 0 ? -errno : self_fd;
}

struct launch {
    const struct sp_fdmap *map;
    int n;
    int null_fd;
    char *const *argv;
    char *const *envp;
    int err; /* written by the child: we share memory */
};

/* Places every descriptor. First all are parked high, so that no move clobbers a source. */
static int place(const struct launch *l, int *exec_fd)
{
    int parked[SP_FDMAP_MAX];
    int null_fd = fcntl(l->null_fd, F_DUPFD_CLOEXEC, PARK_ABOVE);
    *exec_fd = fcntl(self_fd, F_DUPFD_CLOEXEC, PARK_ABOVE);
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

/* Runs in the child, on its own stack but in our memory. Returns only after a failure. */
__attribute__((no_sanitize("address", "undefined"))) static int child(void *arg)
{
    struct launch *l = arg;
    int exec_fd = -1;
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig < NSIG; sig++)
        (void)sigaction(sig, &dfl, NULL); /* KILL, STOP and libc's own two refuse */
    setsid();                             /* ^C and a terminal's ioctls stay with main */
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

/* Nothing, but under a sanitizer its options: a role that can't find them would
 * report leaks of a kind that the tests turn off. */
static char **child_env(char *room[4])
{
    int n = 0;
#ifdef SP_SANITIZE
    static const char *const names[] = {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"};
    for (int i = 0; i < 3; i++) {
        const char *v = getenv(names[i]);
        char *pair = NULL;
        if (v != NULL && asprintf(&pair, "%s=%s", names[i], v) >= 0)
            room[n++] = pair;
    }
#endif
    room[n] = NULL;
    return room;
}

static pid_t launch(struct launch *l)
{
    void *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED)
        return -errno;
    /* A handler of ours must not run in the child while it shares our memory. */
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    pid_t pid = clone(child, (char *)stack + STACK_SIZE, CLONE_VM | CLONE_VFORK | SIGCHLD, l);
    int err = errno;
    sigprocmask(SIG_SETMASK, &old, NULL);
    munmap(stack, STACK_SIZE);
    if (pid < 0)
        return -err;
    if (l->err != 0) { /* it never became a role */
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
        return -l->err;
    }
    return pid;
}

pid_t sp_role_spawn(const char *role, const struct sp_fdmap *map, int n)
{
    char name[] = "sallyport", option[32];
    char *argv[] = {name, option, NULL}, *env_room[4];
    int len = snprintf(option, sizeof option, "--role=%s", role);
    if (len < 0 || (size_t)len >= sizeof option || n < 0 || n > SP_FDMAP_MAX)
        return -EINVAL;
    for (int i = 0; i < n; i++)
        if (map[i].from < 0 || map[i].to <= STDERR_FILENO || map[i].to >= PARK_ABOVE)
            return -EINVAL;
    if (self_fd < 0)
        return -EBADF;
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null_fd < 0)
        return -errno;
    struct launch l = {.map = map, .n = n, .null_fd = null_fd, .argv = argv};
    char **env = child_env(env_room);
    l.envp = env;
    pid_t pid = launch(&l);
    close(null_fd);
    for (int i = 0; env[i] != NULL; i++)
        free(env[i]);
    return pid;
}
