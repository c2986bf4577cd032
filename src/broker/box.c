/* box.c: cells for many workspaces. One is started when something is asked of a workspace that has
 * none, under the user id that the registry names, and ended when nothing was asked for a while.
 * Two cells of one user id never live at the same time: each believes that all processes of that id
 * are its own, and ends them. Trusts main's settings; neither front nor cells, as broker.h says. */
#include "broker/box.h"
#include "sallyport/log.h"
#include "sallyport/sha256.h"
#include "sallyport/uids.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define END_GRACE_MS 8000u
#define SLOTS_FREE 8u /* of BROKER_SLOTS_MAX */

void box_init(struct box *x, struct cells *c)
{
    memset(x, 0, sizeof *x);
    x->c = c;
    x->b = c->b;
    sp_chan_init(&x->registry, -1);
    if (c->cfg->mode != SP_MODE_BOX)
        return;
    broker_be_box(x->b, c->cfg->queue_max, c->cfg->max_running);
    x->next_sweep = broker_now_ms();
}

/* The settings of a cell of its own; a copy of which few pages differ from ours. */
static int start_plain(const struct box *x, struct slot *s, bool purge, int home, uint64_t now)
{
    struct sp_config *own = sp_config_copy();
    if (own == NULL)
        return -errno;
    cells_forget(own);
    own->purge = purge;
    if (purge) /* it runs nothing */
        own->cgroup = own->cgroup_memory = own->cgroup_pids = own->cgroup_cpu = false;
    int r = sp_config_own(own, s->key, x->work[s - x->b->slot].uid);
    if (r == 0)
        r = cells_start(x->c, s, own, home, now);
    sp_config_unload(own);
    return r;
}

int box_start_cell(struct box *x, struct slot *s, bool purge, uint64_t now)
{
    int home = box_home_open(x, s);
    if (home < 0) {
        char name[2 * SP_KEY_LEN + 1];
        sp_hex(s->key, SP_KEY_LEN, name);
        sp_log(SP_LOG_ERROR, "the folder of workspace %.8s...: %s", name, strerror(-home));
        return home;
    }
    int r = -EAGAIN;
    if (!purge)
        r = spare_give(x->c, s, box_work(x, s)->uid, home, now);
    if (r != 0)
        r = start_plain(x, s, purge, home, now);
    close(home);
    return r;
}

void box_end_cell(struct box *x, struct slot *s, uint64_t now)
{
    struct box_work *w = box_work(x, s);
    w->ending = true;
    w->deadline = now + END_GRACE_MS;
    broker_slot_part(s);
    s->cell_up = false;
}

bool box_expected(struct box *x, const struct slot *s)
{
    struct box_work *w = box_work(x, s);
    if (w->ending) {
        w->ending = false;
        return true;
    }
    if (w->step != BOX_PURGING)
        return false;
    w->step = BOX_PURGED;
    w->deadline = broker_now_ms() + END_GRACE_MS;
    return true;
}

static void lost(struct box *x, struct slot *s, uint64_t now)
{
    struct box_work *w = box_work(x, s);
    const struct cell_proc *p = cells_proc(x->c, s);
    bool retry = s->cell_up;
    sp_log(SP_LOG_ERROR, "a cell is lost: %s", s->cell_breach);
    if (p->pid > 0) {
        cells_kill(p);
        w->ending = true;
        w->deadline = BROKER_NEVER;
    }
    sp_uid_kill(w->uid); /* all that it had started */
    broker_cell_gone(x->b, s, retry, SP_E_CELL_LOST, now);
}

void box_act(struct box *x, uint64_t now)
{
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        if (x->b->slot[i].used && x->b->slot[i].cell_breach != NULL)
            lost(x, &x->b->slot[i], now);
}

/* Without a cell. */
static uint64_t start_tick(struct box *x, struct slot *s, uint64_t now)
{
    struct box_work *w = box_work(x, s);
    if (!broker_slot_waits(s)) {
        if (s->nops == 0) {
            broker_slot_free(s);
            memset(w, 0, sizeof *w);
        }
        return BROKER_NEVER;
    }
    if (w->step == BOX_NONE)
        return box_ask(x, s, SP_OP_NAME, BOX_ASKED, now);
    if (w->step != BOX_NAMED)
        return BROKER_NEVER; /* the registry's answer, or a new registry, comes */
    if (box_start_cell(x, s, false, now) != 0) {
        broker_cell_gone(x->b, s, false, SP_E_OVERLOADED, now);
        return now;
    }
    return now + CELLS_UP_GRACE_MS;
}

static uint64_t ending_tick(struct box *x, const struct slot *s, uint64_t now)
{
    struct box_work *w = box_work(x, s);
    if (now >= w->deadline) {
        sp_log(SP_LOG_WARN, "a cell didn't end by itself");
        cells_kill(cells_proc(x->c, s));
        w->deadline = BROKER_NEVER;
    }
    return w->deadline;
}

static uint64_t slot_tick(struct box *x, struct slot *s, uint64_t now)
{
    const struct cell_proc *p = cells_proc(x->c, s);
    if (p->pid > 0 && box_work(x, s)->ending)
        return ending_tick(x, s, now);
    if (s->removing)
        return box_remove_tick(x, s, now);
    if (p->pid == 0)
        return start_tick(x, s, now);
    if (!s->cell_up) {
        if (now >= p->started + CELLS_UP_GRACE_MS)
            broker_cell_broke(s, "it didn't come up in time");
        return p->started + CELLS_UP_GRACE_MS;
    }
    if (s->nops > 0)
        return BROKER_NEVER;
    uint64_t due = s->idle_since + x->c->cfg->cell_idle_ms;
    if (due > now)
        return due;
    box_touch(x, s);
    box_end_cell(x, s, now);
    return now + END_GRACE_MS;
}

/* Whoever comes when every slot is taken is refused. So few are kept free: the longest idle cell
 * makes room for who may come next, before its time. */
static void make_room(struct box *x, uint64_t now)
{
    struct slot *idle = NULL;
    unsigned room = 0;
    for (unsigned i = 0; i < BROKER_SLOTS_MAX && room < SLOTS_FREE; i++) {
        struct slot *s = &x->b->slot[i];
        if (!s->used || x->work[i].ending)
            room++;
        else if (s->nops == 0 && s->cell_up && !s->removing &&
                 (idle == NULL || s->idle_since < idle->idle_since))
            idle = s;
    }
    if (idle != NULL && room < SLOTS_FREE) {
        box_touch(x, idle);
        box_end_cell(x, idle, now);
    }
}

uint64_t box_tick(struct box *x, uint64_t now)
{
    uint64_t due = BROKER_NEVER;
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        struct slot *s = &x->b->slot[i];
        if (!s->used)
            continue;
        uint64_t at = slot_tick(x, s, now);
        due = at < due ? at : due;
    }
    make_room(x, now);
    uint64_t spare = spare_tick(x->c, now);
    due = spare < due ? spare : due;
    if (x->registry.fd < 0 || x->due_id != 0) /* an answer, or a new registry, wakes us */
        return due;
    if (now >= x->next_sweep) {
        x->next_sweep = now + x->c->cfg->sweep_interval_ms;
        box_ask_due(x);
    }
    return x->next_sweep < due ? x->next_sweep : due;
}
