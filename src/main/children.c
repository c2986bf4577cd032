/* children.c: starts, watches and ends main's two roles. One poll loop, `pump`, takes note of
 * everything that happens; the callers in supervise.c are written straight down and call it
 * wherever they wait. main trusts neither role: of what they say it only reads UP and BREACH. */
#include "main/supervise.h"

#include "sallyport/confine.h"
#include "sallyport/log.h"
#include "sallyport/proto.h"
#include "sallyport/sweep.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UP_MS 30000u
#define SWEEP_MS 10000u

static struct sp_frame frame;

uint64_t main_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

int children_init(struct super *s)
{
    static const int sigs[] = {SIGCHLD, SIGTERM, SIGINT, SIGQUIT, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (unsigned i = 0; i < sizeof sigs / sizeof sigs[0]; i++)
        sigaddset(&set, sigs[i]);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGCHLD, SIG_DFL); /* ignored by our parent, it would reap behind our back */
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -errno;
    int reaper = sp_confine_reaper();
    if (reaper < 0)
        return reaper;
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    s->broker = (struct child){.name = "broker", .chan = {.fd = -1}};
    s->front = (struct child){.name = "front", .chan = {.fd = -1}};
    s->registry = (struct child){.name = "registry", .chan = {.fd = -1}};
    return s->signal_fd < 0 ? -errno : 0;
}

/* ---- events ---- */

static void note_end(struct child *c, int status)
{
    c->pid = 0;
    c->up = false;
    c->status = status;
    c->deaths[c->ndeaths++ % 11] = main_now_ms();
    sp_chan_close(&c->chan);
}

/* One that is missed isn't told again. */
static pid_t ended_child(int *status)
{
    pid_t pid;
    do
        pid = waitpid(-1, status, WNOHANG);
    while (pid < 0 && errno == EINTR);
    return pid;
}

static void reap(struct super *s)
{
    int status;
    pid_t pid;
    while ((pid = ended_child(&status)) > 0) {
        if (pid == s->broker.pid)
            note_end(&s->broker, status);
        else if (pid == s->front.pid)
            note_end(&s->front, status);
        else if (pid == s->registry.pid)
            note_end(&s->registry, status);
    }
}

static void on_signals(struct super *s)
{
    struct signalfd_siginfo si;
    while (read(s->signal_fd, &si, sizeof si) == (ssize_t)sizeof si) {
        if (si.ssi_signo == SIGHUP)
            tls_again(s);
        else if (si.ssi_signo != SIGCHLD)
            s->stops++;
    }
}

static void on_message(struct super *s, struct child *c)
{
    int r;
    while (c->chan.fd >= 0 && (r = sp_chan_recv(&c->chan, &frame)) != 0) {
        struct sp_msg m;
        bool ok = r == 1 && sp_msg_decode(&m, frame.data, frame.len, frame.nfds);
        if (r == 1)
            sp_frame_close_fds(&frame);
        if (ok && m.op == SP_OP_UP && !c->up) {
            c->up = true;
        } else if (ok && m.op == SP_OP_BREACH && c == &s->broker) {
            if (s->front.pid > 0)
                (void)kill(s->front.pid, SIGKILL);
        } else {
            if (r != -EPIPE)
                sp_log(SP_LOG_ERROR, "the %s sent what isn't its to send", c->name);
            sp_chan_close(&c->chan);
            if (c->pid > 0 && r != -EPIPE) /* at its end it exits, or its process is gone */
                (void)kill(c->pid, SIGKILL);
            return;
        }
    }
}

void pump(struct super *s, uint64_t until)
{
    uint64_t now = main_now_ms();
    uint64_t left = until > now ? until - now : 0;
    struct pollfd p[] = {{.fd = s->signal_fd, .events = POLLIN},
                         {.fd = s->broker.chan.fd, .events = POLLIN},
                         {.fd = s->front.chan.fd, .events = POLLIN},
                         {.fd = s->registry.chan.fd, .events = POLLIN}};
    if (sp_chan_pending(&s->broker.chan))
        p[1].events |= POLLOUT;
    if (sp_chan_pending(&s->front.chan))
        p[2].events |= POLLOUT;
    if (poll(p, 4, left > 60000 ? 60000 : (int)left) < 0 && errno != EINTR)
        sp_pause();
    if (p[1].revents & POLLOUT)
        (void)sp_chan_flush(&s->broker.chan);
    if (p[2].revents & POLLOUT)
        (void)sp_chan_flush(&s->front.chan);
    /* Messages before deaths: a breach is about the front that lives, or has just died. */
    on_message(s, &s->broker);
    on_message(s, &s->front);
    on_message(s, &s->registry);
    on_signals(s);
    reap(s);
}

/* ---- one child ---- */

static int start(struct child *c, const struct sp_fdmap *extra, int nextra,
                 const struct sp_role_ns *ns)
{
    struct sp_fdmap map[SP_FDMAP_MAX];
    int pair[2];
    int r = sp_frame_pair(pair);
    if (r != 0)
        return r;
    memcpy(map, extra, (size_t)nextra * sizeof *map);
    map[nextra] = (struct sp_fdmap){pair[1], SP_FD_MAIN};
    pid_t pid = sp_role_spawn_in(c->name, map, nextra + 1, ns);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        sp_log(SP_LOG_ERROR, "can't start the %s: %s", c->name, strerror(-pid));
        return pid;
    }
    sp_chan_init_wary(&c->chan, pair[0]);
    c->pid = pid;
    c->up = false;
    c->started = main_now_ms();
    return 0;
}

static int try_broker(struct super *s)
{
    struct sp_fdmap map[4 + SP_CGROUP_FDS] = {{s->config_fd, SP_FD_CONFIG},
                                              {s->workspace_fd, SP_FD_EXTRA},
                                              {s->filters_fd, SP_FD_FILTERS},
                                              {sp_role_binary("broker"), SP_FD_SELF}};
    int n = 4;
    if (s->cfg.cgroup)
        n += sp_cgroup_map(&s->cgroup.fds, map + n);
    return start(&s->broker, map, n, NULL);
}

int start_broker(struct super *s)
{
    int r = try_broker(s);
    if (r != 0 && sp_role_binary("broker") != s->self_fd) { /* no file in memory may be executed */
        sp_role_use_inner(-1);
        r = try_broker(s);
    }
    return r;
}

int start_front(struct super *s)
{
    int pair[2];
    int r = sp_frame_pair(pair);
    if (r != 0)
        return r;
    const struct sp_msg m = {.op = SP_OP_FRONT};
    r = sp_msg_send(&s->broker.chan, &m, &pair[0], 1); /* it is the broker's in any case */
    if (r == 0) {
        struct sp_fdmap map[4 + SP_LISTEN_MAX] = {
            {s->config_fd, SP_FD_CONFIG}, {pair[1], SP_FD_EXTRA}, {s->filters_fd, SP_FD_FILTERS}};
        for (int i = 0; i < s->listeners.n; i++)
            map[3 + i] = (struct sp_fdmap){s->listeners.fd[i], SP_FD_LISTEN + i};
        int n = 3 + s->listeners.n;
        if (s->cfg.tls)
            map[n++] = (struct sp_fdmap){s->tls.fd, SP_FD_TLS};
        const struct sp_role_ns ns = sp_ns_of(&s->cfg, false);
        r = start(&s->front, map, n, &ns);
    }
    close(pair[1]);
    return r;
}

int begin_front(struct super *s)
{
    const struct sp_msg m = {.op = SP_OP_BEGIN, .size = s->front.ndeaths, .ino = s->broker.ndeaths};
    return sp_msg_send(&s->front.chan, &m, NULL, 0);
}

int start_registry(struct super *s)
{
    int pair[2];
    int r = sp_frame_pair(pair);
    if (r != 0)
        return r;
    const struct sp_msg m = {.op = SP_OP_REGISTRY};
    r = sp_msg_send(&s->broker.chan, &m, &pair[0], 1); /* it is the broker's in any case */
    if (r == 0) {
        const struct sp_fdmap map[] = {
            {s->config_fd, SP_FD_CONFIG}, {pair[1], SP_FD_EXTRA}, {s->filters_fd, SP_FD_FILTERS}};
        r = start(&s->registry, map, 3, NULL);
    }
    close(pair[1]);
    return r;
}

bool await_up(struct super *s, struct child *c)
{
    uint64_t end = main_now_ms() + UP_MS;
    while (c->pid > 0 && !c->up && s->stops == 0 && main_now_ms() < end)
        pump(s, end);
    if (c->pid > 0 && !c->up && s->stops == 0)
        sp_log(SP_LOG_ERROR, "the %s didn't come up in time", c->name);
    return c->pid > 0 && c->up;
}

bool await_end(struct super *s, struct child *c, uint64_t until, unsigned stops)
{
    while (c->pid > 0 && s->stops <= stops && main_now_ms() < until)
        pump(s, until);
    return c->pid == 0;
}

void end_child(struct super *s, struct child *c)
{
    if (c->pid == 0)
        return;
    (void)kill(c->pid, SIGKILL);
    if (!await_end(s, c, main_now_ms() + SWEEP_MS, ~0u))
        sp_log(SP_LOG_ERROR, "the %s doesn't die", c->name);
    c->pid = 0;
    sp_chan_close(&c->chan);
}

void send_op(struct child *c, uint8_t op)
{
    const struct sp_msg m = {.op = op};
    if (c->chan.fd >= 0)
        (void)sp_msg_send(&c->chan, &m, NULL, 0); /* whoever is gone is seen by its end */
}

void sweep_all(struct super *s)
{
    if (s->cfg.cgroup_cpu && s->cgroup.fds.cpu >= 0)
        (void)sp_cgroup_cpus(s->cgroup.fds.cpu, NULL); /* the next cell limits them anew */
    if (s->cfg.cgroup)
        (void)sp_cgroup_kill(s->cgroup.fds.freezer, s->cgroup.fds.procs);
    uid_t uid = s->cfg.own_uid && s->cfg.switch_uid ? s->cfg.command_uid : (uid_t)-1;
    const pid_t keep[] = {s->broker.pid, s->front.pid, s->registry.pid};
    int left = sp_sweep(keep, 3, uid, SWEEP_MS);
    if (s->cfg.cgroup)
        (void)sp_cgroup_thaw(s->cgroup.fds.freezer);
    if (left < 0)
        sp_log(SP_LOG_ERROR, "can't look for processes left over: %s", strerror(-left));
    else if (left > 0)
        sp_log(SP_LOG_ERROR, "%d processes left over are still dying", left);
}
