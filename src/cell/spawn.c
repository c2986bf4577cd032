/* spawn.c: starts a command's shell: clone(CLONE_VM|CLONE_VFORK) and exec, from a thread that put
 * the command filter and Landlock on itself once. Trusts the main thread.
 *
 * The child runs in our memory until exec: it makes system calls and writes to its struct sp_spawn
 * and three words of the spawner, nothing else. Between commands it may be there already and wait
 * for its job, as the thread waits for it (that is what CLONE_VFORK means): no command lives then
 * that could see or signal it. It shares our descriptors until it has a job, whose pipes are made
 * after it. */
#include "cell/spawn.h"
#include "sallyport/affinity.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILD_STACK (64u << 10)
#define CHILD_USES (12u << 10)
#define THREAD_STACK (256u << 10)
#define FILES_OURS 4096u
#define NOTHING (INT_MAX - 1) /* no descriptor has this number */

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2u
#endif

#ifdef SP_SANITIZE
/* The child never returns, which would leave its frames poisoned for the next one. */
#define NO_SANITIZE __attribute__((no_sanitize("address", "undefined", "thread")))
#else
#define NO_SANITIZE
#endif

#ifdef __SANITIZE_THREAD__
/* ThreadSanitizer's own clone takes the child for one with a memory of its own, and would believe
 * from then on that the thread synchronises with nobody. */
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
#define clone __clone
#endif

uint64_t sp_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

NO_SANITIZE __attribute__((noreturn)) static void give_up(struct sp_spawn *j,
                                                          enum sp_spawn_step step, int error)
{
    j->step = step;
    j->error = error;
    _exit(127);
}

/* For a shell that is to be held. exec closes both ends of this pipe, one after the other, and the
 * one that stays for an instant sends its owner the signal it was told: us, still in exec. So the
 * new image stops before its first instruction. (Nobody can trace us before exec, as we have the
 * memory of the cell, which is not dumpable.) */
NO_SANITIZE static void stop_by_exec(void)
{
    int ends[2];
    pid_t self = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return; /* it won't be stopped, and is seen to end */
    for (int i = 0; i < 2; i++) {
        (void)fcntl(ends[i], F_SETOWN, self);
        (void)fcntl(ends[i], F_SETSIG, SIGSTOP);
        (void)fcntl(ends[i], F_SETFL, (i == 0 ? O_RDONLY : O_WRONLY) | O_ASYNC);
    }
}

/* Descriptors of its own: up to here they were those of the cell. 0 or errno. */
NO_SANITIZE static int own_files(struct sp_spawner *s)
{
    if (!atomic_load(&s->parks) ||
        syscall(SYS_close_range, NOTHING, NOTHING, CLOSE_RANGE_UNSHARE) == 0)
        return 0;
    int error = errno;
    atomic_store(&s->parks, false); /* an operator's rule: the next is born with its own */
    return error;
}

/* What is the same for every command. 0 or errno, with the step. */
NO_SANITIZE static int child_prepare(const struct sp_spawner *s, enum sp_spawn_step *step)
{
    *step = SP_SPAWN_CLONE;
    (void)setsid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != s->parent)
        return ESRCH;                          /* the cell is gone: nobody waits for us */
    (void)setrlimit(RLIMIT_NOFILE, &s->files); /* can only fail where it was lowered meanwhile */
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    for (int i = 0; i < s->nignored; i++)
        (void)sigaction(s->ignored[i], &plain, NULL);
    *step = SP_SPAWN_LIMITS;
    return s->limits ? -sp_confine_limits(s->config) : 0;
}

NO_SANITIZE static struct sp_spawn *child_job(struct sp_spawner *s)
{
    if (atomic_load(&s->go) == SP_SPAWNER_WAIT)
        atomic_store(&s->parked, getpid());
    while (atomic_load(&s->go) == SP_SPAWNER_WAIT)
        (void)syscall(SYS_futex, &s->go, FUTEX_WAIT_PRIVATE, SP_SPAWNER_WAIT, NULL, NULL, 0);
    if (atomic_load(&s->go) == SP_SPAWNER_QUIT)
        _exit(0);
    atomic_store(&s->taken, true);
    return s->job;
}

NO_SANITIZE static int child_main(void *arg)
{
    struct sp_spawner *s = arg;
    enum sp_spawn_step step;
    int error = child_prepare(s, &step);
    struct sp_spawn *j = child_job(s);
    if (error != 0)
        give_up(j, step, error);
    if ((error = own_files(s)) != 0)
        give_up(j, SP_SPAWN_CLONE, error);
    for (int i = 0; i < 3; i++) {
        if (dup2(j->std[i], i) < 0)
            give_up(j, SP_SPAWN_CLONE, errno);
    }
    if (fchdir(j->cwd) != 0)
        give_up(j, SP_SPAWN_CHDIR, errno);
    /* All are close-on-exec; that of a library that forgot would be closed here. */
    (void)syscall(SYS_close_range, 3, INT_MAX, 0); /* not ~0: gVisor takes them for signed */
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (j->hold)
        stop_by_exec();
    execve(s->config->shell, j->argv, j->envp);
    give_up(j, SP_SPAWN_EXEC, errno);
}

/* Returns when the child has executed, failed or died: its pid or -errno. */
static pid_t make_child(struct sp_spawner *s)
{
    const int flags = CLONE_VM | CLONE_VFORK | (atomic_load(&s->parks) ? CLONE_FILES : 0);
    if (s->config->cgroup)
        return sp_cgroup_clone(SP_FD_CGROUP, (unsigned)flags, child_main, s->stack - CHILD_STACK,
                               CHILD_STACK, s, s->token);
    pid_t pid = clone(child_main, s->stack, flags | SIGCHLD, s);
    return pid < 0 ? -errno : pid;
}

static int confine(struct sp_spawner *s)
{
    const struct sp_config *c = s->config;
    int err = sp_affinity_spread(c);
    if (err == 0 && c->have_landlock)
        err = sp_landlock_command(c->landlock_abi, c->workspace, s->workspace, c->shell,
                                  c->command_paths, c->view);
    if (err == 0 && c->cgroup) /* whose filter lets clone3 pass: this one doesn't */
        err = sp_cgroup_seal(s->token);
    return err != 0 ? err : sp_filters_install(SP_FILTER_COMMAND);
}

static void poke(int efd)
{
    uint64_t one = 1;
    ssize_t n = write(efd, &one, sizeof one);
    (void)n; /* EAGAIN: readable already */
}

/* The lock is held. */
static void child_done(struct sp_spawner *s, pid_t pid)
{
    const bool taken = atomic_load(&s->taken);
    s->may_park = false;
    if (s->state != SP_SPAWNER_ASKED || (s->dismissed && !taken)) {
        /* It died while it was parked, was let go, or there is none: one for the job comes now. */
        while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
            ;
        return;
    }
    s->job->pid = pid;
    if (pid < 0)
        s->job->error = -pid;
    s->state = SP_SPAWNER_DONE;
    pthread_cond_signal(&s->changed); /* if anyone waits, then sp_spawner_wait */
    if (s->job->tell || s->job->error != 0 || !taken)
        poke(s->efd);
}

static void *spawner_thread(void *arg)
{
    struct sp_spawner *s = arg;
    (void)prctl(PR_SET_NAME, "sp-spawner"); /* its child's, too, until exec: for ps and top */
    int err = confine(s);
    pthread_mutex_lock(&s->lock);
    s->failed = err;
    s->state = err == 0 ? SP_SPAWNER_IDLE : SP_SPAWNER_FAILED;
    pthread_cond_broadcast(&s->changed);
    while (err == 0) { // NOLINT(bugprone-infinite-loop): for as long as the cell lives
        while (s->state != SP_SPAWNER_ASKED && !s->may_park)
            pthread_cond_wait(&s->changed, &s->lock);
        s->may_park = false;
        s->dismissed = false;
        atomic_store(&s->taken, false);
        atomic_store(&s->go, s->state == SP_SPAWNER_ASKED ? SP_SPAWNER_GO : SP_SPAWNER_WAIT);
        pthread_mutex_unlock(&s->lock);
        pid_t pid = make_child(s);
        pthread_mutex_lock(&s->lock);
        atomic_store(&s->parked, 0);
        child_done(s, pid);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* exec makes caught signals default by itself. */
static void find_ignored(struct sp_spawner *s)
{
    struct sigaction now;
    s->nignored = 0;
    for (int sig = 1; sig < 64; sig++) {
        if (sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_IGN)
            s->ignored[s->nignored++] = sig;
    }
}

static int make_stack(struct sp_spawner *s)
{
    char *m = mmap(NULL, CHILD_STACK + 4096, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (m == MAP_FAILED)
        return -errno;
    if (mprotect(m, 4096, PROT_NONE) != 0)
        return -errno;
    /* No page fault while a command waits: a child uses less than this. */
    memset(m + 4096 + CHILD_STACK - CHILD_USES, 0x5a, CHILD_USES);
    s->stack = m + 4096 + CHILD_STACK;
    return 0;
}

/* Descriptors on their way through sockets are counted by user id, and each sender is held to its
 * own limit of open files. So commands get a lower one than we have: what they leave in sockets
 * can't keep us from sending. */
static int share_files(struct sp_spawner *s)
{
    struct rlimit own;
    if (getrlimit(RLIMIT_NOFILE, &own) != 0)
        return -errno;
    rlim_t keep = own.rlim_max / 4 < FILES_OURS ? own.rlim_max / 4 : FILES_OURS;
    s->files = own;
    s->files.rlim_max -= keep;
    if (s->files.rlim_cur > s->files.rlim_max)
        s->files.rlim_cur = s->files.rlim_max;
    own.rlim_cur = own.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &own) == 0 ? 0 : -errno;
}

struct shared {
    atomic_bool apart;
    int fd;
};

NO_SANITIZE static int child_shares(void *arg)
{
    struct shared *t = arg;
    if (syscall(SYS_close_range, NOTHING, NOTHING, CLOSE_RANGE_UNSHARE) == 0 && close(t->fd) == 0)
        atomic_store(&t->apart, true);
    _exit(0);
}

/* A parked child needs to see our memory, and to part from our descriptors when it wants to: not
 * so under emulators that make a fork of it, nor on kernels before 5.9. */
static bool can_park(struct sp_spawner *s)
{
#if defined(__SANITIZE_THREAD__) || defined(SP_VALGRIND)
    return false; /* it can't see that a child of another process synchronises with us */
#endif
    struct shared t = {.fd = eventfd(0, EFD_CLOEXEC)};
    if (t.fd < 0)
        return false;
    pid_t pid = clone(child_shares, s->stack, CLONE_VM | CLONE_VFORK | CLONE_FILES, &t);
    while (pid > 0 && waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    bool kept = close(t.fd) == 0;
    return pid > 0 && kept && atomic_load(&t.apart);
}

int sp_spawner_prepare(struct sp_spawner *s)
{
    find_ignored(s);
    int err = make_stack(s);
    if (err != 0)
        return err;
    atomic_store(&s->parks, can_park(s));
    return share_files(s);
}

int sp_spawner_start(struct sp_spawner *s, const struct sp_config *c, int workspace, int efd)
{
    pthread_attr_t attr;
    sigset_t all, old;
    s->config = c;
    s->workspace = workspace;
    s->efd = efd;
    s->parent = getpid();
    s->limits = c->limit_procs != 0 || c->limit_memory != 0 || c->limit_cpu_s != 0 ||
                c->limit_file_bytes != 0 || c->limit_open_files != 0;
    s->state = SP_SPAWNER_ASKED; /* until it says otherwise */
    s->job = NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, THREAD_STACK);
    /* Blocked here, so that no handler of ours runs in a child. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = -pthread_create(&s->thread, &attr, spawner_thread, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return err;
}

int sp_spawner_confined(struct sp_spawner *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->state == SP_SPAWNER_ASKED)
        pthread_cond_wait(&s->changed, &s->lock);
    int err = s->failed;
    pthread_mutex_unlock(&s->lock);
    return err;
}

static void wake_child(struct sp_spawner *s)
{
    (void)syscall(SYS_futex, &s->go, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void sp_spawner_dismiss(struct sp_spawner *s)
{
    pthread_mutex_lock(&s->lock);
    bool parked = s->state == SP_SPAWNER_IDLE && atomic_load(&s->parked) != 0;
    s->may_park = false;
    if (parked) {
        s->dismissed = true;
        atomic_store(&s->parked, 0); /* what is asked from here on has a child of its own */
        atomic_store(&s->go, SP_SPAWNER_QUIT);
    }
    pthread_mutex_unlock(&s->lock);
    if (parked)
        wake_child(s);
}

void sp_spawner_park(struct sp_spawner *s)
{
    if (!atomic_load(&s->parks))
        return;
    pthread_mutex_lock(&s->lock);
    s->may_park = s->state == SP_SPAWNER_IDLE && atomic_load(&s->parked) == 0;
    pthread_mutex_unlock(&s->lock);
    pthread_cond_signal(&s->changed);
}

bool sp_spawner_ask(struct sp_spawner *s, struct sp_spawn *j)
{
    j->error = 0;
    j->step = SP_SPAWN_CLONE;
    j->start_ns = sp_now_ns();
    pthread_mutex_lock(&s->lock);
    s->job = j;
    s->state = SP_SPAWNER_ASKED;
    j->pid = atomic_load(&s->parked);
    bool parked = j->pid != 0;
    j->tell = j->tell || !parked;
    atomic_store(&s->go, SP_SPAWNER_GO); /* also for one that is just being made */
    pthread_mutex_unlock(&s->lock);
    if (parked)
        wake_child(s);
    else
        pthread_cond_signal(&s->changed);
    return parked;
}

bool sp_spawner_tell(struct sp_spawner *s)
{
    pthread_mutex_lock(&s->lock);
    bool done = s->state == SP_SPAWNER_DONE;
    if (s->state == SP_SPAWNER_ASKED)
        s->job->tell = true;
    pthread_mutex_unlock(&s->lock);
    return done;
}

static struct sp_spawn *take(struct sp_spawner *s, bool wait)
{
    struct sp_spawn *j = NULL;
    pthread_mutex_lock(&s->lock);
    while (wait && s->state == SP_SPAWNER_ASKED)
        pthread_cond_wait(&s->changed, &s->lock);
    if (s->state == SP_SPAWNER_DONE) {
        j = s->job;
        s->job = NULL;
        s->state = SP_SPAWNER_IDLE;
    }
    pthread_mutex_unlock(&s->lock);
    return j;
}

struct sp_spawn *sp_spawner_take(struct sp_spawner *s)
{
    return take(s, false);
}

struct sp_spawn *sp_spawner_wait(struct sp_spawner *s)
{
    return take(s, true);
}
