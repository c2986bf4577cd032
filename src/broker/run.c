/* run.c: the broker process: one loop over main's, the front's and the cells' sockets.
 *
 * It outlives a killed main on purpose, long enough to end the commands: that is why it has no
 * parent-death signal and takes main's end of the socket for it. It isn't under Landlock, as a
 * domain is inherited and cells need their own. Trusts main; see broker.h for the others. */
#include "broker/box.h"
#include "sallyport/affinity.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"

#include <errno.h>
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
static struct box box;
static struct sp_chan main_chan;
static struct sp_frame frame;
static bool ending;

static int confine(const struct sp_config *cfg)
{
    int keep[SP_KEEP_MAX];
    int n = sp_caps_to_keep(cfg, keep);
    int r = sp_filters_load();
    int reaper = r == 0 ? sp_confine_reaper() : r;
    r = reaper > 0 ? 0 : reaper; /* main has refused where orphans can't be ended otherwise */
    if (r == 0)
        r = sp_confine_caps(keep, n);
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
        } else if (m.op == SP_OP_REGISTRY) {
            box_registry_new(&box, sp_frame_take_fd(&frame, 0));
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
static bool on_cell(struct slot *s, int limit)
{
    for (int i = 0; i < limit && s->cell.fd >= 0 && s->cell_breach == NULL; i++) {
        int r = sp_chan_recv(&s->cell, &frame);
        if (r == 0)
            return false;
        if (r == 1)
            broker_from_cell(&broker, s, &frame, broker_now_ms());
        else if (r == -EPROTO)
            broker_cell_broke(s, "it sent more than a message may hold");
        sp_frame_close_fds(&frame);
        if (r < 0)
            return true;
    }
    return false;
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

static void on_signal(int sigfd)
{
    struct signalfd_siginfo si;
    while (read(sigfd, &si, sizeof si) == (ssize_t)sizeof si)
        if (si.ssi_signo == SIGTERM)
            ending = true;
    int status;
    pid_t pid;
    while ((pid = ended_child(&status)) > 0) {
        struct slot *s = cells_by_pid(&cells, pid);
        if (s == NULL) {
            if (!spare_ended(&cells, pid, status, broker_now_ms()))
                groups_clear(&cells); /* an orphan, perhaps the last in its cgroup */
            continue;
        }
        cells_reaped(&cells, cells_proc(&cells, s), status);
        (void)on_cell(s, 1024); /* its last words */
        if (broker.box && box_expected(&box, s))
            continue;
        if (WIFSIGNALED(status))
            sp_log(SP_LOG_ERROR, "the cell was ended by signal %d", WTERMSIG(status));
        else
            sp_log(SP_LOG_ERROR, "the cell ended with status %d", WEXITSTATUS(status));
        broker_cell_broke(s, "it ended");
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
    if (broker.box)
        box_act(&box, broker_now_ms());
    else if (broker.slot[0].cell_breach != NULL)
        cells_seat_lost(&cells, broker.slot[0].cell_breach, broker_now_ms());
}

static short wants(const struct sp_chan *c)
{
    return sp_chan_pending(c) ? POLLIN | POLLOUT : POLLIN;
}

enum { P_MAIN, P_FRONT, P_SIGNALS, P_REGISTRY, P_CELLS };

/* The cells first: a freed seat is free for the request that comes with it. */
static void on_cells(const struct pollfd *p, const unsigned char *slot, int n)
{
    for (int i = 0; i < n; i++) {
        struct slot *s = &broker.slot[slot[i]];
        if (p[i].revents & POLLOUT)
            (void)sp_chan_flush(&s->cell); /* a lost peer is seen by reading */
        if (!(p[i].revents & ~POLLOUT) || !on_cell(s, FRAMES_A_TURN))
            continue;
        if (broker.box && box_work(&box, s)->step == BOX_PURGING)
            broker_slot_part(s); /* its work is done, or failed: its status tells */
        else
            broker_cell_broke(s, "its socket is closed");
    }
}

static int wait_events(int sigfd, int wait)
{
    static struct pollfd p[P_CELLS + BROKER_SLOTS_MAX];
    static unsigned char slot[BROKER_SLOTS_MAX];
    int n = 0;
    p[P_MAIN] = (struct pollfd){.fd = main_chan.fd, .events = wants(&main_chan)};
    p[P_FRONT] = (struct pollfd){.fd = broker.front.fd, .events = wants(&broker.front)};
    p[P_SIGNALS] = (struct pollfd){.fd = sigfd, .events = POLLIN};
    p[P_REGISTRY] = (struct pollfd){.fd = box.registry.fd, .events = wants(&box.registry)};
    for (int i = 0; i < (broker.box ? BROKER_SLOTS_MAX : 1); i++) {
        const struct slot *s = &broker.slot[i];
        if (s->cell.fd < 0)
            continue;
        slot[n] = (unsigned char)i;
        p[P_CELLS + n++] = (struct pollfd){.fd = s->cell.fd, .events = wants(&s->cell)};
    }
    if (poll(p, (nfds_t)P_CELLS + (nfds_t)n, wait) < 0 && errno != EINTR) {
        if (errno != ENOMEM)
            return -errno;
        sp_pause(); /* and look again: every command depends on us */
    }
    if (p[P_MAIN].revents & POLLOUT)
        (void)sp_chan_flush(&main_chan);
    if (p[P_FRONT].revents & POLLOUT)
        (void)sp_chan_flush(&broker.front);
    on_cells(p + P_CELLS, slot, n);
    if (p[P_REGISTRY].revents)
        box_registry_ready(&box, p[P_REGISTRY].revents, broker_now_ms());
    if (p[P_FRONT].revents & ~POLLOUT)
        on_front();
    if (p[P_MAIN].revents & ~POLLOUT)
        on_main();
    if (p[P_SIGNALS].revents)
        on_signal(sigfd);
    return 0;
}

static int turn(int sigfd)
{
    uint64_t now = broker_now_ms();
    uint64_t due = broker_tick(&broker, now);
    act(); /* a dead cell's operations are failed before the tick may start the next one */
    uint64_t start = broker.box ? box_tick(&box, now) : cells_seat_tick(&cells, now);
    due = start < due ? start : due;
    act();
    now = broker_now_ms();
    int wait = due == BROKER_NEVER ? -1
               : due <= now        ? 0
               : due - now > 60000 ? 60000
                                   : (int)(due - now);
    return wait_events(sigfd, wait);
}

int sp_broker_main(void)
{
    const struct sp_config *cfg = sp_config_load();
    sp_log_init("broker", (enum sp_log_level)cfg->log_level);
    broker_init(&broker, cfg->max_timeout_ms);
    broker.ports = true;
    cells_init(&cells, &broker, cfg);
    box_init(&box, &cells);
    int sigfd = open_signals();
    int self = sp_role_init_self(true);
    int r = sigfd < 0 ? sigfd : self < 0 ? self : sp_affinity_pin(cfg);
    r = r != 0 ? r : confine(cfg);
    if (r != 0) {
        sp_log(SP_LOG_ERROR, "can't confine itself: %s", strerror(-r));
        return 1;
    }
    sp_chan_init(&main_chan, SP_FD_MAIN);
    bool told = broker.box; /* its cells come later */
    if (told)
        tell_main(SP_OP_UP);
    r = broker.box ? 0 : cells_seat_start(&cells, broker_now_ms());
    while (r == 0 && !ending) {
        r = turn(sigfd);
        if (!told && broker.slot[0].cell_up) {
            told = true;
            tell_main(SP_OP_UP);
        } else if (!told && cells.proc[0].failures > 0) {
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
