/* names.c: the broker's end of the registry's socket. The registry keeps which user id belongs to
 * which key; it reads nothing but what the broker sends, and its answers are still checked: an id
 * outside the pool is refused. When it is lost, main sends the socket of a new one, and what was
 * asked is asked again. */
#include "broker/box.h"
#include "sallyport/log.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#define ASK_AGAIN_MS 20u

struct box_work *box_work(struct box *x, const struct slot *s)
{
    return &x->work[s - x->b->slot];
}

static uint32_t fresh_id(struct box *x)
{
    if (++x->last_id == 0)
        x->last_id = 1;
    return x->last_id;
}

static struct sp_slice key_of(const struct slot *s)
{
    return (struct sp_slice){(const char *)s->key, SP_KEY_LEN};
}

uint64_t box_ask(struct box *x, const struct slot *s, uint8_t op, enum box_step step, uint64_t now)
{
    struct box_work *w = box_work(x, s);
    struct sp_msg m = {.op = op, .id = fresh_id(x), .key = key_of(s)};
    if (x->registry.fd < 0)
        return BROKER_NEVER;
    if (sp_msg_send(&x->registry, &m, NULL, 0) != 0) /* no memory; a lost one is seen by reading */
        return now + ASK_AGAIN_MS;
    w->asked = m.id;
    w->step = step;
    return BROKER_NEVER;
}

void box_touch(struct box *x, const struct slot *s)
{
    struct sp_msg m = {.op = SP_OP_TOUCH, .key = key_of(s)};
    if (x->registry.fd >= 0)
        (void)sp_msg_send(&x->registry, &m, NULL, 0); /* a lost registry is seen by reading */
}

/* What is in use is touched first, so that it isn't due. */
void box_ask_due(struct box *x)
{
    uint64_t keep = x->c->cfg->retention_ms / 1000u, now = (uint64_t)time(NULL);
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        if (x->b->slot[i].used && !x->b->slot[i].removing)
            box_touch(x, &x->b->slot[i]);
    struct sp_msg m = {.op = SP_OP_DUE, .id = fresh_id(x)};
    m.size = keep == 0 || keep > now ? 0 : now - keep;
    if (sp_msg_send(&x->registry, &m, NULL, 0) == 0)
        x->due_id = m.id;
}

void box_registry_new(struct box *x, int fd)
{
    sp_chan_close(&x->registry);
    sp_chan_init(&x->registry, fd);
    x->due_id = 0;
    x->next_sweep = 0; /* the ids that the last one held for nobody are due */
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        struct box_work *w = &x->work[i];
        w->asked = 0;
        if (w->step == BOX_ASKED || w->step == BOX_RETIRING)
            w->step = BOX_NONE;
        else if (w->step == BOX_FREEING)
            w->step = BOX_REMOVED; /* it may be free already: nobody's processes are ours to end */
    }
}

/* ---- answers ---- */

static void due_answer(struct box *x, const struct sp_msg *m)
{
    x->due_id = 0;
    if (m->op != SP_OP_NAMED)
        return; /* there is none */
    struct slot *s = broker_slot(x->b, (const uint8_t *)m->key.p, true);
    if (s == NULL || s->nops > 0 || s->removing || cells_proc(x->c, s)->pid > 0)
        return; /* in use after all: another time */
    memset(box_work(x, s), 0, sizeof(struct box_work));
    s->removing = box_work(x, s)->swept = true;
}

static void refused(struct box *x, struct slot *s, enum sp_err e, uint64_t now)
{
    struct box_work *w = box_work(x, s);
    if (w->step == BOX_ASKED) {
        w->step = BOX_NONE;
        broker_cell_gone(x->b, s, false, e, now);
    } else {
        box_removed(x, s, e, now);
    }
}

static bool answer_ok(const struct box *x, const struct slot *s, const struct sp_msg *m)
{
    const struct box_work *w = &x->work[s - x->b->slot];
    const struct sp_config *c = x->c->cfg;
    if (m->op == SP_OP_FAIL)
        return true;
    if (m->op == SP_OP_DONE)
        return w->step == BOX_FREEING;
    return m->op == SP_OP_NAMED && (w->step == BOX_ASKED || w->step == BOX_RETIRING) &&
           m->uid >= c->uid_min && m->uid <= c->uid_max &&
           memcmp(m->key.p, s->key, SP_KEY_LEN) == 0;
}

/* False: the registry said what it can't. */
static bool on_answer(struct box *x, const struct sp_msg *m, uint64_t now)
{
    struct slot *s = NULL;
    if (m->id == x->due_id && (m->op == SP_OP_NAMED || m->op == SP_OP_FAIL)) {
        due_answer(x, m);
        return true;
    }
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        if (x->b->slot[i].used && x->work[i].asked == m->id)
            s = &x->b->slot[i];
    if (s == NULL)
        /* Nobody waits for it any more. Was it never asked, then another's is unanswered. */
        return (int32_t)(m->id - x->last_id) <= 0;
    if (!answer_ok(x, s, m))
        return false;
    struct box_work *w = box_work(x, s);
    w->asked = 0;
    if (m->op == SP_OP_FAIL) {
        refused(x, s, (enum sp_err)m->err, now);
    } else if (m->op == SP_OP_DONE) {
        box_removed(x, s, SP_OK, now);
    } else {
        w->uid = m->uid;
        w->step = w->step == BOX_ASKED ? BOX_NAMED : BOX_RETIRED;
    }
    return true;
}

void box_registry_ready(struct box *x, short revents, uint64_t now)
{
    static struct sp_frame frame;
    if (revents & POLLOUT)
        (void)sp_chan_flush(&x->registry);
    for (int i = 0; i < 64; i++) {
        struct sp_msg m;
        int r = sp_chan_recv(&x->registry, &frame);
        if (r == 0)
            return;
        bool ok = r == 1 && sp_msg_decode(&m, frame.data, frame.len, frame.nfds) && m.id != 0;
        if (r == 1)
            sp_frame_close_fds(&frame);
        if (ok && on_answer(x, &m, now))
            continue;
        if (r != -EPIPE)
            sp_log(SP_LOG_ERROR, "the registry sent what it can't mean");
        sp_chan_close(&x->registry); /* it ends by that, and main starts another */
        return;
    }
}
