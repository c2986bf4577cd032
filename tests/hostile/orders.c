/* orders.c: every message in every state that an operation may be in, with wrong lengths, and with
 * descriptors where none belong. What isn't a front's gets the front let go; the rest is served. */
#include "hostile.h"

#include <string.h>
#include <unistd.h>

#define WAIT_MS 30000

enum state {
    NOTHING,
    EXEC_RUNS,
    EXEC_CANCELLED,
    EXEC_QUEUED,
    PUT_OPEN,
    PUT_COMMITTED,
    PUT_CANCELLED,
    OPEN_ANSWERED,
    STATES
};

static bool running(uint32_t id)
{
    for (int i = 0; i < 2000; i++) { /* the last front's may still be dying */
        if (!say(SP_OP_EXEC, id) || hear(WAIT_MS) != 1)
            return false;
        if (hostile_got.op == SP_OP_STARTED)
            return hostile_got.id == id;
        if (hostile_got.op != SP_OP_FAIL || hostile_got.err != SP_E_BUSY)
            return false;
        (void)usleep(2000);
    }
    return false;
}

/* Brings operation 7 to a state. */
static bool reach(enum state st)
{
    switch (st) {
    case NOTHING:
        return true;
    case EXEC_RUNS:
        return running(7);
    case EXEC_CANCELLED:
        return running(7) && say(SP_OP_CANCEL, 7);
    case EXEC_QUEUED:
        return running(8) && say(SP_OP_CANCEL, 8) && say(SP_OP_EXEC, 7);
    case PUT_OPEN:
        return say(SP_OP_PUT, 7) && hear_op(SP_OP_READY, 7, WAIT_MS);
    case PUT_COMMITTED:
        return say(SP_OP_PUT, 7) && hear_op(SP_OP_READY, 7, WAIT_MS) && say(SP_OP_COMMIT, 7);
    case PUT_CANCELLED:
        return say(SP_OP_PUT, 7) && hear_op(SP_OP_READY, 7, WAIT_MS) && say(SP_OP_CANCEL, 7);
    default: /* the file may be gone by now */
        return say(SP_OP_OPEN, 7) && hear(WAIT_MS) == 1 && hostile_got.id == 7;
    }
}

/* 1 it may, 0 it may not, -1 that depends on what the cell has answered meanwhile. */
static int front_may(enum state st, uint8_t op)
{
    bool none = st == NOTHING || st == OPEN_ANSWERED;
    bool ends = st == EXEC_CANCELLED || st == PUT_COMMITTED || st == PUT_CANCELLED;
    if (op >= SP_OP_STARTED || op == SP_OP_REMOVE) /* the seat's workspace has no name */
        return 0;
    if (op == SP_OP_CANCEL)
        return 1;
    if (op == SP_OP_ARCHIVE) /* where it is routed */
        return -1;
    if (ends || st == EXEC_QUEUED)
        return -1;
    if (op == SP_OP_COMMIT)
        return none || st == PUT_OPEN;
    return none;
}

static bool judge(int may, const char *what, int a, int b)
{
    bool ok = true;
    if (may == 1)
        ok = served();
    else if (may == 0)
        ok = let_go();
    else if (!served()) /* either will do, but the word to main belongs to this front */
        hear_main();
    if (!ok)
        complain("%s %d, message %d: it %s", what, a, b,
                 may == 1 ? "wasn't served any more" : "wasn't let go");
    return ok;
}

static bool states(void)
{
    for (int st = 0; st < STATES; st++) {
        for (int i = 0; i < hostile_nops; i++) {
            if (!front_new() || !reach((enum state)st)) {
                complain("state %d can't be reached", st);
                return false;
            }
            (void)say(hostile_ops[i], 7);
            if (!judge(front_may((enum state)st, hostile_ops[i]), "state", st, hostile_ops[i]))
                return false;
        }
        if (!healthy("a state's messages"))
            return false;
    }
    return true;
}

/* Two in a row, without a look at what is answered to the first. */
static bool pairs(void)
{
    for (int a = 0; a < hostile_nops; a++) {
        for (int b = 0; b < hostile_nops; b++) {
            if (!front_new())
                return false;
            (void)say(hostile_ops[a], 7);
            (void)say(hostile_ops[b], 7);
            bool bad = front_may(NOTHING, hostile_ops[a]) == 0 ||
                       (hostile_ops[b] >= SP_OP_STARTED || hostile_ops[b] == SP_OP_REMOVE);
            if (!judge(bad ? 0 : -1, "after", hostile_ops[a], hostile_ops[b]))
                return false;
        }
        if (!healthy("two messages in a row"))
            return false;
    }
    return true;
}

bool try_orders(void)
{
    return states() && pairs();
}

/* ---- lengths ---- */

static bool bad_bytes(const uint8_t *data, size_t len, const char *what, int op)
{
    if (!front_new())
        return false;
    (void)say_raw(data, len, NULL, 0);
    return judge(0, what, (int)len, op);
}

bool try_lengths(void)
{
    static uint8_t buf[SP_FRAME_MAX + 4096];
    for (int i = 0; i < hostile_nops; i++) {
        struct sp_msg m = make(hostile_ops[i], 7);
        size_t n = sp_msg_encode(&m, buf, SP_FRAME_MAX);
        for (size_t len = 1; len <= n + 1; len++)
            if (len != n && !bad_bytes(buf, len, "length", m.op))
                return false;
        if (!bad_bytes(buf, SP_FRAME_MAX, "length", m.op) ||
            !bad_bytes(buf, SP_FRAME_MAX + 1, "length", m.op) ||
            !bad_bytes(buf, SP_FRAME_MAX + 4000, "length", m.op) || !healthy("wrong lengths"))
            return false;
    }
    for (int op = 0; op < 256; op++) { /* numbers that no message has */
        memset(buf, 0, 64);
        buf[0] = (uint8_t)op;
        buf[2] = 7;
        bool known = false;
        for (int i = 0; i < hostile_nops; i++)
            known = known || hostile_ops[i] == op;
        if (!known && (!bad_bytes(buf, 6, "number", op) || !bad_bytes(buf, 30, "number", op)))
            return false;
    }
    /* A length inside that points past the end, and one that is as large as can be. */
    struct sp_msg m = make(SP_OP_OPEN, 7);
    size_t n = sp_msg_encode(&m, buf, SP_FRAME_MAX);
    for (int i = 0; i < 32; i++) {
        const uint32_t want = i == 31 ? ~0u : 1u << i;
        if (want == 1)
            continue;
        memcpy(buf + 6, &want, sizeof want);
        if (!bad_bytes(buf, n, "inner length", i))
            return false;
    }
    return healthy("wrong lengths inside");
}

/* ---- descriptors ---- */

bool try_descriptors(void)
{
    static uint8_t buf[SP_FRAME_MAX];
    static const int counts[] = {1, 2, 3, 4, 16, 64};
    for (int i = 0; i < hostile_nops; i++) {
        struct sp_msg m = make(hostile_ops[i], 7);
        size_t n = sp_msg_encode(&m, buf, sizeof buf);
        for (int kind = 0; kind < STRAY_KINDS; kind++) {
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                int fds[64];
                if (!front_new())
                    return false;
                for (int k = 0; k < counts[c]; k++)
                    fds[k] = stray(kind);
                (void)say_raw(buf, n, fds, counts[c]);
                for (int k = 0; k < counts[c]; k++)
                    close(fds[k]);
                if (!judge(0, stray_name(kind), counts[c], m.op))
                    return false;
            }
        }
        if (!healthy("stray descriptors"))
            return false;
    }
    return true;
}
