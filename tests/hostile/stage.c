/* stage.c: plays main and the front around the real broker and cell: thousands of fronts, without
 * main's patience for the tenth. Trusts nothing that the broker says. */
#include "hostile.h"

#include "sallyport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct stage stage;
struct sp_frame hostile_frame;
struct sp_msg hostile_got;

uint8_t hostile_ops[256];
int hostile_nops;

static void find_ops(void)
{
    static uint8_t buf[SP_FRAME_MAX];
    hostile_nops = 0;
    for (int op = 1; op < SP_OP_COUNT; op++) {
        struct sp_msg m = make((uint8_t)op, 7);
        if (sp_msg_encode(&m, buf, sizeof buf) > 0)
            hostile_ops[hostile_nops++] = (uint8_t)op;
    }
}

void complain(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)fputs("hostile: ", stdout);
    (void)vprintf(fmt, ap);
    (void)putchar('\n');
    (void)fflush(stdout);
    va_end(ap);
}

/* ---- main's part ---- */

void hear_main(void)
{
    static struct sp_frame f;
    struct sp_msg m;
    while (stage.s.broker.chan.fd >= 0 && sp_chan_recv(&stage.s.broker.chan, &f) == 1) {
        if (sp_msg_decode(&m, f.data, f.len, f.nfds) && m.op == SP_OP_BREACH)
            stage.breaches++;
        else
            complain("the broker told main what no broker tells");
        sp_frame_close_fds(&f);
    }
}

bool stage_start(enum sp_mode mode)
{
    char err[REFUSAL_MAX];
    struct sp_plan plan;
    find_ops();
    if (seat_prepare(&stage.s, mode, &plan, false, environ, err, sizeof err) != 0) {
        complain("refused: %s", err);
        return false;
    }
    sp_chan_init(&stage.front, -1);
    if (start_broker(&stage.s) != 0 || !await_up(&stage.s, &stage.s.broker))
        return false;
    stage.broker = stage.s.broker.pid;
    stage.box = mode == SP_MODE_BOX;
    if (stage.box && (start_registry(&stage.s) != 0 || !await_up(&stage.s, &stage.s.registry)))
        return false;
    stage.cell = stage.box ? 0 : stage_cell();
    if ((!stage.box && stage.cell == 0) || !healthy("the start"))
        return false;
    /* Each workspace in use has a cell, and two sockets to it; a cell that waits may come after
     * this count. */
    if (stage.box)
        return (stage.broker_files = stage_files(stage.broker) + 2 * STAGE_KEYS + 1) > 0;
    stage.broker_files = stage_files(stage.broker);
    stage.cell_files = stage_files(stage.cell);
    return true;
}

void stage_end(void)
{
    front_close();
    sp_chan_close(&stage.s.broker.chan);
    (void)await_end(&stage.s, &stage.s.broker, main_now_ms() + PATIENCE_MS, ~0u);
    if (stage.box)
        end_child(&stage.s, &stage.s.registry);
    sweep_all(&stage.s);
    listen_close(&stage.s.listeners);
}

/* ---- the front's part ---- */

bool front_new(void)
{
    const struct sp_msg m = {.op = SP_OP_FRONT};
    int pair[2];
    front_close();
    if (sp_frame_pair(pair) != 0)
        return false;
    sp_chan_init(&stage.front, pair[1]);
    return sp_msg_send(&stage.s.broker.chan, &m, pair, 1) == 0;
}

void front_close(void)
{
    sp_frame_close_fds(&hostile_frame);
    sp_chan_close(&stage.front);
}

static const char keys[STAGE_KEYS][SP_KEY_LEN] = {"somebody's", "another's", "a third one's"};

struct sp_slice stage_key(unsigned n)
{
    return (struct sp_slice){keys[n % STAGE_KEYS], SP_KEY_LEN};
}

struct sp_msg make(uint8_t op, uint32_t id)
{
    struct sp_msg m = {.op = op, .id = id};
    static uint8_t buf[SP_FRAME_MAX];
    m.command = (struct sp_slice){"sleep 1000", 10};
    m.path = (struct sp_slice){"f", 1};
    m.cwd = m.env = m.etag = (struct sp_slice){"", 0};
    m.key = stage.box ? stage_key(0) : (struct sp_slice){"", 0};
    m.err = SP_E_NOT_FOUND;
    m.uid = 1000;
    if (sp_msg_encode(&m, buf, sizeof buf) > 0)
        return m;
    m.id = 0; /* some belong to no operation, and some name a workspace */
    if (sp_msg_encode(&m, buf, sizeof buf) > 0)
        return m;
    m.key = stage_key(0);
    m.id = id;
    if (sp_msg_encode(&m, buf, sizeof buf) == 0)
        m.id = 0;
    return m;
}

static int files_of(uint8_t op)
{
    return op == SP_OP_STARTED ? 2
           : op == SP_OP_FILE || op == SP_OP_READY || op == SP_OP_FRONT || op == SP_OP_STREAM ||
                   op == SP_OP_REGISTRY
               ? 1
               : 0;
}

bool say_raw(const void *data, size_t len, const int *fds, int nfds)
{
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(64 * sizeof(int))];
    } control = {0};
    struct iovec iov = {(void *)(uintptr_t)data, len};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    if (nfds > 0) {
        h.msg_control = control.room;
        h.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
        memcpy(CMSG_DATA(c), fds, (size_t)nfds * sizeof(int));
    }
    for (int tries = 0; tries < PATIENCE_MS / 100; tries++) {
        struct pollfd p = {.fd = stage.front.fd, .events = POLLOUT};
        if (sendmsg(stage.front.fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return true;
        if (errno != EAGAIN)
            return false;
        (void)poll(&p, 1, 100);
    }
    complain("the broker doesn't read any more");
    return false;
}

bool say_msg(const struct sp_msg *m)
{
    static uint8_t buf[SP_FRAME_MAX];
    size_t n = sp_msg_encode(m, buf, sizeof buf);
    int fds[SP_FRAME_FDS], nfds = files_of(m->op);
    for (int i = 0; i < nfds; i++)
        fds[i] = stray(m->op == SP_OP_FILE ? 1 : m->op == SP_OP_FRONT ? 2 : 0);
    bool ok = n > 0 && say_raw(buf, n, fds, nfds);
    for (int i = 0; i < nfds; i++)
        close(fds[i]);
    return ok;
}

bool say(uint8_t op, uint32_t id)
{
    struct sp_msg m = make(op, id);
    return say_msg(&m);
}

int hear(int ms)
{
    sp_frame_close_fds(&hostile_frame);
    uint64_t end = main_now_ms() + (uint64_t)ms;
    for (;;) {
        int r = sp_chan_recv(&stage.front, &hostile_frame);
        if (r == 1) {
            if (sp_msg_decode(&hostile_got, hostile_frame.data, hostile_frame.len,
                              hostile_frame.nfds))
                return 1;
            complain("the broker sent what isn't a message");
            return -1;
        }
        if (r < 0)
            return -1;
        uint64_t now = main_now_ms();
        struct pollfd p = {.fd = stage.front.fd, .events = POLLIN};
        if (now >= end)
            return 0;
        (void)poll(&p, 1, (int)(end - now));
    }
}

bool hear_op(uint8_t op, uint32_t id, int ms)
{
    uint64_t end = main_now_ms() + (uint64_t)ms, now;
    while ((now = main_now_ms()) < end) {
        int r = hear((int)(end - now));
        if (r < 0)
            return false;
        if (r == 1 && hostile_got.op == op && hostile_got.id == id)
            return true;
    }
    return false;
}

bool let_go(void)
{
    unsigned before = stage.breaches;
    uint64_t end = main_now_ms() + PATIENCE_MS;
    while (main_now_ms() < end) {
        int r = hear(1000);
        if (r < 0) {
            hear_main();
            return stage.breaches == before + 1;
        }
    }
    return false;
}

bool served(void)
{
    if (!say(SP_OP_OPEN, 0xfffffff1u))
        return false;
    while (hear(PATIENCE_MS) == 1)
        if (hostile_got.id == 0xfffffff1u)
            return hostile_got.op == SP_OP_FILE || hostile_got.op == SP_OP_FAIL;
    return false;
}

/* ---- descriptors of all kinds ---- */

static const char *const kinds[STRAY_KINDS] = {"pipe",   "file",  "socket", "folder",
                                               "memory", "epoll", "pidfd",  "its own end"};

const char *stray_name(int kind)
{
    return kinds[kind];
}

int stray(int kind)
{
    int p[2];
    switch (kind) {
    case 0:
        if (pipe2(p, O_CLOEXEC) != 0)
            return -1;
        close(p[1]);
        return p[0];
    case 1:
        return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    case 2:
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p) != 0)
            return -1;
        close(p[1]);
        return p[0];
    case 3:
        return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    case 4:
        return memfd_create("stray", MFD_CLOEXEC);
    case 5:
        return epoll_create1(EPOLL_CLOEXEC);
    case 6:
        return (int)syscall(SYS_pidfd_open, getpid(), 0);
    default:
        return dup(stage.front.fd);
    }
}
