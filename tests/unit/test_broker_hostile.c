/* test_broker_hostile.c: every message in every state, from a front and from a cell: either it is
 * allowed, or the sender is let go and nothing of the other side is touched. Then noise. */
#include "broker_stage.h"

static const uint8_t all_ops[] = {
    SP_OP_EXEC,  SP_OP_CANCEL,  SP_OP_OPEN,   SP_OP_PUT,    SP_OP_COMMIT, SP_OP_DELETE,
    SP_OP_USAGE, SP_OP_STARTED, SP_OP_EXITED, SP_OP_FILE,   SP_OP_READY,  SP_OP_DONE,
    SP_OP_FAIL,  SP_OP_ARCHIVE, SP_OP_STREAM, SP_OP_STAGED, SP_OP_DRAIN,  SP_OP_KILL_ALL,
    SP_OP_FRONT, SP_OP_UP,      SP_OP_BREACH};
#define OPS ((int)sizeof all_ops)

enum stage {
    NOTHING,
    EXEC_SENT,
    EXEC_RUNS,
    EXEC_CANCELLED,
    EXEC_QUEUED,
    PUT_SENT,
    PUT_OPEN,
    PUT_COMMITTING,
    PUT_STAGING,
    PUT_HAS_STAGED,
    PUT_WHOLE,
    PUT_CANCELLED,
    OPEN_SENT,
    DELETE_SENT,
    ARCHIVE_SENT,
    ARCHIVE_RUNS,
    STAGES
};

/* Brings the operation 7 to a stage; the cell's id for it. */
static uint32_t reach(enum stage st)
{
    uint32_t c = 0;
    if (st >= EXEC_SENT && st <= EXEC_CANCELLED) {
        front_op(SP_OP_EXEC, 7);
        c = asked(SP_OP_EXEC);
        if (st != EXEC_SENT)
            cell_op(SP_OP_STARTED, c);
    } else if (st == EXEC_QUEUED) {
        (void)running(8);
        front_op(SP_OP_CANCEL, 8);
        front_op(SP_OP_EXEC, 7);
        c = op_by_front(&b, 7)->cell_id;
    } else if (st >= PUT_SENT && st <= PUT_CANCELLED) {
        struct sp_msg m = make(SP_OP_PUT, 7);
        m.flags = st == PUT_STAGING || st == PUT_HAS_STAGED ? SP_PUT_STAGED : 0;
        m.flags = st == PUT_WHOLE ? SP_PUT_WHOLE : m.flags;
        from_front(&m);
        c = asked(SP_OP_PUT);
        if (st != PUT_SENT && st != PUT_WHOLE)
            cell_op(SP_OP_READY, c);
        if (st == PUT_HAS_STAGED)
            cell_op(SP_OP_STAGED, c);
        if (st == PUT_COMMITTING)
            front_op(SP_OP_COMMIT, 7);
    } else if (st >= ARCHIVE_SENT) {
        front_op(SP_OP_ARCHIVE, 7);
        c = asked(SP_OP_ARCHIVE);
        if (st == ARCHIVE_RUNS)
            cell_op(SP_OP_STREAM, c);
    } else if (st != NOTHING) {
        front_op(st == OPEN_SENT ? SP_OP_OPEN : SP_OP_DELETE, 7);
        c = asked(st == OPEN_SENT ? SP_OP_OPEN : SP_OP_DELETE);
    }
    if (st == EXEC_CANCELLED || st == PUT_CANCELLED)
        front_op(SP_OP_CANCEL, 7);
    while (next(&front) || next(&cell))
        ;
    return c;
}

static bool front_may(enum stage st, uint8_t op)
{
    if (op == SP_OP_CANCEL)
        return true;
    if (op == SP_OP_COMMIT)
        return st == NOTHING || st == PUT_OPEN || st == PUT_STAGING || st == PUT_HAS_STAGED;
    return op < SP_OP_STARTED && st == NOTHING; /* any other request with a live id */
}

START_TEST(front_every_op_in_every_state)
{
    uint32_t c = reach((enum stage)(_i / OPS));
    uint8_t op = all_ops[_i % OPS];
    front_op(op, 7);
    bool may = front_may((enum stage)(_i / OPS), op);
    ck_assert_msg((b.front_breach == NULL) == may, "stage %d op %d: %s", _i / OPS, op,
                  b.front_breach);
    ck_assert_ptr_null(S.cell_breach);
    if (may)
        return;
    struct op *o = c != 0 ? op_by_cell(&b, c) : NULL;
    ck_assert(o == NULL || (o->orphan && o->state != OP_QUEUED));
    ck_assert_ptr_null(op_by_front(&b, 7));
    ck_assert_uint_eq(S.queue.n, 0);
    ck_assert(!next(&front)); /* not a word more */
    new_front();              /* and the next one finds a broker that works */
    front_op(SP_OP_OPEN, 7);
    while (next(&cell) && got.op != SP_OP_OPEN)
        ;
    cell_op(SP_OP_FILE, got.id);
    answered(SP_OP_FILE, 7);
}
END_TEST

static bool cell_may(enum stage st, uint8_t op)
{
    switch (st) {
    case EXEC_SENT:
        return op == SP_OP_STARTED || op == SP_OP_FAIL;
    case EXEC_RUNS:
    case EXEC_CANCELLED:
        return op == SP_OP_EXITED;
    case PUT_SENT:
        return op == SP_OP_READY || op == SP_OP_FAIL;
    case PUT_STAGING:
        return op == SP_OP_STAGED || op == SP_OP_FAIL;
    case PUT_OPEN:
    case PUT_HAS_STAGED:
    case PUT_CANCELLED:
        return op == SP_OP_FAIL;
    case PUT_COMMITTING:
    case PUT_WHOLE:
        return op == SP_OP_DONE || op == SP_OP_FAIL;
    case OPEN_SENT:
        return op == SP_OP_FILE || op == SP_OP_FAIL;
    case DELETE_SENT:
        return op == SP_OP_DONE || op == SP_OP_FAIL;
    case ARCHIVE_SENT:
        return op == SP_OP_STREAM || op == SP_OP_FAIL;
    case ARCHIVE_RUNS:
        return op == SP_OP_DONE || op == SP_OP_FAIL;
    default:
        return false;
    }
}

START_TEST(cell_every_op_in_every_state)
{
    enum stage st = (enum stage)(_i / OPS);
    uint8_t op = all_ops[_i % OPS];
    uint32_t c = reach(st);
    cell_op(op, c != 0 ? c : 12345);
    bool may = cell_may(st, op);
    ck_assert_msg((S.cell_breach == NULL) == may, "stage %d op %d: %s", st, op, S.cell_breach);
    ck_assert_ptr_null(b.front_breach);
    if (may) {
        answered(op, 7);
        return;
    }
    ck_assert(!next(&front)); /* nothing of it is passed on */
    broker_cell_gone(&b, &S, true, SP_E_CELL_LOST, now);
    if (st == EXEC_QUEUED)
        failed(8, SP_E_CELL_LOST);
    else if (st != NOTHING)
        failed(7, SP_E_CELL_LOST);
    new_cell();
    ck_assert(next(&cell) == (st == EXEC_QUEUED)); /* what waited begins in the new one */
    ck_assert_uint_eq(b.nops, st == EXEC_QUEUED);
}
END_TEST

START_TEST(wrong_lengths)
{
    static uint8_t buf[SP_FRAME_MAX];
    struct sp_msg m = make(SP_OP_EXEC, 7);
    size_t n = sp_msg_encode(&m, buf, sizeof buf);
    for (size_t len = 1; len <= n + 1; len++) {
        if (len == n)
            continue;
        new_front();
        ck_assert_int_eq(sp_chan_send(&front, buf, len, NULL, 0), 0);
        ck_assert_int_eq(sp_chan_recv(&b.front, &frame), 1);
        broker_from_front(&b, &frame, now);
        ck_assert_ptr_nonnull(b.front_breach);
        ck_assert_uint_eq(b.nops, 0);
    }
}
END_TEST

START_TEST(stray_descriptors)
{
    static uint8_t buf[SP_FRAME_MAX];
    struct sp_msg m = make(SP_OP_OPEN, 7);
    size_t n = sp_msg_encode(&m, buf, sizeof buf);
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(sp_chan_send(&front, buf, n, &fd, 1), 0);
    ck_assert_int_eq(sp_chan_recv(&b.front, &frame), 1);
    broker_from_front(&b, &frame, now);
    ck_assert_ptr_nonnull(b.front_breach);
    ck_assert_int_eq(frame.nfds, 1); /* still the caller's to close */
    sp_frame_close_fds(&frame);
}
END_TEST

/* What the cell may not hand to the front: folders, devices, writable files, pipes' wrong ends. */
START_TEST(wrong_descriptors)
{
    static const struct {
        const char *path;
        int flags;
    } bad[] = {{"/", O_RDONLY}, {"/dev/null", O_RDONLY}, {"/etc/passwd", O_PATH}};
    if (_i < 3) {
        front_op(SP_OP_OPEN, 7);
        struct sp_msg m = make(SP_OP_FILE, asked(SP_OP_OPEN));
        int fd = open(bad[_i].path, bad[_i].flags | O_CLOEXEC);
        ck_assert_int_eq(sp_msg_send(&cell, &m, &fd, 1), 0);
    } else if (_i < 5) { /* a memfd that can be written, as a file and as a listing */
        front_op(SP_OP_OPEN, 7);
        struct sp_msg m = make(SP_OP_FILE, asked(SP_OP_OPEN));
        m.flags = _i == 3 ? SP_FILE_LISTING : 0;
        int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        ck_assert_int_eq(sp_msg_send(&cell, &m, &fd, 1), 0);
    } else { /* stdin where none was asked for */
        front_op(SP_OP_EXEC, 7);
        struct sp_msg m = make(SP_OP_STARTED, asked(SP_OP_EXEC));
        int fds[3], n = fds_for(SP_OP_STARTED, fds, true);
        ck_assert_int_eq(sp_msg_send(&cell, &m, fds, n), 0);
    }
    ck_assert_int_eq(sp_chan_recv(&S.cell, &frame), 1);
    broker_from_cell(&b, &S, &frame, now);
    sp_frame_close_fds(&frame);
    ck_assert_ptr_nonnull(S.cell_breach);
    ck_assert(!next(&front));
}
END_TEST

/* A file without a descriptor is only for who asked for that. */
START_TEST(whole_answers)
{
    struct sp_msg m = make(SP_OP_OPEN, 7);
    m.flags = _i == 0 ? SP_OPEN_WHOLE : 0;
    from_front(&m);
    m = make(SP_OP_FILE, asked(SP_OP_OPEN));
    m.flags = SP_FILE_WHOLE;
    m.data = (struct sp_slice){"a\0b", 3};
    m.size = 3;
    ck_assert_int_eq(sp_msg_send(&cell, &m, NULL, 0), 0);
    ck_assert_int_eq(sp_chan_recv(&S.cell, &frame), 1);
    broker_from_cell(&b, &S, &frame, now);
    ck_assert_int_eq(S.cell_breach == NULL, _i == 0);
    ck_assert_int_eq(next(&front), _i == 0);
    if (_i == 0)
        ck_assert(got.data.n == 3 && memcmp(got.data.p, "a\0b", 3) == 0);
}
END_TEST

/* Random messages of both sides, random clocks, random deaths: no invariant breaks. */
START_TEST(noise)
{
    srandom((unsigned)_i);
    for (int i = 0; i < 20000; i++) {
        struct sp_msg m = make(all_ops[random() % OPS], (uint32_t)(random() % 24 + 1));
        m.timeout_ms = (uint64_t)(random() % 3000);
        long what = random() % 100;
        now += (uint64_t)(random() % 50);
        if (what < 55) {
            if (random() % 8 != 0)
                m.op = (uint8_t)(random() % 7 + 1), m.id = (uint32_t)(random() % 24 + 1);
            from_front(&m);
        } else if (what < 95) {
            m.id = m.op >= SP_OP_DRAIN ? 0 : b.last_cell_id - (uint32_t)(random() % 12);
            if (m.id != 0 || m.op >= SP_OP_DRAIN)
                from_cell_with(&m, false);
        } else if (what < 98) {
            (void)broker_tick(&b, now);
        } else {
            broker_cell_broke(&S, "noise");
        }
        if (S.cell_breach != NULL) {
            broker_cell_gone(&b, &S, random() % 2, SP_E_CELL_LOST, now);
            new_cell();
        }
        if (b.front_breach != NULL) {
            ck_assert_ptr_null(S.queue.head);
            new_front();
        }
        while (next(&front) || next(&cell))
            ;
        ck_assert(S.queue.n <= BROKER_QUEUE_MAX && b.nops <= BROKER_OPS_MAX);
        ck_assert((S.queue.head == NULL) == (S.queue.n == 0));
        ck_assert(S.seat == NULL || S.seat->kind == SP_OP_EXEC);
        ck_assert(S.queue.n == 0 || (S.seat != NULL && S.seat->left));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("broker_hostile");
    TCase *t = tcase_create("hostile");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, front_every_op_in_every_state, 0, STAGES * OPS);
    tcase_add_loop_test(t, cell_every_op_in_every_state, 0, STAGES * OPS);
    tcase_add_test(t, wrong_lengths);
    tcase_add_test(t, stray_descriptors);
    tcase_add_loop_test(t, whole_answers, 0, 2);
    tcase_add_loop_test(t, wrong_descriptors, 0, 6);
    tcase_add_loop_test(t, noise, 1, 6);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_set_fork_status(r, CK_NOFORK); /* with a sanitizer 700 forks cost more than the rest */
    srunner_run_all(r, CK_NORMAL);
    int failures = srunner_ntests_failed(r);
    srunner_free(r);
    return failures != 0;
}
