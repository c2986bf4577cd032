/* broker_stage.h: plays front, cell and clock around the broker's state machine, for the tests of
 * it. Included once in a test program; everything in it is that program's own. */
#ifndef SALLYPORT_TESTS_BROKER_STAGE_H
#define SALLYPORT_TESTS_BROKER_STAGE_H

#include "broker/broker.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct broker b;
#define S (b.slot[0])              /* the seat's */
static struct sp_chan front, cell; /* the other ends */
static struct sp_frame frame;
static uint64_t now;
static struct sp_msg got;

static inline void new_front(void)
{
    int p[2];
    ck_assert_int_eq(sp_frame_pair(p), 0);
    if (front.fd > 0)
        sp_chan_close(&front);
    sp_chan_init(&front, p[0]);
    broker_front_new(&b, p[1], now);
}

static inline void new_cell(void)
{
    int p[2];
    const struct sp_msg up = {.op = SP_OP_UP};
    ck_assert_int_eq(sp_frame_pair(p), 0);
    if (cell.fd > 0)
        sp_chan_close(&cell);
    sp_chan_init(&cell, p[0]);
    broker_cell_new(&b, &S, p[1], now);
    ck_assert_int_eq(sp_msg_send(&cell, &up, NULL, 0), 0);
    ck_assert_int_eq(sp_chan_recv(&S.cell, &frame), 1);
    broker_from_cell(&b, &S, &frame, now);
    ck_assert(S.cell_up);
}

static inline void setup(void)
{
    memset(&b, 0, sizeof b);
    broker_init(&b, 3600000);
    now = 1000;
    new_front();
    new_cell();
}

static inline void teardown(void)
{
    broker_free(&b);
    sp_chan_close(&front);
    sp_chan_close(&cell);
    sp_chan_init(&front, -1);
    sp_chan_init(&cell, -1);
}

/* Fills what an op needs to be encoded at all. */
static inline struct sp_msg make(uint8_t op, uint32_t id)
{
    struct sp_msg m = {.op = op, .id = op >= SP_OP_DRAIN ? 0 : id};
    m.command = (struct sp_slice){"true", 4};
    m.path = (struct sp_slice){"a/b", 3};
    m.cwd = m.env = m.etag = (struct sp_slice){"", 0};
    m.err = SP_E_NOT_FOUND;
    return m;
}

/* The descriptors that op carries, of the right kinds. */
static inline int fds_for(uint8_t op, int *fds, bool with_stdin)
{
    int out[2], err[2], in[2];
    if (op == SP_OP_STARTED) {
        ck_assert_int_eq(pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC) | pipe2(in, O_CLOEXEC), 0);
        fds[0] = out[0];
        fds[1] = err[0];
        fds[2] = in[1];
        close(out[1]);
        close(err[1]);
        close(in[0]);
        if (!with_stdin)
            close(in[1]);
        return with_stdin ? 3 : 2;
    }
    if (op == SP_OP_READY) {
        ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
        close(in[0]);
        fds[0] = in[1];
        return 1;
    }
    if (op == SP_OP_STREAM) {
        ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
        close(in[1]);
        fds[0] = in[0];
        return 1;
    }
    if (op == SP_OP_FILE || op == SP_OP_FRONT) {
        fds[0] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        return 1;
    }
    return 0;
}

static inline void from_front(const struct sp_msg *m)
{
    int fds[SP_FRAME_FDS], n = fds_for(m->op, fds, false);
    ck_assert_int_eq(sp_msg_send(&front, m, fds, n), 0);
    ck_assert_int_eq(sp_chan_recv(&b.front, &frame), 1);
    broker_from_front(&b, &frame, now);
    sp_frame_close_fds(&frame);
}

static inline void front_op(uint8_t op, uint32_t id)
{
    struct sp_msg m = make(op, id);
    from_front(&m);
}

static inline void from_cell_with(const struct sp_msg *m, bool with_stdin)
{
    int fds[SP_FRAME_FDS], n = fds_for(m->op, fds, with_stdin);
    ck_assert_int_eq(sp_msg_send(&cell, m, fds, n), 0);
    ck_assert_int_eq(sp_chan_recv(&S.cell, &frame), 1);
    broker_from_cell(&b, &S, &frame, now);
    sp_frame_close_fds(&frame);
}

static inline void cell_op(uint8_t op, uint32_t id)
{
    struct sp_msg m = make(op, id);
    from_cell_with(&m, false);
}

static inline bool next(struct sp_chan *c)
{
    if (sp_chan_recv(c, &frame) != 1)
        return false;
    ck_assert(sp_msg_decode(&got, frame.data, frame.len, frame.nfds));
    sp_frame_close_fds(&frame);
    return true;
}

/* The cell is asked op; its id for it. */
static inline uint32_t asked(uint8_t op)
{
    ck_assert(next(&cell));
    ck_assert_uint_eq(got.op, op);
    return got.id;
}

static inline void answered(uint8_t op, uint32_t id)
{
    ck_assert(next(&front));
    ck_assert_uint_eq(got.op, op);
    ck_assert_uint_eq(got.id, id);
}

static inline void failed(uint32_t id, enum sp_err e)
{
    answered(SP_OP_FAIL, id);
    ck_assert_int_eq(got.err, e);
}

static inline void quiet(void)
{
    ck_assert(!next(&front));
    ck_assert(!next(&cell));
    ck_assert_ptr_null(b.front_breach);
    ck_assert_ptr_null(S.cell_breach);
}

static inline uint32_t running(uint32_t id)
{
    front_op(SP_OP_EXEC, id);
    uint32_t c = asked(SP_OP_EXEC);
    cell_op(SP_OP_STARTED, c);
    answered(SP_OP_STARTED, id);
    return c;
}

#endif
