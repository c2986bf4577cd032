/* probe_ns.c: builds, in a child that then ends, what cells and the front are to have. Nothing
 * short of that tells: kernels, containers and security modules refuse any single step of it.
 * Trusts main's settings. */
#include "probe_ns.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct report {
    int err;
    char step[64], path[256];
};

static struct report made(int err, const char *step, const char *path)
{
    struct report r = {.err = err};
    (void)snprintf(r.step, sizeof r.step, "%s", step);
    (void)snprintf(r.path, sizeof r.path, "%s", path);
    return r;
}

/* The first process in the namespaces. */
static struct report inside(const struct sp_config *c, const struct sp_role_ns *ns, bool cell)
{
    struct sp_view_error e = {0};
    int r = ns->user ? sp_userns_settle(ns->uid, ns->gid) : 0;
    if (r != 0)
        return made(r, "mapping the user", "");
    if (!cell) {
        r = sp_view_empty(&e);
        return made(r, e.step != NULL ? e.step : "", e.path);
    }
    int fd = open(c->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return made(-errno, "opening", c->workspace);
    r = sp_view_enter(c, fd, &e);
    if (r != 0)
        return made(r, e.step != NULL ? e.step : "building the view", e.path);
    r = c->net_none ? sp_net_loopback() : 0;
    return made(r, "bringing up the loopback device", "");
}

/* With no more than the role will have. */
static struct report outside(const struct sp_config *c, const struct sp_role_ns *ns, bool cell,
                             int report_fd)
{
    int keep[SP_KEEP_MAX];
    int n = sp_caps_to_keep(c, keep);
    if (ns->user && ns->switch_ids &&
        (setgroups(0, NULL) != 0 || setresgid(ns->gid, ns->gid, ns->gid) != 0 ||
         setresuid(ns->uid, ns->uid, ns->uid) != 0))
        return made(-errno, "taking the user's id", "");
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0,
                0); /* roles have it: a bounding set that stays counts */
    if (!ns->user && sp_confine_caps(keep, n) != 0)
        return made(-EPERM, "giving up capabilities", "");
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* as after exec: /proc/self is ours */
    long pid = syscall(SYS_clone, ns->flags | (ns->user ? CLONE_NEWUSER : 0) | SIGCHLD, NULL, NULL,
                       NULL, NULL);
    if (pid < 0)
        return made(-errno, "creating the namespaces", "");
    if (pid == 0) {
        struct report r = inside(c, ns, cell);
        ssize_t w = write(report_fd, &r, sizeof r);
        _exit(w == (ssize_t)sizeof r ? 0 : 1);
    }
    while (waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return made(-ESRCH, "", ""); /* not written: it was said before, or it died */
}

static void explain(const struct report *r, char *why, size_t len)
{
    if (r->err == -ESRCH && r->step[0] == '\0')
        (void)snprintf(why, len, "the probe was killed by a signal");
    else
        (void)snprintf(why, len, "%s%s%s: %s", r->step, r->path[0] != '\0' ? " " : "", r->path,
                       strerror(-r->err));
}

int sp_probe_ns(const struct sp_config *c, const struct sp_role_ns *ns, bool cell, char *why,
                size_t len)
{
    struct report got = {.err = -ESRCH};
    int p[2];
    if (pipe2(p, O_CLOEXEC) != 0)
        return -errno;
    pid_t pid = fork();
    if (pid == 0) {
        struct report r = outside(c, ns, cell, p[1]);
        if (r.step[0] != '\0' && write(p[1], &r, sizeof r) != (ssize_t)sizeof r)
            _exit(1);
        _exit(0);
    }
    int err = errno;
    close(p[1]);
    if (pid > 0) {
        if (read(p[0], &got, sizeof got) != (ssize_t)sizeof got)
            got = (struct report){.err = -ESRCH};
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    close(p[0]);
    if (pid < 0)
        got = made(-err, "starting a probe", "");
    if (got.err != 0)
        explain(&got, why, len);
    return got.err;
}
