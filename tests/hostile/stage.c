/* stage.c: plays main and the front around the real broker and cell: thousands of fronts, without
 * main's patience for the tenth. Trusts nothing that the broker says. */
#include "hostile.h"

#include "sallyport/log.h"

#include <dirent.h>
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

#define PATIENCE_MS 30000
#define RSS_KIB_MAX 65536 /* two full queues of answers and requests, and room */

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

/* ---- what the kernel tells of the others ---- */

static int count_files(pid_t pid)
{
    char path[64];
    int n = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *d = opendir(path);
    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        closedir(d);
    return n;
}

static long status_of(pid_t pid, const char *key)
{
    char path[64], line[256];
    long v = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "re");
    while (f != NULL && v < 0 && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            v = atol(line + strlen(key));
    if (f != NULL)
        fclose(f);
    return v;
}

/* The broker's child that is a cell. */
static pid_t find_cell(void)
{
    DIR *d = opendir("/proc");
    const struct dirent *e;
    pid_t found = 0;
    while (d != NULL && found == 0 && (e = readdir(d)) != NULL) {
        pid_t pid = (pid_t)atoi(e->d_name);
        char path[300], line[128] = "";
        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        int fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0 && read(fd, line, sizeof line - 1) > 10 &&
            strcmp(line + 10, "--role=cell") == 0 && status_of(pid, "PPid:") == stage.broker)
            found = pid;
        if (fd >= 0)
            close(fd);
    }
    if (d != NULL)
        closedir(d);
    return found;
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
    stage.cell = stage.box ? 0 : find_cell();
    if ((!stage.box && stage.cell == 0) || !healthy("the start"))
        return false;
    /* Each workspace in use has a cell, and a socket to it; a cell that waits may come after this
     * count. */
    if (stage.box)
        return (stage.broker_files = count_files(stage.broker) + STAGE_KEYS + 1) > 0;
    stage.broker_files = count_files(stage.broker);
    stage.cell_files = count_files(stage.cell);
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

/* ---- a front that behaves ---- */

static bool command_works(void)
{
    char out[16] = "";
    struct sp_msg m = make(SP_OP_EXEC, 100);
    m.command = (struct sp_slice){"echo ok", 7};
    uint64_t end = main_now_ms() + PATIENCE_MS;
    for (;;) {
        if (!say_msg(&m) || hear(PATIENCE_MS) != 1 || hostile_got.id != 100)
            return false;
        if (hostile_got.op == SP_OP_STARTED)
            break;
        bool later = hostile_got.err == SP_E_BUSY || hostile_got.err == SP_E_OVERLOADED;
        if (hostile_got.op != SP_OP_FAIL || !later || main_now_ms() > end) {
            complain("message %u, %s", hostile_got.op, sp_err_name((enum sp_err)hostile_got.err));
            return false;
        }
        (void)poll(NULL, 0, 5); /* what the last front had begun is still being ended */
    }
    int fd = sp_frame_take_fd(&hostile_frame, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n = poll(&p, 1, PATIENCE_MS) == 1 ? read(fd, out, sizeof out - 1) : -1;
    close(fd);
    return n == 3 && strcmp(out, "ok\n") == 0 && hear_op(SP_OP_EXITED, 100, PATIENCE_MS) &&
           hostile_got.exit_code == 0;
}

static bool file_works(void)
{
    char in[8] = "";
    struct sp_msg m = make(SP_OP_PUT, 101);
    uint64_t end = main_now_ms() + PATIENCE_MS;
    for (;;) {
        if (!say_msg(&m) || hear(PATIENCE_MS) != 1 || hostile_got.id != 101)
            return false;
        if (hostile_got.op == SP_OP_READY)
            break;
        if (hostile_got.op != SP_OP_FAIL || hostile_got.err != SP_E_OVERLOADED ||
            main_now_ms() > end) {
            complain("message %u, %s", hostile_got.op, sp_err_name((enum sp_err)hostile_got.err));
            return false;
        }
        (void)poll(NULL, 0, 5); /* descriptors for the last front are still on their way */
    }
    int fd = sp_frame_take_fd(&hostile_frame, 0);
    bool ok = write(fd, "bytes", 5) == 5;
    close(fd);
    m = make(SP_OP_COMMIT, 101);
    m.size = 5;
    ok = ok && say_msg(&m) && hear_op(SP_OP_DONE, 101, PATIENCE_MS) && hostile_got.size == 5;
    ok = ok && say(SP_OP_OPEN, 102) && hear_op(SP_OP_FILE, 102, PATIENCE_MS);
    if (!ok)
        return false;
    fd = sp_frame_take_fd(&hostile_frame, 0);
    ok = read(fd, in, sizeof in) == 5 && memcmp(in, "bytes", 5) == 0;
    close(fd);
    return ok;
}

/* Closing takes the others a moment. */
static bool no_more_files(pid_t pid, int than)
{
    for (int i = 0; i < PATIENCE_MS / 10; i++) {
        if (than == 0 || count_files(pid) <= than)
            return true;
        (void)poll(NULL, 0, 10);
    }
    return false;
}

bool healthy(const char *after)
{
    bool ok = front_new();
    ok = ok && command_works();
    if (!ok)
        complain("after %s: no command runs", after);
    if (ok && !(ok = file_works()))
        complain("after %s: no file goes in and out", after);
    hear_main();
    (void)main_now_ms();
    if (ok && status_of(stage.broker, "PPid:") != getpid()) {
        complain("after %s: the broker is gone", after);
        ok = false;
    }
    if (ok && !stage.box && find_cell() != stage.cell) {
        complain("after %s: the cell was lost", after);
        ok = false;
    }
    if (ok && !(no_more_files(stage.broker, stage.broker_files) &&
                (stage.box || no_more_files(stage.cell, stage.cell_files)))) {
        complain("after %s: descriptors were left: the broker has %d (%d), the cell %d (%d)", after,
                 count_files(stage.broker), stage.broker_files, count_files(stage.cell),
                 stage.cell_files);
        ok = false;
    }
    if (ok && status_of(stage.broker, "VmRSS:") > RSS_KIB_MAX) {
        complain("after %s: the broker grew to %ld KiB", after, status_of(stage.broker, "VmRSS:"));
        ok = false;
    }
    return ok;
}
