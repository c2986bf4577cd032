/* probe.c: runs the probes one by one and prints what came of each. The stage is given as
 * --ws=DIR --out=DIR --pids=1,2,3 --key=N --name=X --port=N [--control] [--front] [--only=PREFIX].
 * Trusts the test that made the stage. */
#include "probe.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define PROBE_SECONDS 20

static const struct probe *const groups[] = {
    probes_files,   probes_names, probes_procs,  probes_spaces,  probes_kernel, probes_tables,
    probes_sockets, probes_ipc,   probes_places, probes_surface, probes_front};

static const char *join(const char *dir, const char *name)
{
    static char path[4][4200];
    static unsigned turn;
    char *p = path[turn++ % 4];
    (void)snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

const char *outside(const struct probe_stage *s, const char *name)
{
    return join(s->out, name);
}

const char *inside(const struct probe_stage *s, const char *name)
{
    return join(s->ws, name);
}

int try_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
    return fd < 0 ? errno : 0;
}

int try_read(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    ssize_t n = fd < 0 ? -1 : read(fd, &byte, 1);
    return n < 0 ? errno : n == 0 ? ENODATA : 0; /* what is masked is there, and empty */
}

int on_each(const struct probe_stage *s, const struct probe *p,
            int (*f)(int pid, const struct probe *p))
{
    int r = PROBE_BROKEN;
    for (int i = 0; i < s->npids; i++) {
        r = f(s->pids[i], p);
        if (r == 0)
            return 0;
    }
    return r;
}

static void put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        return; /* the probe itself will tell */
    close(fd);
}

void take_namespaces(const struct probe_stage *s, int flags)
{
    char map[64];
    if (!s->control)
        return;
    uid_t uid = getuid();
    gid_t gid = getgid();
    if (unshare(CLONE_NEWUSER | flags) != 0)
        return;
    put("/proc/self/setgroups", "deny");
    (void)snprintf(map, sizeof map, "0 %u 1", uid);
    put("/proc/self/uid_map", map);
    (void)snprintf(map, sizeof map, "0 %u 1", gid);
    put("/proc/self/gid_map", map);
}

/* ---- one probe ---- */

static pid_t start_victim(void)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        (void)setsid();
        close(ready[0]);
        close(ready[1]);
        for (;;)
            (void)pause();
    }
    close(ready[1]);
    (void)!read(ready[0], &byte, 1); /* its session is its own by now */
    close(ready[0]);
    return pid;
}

static void verdict(int status, char out[32])
{
    if (WIFSIGNALED(status))
        (void)snprintf(out, 32, WTERMSIG(status) == SIGALRM ? "hangs" : "killed:%s",
                       sigabbrev_np(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == 0)
        (void)snprintf(out, 32, "did");
    else if (WEXITSTATUS(status) == PROBE_BROKEN || !strerrorname_np(WEXITSTATUS(status)))
        (void)snprintf(out, 32, "broken");
    else
        (void)snprintf(out, 32, "%s", strerrorname_np(WEXITSTATUS(status)));
}

static int run_one(const struct probe_stage *given, const struct probe *p,
                   const struct probe_place *in, int fd)
{
    struct probe_stage s = *given;
    char word[32];
    int status = 0;
    pid_t victim = 0;
    if (s.control) {
        victim = start_victim();
        s.pids[0] = victim;
        s.npids = 1;
    }
    pid_t pid = (pid_t)syscall(SYS_clone, (in != NULL ? in->flags : 0) | SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        (void)alarm(PROBE_SECONDS);
        if (in != NULL && in->enter() != 0)
            _exit(PROBE_BROKEN);
        _exit(p->run(&s, p));
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (victim > 0) {
        (void)kill(victim, SIGKILL);
        (void)waitpid(victim, NULL, 0);
    }
    verdict(pid > 0 ? status : PROBE_BROKEN << 8, word);
    return dprintf(fd, "probe %s %s\n", p->name, word) < 0 ? -1 : 0;
}

int probe_all(const struct probe_stage *s, const char *only, const struct probe_place *in, int fd)
{
    size_t n = sizeof groups / sizeof groups[0];
    for (size_t g = 0; g < (s->front ? n : n - 1); g++)
        for (const struct probe *p = groups[g]; p->name != NULL; p++)
            if ((only == NULL || strncmp(p->name, only, strlen(only)) == 0) &&
                run_one(s, p, in, fd) != 0)
                return -1;
    return dprintf(fd, "probe end did\n") < 0 ? -1 : 0;
}

/* ---- the command line ---- */

static bool value(const char *arg, const char *name, const char **out)
{
    size_t n = strlen(name);
    if (strncmp(arg, name, n) != 0)
        return false;
    *out = arg + n;
    return true;
}

bool probe_stage_parse(struct probe_stage *s, const char **only, int argc, char **argv)
{
    *s = (struct probe_stage){.ws = NULL};
    *only = NULL;
    for (int i = 0; i < argc; i++) {
        const char *v = NULL;
        if (value(argv[i], "--ws=", &s->ws) || value(argv[i], "--out=", &s->out) ||
            value(argv[i], "--name=", &s->name) || value(argv[i], "--only=", only))
            continue;
        if (value(argv[i], "--key=", &v))
            s->key = atoi(v);
        else if (value(argv[i], "--port=", &v))
            s->port = atoi(v);
        else if (strcmp(argv[i], "--front") == 0)
            s->front = true;
        else if (strcmp(argv[i], "--control") == 0)
            s->control = true;
        else if (value(argv[i], "--pids=", &v))
            for (; s->npids < PROBE_PIDS && *v != '\0'; v += strcspn(v, ","), v += *v == ',')
                s->pids[s->npids++] = atoi(v);
        else
            return false;
    }
    return s->ws != NULL && s->out != NULL && s->name != NULL;
}
