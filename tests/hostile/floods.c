/* floods.c: a front that asks and doesn't read. The broker may let it go; it may not grow without
 * bound, hang, or lose the cell, which serves the next front. */
#include "hostile.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Without reading, count times or until it is let go. */
static bool flood(const char *what, uint8_t op, unsigned count, bool must_end)
{
    if (!front_new())
        return false;
    struct sp_msg m = make(op, 1);
    unsigned i = 0;
    for (; i < count; i++) {
        m.id = i + 1;
        if (!say_msg(&m))
            break;
    }
    if (must_end && !let_go()) {
        complain("%s: still served after %u unread answers", what, i);
        return false;
    }
    return healthy(what);
}

/* Opens folders' listings and files at once, and never takes the answers. */
static bool files_unread(void)
{
    return flood("files that nobody takes", SP_OP_OPEN, 60000, true);
}

static bool uploads_unread(void)
{
    return flood("uploads that nobody begins", SP_OP_PUT, 20000, false);
}

static bool refusals_unread(void)
{
    if (!front_new())
        return false;
    struct sp_msg m = make(SP_OP_EXEC, 1);
    for (uint32_t i = 1; i < 400000; i++) { /* one runs, the others are told that it does */
        m.id = i;
        if (!say_msg(&m))
            break;
    }
    if (!let_go()) {
        complain("refused commands: still served");
        return false;
    }
    return healthy("refused commands");
}

static bool unknown_ids(void)
{
    if (!front_new())
        return false;
    for (uint32_t i = 1; i < 100000; i++)
        if (!say(i % 2 ? SP_OP_CANCEL : SP_OP_COMMIT, i)) {
            complain("unknown ids: it was let go");
            return false;
        }
    return served() && healthy("ids that nobody has");
}

/* All ids in one chain of the broker's table. */
static bool one_chain(void)
{
    static uint32_t ids[1024];
    unsigned n = 0;
    for (uint32_t id = 1; n < 1024 && id < 0xfffffff0u; id++)
        if (((id * 2654435761u) >> 21 & 2047u) == 5)
            ids[n++] = id;
    if (!front_new())
        return false;
    struct sp_msg m = make(SP_OP_PUT, 1);
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < n; i++) {
            m.id = ids[i];
            if (!say_msg(&m))
                return healthy("ids of one chain");
        }
        for (unsigned i = 0; i < n; i++)
            if (!say(SP_OP_CANCEL, ids[i]))
                return healthy("ids of one chain");
        for (unsigned heard = 0; heard < n && hear(5000) == 1;)
            heard += hostile_got.op == SP_OP_FAIL;
    }
    return healthy("ids of one chain");
}

/* The largest commands that can wait, again and again, with a holder that is being killed. */
static bool large_queue(void)
{
    static char text[SP_COMMAND_MAX];
    memset(text, ' ', sizeof text);
    memcpy(text, "sleep 1000;", 11);
    if (!front_new())
        return false;
    struct sp_msg m = make(SP_OP_EXEC, 1);
    m.command = (struct sp_slice){text, sizeof text};
    for (uint32_t id = 1; id < 400; id++) {
        m.id = id;
        if (!say_msg(&m) || !say(SP_OP_CANCEL, id % 3 ? id : id - 1))
            break;
        while (hear(0) == 1)
            ;
    }
    return healthy("a queue of large commands");
}

/* Takes the pipes and holds them; asks for more than the cell can have open. */
static bool hoard(void)
{
    static int held[4096];
    int n = 0;
    if (!front_new())
        return false;
    struct sp_msg m = make(SP_OP_PUT, 1);
    for (uint32_t id = 1; id <= 3000; id++) {
        m.id = id;
        if (!say_msg(&m))
            break;
        while (hear(0) == 1)
            if (hostile_got.op == SP_OP_READY && n < 4096)
                held[n++] = sp_frame_take_fd(&hostile_frame, 0);
    }
    bool ok = served();
    if (!ok)
        complain("uploads that are held: it was let go");
    front_close();
    for (int i = 0; i < n; i++)
        close(held[i]);
    return ok && healthy("uploads that were held");
}

bool try_floods(void)
{
    return files_unread() && uploads_unread() && refusals_unread() && unknown_ids() &&
           one_chain() && large_queue() && hoard();
}
