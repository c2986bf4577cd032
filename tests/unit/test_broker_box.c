/* test_broker_box.c: the broker's state machine with many slots: who may run, who waits where, and
 * that what happens in one slot stays there. */
#include "broker_stage.h"

#define QUEUE 2u
#define BUSY 3u

static struct sp_chan cells[4]; /* the other ends; of key n */
static uint8_t keys[4][SP_KEY_LEN];

static struct slot *slot_of(unsigned n)
{
    return broker_slot(&b, keys[n], false);
}

static void box_setup(void)
{
    memset(&b, 0, sizeof b);
    broker_init(&b, 3600000);
    broker_be_box(&b, QUEUE, BUSY);
    now = 1000;
    for (unsigned n = 0; n < 4; n++) {
        memset(keys[n], (int)n + 1, SP_KEY_LEN);
        sp_chan_init(&cells[n], -1);
    }
    new_front();
}

static void box_teardown(void)
{
    broker_free(&b);
    sp_chan_close(&front);
    sp_chan_init(&front, -1);
    for (unsigned n = 0; n < 4; n++)
        sp_chan_close(&cells[n]);
}

static void start_cell(unsigned n)
{
    int p[2];
    const struct sp_msg up = {.op = SP_OP_UP};
    ck_assert_int_eq(sp_frame_pair(p), 0);
    sp_chan_close(&cells[n]);
    sp_chan_init(&cells[n], p[0]);
    broker_cell_new(&b, slot_of(n), p[1], now);
    ck_assert_int_eq(sp_msg_send(&cells[n], &up, NULL, 0), 0);
    ck_assert_int_eq(sp_chan_recv(&slot_of(n)->cell, &frame), 1);
    broker_from_cell(&b, slot_of(n), &frame, now);
}

static void ask(unsigned n, uint8_t op, uint32_t id)
{
    struct sp_msg m = make(op, id);
    m.key = (struct sp_slice){(const char *)keys[n], SP_KEY_LEN};
    from_front(&m);
}

static void say(unsigned n, uint8_t op, uint32_t id)
{
    struct sp_msg m = make(op, id);
    int fds[SP_FRAME_FDS], nfds = fds_for(op, fds, false);
    ck_assert_int_eq(sp_msg_send(&cells[n], &m, fds, nfds), 0);
    ck_assert_int_eq(sp_chan_recv(&slot_of(n)->cell, &frame), 1);
    broker_from_cell(&b, slot_of(n), &frame, now);
    sp_frame_close_fds(&frame);
}

/* The cell of key n is asked op; its id for it. Keys never reach a cell. */
static uint32_t asked_of(unsigned n, uint8_t op)
{
    ck_assert(next(&cells[n]));
    ck_assert_uint_eq(got.op, op);
    ck_assert_uint_eq(got.key.n, 0);
    return got.id;
}

START_TEST(apart)
{
    ask(0, SP_OP_EXEC, 1);
    ask(1, SP_OP_OPEN, 2);
    ask(0, SP_OP_OPEN, 3);
    ck_assert(slot_of(0) != slot_of(1) && slot_of(2) == NULL);
    ck_assert(broker_slot_waits(slot_of(0)) && broker_slot_waits(slot_of(1)));
    start_cell(0);
    uint32_t f = asked_of(0, SP_OP_OPEN), e = asked_of(0, SP_OP_EXEC);
    ck_assert(!next(&cells[0]));
    start_cell(1);
    uint32_t g = asked_of(1, SP_OP_OPEN);
    say(1, SP_OP_FILE, g);
    answered(SP_OP_FILE, 2);
    say(1, SP_OP_FILE, f); /* an operation of another slot */
    ck_assert_ptr_nonnull(slot_of(1)->cell_breach);
    ck_assert_ptr_null(slot_of(0)->cell_breach);
    ck_assert(!next(&front));
    broker_cell_gone(&b, slot_of(1), false, SP_E_CELL_LOST, now);
    say(0, SP_OP_FILE, f);
    answered(SP_OP_FILE, 3);
    say(0, SP_OP_STARTED, e);
    answered(SP_OP_STARTED, 1);
    broker_cell_gone(&b, slot_of(0), false, SP_E_CELL_LOST, now);
    failed(1, SP_E_CELL_LOST);
    ck_assert_uint_eq(b.nops, 0);
}
END_TEST

START_TEST(order)
{
    ask(0, SP_OP_EXEC, 1);
    start_cell(0);
    uint32_t e = asked_of(0, SP_OP_EXEC);
    ask(0, SP_OP_EXEC, 2);
    ask(0, SP_OP_EXEC, 3);
    ask(0, SP_OP_EXEC, 4); /* the queue holds two */
    failed(4, SP_E_BUSY);
    front_op(SP_OP_CANCEL, 2); /* leaves */
    failed(2, SP_E_BUSY);
    ask(0, SP_OP_EXEC, 5);
    say(0, SP_OP_STARTED, e);
    answered(SP_OP_STARTED, 1);
    say(0, SP_OP_EXITED, e);
    answered(SP_OP_EXITED, 1);
    e = asked_of(0, SP_OP_EXEC);
    ck_assert(!next(&cells[0]) && !next(&front)); /* nobody is told that it is taken */
    say(0, SP_OP_STARTED, e);
    answered(SP_OP_STARTED, 3);
    say(0, SP_OP_EXITED, e);
    answered(SP_OP_EXITED, 3);
    say(0, SP_OP_STARTED, asked_of(0, SP_OP_EXEC));
    answered(SP_OP_STARTED, 5);
}
END_TEST

START_TEST(places)
{
    for (unsigned n = 0; n < BUSY; n++)
        ask(n, SP_OP_EXEC, n + 1); /* waiting for a cell takes a place, too */
    ask(3, SP_OP_EXEC, 10);
    failed(10, SP_E_BUSY);
    ask(0, SP_OP_EXEC, 11); /* a second one of the same doesn't */
    ask(3, SP_OP_OPEN, 12); /* nor do files */
    ck_assert(!next(&front));
    start_cell(1);
    say(1, SP_OP_FAIL, asked_of(1, SP_OP_EXEC));
    failed(2, SP_E_NOT_FOUND);
    ask(3, SP_OP_EXEC, 13);
    ck_assert(!next(&front));
}
END_TEST

START_TEST(lost_and_retried)
{
    ask(0, SP_OP_EXEC, 1);
    start_cell(0);
    (void)asked_of(0, SP_OP_EXEC);
    ask(0, SP_OP_EXEC, 2);
    broker_cell_gone(&b, slot_of(0), true, SP_E_CELL_LOST, now);
    failed(1, SP_E_CELL_LOST);
    ask(0, SP_OP_PUT, 3);
    start_cell(0);
    uint32_t p = asked_of(0, SP_OP_PUT);
    (void)asked_of(0, SP_OP_EXEC);
    say(0, SP_OP_READY, p);
    answered(SP_OP_READY, 3);
    ck_assert_uint_eq(b.nops, 2);
}
END_TEST

START_TEST(removal)
{
    ask(0, SP_OP_OPEN, 1);
    ask(0, SP_OP_REMOVE, 2);
    failed(2, SP_E_BUSY);
    start_cell(0);
    say(0, SP_OP_FILE, asked_of(0, SP_OP_OPEN));
    answered(SP_OP_FILE, 1);
    ask(0, SP_OP_REMOVE, 3);
    ck_assert(slot_of(0)->removing);
    ck_assert(!next(&cells[0])); /* the loop's business */
    ask(0, SP_OP_EXEC, 4);
    failed(4, SP_E_BUSY);
    ask(0, SP_OP_REMOVE, 5);
    failed(5, SP_E_BUSY);
    broker_cell_gone(&b, slot_of(0), true, SP_E_CELL_LOST, now);
    ck_assert_uint_eq(b.nops, 1); /* the removal goes on without that cell */
}
END_TEST

START_TEST(keys_are_due)
{
    front_op(SP_OP_OPEN, 1);
    ck_assert_ptr_nonnull(b.front_breach);
}
END_TEST

START_TEST(slots_run_out)
{
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        keys[0][0] = (uint8_t)i;
        keys[0][1] = 77;
        ask(0, SP_OP_OPEN, i + 1);
    }
    keys[0][1] = 78;
    ask(0, SP_OP_OPEN, 1000);
    failed(1000, SP_E_OVERLOADED);
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        struct slot *s = &b.slot[i];
        broker_cell_gone(&b, s, false, SP_E_OVERLOADED, now);
        ck_assert_uint_eq(s->nops, 0);
        broker_slot_free(s);
    }
    ask(0, SP_OP_OPEN, 1001);
    ck_assert_uint_eq(b.nops, 1);
}
END_TEST

/* A front that was taken over fills the queues with the longest commands. */
/* However many one asks for, and whatever its cell does with them, there is room for the others. */
START_TEST(no_one_takes_all)
{
    ask(0, SP_OP_OPEN, 1);
    start_cell(0);
    for (uint32_t id = 2; id <= BROKER_SLOT_OPS_MAX; id++)
        ask(0, SP_OP_OPEN, id);
    ck_assert(!next(&front));
    ask(0, SP_OP_OPEN, 1000);
    failed(1000, SP_E_OVERLOADED);
    ask(0, SP_OP_EXEC, 1001);
    failed(1001, SP_E_OVERLOADED);
    ask(1, SP_OP_OPEN, 1002);
    start_cell(1);
    say(1, SP_OP_FILE, asked_of(1, SP_OP_OPEN));
    answered(SP_OP_FILE, 1002);
    say(0, SP_OP_FILE, asked_of(0, SP_OP_OPEN));
    answered(SP_OP_FILE, 1);
    ask(0, SP_OP_OPEN, 1000);
    ck_assert(!next(&front));
}
END_TEST

START_TEST(bytes_that_wait)
{
    static char longest[SP_COMMAND_MAX];
    unsigned refused = 0;
    memset(longest, 'x', sizeof longest);
    broker_be_box(&b, 1000, BUSY);
    for (unsigned i = 0; i < 500; i++) {
        struct sp_msg m = make(SP_OP_EXEC, i + 1);
        m.key = (struct sp_slice){(const char *)keys[i % 3], SP_KEY_LEN};
        m.command = (struct sp_slice){longest, sizeof longest};
        from_front(&m);
        ck_assert_uint_le(b.held, BROKER_HELD_MAX);
        if (refused > 0 || b.nops == i) {
            failed(i + 1, SP_E_OVERLOADED);
            refused++;
        }
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_gt(b.held, BROKER_HELD_MAX - sizeof longest - 4096);
    ask(0, SP_OP_OPEN, 1000); /* there may be room for a short one; no breach in any case */
    for (unsigned n = 0; n < 3; n++)
        broker_cell_gone(&b, slot_of(n), false, SP_E_CELL_LOST, now);
    ck_assert_uint_eq(b.held, 0);
    ck_assert_uint_eq(b.nops, 0);
    ck_assert_ptr_null(b.front_breach);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("broker_box");
    TCase *t = tcase_create("box");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, box_setup, box_teardown);
    tcase_add_test(t, apart);
    tcase_add_test(t, order);
    tcase_add_test(t, places);
    tcase_add_test(t, lost_and_retried);
    tcase_add_test(t, removal);
    tcase_add_test(t, keys_are_due);
    tcase_add_test(t, slots_run_out);
    tcase_add_test(t, no_one_takes_all);
    tcase_add_test(t, bytes_that_wait);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failures = srunner_ntests_failed(r);
    srunner_free(r);
    return failures != 0;
}
