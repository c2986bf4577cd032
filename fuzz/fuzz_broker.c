/* fuzz_broker.c: the broker's state machine, as the seat and as the box, between a front and cells
 * that say anything in any order, stop reading, die and come again, and a clock. Nothing is granted
 * that isn't due, who keeps the rules is never let go, who breaks them always is; and in the end
 * every workspace runs a command again, with nothing left over.
 * Covers: src/broker/seat.c src/broker/table.c src/broker/requests.c src/broker/answers.c */
#include "broker_model.h"

#include <sys/socket.h>

#define STEPS 400

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sp_frame sent;
static bool narrow, floods;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    open_protos();
    return 0;
}

/* ---- what main and the loop do ---- */

/* The broker's end of one is p[1]. */
static void new_pair(int p[2])
{
    int little = 4096; /* so that queues fill soon */
    must(sp_frame_pair(p) == 0);
    must(!narrow || setsockopt(p[1], SOL_SOCKET, SO_SNDBUF, &little, sizeof little) == 0);
}

static void new_front(void)
{
    int p[2];
    new_pair(p);
    sp_chan_close(&front);
    sp_chan_init(&front, p[0]);
    broker_front_new(&b, p[1], now);
    memset(asked, 0, sizeof asked);
    front_mute = front_behind = false;
}

static void new_cell(unsigned i)
{
    int p[2];
    struct slot *s = &b.slot[i];
    if (!s->used || s->removing || s->cell.fd >= 0)
        return;
    new_pair(p);
    cell_died(i);
    sp_chan_init(&cell[i].c, p[0]);
    broker_cell_new(&b, s, p[1], now);
}

/* A removal that found nothing in its way, as remove.c ends it. */
static void removed(unsigned i)
{
    const struct sp_msg done = {.op = SP_OP_DONE};
    struct slot *s = &b.slot[i];
    if (!s->removing)
        return;
    must(s->nops <= 1); /* fewer, where its front left */
    for (unsigned k = 0; k < BROKER_OPS_MAX; k++)
        if (b.ops[k].state != OP_FREE && b.ops[k].slot == s) {
            must(b.ops[k].kind == SP_OP_REMOVE);
            answer(&b, &b.ops[k], &done, NULL, 0);
            op_free(&b, &b.ops[k]);
        }
    s->removing = false;
    settle(&b, now);
}

/* An idle workspace of the box loses its cell, then its slot. */
static void idle(unsigned i)
{
    struct slot *s = &b.slot[i];
    if (!b.box || !s->used || s->nops > 0 || s->removing || broker_slot_waits(s))
        return;
    cell_died(i);
    broker_slot_free(s);
}

static void act(bool retry)
{
    if (b.front_breach != NULL) {
        must(b.front_broken);
        new_front();
    }
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        if (b.slot[i].cell.fd >= 0 && cell[i].c.fd < 0)
            broker_cell_broke(&b.slot[i], "its socket is closed");
        if (b.slot[i].cell_breach != NULL) {
            must(b.slot[i].used);
            broker_cell_gone(&b, &b.slot[i], retry, SP_E_CELL_LOST, now);
            cell_died(i);
        }
    }
    cells_read();
    front_reads();
}

/* The tables agree with each other. */
static void check_state(void)
{
    unsigned nops = 0, busy = 0, of_slot[BROKER_SLOTS_MAX] = {0}, queued[BROKER_SLOTS_MAX] = {0};
    for (unsigned i = 0; i < BROKER_OPS_MAX; i++) {
        struct op *o = &b.ops[i];
        if (o->state == OP_FREE)
            continue;
        nops++;
        of_slot[o->slot - b.slot]++;
        queued[o->slot - b.slot] += o->state == OP_QUEUED;
        must(op_by_cell(&b, o->cell_id) == o && (o->state == OP_QUEUED) == (o->held != NULL));
        must(o->orphan || op_by_front(&b, o->front_id) == o);
    }
    must(nops == b.nops);
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        struct slot *s = &b.slot[i];
        must(s->used ? s->nops == of_slot[i] : of_slot[i] == 0);
        if (!s->used)
            continue;
        must(s->queue.n + s->early.n == queued[i] && s->queue.n <= b.queue_max + b.box);
        must((s->queue.head == NULL) == (s->queue.n == 0));
        must(s->seat == NULL || (s->seat->kind == SP_OP_EXEC && s->seat->slot == s));
        busy += s->seat != NULL || s->queue.n > 0;
        if (!b.box)
            must(s->queue.n == 0 || s->seat == NULL || s->seat->left);
    }
    must(busy <= b.busy_max);
}

/* ---- what the front and the cells do ---- */

static uint8_t wire[SP_FRAME_MAX];

static void deliver(const struct sp_msg *m)
{
    sent.len = sp_msg_encode(m, wire, sizeof wire);
    memcpy(sent.data, wire, sent.len);
}

static void front_says(struct input *in)
{
    static char text[SP_COMMAND_MAX], key[SP_KEY_LEN];
    uint8_t how = take8(in), fill = take8(in);
    struct sp_msg m = {.op = (uint8_t)(1 + how % 9)};
    m.id = take8(in);
    m.flags = take8(in) & (7 | SP_IF_ANY);
    key[0] = (char)take8(in);
    bool with_key = b.box != (how >= 250); /* seldom wrong */
    m.key = (struct sp_slice){key, with_key ? SP_KEY_LEN : 0};
    if (m.op == SP_OP_COMMIT || m.op == SP_OP_CANCEL)
        m.key.n = 0;
    if (text[sizeof text - 1] == '\0')
        memset(text, 'a', sizeof text);
    (void)snprintf(text, sizeof text, "k%03u", with_key && b.box ? (uint8_t)key[0] : 0);
    text[4] = 'a';
    m.command = (struct sp_slice){text, fill == 255 ? sizeof text : 4u + fill % 16};
    m.path = (struct sp_slice){text, 4u + fill % 16};
    m.cwd = m.env = m.etag = (struct sp_slice){"", 0};
    m.timeout_ms = fill * 10u;
    m.flags &= m.op == SP_OP_PUT                            ? 7 | SP_IF_ANY
               : m.op == SP_OP_EXEC || m.op == SP_OP_CANCEL ? 1
               : m.op == SP_OP_DELETE                       ? 3 | SP_IF_ANY
               : m.op == SP_OP_OPEN                         ? 7
                                                            : 0;
    if (m.op == SP_OP_PUT && (m.flags & SP_PUT_WHOLE)) {
        m.flags &= (uint8_t)~SP_PUT_STAGED;
        m.data = (struct sp_slice){text, fill == 255 ? SP_WHOLE_MAX : fill % 16u};
    }
    if (m.flags & SP_IF_MATCH)
        m.etag = (struct sp_slice){"1-2", 3};
    deliver(&m);
    bool may = sent.len > 0 && front_may(&m);
    sent.nfds = 0;
    broker_from_front(&b, &sent, now);
    if (!front_behind)
        must((b.front_breach == NULL) == may);
    if (b.front_breach == NULL)
        front_said(&m);
}

/* Bytes that are nobody's message, or aren't the front's to send. */
static void noise(struct input *in, bool from_front, unsigned slot)
{
    struct sp_msg m;
    size_t n = take8(in) % 64;
    n = n < in->left ? n : in->left;
    memcpy(sent.data, in->p, n);
    in->p += n;
    in->left -= n;
    sent.len = n > 0 ? n : 1;
    sent.nfds = take8(in) % 3 == 1;
    sent.fds[0] = sent.nfds > 0 ? fcntl(proto_fd[PLAIN], F_DUPFD_CLOEXEC, 3) : -1;
    bool message = sp_msg_decode(&m, sent.data, sent.len, sent.nfds);
    if (!message || (from_front && m.op > SP_OP_REMOVE)) {
        if (from_front)
            broker_from_front(&b, &sent, now);
        else
            broker_from_cell(&b, &b.slot[slot], &sent, now);
        must(from_front ? b.front_breach != NULL : b.slot[slot].cell_breach != NULL);
    }
    sp_frame_close_fds(&sent);
}

static void cell_says(struct input *in, unsigned slot)
{
    static const uint8_t ops[] = {SP_OP_STARTED, SP_OP_EXITED, SP_OP_FILE, SP_OP_READY,
                                  SP_OP_STAGED,  SP_OP_DONE,   SP_OP_FAIL, SP_OP_STREAM,
                                  SP_OP_UP,      SP_OP_DRAIN,  SP_OP_EXEC, SP_OP_NAMED};
    static const char text[256];
    uint8_t how = take8(in), which = take8(in), wrong = take8(in);
    struct sp_msg m = {.op = ops[how % sizeof ops]};
    m.id = m.op == SP_OP_UP || m.op == SP_OP_DRAIN ? 0 : b.last_cell_id - which % 16;
    m.flags = m.op == SP_OP_FILE ? how >> 6 : m.op == SP_OP_EXITED ? how >> 7 : 0;
    m.etag = m.key = m.cwd = m.env = (struct sp_slice){"", 0};
    m.command = (struct sp_slice){"true", 4};
    m.size = m.duration_us = key_of(slot);
    m.data = (struct sp_slice){text, key_of(slot)};
    m.err = SP_E_NOT_FOUND;
    if (m.op == SP_OP_NAMED)
        m.key = (struct sp_slice){(const char *)b.slot[slot].key, SP_KEY_LEN};
    const struct job *j = m.id < JOBS ? &job[m.id] : &job[0];
    enum proto_fd kind[3];
    sent.nfds = right_fds(&m, j->want_stdin != (wrong == 77), j->opened != (wrong == 77), kind);
    bool right = wrong != 77 || (m.op != SP_OP_STARTED && m.op != SP_OP_EXITED);
    for (int i = 0; i < sent.nfds; i++) {
        enum proto_fd k = wrong >= 240 ? (enum proto_fd)((wrong + i) % PROTO_FDS) : kind[i];
        right &= k == kind[i] || (m.op == SP_OP_FILE && !m.flags && k == SEALED);
        sent.fds[i] = fcntl(proto_fd[k], F_DUPFD_CLOEXEC, 3);
    }
    if (right && m.op == SP_OP_FILE && !m.flags && wrong >= 240) {
        sp_frame_close_fds(&sent); /* a memfd is a plain file too, if it can't be written */
        sent.nfds = 1;
        sent.fds[0] = fcntl(proto_fd[PLAIN], F_DUPFD_CLOEXEC, 3);
    }
    deliver(&m);
    bool may = sent.len > 0 && right && cell_may(slot, &m), behind = cell[slot].mute;
    broker_from_cell(&b, &b.slot[slot], &sent, now);
    if (!behind)
        must((b.slot[slot].cell_breach == NULL) == may);
    if (b.slot[slot].cell_breach == NULL)
        cell_said(slot, &m);
    sp_frame_close_fds(&sent);
}

/* More than there is room for. */
static void flood(uint8_t key_byte)
{
    char key[SP_KEY_LEN] = {(char)key_byte}, text[8];
    struct sp_msg m = {.op = SP_OP_OPEN, .path = {text, 4}};
    m.key = (struct sp_slice){key, b.box ? SP_KEY_LEN : 0};
    (void)snprintf(text, sizeof text, "k%03u", b.box ? key_byte : 0);
    sent.nfds = 0;
    for (m.id = 256; m.id < 256 + BROKER_OPS_MAX + 8 && b.last_cell_id < JOBS - 256; m.id++) {
        bool may = front_may(&m);
        if (!may || b.front_breach != NULL)
            continue;
        deliver(&m);
        broker_from_front(&b, &sent, now);
        must(b.front_breach == NULL || front_behind);
        front_said(&m);
        cells_read();
        front_reads();
    }
    must(b.nops <= BROKER_OPS_MAX);
}

static void step(struct input *in)
{
    uint8_t what = take8(in);
    unsigned slot = b.box ? (what >> 4) % 8u + (what >> 7) * 120u : 0u;
    bool has_cell = cell[slot].c.fd >= 0 && b.slot[slot].cell.fd >= 0;
    uint8_t fine = what % 16 < 9 ? 0 : take8(in);
    switch (what % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
        front_says(in);
        break;
    case 4:
    case 5:
    case 6:
    case 7:
        if (has_cell)
            cell_says(in, slot);
        break;
    case 8:
        new_cell(slot);
        break;
    case 9:
        now += fine * 64u;
        (void)broker_tick(&b, now);
        break;
    case 10:
        if (has_cell && fine & 1) {
            cell_died(slot);
            front_says(in); /* before the loop sees that it is dead */
        } else if (has_cell) {
            broker_cell_broke(&b.slot[slot], "it ended");
        }
        break;
    case 11:
        new_front();
        break;
    case 12:
        cell[slot].mute = has_cell && fine & 1;
        front_mute = fine & 2;
        front_behind |= front_mute;
        break;
    case 13:
        removed(slot);
        idle(slot);
        break;
    case 14:
        if (has_cell || fine & 1)
            noise(in, fine & 1, slot);
        break;
    default:
        if (fine == 0xdd) {
            broker_kill_all(&b, now);
            drained = true;
        } else if (fine == 0xff && floods) {
            floods = false; /* once: it takes long */
            flood((uint8_t)slot);
        }
    }
    act(what & 0x80);
}

/* ---- the end: nothing is stuck ---- */

/* Every cell answers what it has, as a cell that keeps the rules. */
static void answer_all(void)
{
    for (uint32_t id = 1; id <= b.last_cell_id; id++) {
        struct job *j = &job[id];
        if (j->kind == 0 || j->ended || cell[j->slot].c.fd < 0)
            continue;
        bool exec = j->kind == SP_OP_EXEC && j->opened;
        struct sp_msg m = {.op = exec ? SP_OP_EXITED : SP_OP_FAIL, .id = id};
        m.duration_us = key_of(j->slot);
        m.err = SP_E_NOT_FOUND;
        must(cell_may(j->slot, &m));
        deliver(&m);
        sent.nfds = 0;
        broker_from_cell(&b, &b.slot[j->slot], &sent, now);
        must(b.slot[j->slot].cell_breach == NULL);
        cell_said(j->slot, &m);
        cells_read();
        front_reads();
    }
}

static void up(unsigned i)
{
    struct sp_msg m = {.op = SP_OP_UP};
    new_cell(i);
    if (cell[i].c.fd < 0 || cell[i].up)
        return;
    deliver(&m);
    sent.nfds = 0;
    broker_from_cell(&b, &b.slot[i], &sent, now);
    cell_said(i, &m);
    cells_read();
    front_reads();
}

static void all_goes_on(void)
{
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        cell[i].mute = false;
    new_front(); /* what the old one had, ends */
    act(true);
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        up(i);
    answer_all();
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        removed(i);
        must(b.slot[i].cell_breach == NULL);
    }
    check_state();
    must(b.nops == 0 && b.front_breach == NULL);
}

/* A command in a workspace that had work, from its start to its end. */
static void runs(uint8_t key_byte)
{
    char key[SP_KEY_LEN] = {(char)key_byte}, text[8];
    (void)snprintf(text, sizeof text, "k%03u", key_byte);
    struct sp_msg m = {.op = SP_OP_EXEC, .id = 1, .command = {text, 4}};
    m.key = (struct sp_slice){key, b.box ? SP_KEY_LEN : 0};
    m.cwd = m.env = (struct sp_slice){"", 0};
    deliver(&m);
    sent.nfds = 0;
    broker_from_front(&b, &sent, now);
    front_said(&m);
    const struct slot *s = b.box ? broker_slot(&b, (const uint8_t *)key, false) : &b.slot[0];
    must(s != NULL);
    up((unsigned)(s - b.slot));
    cells_read();
    front_reads();
    uint32_t id = b.last_cell_id;
    must(drained ? asked[1].kind == 0 : job[id].kind == SP_OP_EXEC && !job[id].ended);
    answer_all();
    must(b.nops == 0 && asked[1].kind == 0);
    idle((unsigned)(s - b.slot));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    int before = open_fds();
    broker_init(&b, 3600000);
    sp_chan_init(&front, -1);
    memset(job, 0, sizeof job);
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        sp_chan_init(&cell[i].c, -1);
        sp_chan_init(&cell[i].port, -1);
        cell[i].up = cell[i].mute = false;
    }
    uint8_t mode = take8(&in);
    drained = false;
    narrow = mode & 2;
    floods = mode & 8;
    b.ports = mode & 16;
    now = 1000;
    b.front_fds = mode & 4 ? 8 : b.front_fds;
    if (mode & 1)
        broker_be_box(&b, 2, 3);
    new_front();
    for (int i = 0; i < STEPS && in.left > 0; i++) {
        step(&in);
        if (i % 16 == 0)
            check_state();
    }
    all_goes_on();
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        idle(i);
    runs(0);
    if (b.box)
        runs(1);
    broker_free(&b);
    sp_chan_close(&front);
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        sp_chan_close(&cell[i].c);
        sp_chan_close(&cell[i].port);
    }
    must(open_fds() == before);
    return 0;
}
