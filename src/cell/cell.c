/* cell.c: the only process that touches the workspace. Confines itself layer by layer, then serves
 * the broker's messages: commands in exec.c, files in the pool's threads.
 *
 * Trusts the settings and the broker; a message that is none, or that no broker sends, still ends
 * the cell, as it means that one of the two is broken. */
#include "cell/cell.h"
#include "cell/purge.h"
#include "sallyport/affinity.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"
#include "sallyport/view.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define END_MS 3000u

enum { ON_BROKER, ON_RESULTS, ON_CHILDREN };

static struct sp_cell cell;

/* The file threads send, too. */
static int send_msg(struct sp_cell *c, const struct sp_msg *m, const int *fds, int nfds)
{
    pthread_mutex_lock(&c->out.lock);
    int err = sp_msg_send(&c->chan, m, fds, nfds);
    pthread_mutex_unlock(&c->out.lock);
    if (err != 0 && err != -EPIPE)
        sp_log(SP_LOG_ERROR, "sending message %u to the broker: %s", m->op, strerror(-err));
    return err;
}

static int flush(struct sp_cell *c)
{
    pthread_mutex_lock(&c->out.lock);
    int err = sp_chan_flush(&c->chan);
    pthread_mutex_unlock(&c->out.lock);
    return err;
}

bool sp_cell_send(struct sp_cell *c, const struct sp_msg *m, const int *fds, int nfds)
{
    int err = send_msg(c, m, fds, nfds);
    return err == 0;
}

bool sp_cell_send_fds(struct sp_cell *c, const struct sp_msg *m, const int *fds, int nfds,
                      bool *sent)
{
    int err = send_msg(c, m, fds, nfds);
    *sent = err != -ENOBUFS;
    return err == 0 || !*sent;
}

bool sp_cell_fail(struct sp_cell *c, uint32_t id, enum sp_err e)
{
    struct sp_msg m = {.op = SP_OP_FAIL, .id = id, .err = (uint16_t)e};
    return sp_cell_send(c, &m, NULL, 0);
}

/* ---- messages ---- */

static void cancel(struct sp_cell *c, const struct sp_msg *m)
{
    enum sp_err code = m->flags == SP_CANCEL_TIMEOUT ? SP_E_TIMEOUT : SP_E_BAD_REQUEST;
    if (!sp_upload_cancel(&c->pool, m->id, code))
        sp_exec_cancel(c, m->id, m->flags);
}

static bool handle(struct sp_cell *c, const struct sp_msg *m)
{
    enum sp_err e = SP_OK;
    switch (m->op) {
    case SP_OP_EXEC:
        return sp_exec_start(c, m);
    case SP_OP_CANCEL:
        cancel(c, m);
        return true;
    case SP_OP_COMMIT:
        (void)sp_upload_commit(&c->pool, m->id, m->size); /* unknown: its FAIL is under way */
        return true;
    case SP_OP_PORT:
        sp_port_open(&c->pool, sp_frame_take_fd(&c->frame, 0));
        return true;
    case SP_OP_OPEN:
    case SP_OP_PUT:
    case SP_OP_DELETE:
    case SP_OP_USAGE:
    case SP_OP_ARCHIVE:
        e = sp_path_check(m->path.p, m->path.n);
        if (e == SP_OK)
            e = m->op == SP_OP_PUT       ? sp_upload_start(&c->pool, m)
                : m->op == SP_OP_ARCHIVE ? sp_archiver_job(&c->archiver, m)
                                         : sp_pool_job(&c->pool, m);
        return e == SP_OK || sp_cell_fail(c, m->id, e);
    default:
        sp_log(SP_LOG_ERROR, "message %u is not for a cell", m->op);
        return false;
    }
}

static bool on_broker(struct sp_cell *c, bool *gone)
{
    for (;;) {
        struct sp_msg m;
        int got = sp_chan_recv(&c->chan, &c->frame);
        if (got == 0)
            return true;
        if (got == -EPIPE) {
            *gone = true;
            return false;
        }
        if (got < 0) {
            sp_log(SP_LOG_ERROR, "receiving from the broker: %s", strerror(-got));
            return false;
        }
        bool ok = sp_msg_decode(&m, c->frame.data, c->frame.len, c->frame.nfds);
        if (!ok)
            sp_log(SP_LOG_ERROR, "the broker sent no message");
        else
            ok = handle(c, &m);
        sp_frame_close_fds(&c->frame);
        if (!ok)
            return false;
    }
}

static bool send_result(struct sp_cell *c, const struct sp_msg *m, int fd)
{
    bool sent = true;
    if (fd < 0)
        return sp_cell_send(c, m, NULL, 0);
    if (!sp_cell_send_fds(c, m, &fd, 1, &sent))
        return false;
    if (sent || m->op == SP_OP_STREAM) /* closed, it ends the archive, whose FAIL follows */
        return true;
    return sp_upload_cancel(&c->pool, m->id, SP_E_OVERLOADED) || /* whose FAIL follows */
           sp_cell_fail(c, m->id, SP_E_OVERLOADED);
}

static bool on_results(struct sp_cell *c)
{
    uint64_t n;
    bool ok = read(c->out.efd, &n, sizeof n) == (ssize_t)sizeof n || errno == EAGAIN ||
              errno == EINTR; /* it is read again in the next turn */
    ok = ok && sp_exec_spawned(c);
    struct sp_result *r = sp_outbox_take(&c->out);
    while (r != NULL) {
        struct sp_result *next = r->next;
        const struct sp_msg m = sp_result_msg(r);
        if (r->id == 0) {
            sp_watch_counted(c, r->op != SP_OP_FAIL);
        } else if (ok) {
            ok = send_result(c, &m, r->fd);
            r->fd = -1;
        }
        sp_result_free(r);
        r = next;
    }
    sp_outbox_sent(&c->out);
    return ok;
}

static bool on_children(struct sp_cell *c)
{
    struct signalfd_siginfo info[2]; /* the kernel keeps one at most of SIGCHLD */
    (void)!read(c->sigfd, info, sizeof info);
    return sp_exec_children(c);
}

/* ---- the loop ---- */

static int watch(struct sp_cell *c, int op, int fd, uint32_t events, uint64_t what)
{
    struct epoll_event ev = {.events = events, .data.u64 = what};
    return epoll_ctl(c->epoll, op, fd, &ev) == 0 ? 0 : -errno;
}

static bool on_event(struct sp_cell *c, const struct epoll_event *ev, bool *gone)
{
    switch (ev->data.u64) {
    case ON_RESULTS:
        return on_results(c);
    case ON_CHILDREN:
        return on_children(c);
    default:
        if ((ev->events & EPOLLOUT) != 0 && flush(c) != 0) {
            *gone = true;
            return false;
        }
        return on_broker(c, gone);
    }
}

/* Of two times to wait; -1 is for ever. */
static int sooner(int a, int b)
{
    return a < 0 || (b >= 0 && b < a) ? b : a;
}

static bool turn(struct sp_cell *c, bool *gone)
{
    struct epoll_event ev[4];
    if (sp_chan_pending(&c->chan) != c->watching_write) {
        c->watching_write = !c->watching_write;
        uint32_t events = EPOLLIN | (c->watching_write ? (uint32_t)EPOLLOUT : 0u);
        if (watch(c, EPOLL_CTL_MOD, c->chan.fd, events, ON_BROKER) != 0)
            return false;
    }
    int wait = sooner(sp_exec_wait_ms(c), sooner(sp_watch_wait_ms(c), sp_held_wait_ms(c)));
    int n = epoll_wait(c->epoll, ev, 4, wait);
    sp_watch_tick(c);
    if (n == 0)
        sp_held_tick(c);
    if (n < 0 && errno != EINTR) {
        sp_log(SP_LOG_ERROR, "waiting failed: %s", strerror(errno));
        return false;
    }
    if (n == 0 && !sp_exec_children(c))
        return false;
    for (int i = 0; i < n; i++) {
        if (!on_event(c, &ev[i], gone))
            return false;
    }
    return sp_exec_tick(c);
}

int sp_cell_serve(struct sp_cell *c)
{
    bool gone = false;
    struct sp_msg up = {.op = SP_OP_UP};
    c->out.chan = &c->chan;
    bool ok = sp_cell_send(c, &up, NULL, 0);
    sp_exec_rest(c);
    while (ok)
        ok = turn(c, &gone);
    sp_uploads_abort(&c->pool, END_MS);
    sp_exec_abort(c, END_MS);
    return gone || flush(c) == -EPIPE ? 0 : 1;
}

/* ---- the start ---- */

/* SIGCHLD comes through a descriptor; SIGPIPE is errno's business. */
static int take_signals(struct sp_cell *c)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    if (sigaction(SIGPIPE, &ignore, NULL) != 0 || sigaction(SIGCHLD, &plain, NULL) != 0 ||
        sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -errno;
    c->sigfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return c->sigfd < 0 ? -errno : 0;
}

/* A command gets its pipes by dup2: no descriptor of ours may be one of the first three. */
static int fill_std(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd < 3);
    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

static int prepare(struct sp_cell *c)
{
    c->root = SP_FD_EXTRA;
    sp_archive_init();
    int err = fill_std();
    if (err == 0)
        err = take_signals(c);
    if (err == 0)
        err = sp_spawner_prepare(&c->spawner);
    if (err == 0)
        err = sp_outbox_init(&c->out);
    if (err == 0)
        err = fcntl(SP_FD_MAIN, F_SETFL, O_RDWR | O_NONBLOCK) == 0 ? 0 : -errno;
    for (int fd = SP_FD_MAIN; fd <= SP_FD_FILTERS && err == 0; fd++)
        err = fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? 0 : -errno;
    for (int fd = SP_FD_CGROUP; c->config->cgroup && fd <= SP_FD_CGROUP_CPU; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0 &&
            (fd != SP_FD_CGROUP_EVENTS || c->config->cgroup_memory) &&
            (fd != SP_FD_CGROUP_CPU || c->config->cgroup_cpu))
            return -errno;
    if (err != 0)
        return err;
    sp_chan_init(&c->chan, SP_FD_MAIN);
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (c->epoll < 0)
        return -errno;
    err = watch(c, EPOLL_CTL_ADD, c->chan.fd, EPOLLIN, ON_BROKER);
    if (err == 0)
        err = watch(c, EPOLL_CTL_ADD, c->out.efd, EPOLLIN, ON_RESULTS);
    if (err == 0)
        err = watch(c, EPOLL_CTL_ADD, c->sigfd, EPOLLIN, ON_CHILDREN);
    return err;
}

int sp_cell_ready(struct sp_cell *c, const char **what)
{
    *what = "loading the filters";
    int err = sp_filters_load();
    if (err == 0) {
        *what = "preparing";
        err = prepare(c);
    }
    if (err == 0) {
        *what = "becoming the reaper of orphans";
        err = sp_confine_reaper();
        err = err > 0 ? 0 : err; /* main has refused where orphans can't be ended otherwise */
    }
    return err;
}

static int give_up_rights(const struct sp_config *c)
{
    int err = 0;
    if (c->switch_uid && !(c->cell_ns != 0 && c->user_ns)) /* else they were taken before */
        err = sp_confine_ids(c->command_uid, c->command_gid);
    if (err == 0) /* after the ids, whose change undoes it; before the capabilities: what stays in
                     the bounding set counts for nothing under no_new_privs alone */
        err = sp_confine_basics(true);
    if (err == 0)
        err = sp_confine_caps(NULL, 0);
    return err;
}

const char *sp_cell_view_failed(const struct sp_view_error *e)
{
    static char text[400];
    (void)snprintf(text, sizeof text, "the view: %s %s", e->step != NULL ? e->step : "", e->path);
    return text;
}

/* First of all: everything that is opened by path later is the view's. */
static int enter_view(const struct sp_config *c, const char **what)
{
    struct sp_view_error e = {0};
    int err = 0;
    *what = "mapping the user into the namespace";
    if (c->cell_ns != 0 && c->user_ns)
        err = sp_userns_settle(c->command_uid, c->command_gid);
    if (err == 0 && c->cell_ns != 0 && c->net_none) {
        *what = "bringing up the loopback device";
        err = sp_net_loopback();
    }
    if (err == 0 && c->view) {
        err = sp_view_enter(c, SP_FD_EXTRA, &e);
        *what = sp_cell_view_failed(&e);
    }
    return err;
}

static int start(struct sp_cell *c, const char **what)
{
    int err = 0;
    if (c->config->mode == SP_MODE_BOX) /* the broker's processor is for the seat's alone: many
                                           cells would wait for each other */
        err = sp_affinity_spread(c->config);
    *what = "taking all processors";
    if (err == 0)
        err = enter_view(c->config, what);
    return err == 0 ? sp_cell_ready(c, what) : err;
}

/* The spawner's filter isn't ours; the file threads inherit it. */
static int start_threads(struct sp_cell *c, const char **what)
{
    const struct sp_config *cfg = c->config;
    *what = "starting the spawner";
    int err = sp_spawner_start(&c->spawner, cfg, c->root, c->out.efd);
    if (err == 0) { /* while it puts on its own */
        *what = "the system call filter";
        err = sp_filters_install(SP_FILTER_CELL);
    }
    if (err == 0) {
        *what = "preparing the file threads"; /* which come with the first file or command */
        sp_quota_init(&c->quota, cfg->quota);
        err = sp_pool_start(&c->pool, cfg, c->root, &c->quota, &c->out);
        sp_archiver_init(&c->archiver, cfg, c->root, &c->out);
    }
    if (err == 0) {
        *what = "confining the spawner";
        err = sp_spawner_confined(&c->spawner);
    }
    if (err == 0 && !atomic_load(&c->spawner.parks))
        sp_log(SP_LOG_DEBUG, "a command's process is made when the command comes, not in advance");
    return err;
}

int sp_cell_settle(struct sp_cell *c, const char **what)
{
    const struct sp_config *cfg = c->config;
    *what = "giving up ids and capabilities";
    int err = give_up_rights(cfg);
    if (err == 0) { /* after the ids: what kill(-1) may reach depends on them */
        *what = "preparing commands";
        err = sp_exec_init(c);
        sp_held_init(c);
    }
    if (err == 0 && cfg->have_landlock) { /* before the threads, which inherit it */
        *what = "Landlock";
        err = sp_landlock_cell(cfg->landlock_abi, cfg->workspace, c->root, cfg->shell,
                               cfg->command_paths, cfg->view);
    }
    if (err != 0 || cfg->purge) /* what follows serves clients */
        return err;
    return start_threads(c, what);
}

int sp_cell_main(void)
{
    const char *what = "";
    struct sp_cell *c = &cell;
    c->config = sp_config_load();
    sp_log_init("cell", (enum sp_log_level)c->config->log_level);
    sp_cell_standing();
    int err = start(c, &what);
    if (err == 0)
        err = sp_cell_settle(c, &what);
    if (err != 0) {
        sp_log(SP_LOG_ERROR, "%s: %s", what, strerror(-err));
        return 1;
    }
    if (!c->config->purge)
        return sp_cell_serve(c);
    err = sp_purge(c->config, c->root);
    if (err != 0)
        sp_log(SP_LOG_ERROR, "emptying a workspace: %s", strerror(-err));
    return err == 0 ? 0 : 1;
}
