/* names_model.h: what stands around the box's half of the broker for fuzz_names.c: a registry that
 * keeps its table as docs/box.md says, processes, folders and the users' leftovers, all in memory.
 * Each function of cells.c, spare.c, home.c and uids.c that the box calls is here, with what must
 * hold whenever it is called. Included once. */
#ifndef SALLYPORT_FUZZ_NAMES_MODEL_H
#define SALLYPORT_FUZZ_NAMES_MODEL_H

#include "broker/box.h"
#include "input.h"
#include "sallyport/uids.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS 256
#define UID_FIRST 5000u
#define UIDS 300u
#define PROCS 4096

enum state { ABSENT, LIVE, GOING };

static struct sp_config cfg;
static struct broker b;
static struct cells cells;
static struct box box;
static struct sp_chan front, registry;
static uint64_t now;

/* By the first byte of the key. */
static struct {
    enum state state;
    uint32_t uid;
    bool folder;
} work[KEYS];
static bool resting[UIDS];  /* in quarantine: not given again in one run */
static unsigned left[UIDS]; /* processes of the user that are no cell's */
static unsigned pool;       /* how many ids there are */
static bool copy_fails, folder_fails, start_fails, remove_fails, have_spare, stubborn;

struct process {
    unsigned slot;
    uint32_t uid;
    bool alive, reaped, purge, up;
    int status;
    struct sp_chan chan;
};
static struct process proc[PROCS]; /* its pid is its place and one more */
static int nprocs;

/* Tells where. */
#define must(ok) ((ok) ? (void)0 : must_have(__FILE__, __LINE__))

static inline void must_have(const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d doesn't hold\n", file, line);
    abort();
}

static struct process *alive_of(uint32_t uid)
{
    for (int i = 0; i < nprocs; i++)
        if (proc[i].alive && proc[i].uid == uid)
            return &proc[i];
    return NULL;
}

static uint8_t key_byte(const struct slot *s)
{
    return s->key[0];
}

static void dies(struct process *p, int status)
{
    if (!p->alive)
        return;
    p->alive = false;
    p->status = status;
    sp_chan_close(&p->chan);
}

/* ---- in the place of cells.c, spare.c, home.c, uids.c, role.c and the kernel ---- */

struct cell_proc *cells_proc(struct cells *c, const struct slot *s)
{
    return &c->proc[s - c->b->slot];
}

void cells_forget(struct sp_config *own)
{
    (void)own;
}

struct sp_config *sp_config_copy(void)
{
    static struct sp_config own;
    errno = ENOMEM;
    return copy_fails ? NULL : &own;
}

void sp_config_unload(struct sp_config *c)
{
    must(c != &cfg);
}

int sp_config_own(struct sp_config *c, const uint8_t key[32], uid_t uid)
{
    (void)key;
    c->command_uid = uid;
    return 0;
}

uint64_t broker_now_ms(void)
{
    return now;
}

/* Of a slot that has none, for a user that nothing runs as, and whose the workspace is. */
static int begin(struct slot *s, uint32_t uid, bool purge)
{
    int p[2];
    struct cell_proc *c = cells_proc(&cells, s);
    must(c->pid == 0 && s->used && uid >= UID_FIRST && uid < UID_FIRST + pool);
    must(alive_of(uid) == NULL && work[key_byte(s)].uid == uid && work[key_byte(s)].folder);
    must(work[key_byte(s)].state == (purge ? GOING : LIVE) && s->removing == purge);
    if (nprocs == PROCS)
        return -EAGAIN;
    must(sp_frame_pair(p) == 0);
    proc[nprocs] =
        (struct process){.slot = (unsigned)(s - b.slot), .uid = uid, .alive = true, .purge = purge};
    sp_chan_init(&proc[nprocs].chan, p[0]);
    c->pid = ++nprocs;
    c->started = now;
    broker_cell_new(&b, s, p[1], now);
    return 0;
}

int cells_start(struct cells *c, struct slot *s, const struct sp_config *own, int workspace,
                uint64_t at)
{
    must(c == &cells && workspace >= 0 && at == now && own != NULL);
    return start_fails ? -EAGAIN : begin(s, own->command_uid, own->purge);
}

int spare_give(struct cells *c, struct slot *s, uid_t uid, int workspace, uint64_t at)
{
    must(c == &cells && workspace >= 0 && at == now);
    bool had = have_spare;
    have_spare = false;
    return had ? begin(s, uid, false) : -EAGAIN;
}

uint64_t spare_tick(struct cells *c, uint64_t at)
{
    must(c == &cells && at == now);
    return BROKER_NEVER;
}

int box_home_open(const struct box *x, const struct slot *s)
{
    must(x == &box && work[key_byte(s)].state != ABSENT);
    must(x->work[s - b.slot].uid == work[key_byte(s)].uid);
    if (folder_fails)
        return -EIO;
    work[key_byte(s)].folder = true;
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Each key of the model is somebody's. */
int box_home_claim(const struct box *x, const struct slot *s)
{
    must(x == &box && s == NULL);
    return 0;
}

/* It is empty, and nobody of its user's lives. */
int box_home_remove(const struct slot *s)
{
    uint32_t uid = work[key_byte(s)].uid;
    must(s->removing && work[key_byte(s)].state == GOING);
    must(alive_of(uid) == NULL && left[uid - UID_FIRST] == 0);
    if (remove_fails)
        return -EIO;
    work[key_byte(s)].folder = false;
    return 0;
}

bool sp_uid_in_use(uid_t uid)
{
    must(uid >= UID_FIRST && uid < UID_FIRST + pool);
    return left[uid - UID_FIRST] > 0 || alive_of(uid) != NULL;
}

void sp_uid_kill(uid_t uid)
{
    if (uid == 0)
        return; /* a slot that has no id yet: as uids.c */
    must(uid >= UID_FIRST && uid < UID_FIRST + pool);
    if (!stubborn)
        left[uid - UID_FIRST] = 0;
    for (struct process *p; (p = alive_of(uid)) != NULL;)
        dies(p, SIGKILL);
}

/* Only processes of ours, which weren't reaped: their number could be another's. */
int kill(pid_t pid, int sig)
{
    must(pid > 0 && pid <= nprocs && sig == SIGKILL && !proc[pid - 1].reaped);
    dies(&proc[pid - 1], SIGKILL);
    return 0;
}

void cells_kill(const struct cell_proc *p)
{
    (void)kill(p->pid, SIGKILL);
}

/* ---- the registry ---- */

static uint32_t free_uid(void)
{
    for (uint32_t i = 0; i < pool; i++) {
        bool taken = resting[i];
        for (int k = 0; k < KEYS && !taken; k++)
            taken = work[k].state != ABSENT && work[k].uid == UID_FIRST + i;
        if (!taken)
            return UID_FIRST + i;
    }
    return 0;
}

static struct sp_msg no(const struct sp_msg *q, enum sp_err e)
{
    return (struct sp_msg){.op = SP_OP_FAIL, .id = q->id, .err = (uint16_t)e};
}

static struct sp_msg named(const struct sp_msg *q, const uint8_t *key)
{
    return (struct sp_msg){.op = SP_OP_NAMED,
                           .id = q->id,
                           .key = {(const char *)key, SP_KEY_LEN},
                           .uid = work[key[0]].uid};
}

static struct sp_msg due(const struct sp_msg *q, uint8_t from)
{
    static uint8_t key[SP_KEY_LEN];
    for (int pass = 0; pass < 2; pass++)
        for (unsigned i = 0; i < KEYS; i++) {
            key[0] = (uint8_t)(from + i);
            if (work[key[0]].state == GOING ||
                (pass == 1 && q->size > 0 && from % 4 == 0 && work[key[0]].state == LIVE))
                return named(q, key);
        }
    return no(q, SP_E_NOT_FOUND);
}

/* What an honest registry answers; op 0: nothing. */
static struct sp_msg answer_to(const struct sp_msg *q, uint8_t luck)
{
    const uint8_t *key = (const uint8_t *)q->key.p;
    uint8_t k = q->op == SP_OP_DUE ? 0 : key[0];
    if (q->op == SP_OP_RETIRE && key[1] != 0) /* of a lie (lie 4): nobody has that key */
        return no(q, SP_E_NOT_FOUND);
    switch (q->op) {
    case SP_OP_NAME:
        if (work[k].state == ABSENT) {
            uint32_t uid = free_uid();
            if (uid == 0)
                return no(q, SP_E_OVERLOADED);
            work[k].state = LIVE;
            work[k].uid = uid;
        }
        return work[k].state == LIVE ? named(q, key) : no(q, SP_E_BUSY);
    case SP_OP_TOUCH:
        return (struct sp_msg){0};
    case SP_OP_RETIRE:
        if (work[k].state == ABSENT)
            return no(q, SP_E_NOT_FOUND);
        work[k].state = GOING;
        return named(q, key);
    case SP_OP_FREED:
        if (work[k].state != ABSENT) {
            uint32_t i = work[k].uid - UID_FIRST;
            must(work[k].state == GOING && !work[k].folder && left[i] == 0);
            must(alive_of(work[k].uid) == NULL);
            resting[i] = true;
            work[k].state = ABSENT;
        }
        return (struct sp_msg){.op = SP_OP_DONE, .id = q->id};
    case SP_OP_DUE:
        return due(q, luck);
    default:
        abort();
    }
}

#endif
