/* run.c: the broker process: one loop over main's, the front's and the cell's sockets.
 *
 * It outlives a killed main on purpose, long enough to end the commands: that is why it has no
 * parent-death signal and takes main's end of the socket for it. It isn't under Landlock, as a
 * domain is inherited and cells need their own. Trusts main; see broker.h for the others. */
#include "broker/cells.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"

#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define FRAMES_A_TURN 64 /* from one sender, before the others have theirs */

static struct broker broker;
static struct cells cells;
static struct sp_chan main_chan;
static struct sp_frame frame;
static bool ending;

static int confine(const struct sp_config *cfg)
{
    const int keep[] = {CAP_SETUID, CAP_SETGID, CAP_KILL};
    int r = sp_filters_load();
    int reaper = r == 0 ? sp_confine_reaper() : r;
    r = reaper > 0 ? 0 : reaper; /* main has refused where orphans can't be ended otherwise */
    if (r == 0)
        r = sp_confine_caps(keep, cfg->switch_uid ? 3 : 0);
    if (r == 0)
        r = sp_confine_basics(false);
    if (r == 0)
        r = sp_filters_install(SP_FILTER_BROKER);
    return r;
}

static int open_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    (void)signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        return -errno;
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

static void tell_main(uint8_t op)
{
    const struct sp_msg m = {.op = op};
    if (sp_msg_send(&main_chan, &m, NULL, 0) != 0)
        ending = true;
}

static void on_main(void)
{
    int r;
    while (!ending && (r = sp_chan_recv(&main_chan, &frame)) != 0) {
        struct sp_msg m;
        if (r < 0 || !sp_msg_decode(&m, frame.data, frame.len, frame.nfds)) {
            ending = true;
        } else if (m.op == SP_OP_KILL_ALL) {
            broker_kill_all(&broker, broker_now_ms());
        } else if (m.op == SP_OP_FRONT) {
            broker_front_new(&broker, sp_frame_take_fd(&frame, 0), broker_now_ms());
        }
        sp_frame_close_fds(&frame);
    }
}

static void on_front(void)
{
    for (int i = 0; i < FRAMES_A_TURN && broker.front.fd >= 0 && !broker.front_broken; i++) {
        int r = sp_chan_recv(&broker.front, &frame);
        if (r == 0)
            return;
        if (r == 1)
            broker_from_front(&broker, &frame, broker_now_ms());
        else if (r == -EPROTO)
            broker_front_broke(&broker, "it sent more than a message may hold", broker_now_ms());
        else
            broker_front_gone(&broker, broker_now_ms());
        sp_frame_close_fds(&frame);
    }
}

/* limit: frames at most. True if the socket is at its end. */
static bool on_cell(int limit)
{
    for (int i = 0; i < limit && broker.cell.fd >= 0 && broker.cell_breach == NULL; i++) {
        int r = sp_chan_recv(&broker.cell, &frame);
        if (r == 0)
            return false;
        if (r == 1)
            broker_from_cell(&broker, &frame, broker_now_ms());
        else if (r == -EPROTO)
            broker_cell_broke(&broker, "it sent more than a message may hold");
        sp_frame_close_fds(&frame);
        if (r < 0)
            return true;
    }
    return false;
}

static void on_signal(int sigfd)
{
    struct signalfd_siginfo si;
    while (read(sigfd, &si, sizeof si) == (ssize_t)sizeof si)
        if (si.ssi_signo == SIGTERM)
            ending = true;
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != cells.pid)
            continue;
        cells.pid = 0;
        (void)on_cell(1024); /* its last words */
        if (WIFSIGNALED(status))
            sp_log(SP_LOG_ERROR, "the cell was ended by signal %d", WTERMSIG(status));
        else
            sp_log(SP_LOG_ERROR, "the cell ended with status %d", WEXITSTATUS(status));
        broker_cell_broke(&broker, "it ended");
    }
}

/* Acts on what the state machine asked for. */
static void act(void)
{
    if (broker.front_breach != NULL) {
        sp_log(SP_LOG_ERROR, "breach by the front: %s", broker.front_breach);
        tell_main(SP_OP_BREACH); /* first, so that main knows before that front can be dead */
        broker_front_gone(&broker, broker_now_ms());
    }
    if (broker.cell_breach != NULL) {
        const char *why = broker.cell_breach;
        cells_lost(&cells, why, broker_now_ms());
    }
}

static short wants(const struct sp_chan *c)
{
    return sp_chan_pending(c) ? POLLIN | POLLOUT : POLLIN;
}

static int turn(int sigfd)
{
    uint64_t now = broker_now_ms();
    uint64_t due = broker_tick(&broker, now);
    act(); /* a dead cell's operations are failed before cells_tick may start the next one */
    uint64_t start = cells_tick(&cells, now);
    due = start < due ? start : due;
    act();
    now = broker_now_ms();
    int wait = due == BROKER_NEVER ? -1
               : due <= now        ? 0
               : due - now > 60000 ? 60000
                                   : (int)(due - now);
    struct pollfd p[] = {{.fd = main_chan.fd, .events = wants(&main_chan)},
                         {.fd = broker.front.fd, .events = wants(&broker.front)},
                         {.fd = broker.cell.fd, .events = wants(&broker.cell)},
                         {.fd = sigfd, .events = POLLIN}};
    if (poll(p, 4, wait) < 0 && errno != EINTR)
        return -errno;
    if (p[0].revents & POLLOUT)
        (void)sp_chan_flush(&main_chan);
    if (p[1].revents & POLLOUT)
        (void)sp_chan_flush(&broker.front); /* a lost peer is seen by reading */
    if (p[2].revents & POLLOUT)
        (void)sp_chan_flush(&broker.cell);
    /* The cell first: a freed seat is free for the request that comes with it. */
    if ((p[2].revents & ~POLLOUT) && on_cell(FRAMES_A_TURN))
        broker_cell_broke(&broker, "its socket is closed");
    if (p[1].revents & ~POLLOUT)
        on_front();
    if (p[0].revents & ~POLLOUT)
        on_main();
    if (p[3].revents)
        on_signal(sigfd);
    return 0;
}

int sp_broker_main(void)
{
    const struct sp_config *cfg = sp_config_load();
    sp_log_init("broker", (enum sp_log_level)cfg->log_level);
    broker_init(&broker, cfg->max_timeout_ms);
    cells_init(&cells, &broker, cfg);
    int sigfd = open_signals();
    int self = sp_role_init_self(true);
    int r = sigfd < 0 ? sigfd : self < 0 ? self : confine(cfg);
    if (r != 0) {
        sp_log(SP_LOG_ERROR, "can't confine itself: %s", strerror(-r));
        return 1;
    }
    sp_chan_init(&main_chan, SP_FD_MAIN);
    bool told = false;
    r = cells_start(&cells, broker_now_ms());
    while (r == 0 && !ending) {
        r = turn(sigfd);
        if (!told && broker.cell_up) {
            told = true;
            tell_main(SP_OP_UP);
        } else if (!told && cells.failures > 0) {
            r = -ECHILD; /* main tells the operator; nothing was promised to anyone yet */
        }
    }
    if (r != 0)
        sp_log(SP_LOG_ERROR, "ending: %s", r == -ECHILD ? "the first cell failed" : strerror(-r));
    broker_kill_all(&broker, broker_now_ms());
    broker_front_gone(&broker, broker_now_ms());
    cells_finish(&cells);
    return r == 0 ? 0 : 1;
}
