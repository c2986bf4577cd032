/* test_broker.c: the broker's state machine between a front and a cell that behave, and that are
 * slow, leave or die. test_broker_hostile.c has those that don't behave. */
#include "broker_stage.h"

START_TEST(lifecycle)
{
    uint32_t c = running(900);
    ck_assert_uint_ne(c, 900);
    front_op(SP_OP_EXEC, 901);
    failed(901, SP_E_BUSY);
    cell_op(SP_OP_EXITED, c);
    answered(SP_OP_EXITED, 900);
    c = running(900); /* an ended id is free again */
    front_op(SP_OP_OPEN, 5);
    uint32_t f = asked(SP_OP_OPEN);
    cell_op(SP_OP_FILE, f);
    answered(SP_OP_FILE, 5);
    front_op(SP_OP_PUT, 6);
    uint32_t p = asked(SP_OP_PUT);
    cell_op(SP_OP_READY, p);
    answered(SP_OP_READY, 6);
    front_op(SP_OP_COMMIT, 6);
    ck_assert_uint_eq(asked(SP_OP_COMMIT), p);
    cell_op(SP_OP_DONE, p);
    answered(SP_OP_DONE, 6);
    front_op(SP_OP_COMMIT, 6); /* races with the end */
    front_op(SP_OP_CANCEL, 6);
    quiet();
    ck_assert_uint_eq(b.nops, 1);
}
END_TEST

static void ends_at_once(uint32_t c, int nfds)
{
    struct sp_msg m = make(SP_OP_EXITED, c);
    int fds[3];
    (void)fds_for(SP_OP_STARTED, fds, nfds > 2);
    for (int i = nfds; i < 2; i++)
        close(fds[i]);
    ck_assert_int_eq(sp_msg_send(&cell, &m, fds, nfds), 0);
    ck_assert_int_eq(sp_chan_recv(&S.cell, &frame), 1);
    broker_from_cell(&b, &S, &frame, now);
    sp_frame_close_fds(&frame);
}

/* A command that was over before anyone was told brings its pipes with its end; one that has
 * standard input, or was told of, doesn't. */
START_TEST(short_command)
{
    if (_i == 3) {
        ends_at_once(running(7), 2);
    } else {
        struct sp_msg m = make(SP_OP_EXEC, 7);
        m.flags = _i == 2 ? SP_EXEC_STDIN : 0;
        from_front(&m);
        ends_at_once(asked(SP_OP_EXEC), _i == 1 ? 1 : 2);
    }
    if (_i > 0) {
        ck_assert_ptr_nonnull(S.cell_breach);
        return;
    }
    ck_assert_int_eq(sp_chan_recv(&front, &frame), 1);
    ck_assert(sp_msg_decode(&got, frame.data, frame.len, frame.nfds));
    ck_assert_uint_eq(got.op, SP_OP_EXITED);
    ck_assert_int_eq(frame.nfds, 2);
    sp_frame_close_fds(&frame);
    ck_assert_uint_eq(b.nops, 0);
    (void)running(8); /* the seat is free */
    quiet();
}
END_TEST

/* The file threads' own socket: given once, when an operation has ended; and what goes by it. */
START_TEST(port)
{
    static const uint8_t fit[] = {SP_OP_OPEN, SP_OP_DELETE, SP_OP_USAGE, SP_OP_PUT};
    static const uint8_t unfit[] = {SP_OP_EXEC, SP_OP_PUT, SP_OP_ARCHIVE};
    struct sp_chan second;
    b.ports = true;
    front_op(SP_OP_OPEN, 1);
    uint32_t c = asked(SP_OP_OPEN);
    cell_op(SP_OP_FAIL, c);
    failed(1, SP_E_NOT_FOUND);
    ck_assert_int_eq(sp_chan_recv(&cell, &frame), 1);
    ck_assert(sp_msg_decode(&got, frame.data, frame.len, frame.nfds));
    ck_assert_uint_eq(got.op, SP_OP_PORT);
    sp_chan_init(&second, sp_frame_take_fd(&frame, 0));
    for (uint32_t i = 0; i < 4; i++) {
        struct sp_msg m = make(fit[i], 10 + i);
        m.flags = m.op == SP_OP_PUT ? SP_PUT_WHOLE : 0;
        from_front(&m);
        ck_assert(!next(&cell) && next(&second));
        ck_assert_uint_eq(got.op, fit[i]);
        cell_op(SP_OP_FAIL, got.id);
        failed(10 + i, SP_E_NOT_FOUND);
    }
    for (uint32_t i = 0; i < 3; i++) {
        front_op(unfit[i], 20 + i);
        c = asked(unfit[i]);
        ck_assert(!next(&second));
        cell_op(SP_OP_FAIL, c);
        failed(20 + i, SP_E_NOT_FOUND);
    }
    sp_chan_close(&second); /* then all goes as before */
    front_op(SP_OP_OPEN, 30);
    c = asked(SP_OP_OPEN);
    cell_op(SP_OP_FAIL, c);
    failed(30, SP_E_NOT_FOUND);
    quiet();
    broker_cell_gone(&b, &S, true, SP_E_CELL_LOST, now);
    ck_assert_int_eq(S.port.fd, -1);
}
END_TEST

/* A full one is passed by. */
START_TEST(port_is_full)
{
    struct sp_chan second;
    uint32_t id = 1, by_port = 0;
    b.ports = true;
    front_op(SP_OP_OPEN, id);
    cell_op(SP_OP_FAIL, asked(SP_OP_OPEN));
    failed(id, SP_E_NOT_FOUND);
    ck_assert_int_eq(sp_chan_recv(&cell, &frame), 1);
    sp_chan_init(&second, sp_frame_take_fd(&frame, 0));
    do {
        ck_assert_uint_lt(id, BROKER_OPS_MAX);
        front_op(SP_OP_OPEN, ++id);
    } while (!next(&cell));
    cell_op(SP_OP_FAIL, got.id);
    failed(id, SP_E_NOT_FOUND);
    for (; next(&second); by_port++) {
        cell_op(SP_OP_FAIL, got.id);
        failed(2 + by_port, SP_E_NOT_FOUND);
    }
    ck_assert_uint_eq(by_port, id - 2);
    ck_assert_uint_eq(b.nops, 0);
    quiet();
    sp_chan_close(&second);
}
END_TEST

START_TEST(queue)
{
    uint32_t c = running(1);
    front_op(SP_OP_CANCEL, 1);
    ck_assert_uint_eq(asked(SP_OP_CANCEL), c);
    for (uint32_t id = 2; id < 2 + BROKER_QUEUE_MAX; id++)
        front_op(SP_OP_EXEC, id);
    quiet(); /* all wait */
    front_op(SP_OP_EXEC, 99);
    failed(99, SP_E_BUSY);
    front_op(SP_OP_CANCEL, 2); /* first and last leave the queue */
    failed(2, SP_E_BUSY);
    front_op(SP_OP_CANCEL, 1 + BROKER_QUEUE_MAX);
    failed(1 + BROKER_QUEUE_MAX, SP_E_BUSY);
    cell_op(SP_OP_EXITED, c);
    answered(SP_OP_EXITED, 1);
    uint32_t d = asked(SP_OP_EXEC);
    for (uint32_t id = 4; id < 1 + BROKER_QUEUE_MAX; id++)
        failed(id, SP_E_BUSY); /* the seat is truly taken now */
    cell_op(SP_OP_STARTED, d);
    answered(SP_OP_STARTED, 3);
    cell_op(SP_OP_EXITED, d);
    answered(SP_OP_EXITED, 3);
    quiet();
    ck_assert_uint_eq(b.nops, 0);
}
END_TEST

START_TEST(timeouts)
{
    struct sp_msg m = make(SP_OP_EXEC, 1);
    m.timeout_ms = 500;
    from_front(&m);
    uint32_t c = asked(SP_OP_EXEC);
    now += 5000; /* the start doesn't count */
    ck_assert_uint_ne(broker_tick(&b, now), BROKER_NEVER);
    cell_op(SP_OP_STARTED, c);
    answered(SP_OP_STARTED, 1);
    ck_assert_uint_eq(broker_tick(&b, now), now + 500);
    now += 500;
    broker_tick(&b, now);
    ck_assert_uint_eq(asked(SP_OP_CANCEL), c);
    ck_assert_uint_eq(got.flags, SP_CANCEL_TIMEOUT);
    front_op(SP_OP_EXEC, 2); /* its client is still there */
    failed(2, SP_E_BUSY);
    quiet();
    front_op(SP_OP_CANCEL, 1); /* and now it isn't */
    front_op(SP_OP_EXEC, 3);
    quiet();
    now += BROKER_CANCEL_GRACE_MS;
    broker_tick(&b, now);
    ck_assert_ptr_nonnull(S.cell_breach);
    broker_cell_gone(&b, &S, true, SP_E_CELL_LOST, now);
    failed(1, SP_E_CELL_LOST);
    new_cell();
    cell_op(SP_OP_STARTED, asked(SP_OP_EXEC));
    answered(SP_OP_STARTED, 3);
    ck_assert_uint_eq(S.seat->timeout_ms, 3600000); /* none given: the most */
}
END_TEST

START_TEST(never_starts)
{
    front_op(SP_OP_EXEC, 1);
    now += BROKER_START_GRACE_MS;
    broker_tick(&b, now);
    ck_assert_ptr_nonnull(S.cell_breach);
}
END_TEST

START_TEST(front_dies)
{
    uint32_t c = running(1);
    front_op(SP_OP_PUT, 2);
    uint32_t p = asked(SP_OP_PUT);
    front_op(SP_OP_OPEN, 3);
    uint32_t f = asked(SP_OP_OPEN);
    new_front();
    ck_assert_uint_eq(asked(SP_OP_CANCEL) + asked(SP_OP_CANCEL), c + p);
    front_op(SP_OP_EXEC, 1); /* ids of the old one mean nothing; the seat is still being freed */
    front_op(SP_OP_OPEN, 3);
    uint32_t f2 = asked(SP_OP_OPEN);
    cell_op(SP_OP_READY, p); /* late words, to nobody */
    cell_op(SP_OP_FILE, f);
    cell_op(SP_OP_FAIL, p);
    ck_assert(!next(&front));
    cell_op(SP_OP_EXITED, c);
    uint32_t d = asked(SP_OP_EXEC);
    cell_op(SP_OP_FILE, f2);
    answered(SP_OP_FILE, 3);
    cell_op(SP_OP_STARTED, d);
    answered(SP_OP_STARTED, 1);
    quiet();
    ck_assert_uint_eq(b.nops, 1);
}
END_TEST

START_TEST(kill_all)
{
    uint32_t c = running(1);
    front_op(SP_OP_CANCEL, 1);
    ck_assert_uint_eq(asked(SP_OP_CANCEL), c);
    front_op(SP_OP_EXEC, 2);
    broker_kill_all(&b, now);
    failed(2, SP_E_DRAINING);
    front_op(SP_OP_EXEC, 3);
    failed(3, SP_E_DRAINING);
    cell_op(SP_OP_EXITED, c);
    answered(SP_OP_EXITED, 1);
    front_op(SP_OP_EXEC, 4);
    failed(4, SP_E_DRAINING);
    front_op(SP_OP_OPEN, 5); /* files may finish */
    asked(SP_OP_OPEN);
    quiet();
}
END_TEST

START_TEST(bounds)
{
    for (uint32_t i = 1; i <= BROKER_OPS_MAX; i++) {
        front_op(SP_OP_OPEN, i * 7919);
        ck_assert_int_eq(sp_chan_flush(&S.cell), 0);
        (void)asked(SP_OP_OPEN);
    }
    front_op(SP_OP_OPEN, 1);
    failed(1, SP_E_OVERLOADED);
    front_op(SP_OP_EXEC, 1);
    failed(1, SP_E_OVERLOADED);
    broker_cell_gone(&b, &S, false, SP_E_CELL_LOST, now);
    ck_assert_uint_eq(b.nops, 0);
    front_op(SP_OP_OPEN, 1);
    ck_assert_uint_eq(b.nops, 0); /* no cell: refused at once */
}
END_TEST

/* A front that asks and never reads: bounded, then let go. */
START_TEST(front_never_reads)
{
    (void)running(1);
    for (int i = 0; i < 1000000 && b.front_breach == NULL; i++)
        front_op(SP_OP_EXEC, 2);
    ck_assert_ptr_nonnull(b.front_breach);
    ck_assert_uint_eq(asked(SP_OP_CANCEL), S.seat->cell_id);
    broker_front_gone(&b, now);
    ck_assert_int_eq(b.front.fd, -1);
}
END_TEST

/* Its answers carry descriptors, of which the broker has only so many. */
START_TEST(front_never_takes_files)
{
    b.front_fds = 8;
    new_front();
    for (uint32_t i = 1; i < 2000 && b.front_breach == NULL; i++) {
        front_op(SP_OP_OPEN, i);
        cell_op(SP_OP_FILE, asked(SP_OP_OPEN));
        ck_assert_uint_le(b.front.queued_fds, 8);
    }
    ck_assert_ptr_nonnull(b.front_breach);
    ck_assert_ptr_null(S.cell_breach);
    broker_front_gone(&b, now);
    new_front();
    front_op(SP_OP_OPEN, 1);
    cell_op(SP_OP_FILE, asked(SP_OP_OPEN));
    answered(SP_OP_FILE, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("broker");
    TCase *t = tcase_create("broker");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, lifecycle);
    tcase_add_loop_test(t, short_command, 0, 4);
    tcase_add_test(t, queue);
    tcase_add_test(t, port);
    tcase_add_test(t, port_is_full);
    tcase_add_test(t, timeouts);
    tcase_add_test(t, never_starts);
    tcase_add_test(t, front_dies);
    tcase_add_test(t, kill_all);
    tcase_add_test(t, bounds);
    tcase_add_test(t, front_never_reads);
    tcase_add_test(t, front_never_takes_files);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failures = srunner_ntests_failed(r);
    srunner_free(r);
    return failures != 0;
}
