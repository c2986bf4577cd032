/* fuzz_names.c: the box's half of the broker: several identities, their user ids, cells that come
 * and go, queues, removals and sweeps, with a registry that is slow, dies, refuses or lies, cells
 * that die at any moment, folders that can't be made and users that leave processes. Never do two
 * cells of one id live, an id is free only when nothing of it is left, and in the end everybody was
 * answered, everything can run again, and no slot is lost.
 * Covers: src/broker/names.c src/broker/box.c src/broker/remove.c */
#include "names_model.h"

#include <poll.h>

#define STEPS 300
#define ASKED 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sp_frame frame;
static uint8_t asked[ASKED]; /* kinds of requests without an answer, by id */
static uint32_t last_id;
static bool reached; /* a cell answered last */

static void new_registry(void)
{
    int p[2];
    must(sp_frame_pair(p) == 0);
    sp_chan_close(&registry);
    sp_chan_init(&registry, p[0]);
    box_registry_new(&box, p[1]);
}

static void new_front(void)
{
    int p[2];
    must(sp_frame_pair(p) == 0);
    sp_chan_close(&front);
    sp_chan_init(&front, p[0]);
    broker_front_new(&b, p[1], now);
    memset(asked, 0, sizeof asked);
}

static void front_reads(void)
{
    struct sp_msg m;
    while (front.fd >= 0 && sp_chan_recv(&front, &frame) == 1) {
        must(sp_msg_decode(&m, frame.data, frame.len, frame.nfds));
        must(m.id > 0 && m.id < ASKED && asked[m.id] != 0);
        must(m.op == SP_OP_DONE || m.op == SP_OP_FAIL);
        /* A removal that is told: nothing is left. */
        asked[m.id] = 0;
        reached = m.op == SP_OP_FAIL && m.err == SP_E_COMMAND_TOO_LONG;
        sp_frame_close_fds(&frame);
    }
}

static void ask(uint8_t key0, uint8_t kind)
{
    static const uint8_t kinds[] = {SP_OP_EXEC,   SP_OP_OPEN, SP_OP_DELETE, SP_OP_USAGE,
                                    SP_OP_REMOVE, SP_OP_EXEC, SP_OP_EXEC,   SP_OP_CANCEL};
    static char key[SP_KEY_LEN];
    if (last_id + 1 >= ASKED || b.front.fd < 0)
        return;
    key[0] = (char)key0;
    struct sp_msg m = {.op = kinds[kind % 8], .id = ++last_id, .key = {key, SP_KEY_LEN}};
    m.command = (struct sp_slice){"true", 4};
    m.path = (struct sp_slice){"a", 1};
    m.cwd = m.env = m.etag = (struct sp_slice){"", 0};
    if (m.op == SP_OP_CANCEL) {
        m.id = last_id-- - 1 - key0 % 4u;
        m.key.n = 0;
    } else {
        asked[m.id] = m.op;
    }
    frame.nfds = 0;
    frame.len = sp_msg_encode(&m, frame.data, sizeof frame.data);
    if (frame.len > 0)
        broker_from_front(&b, &frame, now);
    must(b.front_breach == NULL);
}

/* ---- what the loop of run.c does ---- */

static void reap(void)
{
    for (int i = 0; i < nprocs; i++) {
        struct process *p = &proc[i];
        if (p->alive || p->reaped)
            continue;
        struct slot *s = &b.slot[p->slot];
        p->reaped = true;
        must(cells.proc[p->slot].pid == i + 1);
        cells.proc[p->slot].pid = 0;
        cells.proc[p->slot].status = p->status;
        if (!box_expected(&box, s))
            broker_cell_broke(s, "it ended");
    }
}

static void cells_sockets(void)
{
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        struct slot *s = &b.slot[i];
        int r = 0;
        while (s->cell.fd >= 0 && s->cell_breach == NULL &&
               (r = sp_chan_recv(&s->cell, &frame)) == 1) {
            broker_from_cell(&b, s, &frame, now);
            sp_frame_close_fds(&frame);
        }
        if (r < 0 && s->cell.fd >= 0) {
            if (box_work(&box, s)->step == BOX_PURGING)
                sp_chan_close(&s->cell);
            else
                broker_cell_broke(s, "its socket is closed");
        }
    }
}

/* One turn; when the next is due. */
static uint64_t turn(void)
{
    uint64_t at = broker_tick(&b, now);
    box_act(&box, now);
    uint64_t more = box_tick(&box, now);
    at = more < at ? more : at;
    box_act(&box, now);
    cells_sockets();
    if (box.registry.fd >= 0)
        box_registry_ready(&box, POLLIN | POLLOUT, now);
    if (box.registry.fd < 0 && registry.fd >= 0)
        sp_chan_close(&registry); /* it was let go, and ends */
    front_reads();
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        must(b.slot[i].used || (b.slot[i].nops == 0 && cells.proc[i].pid == 0));
    return at;
}

/* ---- what the others do ---- */

/* One question; lie: another answer than it is due. */
static bool registry_answers(uint8_t luck, uint8_t lie)
{
    struct sp_msg q;
    if (registry.fd < 0 || sp_chan_recv(&registry, &frame) != 1)
        return false;
    must(sp_msg_decode(&q, frame.data, frame.len, frame.nfds));
    struct sp_msg a;
    static char other[SP_KEY_LEN];
    if (lie >= 250) { /* fails before it did anything */
        a = no(&q, luck & 1 ? SP_E_INTERNAL : SP_E_NO_SPACE);
        a.op = q.op == SP_OP_TOUCH ? 0 : a.op;
    } else {
        a = answer_to(&q, luck);
    }
    if (lie > 0 && lie < 6 && a.op != 0) {
        if (lie == 1)
            a.uid = UID_FIRST + pool + luck;
        else if (lie == 2)
            a.uid = UID_FIRST - 1u - luck;
        else if (lie == 3) /* of nobody's */
            a.id += 1000000u;
        other[0] = (char)luck;
        other[1] = 1;
        if (lie == 4)
            a.key = (struct sp_slice){other, SP_KEY_LEN};
        if (lie == 5)
            a.op = a.op == SP_OP_DONE ? SP_OP_NAMED : SP_OP_DONE;
        a.key = a.key.n == 0 ? (struct sp_slice){other, SP_KEY_LEN} : a.key;
        a.uid = a.uid == 0 ? UID_FIRST : a.uid;
    }
    if (a.op != 0)
        (void)sp_msg_send(&registry, &a, NULL, 0);
    return true;
}

/* Every cell answers what it has, or ends where its socket is closed. */
static void cell_turn(struct process *p, bool says_up)
{
    struct sp_msg m;
    if (!p->alive)
        return;
    if (p->purge) { /* it asks nobody, and is done */
        left[p->uid - UID_FIRST] = 0;
        dies(p, 0);
        return;
    }
    if (!p->up && says_up) {
        const struct sp_msg up = {.op = SP_OP_UP};
        p->up = sp_msg_send(&p->chan, &up, NULL, 0) == 0;
    }
    int r = 0;
    while (p->up && p->alive && (r = sp_chan_recv(&p->chan, &frame)) == 1) {
        must(sp_msg_decode(&m, frame.data, frame.len, frame.nfds));
        must(m.op != SP_OP_REMOVE);
        if (m.op == SP_OP_EXEC)
            left[p->uid - UID_FIRST]++;
        const struct sp_msg end = {.op = SP_OP_FAIL, .id = m.id, .err = SP_E_COMMAND_TOO_LONG};
        if (m.op != SP_OP_CANCEL)
            (void)sp_msg_send(&p->chan, &end, NULL, 0);
    }
    if (r < 0) {
        left[p->uid - UID_FIRST] = 0; /* it takes all of its user's along */
        dies(p, 0);
    }
}

static void step(struct input *in, bool wide)
{
    uint8_t what = take8(in), arg = take8(in);
    struct process *p = nprocs > 0 ? &proc[nprocs - 1 - arg % (nprocs < 8 ? nprocs : 8)] : NULL;
    switch (what % 12) {
    case 0:
    case 1:
    case 2:
        ask(wide ? arg : arg % 5, what / 12);
        break;
    case 3:
    case 4:
        (void)registry_answers(arg, take8(in));
        break;
    case 5:
    case 6:
        if (p != NULL)
            cell_turn(p, what < 200);
        break;
    case 7:
        if (p != NULL)
            dies(p, what & 64 ? SIGSEGV : 256);
        break;
    case 8:
        now += arg * (what & 64 ? 16u : 200u);
        break;
    case 9:
        if (what & 64) {
            new_registry();
        } else {
            sp_chan_close(&registry);
        }
        break;
    case 10:
        folder_fails = arg & 1;
        start_fails = arg & 2;
        remove_fails = arg & 4;
        have_spare = arg & 8;
        stubborn = arg & 16;
        copy_fails = (arg & 96) == 96;
        break;
    default:
        if (what & 128)
            new_front();
        else
            reap();
    }
    if (what & 1)
        reap();
    (void)turn();
}

/* Everybody keeps the rules from now on, until nothing happens any more. */
static void goes_on(void)
{
    copy_fails = folder_fails = start_fails = remove_fails = stubborn = false;
    if (registry.fd < 0 || box.registry.fd < 0)
        new_registry();
    for (int quiet = 0, rounds = 0; quiet < 3; rounds++) {
        must(rounds < 20000);
        bool moved = false;
        int had = nprocs;
        for (int i = 0; i < nprocs; i++) {
            bool was = proc[i].alive, up = proc[i].up;
            cell_turn(&proc[i], true);
            moved |= was != proc[i].alive || up != proc[i].up;
        }
        reap();
        uint64_t at = turn();
        while (registry_answers(1, 0))
            moved = true;
        moved |= had != nprocs;
        quiet = moved || b.nops > 0 ? 0 : quiet + 1;
        if (!moved && b.nops > 0)
            now = at != BROKER_NEVER && at > now ? at : now + 1;
        if (registry.fd < 0 || box.registry.fd < 0)
            new_registry();
    }
    front_reads();
    for (unsigned i = 0; i < ASKED; i++)
        must(asked[i] == 0);
}

static void reset(uint8_t mode)
{
    memset(&cells, 0, sizeof cells);
    memset(work, 0, sizeof work);
    memset(resting, 0, sizeof resting);
    memset(left, 0, sizeof left);
    memset(asked, 0, sizeof asked);
    nprocs = 0;
    last_id = 0;
    now = 1000;
    have_spare = copy_fails = folder_fails = start_fails = remove_fails = stubborn = false;
    pool = mode & 1 ? 4 : UIDS;
    cfg = (struct sp_config){.mode = SP_MODE_BOX,
                             .queue_max = 2,
                             .max_running = 3,
                             .uid_min = UID_FIRST,
                             .uid_max = UID_FIRST + pool - 1,
                             .cell_idle_ms = 5000,
                             .sweep_interval_ms = 60000,
                             .retention_ms = mode & 2 ? 1000 : 0};
    broker_init(&b, 3600000);
    cells.cfg = &cfg;
    cells.b = &b;
    box_init(&box, &cells);
    sp_chan_init(&front, -1);
    sp_chan_init(&registry, -1);
    new_front();
    if (mode & 4)
        new_registry();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    int before = open_fds();
    uint8_t mode = take8(&in);
    reset(mode);
    for (int i = 0; i < STEPS && in.left > 0; i++)
        step(&in, mode & 8);
    goes_on();
    if (b.front.fd >= 0 && last_id + 2 < ASKED) { /* an identity at work, from nothing */
        cfg.retention_ms = 0;
        ask(200, 0);
        goes_on();
        must(reached || pool == 4);
    }
    now += 3600000; /* idle cells end, and their slots are free */
    for (int i = 0; i < 4; i++)
        goes_on();
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        must(!b.slot[i].used && cells.proc[i].pid == 0);
    broker_free(&b);
    sp_chan_close(&box.registry);
    sp_chan_close(&front);
    sp_chan_close(&registry);
    must(open_fds() == before);
    return 0;
}
