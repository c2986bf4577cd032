/* spare.c: cells that are started before an identity needs one (cell/idle.c). Each is given to one
 * identity, once, with its key, its user id and its workspace, and is the slot's cell from then on.
 * A spare has our rights and waits: what it is told first is the first that it hears of anyone.
 *
 * Not through a user namespace: that maps one user id, which has to be known when it is made.
 * Trusts main's settings. */
#include "broker/box.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"
#include "sallyport/view.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUIET_MS 3u     /* without an operation, before another is started */
#define LATEST_MS 50u   /* after which it is started all the same */
#define FIRST_MS 20u    /* after our own start, when the others have theirs */
#define FAILED_MS 5000u /* after one that couldn't be started, or died unused */

void spare_init(struct cells *c)
{
    const struct sp_config *cfg = c->cfg;
    struct spares *p = &c->spares;
    p->config_fd = -1;
    if (cfg->mode != SP_MODE_BOX || !cfg->view || cfg->user_ns || !cfg->switch_uid)
        return;
    p->want = cfg->spare_cells <= SPARES_MAX ? cfg->spare_cells : SPARES_MAX;
    p->due = broker_now_ms() + FIRST_MS;
    p->latest = p->due + LATEST_MS;
}

/* What all cells are told alike. */
static int make_config(struct cells *c)
{
    struct sp_config *common = sp_config_copy();
    if (common == NULL)
        return -errno;
    cells_forget(common);
    int fd = sp_sealed_memfd("sallyport-config", common, sizeof *common);
    sp_config_unload(common);
    if (fd >= 0)
        c->spares.config_fd = fd;
    return fd < 0 ? fd : 0;
}

static int start_one(struct cells *c)
{
    struct spares *p = &c->spares;
    int r = p->config_fd < 0 ? make_config(c) : 0;
    struct spare *s = &p->one[p->n];
    if (r == 0)
        r = cells_launch(c, "idle", c->cfg, p->config_fd, -1, s);
    if (r == 0)
        p->n++;
    else
        sp_log(SP_LOG_WARN, "can't start a spare cell: %s", strerror(-r));
    return r;
}

/* Nobody waits for a cell to come up, and for a moment nobody for anything else either: to start a
 * process takes us a millisecond. */
static bool quiet(const struct cells *c, uint64_t now)
{
    uint64_t last = 0;
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        const struct slot *s = &c->b->slot[i];
        if (s->used && (s->nops > 0 || (c->proc[i].pid > 0 && !s->cell_up)))
            return false;
        if (s->used && s->idle_since > last)
            last = s->idle_since;
    }
    return now >= last + QUIET_MS;
}

uint64_t spare_tick(struct cells *c, uint64_t now)
{
    struct spares *p = &c->spares;
    if (p->n >= p->want || c->b->draining)
        return BROKER_NEVER;
    if (now < p->due)
        return p->due;
    if (now < p->latest && !quiet(c, now))
        return now + QUIET_MS < p->latest ? now + QUIET_MS : p->latest;
    p->due = start_one(c) == 0 ? now : now + FAILED_MS;
    p->latest = p->due + LATEST_MS;
    return p->n < p->want ? p->due : BROKER_NEVER;
}

static void drop(struct spares *p, unsigned i)
{
    p->one[i] = p->one[--p->n];
}

/* 0, or -errno: then the identity's cell has to be started the plain way. */
int spare_give(struct cells *c, struct slot *s, uid_t uid, int workspace, uint64_t now)
{
    struct spares *p = &c->spares;
    struct sp_view_error e;
    if (p->n == 0)
        return -EAGAIN;
    int fds[2] = {sp_view_tree(c->cfg, workspace, NULL, &e), -1};
    if (fds[0] < 0)
        return fds[0];
    fds[1] = fcntl(workspace, F_DUPFD_CLOEXEC, 0);
    struct spare one = p->one[0];
    struct sp_chan chan;
    const struct sp_msg m = {
        .op = SP_OP_ADOPT, .key = {(const char *)s->key, SP_KEY_LEN}, .uid = uid};
    sp_chan_init_wary(&chan, one.fd);
    drop(p, 0);
    p->due = now;
    p->latest = now + LATEST_MS;
    int r = fds[1] < 0 ? -errno : group_give(one.group, uid);
    if (r != 0) {
        close(fds[0]);
        if (fds[1] >= 0)
            close(fds[1]);
    } else
        r = sp_msg_send(&chan, &m, fds, 2);
    if (r == 0 && sp_chan_pending(&chan))
        r = -EAGAIN; /* the kernel had no memory, and nobody would send it later */
    if (r != 0) {    /* it is dead, or can't be told: nobody else is to have it */
        sp_chan_close(&chan);
        (void)kill(one.pid, SIGKILL);
        group_end(c, &one.group);
        return r;
    }
    struct cell_proc *proc = cells_proc(c, s);
    proc->pid = one.pid;
    proc->group = one.group;
    proc->started = now;
    broker_cell_new(c->b, s, one.fd, now);
    return 0;
}

bool spare_ended(struct cells *c, pid_t pid, int status, uint64_t now)
{
    struct spares *p = &c->spares;
    for (unsigned i = 0; i < p->n; i++) {
        if (p->one[i].pid != pid)
            continue;
        if (WIFSIGNALED(status))
            sp_log(SP_LOG_WARN, "a spare cell was ended by signal %d", WTERMSIG(status));
        else
            sp_log(SP_LOG_WARN, "a spare cell ended with status %d", WEXITSTATUS(status));
        close(p->one[i].fd);
        group_end(c, &p->one[i].group);
        drop(p, i);
        p->due = now + FAILED_MS;
        p->latest = p->due + LATEST_MS;
        return true;
    }
    return false;
}

void spare_finish(struct cells *c)
{
    struct spares *p = &c->spares;
    p->want = 0;
    while (p->n > 0) {
        close(p->one[p->n - 1].fd);
        (void)kill(p->one[p->n - 1].pid, SIGKILL); /* it has nothing to clear away */
        drop(p, p->n - 1);
    }
}
