/* cells.c: starts, replaces and ends cell processes. A cell is the only process with its
 * workspace; when one dies, what it had started is killed before the next one begins, so that
 * no command outlives the process that accounted for it. Trusts main's settings alone. */
#include "broker/cells.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"
#include "sallyport/sweep.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BACKOFF_FIRST_MS 100u
#define BACKOFF_LAST_MS 2000u
#define SETTLED_MS 60000u /* a cell that lived so long failed for a reason of its own */
#define SWEEP_MS 10000u
#define FILES_OTHER 64u /* as the front counts them */
#define FINISH_MS 5000

static struct rlimit files_before, files_ours;

uint64_t broker_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

void cells_init(struct cells *c, struct broker *b, const struct sp_config *cfg)
{
    *c = (struct cells){.cfg = cfg, .b = b};
    if (getrlimit(RLIMIT_NOFILE, &files_before) != 0)
        sp_log(SP_LOG_WARN, "can't read the limit of open files: %s", strerror(errno));
    files_ours = files_before;
    files_ours.rlim_cur = files_ours.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files_ours);
    /* A front that doesn't read must not use up our descriptors: without one left we could take
     * none from a cell, nor look into /proc after one. A sound front has one answer due for each
     * connection, and bounds those by the same limit. */
    rlim_t have = files_ours.rlim_max;
    rlim_t spare = have > 2 * FILES_OTHER ? (have - FILES_OTHER) / 2 : FILES_OTHER / 4;
    rlim_t most = (rlim_t)cfg->max_connections + SP_FRAME_FDS;
    b->front_fds = (unsigned)(spare < most ? spare : most); /* most is small */
    spare_init(c);
}

struct cell_proc *cells_proc(struct cells *c, const struct slot *s)
{
    return &c->proc[s - c->b->slot];
}

struct slot *cells_by_pid(struct cells *c, pid_t pid)
{
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        if (c->proc[i].pid == pid)
            return &c->b->slot[i];
    return NULL;
}

static int spawn(const char *role, const struct sp_fdmap *map, int n, const struct sp_role_ns *ns,
                 struct spare *made)
{
    (void)setrlimit(RLIMIT_NOFILE, &files_before);
    made->pid = sp_role_spawn_in(role, map, n, ns);
    (void)setrlimit(RLIMIT_NOFILE, &files_ours);
    return made->pid < 0 ? made->pid : 0;
}

/* The seat's one cgroup, which we have at the numbers that a cell is to have it. */
static int pass_group(const struct sp_config *c, struct sp_fdmap *map)
{
    const struct sp_cgroup_fds f = {
        c->cgroup ? SP_FD_CGROUP : -1, c->cgroup ? SP_FD_CGROUP_FREEZE : -1,
        c->cgroup ? SP_FD_CGROUP_PROCS : -1, c->cgroup_memory ? SP_FD_CGROUP_EVENTS : -1,
        c->cgroup_cpu ? SP_FD_CGROUP_CPU : -1};
    return sp_cgroup_map(&f, map);
}

/* In a cgroup of its own. One that waits is given to a user later. */
static int spawn_grouped(struct cells *c, const char *role, const struct sp_config *own,
                         struct sp_fdmap *map, int n, struct sp_role_ns *ns, struct spare *made)
{
    struct sp_cgroup_fds f;
    int r = group_make(c, &f, &ns->cgroup, &made->group);
    if (r != 0)
        return r;
    if (own->cell_name[0] != '\0')
        r = group_give(made->group, own->command_uid);
    if (r == 0)
        r = spawn(role, map, n + sp_cgroup_map(&f, map + n), ns, made);
    close(ns->cgroup);
    sp_cgroup_close(&f);
    if (r != 0)
        group_end(c, &made->group);
    return r;
}

int cells_launch(struct cells *c, const char *role, const struct sp_config *own, int config_fd,
                 int workspace, struct spare *made)
{
    int pair[2];
    int r = sp_frame_pair(pair);
    if (r != 0)
        return r;
    struct sp_fdmap map[4 + SP_CGROUP_FDS] = {
        {pair[1], SP_FD_MAIN}, {config_fd, SP_FD_CONFIG}, {SP_FD_FILTERS, SP_FD_FILTERS}};
    int n = 3;
    if (workspace >= 0)
        map[n++] = (struct sp_fdmap){workspace, SP_FD_EXTRA};
    *made = (struct spare){.fd = pair[0]};
    struct sp_role_ns ns = sp_ns_of(own, true);
    if (own->cgroup && c->b->box)
        r = spawn_grouped(c, role, own, map, n, &ns, made);
    else
        r = spawn(role, map, n + (c->b->box ? 0 : pass_group(c->cfg, map + n)), &ns, made);
    close(pair[1]);
    if (r != 0)
        close(pair[0]);
    return r;
}

void cells_kill(const struct cell_proc *p)
{
    if (p->group != 0)
        (void)sp_cgroup_cell_lift(SP_FD_CGROUP, p->group);
    (void)kill(p->pid, SIGKILL);
}

void cells_reaped(struct cells *c, struct cell_proc *p, int status)
{
    p->pid = 0;
    p->status = status;
    group_end(c, &p->group);
}

void cells_forget(struct sp_config *own)
{
    memset(own->api_key, 0, sizeof own->api_key);
    memset(own->state, 0, sizeof own->state);
    own->nkeys = 0;
}

static int launch(struct cells *c, struct slot *s, const struct sp_config *cfg, int config_fd,
                  int workspace, uint64_t now)
{
    struct spare made;
    int r = cells_launch(c, "cell", cfg, config_fd, workspace, &made);
    if (r != 0)
        return r;
    struct cell_proc *p = cells_proc(c, s);
    p->pid = made.pid;
    p->group = made.group;
    p->started = now;
    broker_cell_new(c->b, s, made.fd, now);
    return 0;
}

int cells_start(struct cells *c, struct slot *s, const struct sp_config *own, int workspace,
                uint64_t now)
{
    int fd = SP_FD_CONFIG;
    if (own != NULL && (fd = sp_sealed_memfd("sallyport-config", own, sizeof *own)) < 0)
        return fd;
    int r = launch(c, s, own != NULL ? own : c->cfg, fd, workspace, now);
    if (own != NULL)
        close(fd);
    if (r != 0)
        sp_log(SP_LOG_ERROR, "can't start a cell: %s", strerror(-r));
    return r;
}

/* ---- the seat ---- */

static void schedule(struct cell_proc *c, uint64_t now)
{
    if (c->started != 0 && now - c->started >= SETTLED_MS)
        c->failures = 0;
    uint64_t wait = 0;
    if (c->failures > 0) {
        unsigned shift = c->failures - 1 < 8 ? c->failures - 1 : 8;
        wait = (uint64_t)BACKOFF_FIRST_MS << shift;
        wait = wait < BACKOFF_LAST_MS ? wait : BACKOFF_LAST_MS;
    }
    c->failures++;
    c->started = now; /* where no start comes to be, too: else each would count as the first */
    c->restart_at = now + wait;
}

int cells_seat_start(struct cells *c, uint64_t now)
{
    int r = cells_start(c, &c->b->slot[0], NULL, SP_FD_EXTRA, now);
    if (r != 0)
        schedule(&c->proc[0], now);
    return r;
}

static void sweep(const struct cells *c)
{
    if (c->cfg->cgroup_cpu && !c->b->box)
        (void)sp_cgroup_cpus(SP_FD_CGROUP_CPU, NULL); /* the next cell limits them anew */
    if (c->cfg->cgroup)
        (void)sp_cgroup_kill(SP_FD_CGROUP_FREEZE, SP_FD_CGROUP_PROCS);
    uid_t uid = c->cfg->own_uid && c->cfg->switch_uid ? c->cfg->command_uid : (uid_t)-1;
    int left = sp_sweep(NULL, 0, uid, SWEEP_MS);
    if (c->cfg->cgroup)
        (void)sp_cgroup_thaw(SP_FD_CGROUP_FREEZE);
    if (left < 0)
        sp_log(SP_LOG_ERROR, "can't look for processes that a cell left: %s", strerror(-left));
    else if (left > 0)
        sp_log(SP_LOG_ERROR, "%d processes that a cell left are still dying", left);
}

void cells_seat_lost(struct cells *c, const char *why, uint64_t now)
{
    struct cell_proc *p = &c->proc[0];
    struct slot *s = &c->b->slot[0];
    sp_log(SP_LOG_ERROR, "the cell is lost: %s", why);
    if (p->pid > 0)
        (void)kill(p->pid, SIGKILL);
    p->pid = 0;
    sweep(c); /* reaps it too */
    now = broker_now_ms() > now ? broker_now_ms() : now;
    schedule(p, now);
    bool at_once = p->restart_at <= now && p->ever_up;
    broker_cell_gone(c->b, s, at_once, SP_E_CELL_LOST, now);
    if (at_once && cells_seat_start(c, now) != 0)
        broker_cell_gone(c->b, s, false, SP_E_CELL_LOST, now);
}

uint64_t cells_seat_tick(struct cells *c, uint64_t now)
{
    struct cell_proc *p = &c->proc[0];
    struct slot *s = &c->b->slot[0];
    if (p->pid == 0) {
        /* One that died unheard is cleared away first: a start would forget that it had work. */
        if (p->restart_at <= now && s->cell_breach == NULL)
            (void)cells_seat_start(c, now);
        return p->pid == 0 ? p->restart_at : p->started + CELLS_UP_GRACE_MS;
    }
    if (s->cell_up) {
        p->ever_up = true;
        return BROKER_NEVER;
    }
    if (now >= p->started + CELLS_UP_GRACE_MS) {
        broker_cell_broke(s, "it didn't come up in time");
        return now;
    }
    return p->started + CELLS_UP_GRACE_MS;
}

/* ---- the end ---- */

static unsigned alive(const struct cells *c)
{
    unsigned n = 0;
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        n += c->proc[i].pid > 0;
    return n;
}

void cells_finish(struct cells *c)
{
    spare_finish(c);
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        sp_chan_close(&c->b->slot[i].cell); /* it kills its commands and ends */
    uint64_t end = broker_now_ms() + FINISH_MS;
    while (alive(c) > 0 && broker_now_ms() < end) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        const struct slot *s = pid > 0 ? cells_by_pid(c, pid) : NULL;
        if (s != NULL)
            cells_reaped(c, cells_proc(c, s), 0);
        if (pid == 0)
            (void)poll(NULL, 0, 5);
        else if (pid < 0 && errno != EINTR)
            break;
    }
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        if (c->proc[i].pid == 0)
            continue;
        sp_log(SP_LOG_WARN, "a cell didn't end by itself");
        cells_kill(&c->proc[i]);
        c->proc[i].pid = 0;
    }
    sweep(c);
}
