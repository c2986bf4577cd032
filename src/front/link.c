/* link.c: the front's end of the broker's socket: sends requests, finds the connection that an
 * answer is for. A message that doesn't parse means that the broker isn't one: the front ends. */
#include "box.h"

#include "sallyport/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An id is a slot and the slot's generation, so that a late answer to a request that was
 * given up can't meet the slot's next user. */
#define SLOT_BITS 13u
#define SLOTS (1u << SLOT_BITS)

static struct {
    struct conn *conn;
    uint32_t gen;
} slots[SLOTS];
static uint32_t free_slots[SLOTS], nfree;
static struct sp_frame frame;

static void on_broker(h2o_socket_t *sock, const char *err);

void link_init(void)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        free_slots[i] = SLOTS - 1 - i;
        slots[i].gen = 1;
    }
    nfree = SLOTS;
    front.broker_sock =
        h2o_evloop_socket_create(front.loop, front.broker.fd, H2O_SOCKET_FLAG_DONT_READ);
    h2o_socket_read_start(front.broker_sock, on_broker);
}

static void on_flush(h2o_socket_t *sock, const char *err)
{
    (void)err;
    front.broker_armed = false;
    (void)sp_chan_flush(&front.broker); /* a lost broker is seen by reading */
    if (sp_chan_pending(&front.broker)) {
        front.broker_armed = true;
        h2o_socket_notify_write(sock, on_flush);
    }
}

bool link_send(struct sp_msg *m)
{
    if (sp_msg_send(&front.broker, m, NULL, 0) != 0)
        return false;
    if (sp_chan_pending(&front.broker) && !front.broker_armed) {
        front.broker_armed = true;
        h2o_socket_notify_write(front.broker_sock, on_flush);
    }
    return true;
}

void link_drop(uint32_t id)
{
    uint32_t slot = id & (SLOTS - 1);
    slots[slot].conn = NULL;
    slots[slot].gen = slots[slot].gen >= (UINT32_MAX >> SLOT_BITS) ? 1 : slots[slot].gen + 1;
    free_slots[nfree++] = slot;
}

uint32_t link_take(struct conn *c, struct sp_msg *m)
{
    if (nfree == 0)
        return 0;
    uint32_t slot = free_slots[--nfree];
    slots[slot].conn = c;
    m->id = slots[slot].gen << SLOT_BITS | slot;
    if (c->has_key)
        m->key = (struct sp_slice){(const char *)c->key, SP_KEY_LEN};
    if (link_send(m))
        return m->id;
    link_drop(m->id);
    return 0;
}

bool link_request(struct conn *c, struct sp_msg *m)
{
    uint32_t id = link_take(c, m);
    if (id == 0) {
        reply_error(c, SP_E_OVERLOADED, NULL);
        return false;
    }
    c->id = id;
    c->op = m->op;
    c->state = CONN_WAIT;
    conn_clock(c, c->reading || c->eof ? CLOCK_NONE : CLOCK_HANGUP);
    return true;
}

void link_forget(struct conn *c, bool cancel)
{
    if (c->id == 0)
        return;
    struct sp_msg m = {.op = SP_OP_CANCEL, .id = c->id};
    if (cancel && (c->op == SP_OP_EXEC || c->op == SP_OP_PUT))
        (void)link_send(&m);
    link_drop(c->id);
    c->id = 0;
    c->op = 0;
}

static struct conn *find(uint32_t id)
{
    uint32_t slot = id & (SLOTS - 1);
    return slots[slot].gen == id >> SLOT_BITS ? slots[slot].conn : NULL;
}

static void dispatch(const struct sp_msg *m, struct sp_frame *f)
{
    struct conn *c = find(m->id);
    if (c == NULL)
        return; /* given up meanwhile */
    if (c->parts != NULL)
        parts_message(c, m, f);
    else if (c->op == SP_OP_EXEC)
        exec_message(c, m, f);
    else if (c->op == SP_OP_PUT)
        upload_message(c, m, f);
    else if (c->op == SP_OP_USAGE || c->op == SP_OP_REMOVE)
        box_message(c, m);
    else if (c->op == SP_OP_ARCHIVE)
        stream_message(c, m, f);
    else
        files_message(c, m, f);
}

/* The broker is gone: whoever waits for it is told, then a new front takes over. */
static void broker_lost(void)
{
    sp_log(SP_LOG_ERROR, "the broker is gone; ending");
    h2o_linklist_t *next;
    for (h2o_linklist_t *l = front.conns.next; l != &front.conns; l = next) {
        next = l->next;
        struct conn *c = H2O_STRUCT_FROM_MEMBER(struct conn, all, l);
        if (c->id == 0)
            continue;
        if (c->state == CONN_STREAM) { /* its head is out: only a cut can tell */
            conn_close(c);
            continue;
        }
        link_forget(c, false);
        c->unread_body = true;
        exec_failed(c, SP_E_CELL_LOST);
    }
    _exit(SP_EXIT_NO_BROKER);
}

static void on_broker(h2o_socket_t *sock, const char *err)
{
    (void)sock;
    (void)err;
    for (int i = 0; i < 64; i++) {
        int r = sp_chan_recv(&front.broker, &frame);
        if (r == 0)
            return;
        if (r < 0)
            broker_lost();
        struct sp_msg m;
        if (!sp_msg_decode(&m, frame.data, frame.len, frame.nfds)) {
            sp_frame_close_fds(&frame);
            sp_log(SP_LOG_ERROR, "the broker sent a message that is none");
            broker_lost();
        }
        dispatch(&m, &frame);
        sp_frame_close_fds(&frame);
    }
}
