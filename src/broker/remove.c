/* remove.c: a workspace goes, step by step: the registry marks it first, so that a crash at any
 * instant is gone on with later; a cell of its own, as its owner, empties it; every process of its
 * user is ended; the empty folder goes; and only then does the registry put the user id into
 * quarantine. Nothing here looks into a workspace. */
#include "broker/box.h"
#include "sallyport/log.h"
#include "sallyport/sha256.h"
#include "sallyport/uids.h"
#include "sallyport/unnamed.h"

#include <string.h>
#include <sys/wait.h>

#define LOOK_AGAIN_MS 20u

void box_removed(struct box *x, struct slot *s, enum sp_err e, uint64_t now)
{
    const struct sp_msg done = {.op = SP_OP_DONE};
    for (unsigned i = 0; i < x->b->touched && s->nops > 0; i++) {
        struct op *o = &x->b->ops[i];
        if (o->state == OP_FREE || o->slot != s || o->kind != SP_OP_REMOVE)
            continue;
        if (e == SP_OK)
            answer(x->b, o, &done, NULL, 0);
        else
            answer_fail(x->b, o, e);
        op_free(x->b, o);
    }
    if (box_work(x, s)->swept && e == SP_OK)
        x->next_sweep = now; /* is there another one? */
    if (e != SP_OK && e != SP_E_NOT_FOUND)
        box_touch(x, s); /* so that others that are due come before it is tried again */
    s->removing = false;
    memset(box_work(x, s), 0, sizeof(struct box_work));
    settle(x->b, now);
}

/* The user's processes are dead, or dying: until they are gone. True: go on. They are killed
 * unseen, too: a /proc that hides others' processes (hidepid) shows us none of them. */
static bool nobody_left(const struct box_work *w, uint64_t now)
{
    sp_uid_kill(w->uid);
    return !sp_uid_in_use(w->uid) || now >= w->deadline;
}

static uint64_t purged(struct box *x, struct slot *s, uint64_t now)
{
    struct box_work *w = box_work(x, s);
    int status = cells_proc(x->c, s)->status;
    char name[2 * SP_KEY_LEN + 1];
    if (!nobody_left(w, now))
        return now + LOOK_AGAIN_MS;
    bool ok = WIFEXITED(status) && WEXITSTATUS(status) == 0 && !sp_uid_in_use(w->uid);
    sp_hex(s->key, SP_KEY_LEN, name);
    int r = ok ? box_home_remove(s) : 0;
    if (r != 0) {
        sp_log(SP_LOG_ERROR, "can't remove the folder %.8s...: %s", name, strerror(-r));
        ok = false;
    }
    if (!ok) { /* it stays marked: the next sweep goes on */
        sp_log(SP_LOG_ERROR, "the workspace %.8s... isn't empty yet", name);
        box_removed(x, s, SP_E_INTERNAL, now);
        return now;
    }
    w->step = BOX_REMOVED;
    return box_ask(x, s, SP_OP_FREED, BOX_FREEING, now);
}

static bool claimed(const struct box *x, const struct slot *s)
{
    int r = 0;
    if (sp_is_unnamed(s->key, x->work[s - x->b->slot].uid))
        r = box_home_claim(x, s);
    if (r != 0)
        sp_log(SP_LOG_ERROR, "can't look for what a user id has: %s", strerror(-r));
    return r == 0;
}

uint64_t box_remove_tick(struct box *x, struct slot *s, uint64_t now)
{
    struct box_work *w = box_work(x, s);
    bool alive = cells_proc(x->c, s)->pid > 0;
    switch (w->step) {
    case BOX_NONE:
    case BOX_ASKED:
    case BOX_NAMED:
        if (alive) {
            box_end_cell(x, s, now);
            return w->deadline;
        }
        return box_ask(x, s, SP_OP_RETIRE, BOX_RETIRING, now);
    case BOX_RETIRED:
        if (claimed(x, s) && box_start_cell(x, s, true, now) == 0)
            w->step = BOX_PURGING;
        else
            box_removed(x, s, SP_E_OVERLOADED, now);
        return BROKER_NEVER;
    case BOX_PURGED:
        return purged(x, s, now);
    case BOX_REMOVED:
        return box_ask(x, s, SP_OP_FREED, BOX_FREEING, now);
    case BOX_RETIRING:
    case BOX_PURGING:
    case BOX_FREEING:
        break;
    }
    return BROKER_NEVER;
}
