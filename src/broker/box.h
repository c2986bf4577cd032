/* box.h: the box's side of the broker: names and user ids from the registry, cells that come when
 * there is work for them and go when there isn't, workspaces that are removed. */
#ifndef SALLYPORT_BROKER_BOX_H
#define SALLYPORT_BROKER_BOX_H

#include "broker/cells.h"

enum box_step {
    BOX_NONE,     /* nothing known of the slot's key */
    BOX_ASKED,    /* NAME is at the registry */
    BOX_NAMED,    /* the user id is known: a cell may be started */
    BOX_RETIRING, /* RETIRE is at the registry */
    BOX_RETIRED,  /* a cell that empties the workspace may be started */
    BOX_PURGING,  /* it runs */
    BOX_PURGED,   /* it ended: whatever else the user has, goes */
    BOX_REMOVED,  /* and its folder has gone: FREED is to be asked */
    BOX_FREEING,  /* FREED is at the registry */
};

struct box_work {
    enum box_step step;
    uint32_t asked; /* id of what the registry owes, 0 nothing */
    uint32_t uid;
    bool swept;        /* removed because it was due, not because a client asked */
    bool ending;       /* the cell's socket was closed: it is to end by itself */
    uint64_t deadline; /* of ending and of BOX_PURGED */
};

struct box {
    struct cells *c;
    struct broker *b;
    struct sp_chan registry; /* fd -1: none, until main sends another */
    uint32_t last_id, due_id;
    uint64_t next_sweep;
    struct box_work work[BROKER_SLOTS_MAX]; /* of the slot with the same number */
};

void box_init(struct box *x, struct cells *c);
void box_registry_new(struct box *x, int fd);
void box_registry_ready(struct box *x, short revents, uint64_t now);
/* A cell ended. True: it was meant to. */
bool box_expected(struct box *x, const struct slot *s);
/* Clears away cells that broke. */
void box_act(struct box *x, uint64_t now);
/* What is due; the time of the next thing due, or BROKER_NEVER. */
uint64_t box_tick(struct box *x, uint64_t now);

/* ---- names.c: the registry ---- */
struct box_work *box_work(struct box *x, const struct slot *s);
/* Asks, and when it is to be called again if the question couldn't be sent; BROKER_NEVER: the
 * answer, or a new registry, wakes the loop. */
uint64_t box_ask(struct box *x, const struct slot *s, uint8_t op, enum box_step step, uint64_t now);
void box_touch(struct box *x, const struct slot *s);
void box_ask_due(struct box *x);
/* remove.c: a removal's next step; the time of the next thing due, or BROKER_NEVER. */
uint64_t box_remove_tick(struct box *x, struct slot *s, uint64_t now);
/* The removal is over: its client, if there is one, is told. e SP_OK: it is gone. */
void box_removed(struct box *x, struct slot *s, enum sp_err e, uint64_t now);
/* ---- home.c: the workspace's folder ---- */
/* Makes it, for its user alone, where it isn't there yet. The descriptor or -errno. */
int box_home_open(const struct box *x, const struct slot *s);
int box_home_remove(const struct slot *s); /* it is empty, or gone. 0 or -errno */
/* Of a key that is nobody's: if its user has a folder all the same, as a loss of power took the row
 * that told whose it was, that gets this key's name. 0 or -errno. */
int box_home_claim(const struct box *x, const struct slot *s);
/* Starts a cell of the slot's user. 0 or -errno. */
int box_start_cell(struct box *x, struct slot *s, bool purge, uint64_t now);
/* Asks the slot's cell to end by itself. */
void box_end_cell(struct box *x, struct slot *s, uint64_t now);

#endif
