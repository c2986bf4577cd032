/* test_frame.c: frames between two ends of a socket pair, and a peer that breaks every rule:
 * no descriptor may be left open, and none may survive an exec. */
#include "sallyport/frame.h"

#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sp_chan a, b;
static struct sp_frame frame; /* too large for the stack */
static uint8_t big[SP_FRAME_MAX + 1];

static void pair(void)
{
    int fds[2];
    ck_assert_int_eq(sp_frame_pair(fds), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
        ck_assert(fcntl(fds[i], F_GETFL) & O_NONBLOCK);
    }
    sp_chan_init(&a, fds[0]);
    sp_chan_init(&b, fds[1]);
}

static int open_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    ck_assert_ptr_nonnull(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static int null_fd(void)
{
    int fd = open("/dev/null", O_RDONLY); /* not close-on-exec: the receiver's must be */
    ck_assert_int_ge(fd, 0);
    return fd;
}

/* Past sp_chan_send's own checks. */
static void raw_send(const void *data, size_t len, int nfds)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(16 * sizeof(int))];
    } ctl = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    int fds[16];
    for (int i = 0; i < nfds; i++)
        fds[i] = null_fd();
    if (nfds) {
        m.msg_control = ctl.buf;
        m.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
        memcpy(CMSG_DATA(h), fds, (size_t)nfds * sizeof(int));
    }
    ck_assert_int_eq(sendmsg(a.fd, &m, MSG_NOSIGNAL), (ssize_t)len);
    for (int i = 0; i < nfds; i++)
        close(fds[i]);
}

START_TEST(all_sizes)
{
    static const size_t sizes[] = {1, 2, 4096, 100000, SP_FRAME_MAX - 1, SP_FRAME_MAX};
    pair();
    ck_assert_int_eq(sp_chan_recv(&b, &frame), 0);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        memset(big, (int)i + 1, sizes[i]);
        ck_assert_int_eq(sp_chan_send(&a, big, sizes[i], NULL, 0), 0);
        ck_assert_int_eq(sp_chan_recv(&b, &frame), 1);
        ck_assert_uint_eq(frame.len, sizes[i]);
        ck_assert_mem_eq(frame.data, big, sizes[i]);
        ck_assert_int_eq(frame.nfds, 0);
        ck_assert_int_eq(frame.fds[0], -1);
    }
    ck_assert_int_eq(sp_chan_send(&a, big, 0, NULL, 0), -EMSGSIZE);
    ck_assert_int_eq(sp_chan_send(&a, big, SP_FRAME_MAX + 1, NULL, 0), -EMSGSIZE);
    ck_assert_int_eq(sp_chan_recv(&b, &frame), 0);
}
END_TEST

START_TEST(descriptors)
{
    pair();
    int before = open_fds();
    for (int n = 1; n <= SP_FRAME_FDS; n++) {
        int fds[SP_FRAME_FDS];
        for (int i = 0; i < n; i++)
            fds[i] = null_fd();
        ck_assert_int_eq(sp_chan_send(&a, "x", 1, fds, n), 0);
        ck_assert_int_eq(open_fds(), before); /* the sender's are closed */
        ck_assert_int_eq(sp_chan_recv(&b, &frame), 1);
        ck_assert_int_eq(frame.nfds, n);
        for (int i = 0; i < n; i++)
            ck_assert(fcntl(frame.fds[i], F_GETFD) & FD_CLOEXEC);
        int mine = sp_frame_take_fd(&frame, 0);
        ck_assert_int_ge(mine, 0);
        ck_assert_int_eq(sp_frame_take_fd(&frame, 0), -1);
        ck_assert_int_eq(sp_frame_take_fd(&frame, n), -1);
        ck_assert_int_eq(sp_frame_take_fd(&frame, -1), -1);
        sp_frame_close_fds(&frame);
        sp_frame_close_fds(&frame);
        ck_assert_int_eq(fcntl(mine, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        close(mine);
        ck_assert_int_eq(open_fds(), before);
    }
}
END_TEST

START_TEST(send_takes_on_failure)
{
    pair();
    int before = open_fds();
    int fds[4] = {null_fd(), null_fd(), null_fd(), null_fd()};
    ck_assert_int_eq(sp_chan_send(&a, "x", 1, fds, 4), -EMSGSIZE);
    ck_assert_int_eq(open_fds(), before);
    fds[0] = null_fd();
    ck_assert_int_eq(sp_chan_send(&a, "", 0, fds, 1), -EMSGSIZE);
    fds[0] = null_fd();
    sp_chan_close(&b);
    ck_assert_int_eq(sp_chan_send(&a, "x", 1, fds, 1), -EPIPE); /* and no SIGPIPE */
    sp_chan_close(&a);
    sp_chan_close(&a);
    fds[0] = null_fd();
    ck_assert_int_eq(sp_chan_send(&a, "x", 1, fds, 1), -EPIPE);
    ck_assert_int_eq(sp_chan_recv(&a, &frame), -EPIPE);
    ck_assert_int_eq(open_fds(), before - 2);
}
END_TEST

START_TEST(hostile_peer)
{
    pair();
    int before = open_fds();
    for (int n = SP_FRAME_FDS + 1; n <= 16; n++) { /* 4 fit our control buffer, 5 don't */
        raw_send("x", 1, n);
        ck_assert_int_eq(sp_chan_recv(&b, &frame), -EPROTO);
        ck_assert_int_eq(frame.nfds, 0);
        ck_assert_int_eq(open_fds(), before);
    }
    raw_send(big, sizeof big, 0);
    ck_assert_int_eq(sp_chan_recv(&b, &frame), -EPROTO);
    raw_send(big, sizeof big, 3);
    ck_assert_int_eq(sp_chan_recv(&b, &frame), -EPROTO);
    ck_assert_int_eq(open_fds(), before);
    raw_send("", 0, 2); /* an empty datagram is as good as a close */
    ck_assert_int_eq(sp_chan_recv(&b, &frame), -EPIPE);
    ck_assert_int_eq(open_fds(), before);
    raw_send("x", 1, 1);
    ck_assert_int_eq(sp_chan_recv(&b, &frame), 1);
    sp_frame_close_fds(&frame);
}
END_TEST

START_TEST(no_descriptor_left)
{
    pair();
    raw_send("x", 1, 3);
    int before = open_fds();
    struct rlimit old, low;
    getrlimit(RLIMIT_NOFILE, &old);
    low = old;
    int next = dup(a.fd); /* the lowest free number: room for one more */
    close(next);
    low.rlim_cur = (rlim_t)next + 1;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
    int r = sp_chan_recv(&b, &frame);
    setrlimit(RLIMIT_NOFILE, &old);
    ck_assert_int_eq(r, -EPROTO);
    ck_assert_int_eq(open_fds(), before);
}
END_TEST

START_TEST(credentials_refused)
{
    pair();
    int on = 1;
    ck_assert_int_eq(setsockopt(b.fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    int before = open_fds();
    raw_send("x", 1, 1);
    ck_assert_int_eq(sp_chan_recv(&b, &frame), -EPROTO);
    ck_assert_int_eq(open_fds(), before);
}
END_TEST

START_TEST(queue)
{
    pair();
    int before = open_fds();
    uint32_t sent = 0, got = 0;
    int r;
    static uint8_t msg[60000];
    while (!sp_chan_pending(&a)) {
        memcpy(msg, &sent, sizeof sent);
        ck_assert_int_eq(sp_chan_send(&a, msg, sizeof msg, NULL, 0), 0);
        sent++;
    }
    for (;;) { /* until the queue is full; each with a descriptor */
        int fd = null_fd();
        memcpy(msg, &sent, sizeof sent);
        r = sp_chan_send(&a, msg, sizeof msg, &fd, 1);
        if (r)
            break;
        sent++;
    }
    ck_assert_int_eq(r, -ENOBUFS);
    ck_assert_uint_le(a.queued, SP_CHAN_QUEUE_MAX);
    ck_assert_uint_gt(a.queued, SP_CHAN_QUEUE_MAX - 2 * sizeof msg);
    while (got < sent) {
        r = sp_chan_recv(&b, &frame);
        ck_assert_int_ge(r, 0);
        if (r == 0) {
            ck_assert(sp_chan_pending(&a));
            ck_assert_int_eq(sp_chan_flush(&a), 0);
            continue;
        }
        uint32_t nr;
        memcpy(&nr, frame.data, sizeof nr);
        ck_assert_uint_eq(nr, got); /* in order */
        sp_frame_close_fds(&frame);
        got++;
    }
    ck_assert(!sp_chan_pending(&a));
    ck_assert_uint_eq(a.queued, 0);
    ck_assert_int_eq(open_fds(), before);
}
END_TEST

START_TEST(queue_closed)
{
    pair();
    int before = open_fds();
    for (int i = 0; i < 100; i++) {
        int fd = null_fd();
        ck_assert_int_eq(sp_chan_send(&a, big, 50000, &fd, 1), 0);
    }
    ck_assert(sp_chan_pending(&a));
    sp_chan_close(&b);
    ck_assert_int_eq(sp_chan_flush(&a), -EPIPE);
    sp_chan_close(&a);
    ck_assert(!sp_chan_pending(&a));
    ck_assert_int_eq(open_fds(), before - 2);
}
END_TEST

/* The peer's last words are read although it left without reading ours. */
START_TEST(last_words)
{
    pair();
    ck_assert_int_eq(sp_chan_send(&b, "unread", 6, NULL, 0), 0);
    ck_assert_int_eq(sp_chan_send(&a, "bye", 3, NULL, 0), 0);
    sp_chan_close(&a);
    ck_assert_int_eq(sp_chan_recv(&b, &frame), 1);
    ck_assert_uint_eq(frame.len, 3);
    ck_assert_int_eq(sp_chan_recv(&b, &frame), -EPIPE);
    ck_assert_int_eq(sp_chan_recv(&b, &frame), -EPIPE);
}
END_TEST

/* A TCP socket whose close waits ten minutes for a peer that doesn't read. */
static int lingering(int *peer)
{
    static char bytes[65536];
    const struct linger wait = {1, 600};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(l, (const struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(l, 1), 0);
    ck_assert_int_eq(getsockname(l, (struct sockaddr *)&at, &len), 0);
    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    *peer = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    ck_assert_int_ge(*peer, 0);
    while (send(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof wait), 0);
    close(l);
    return fd;
}

/* 0: in a frame that is dropped; 1: one of too many; 2: never received; 3: so, and behind an empty
 * datagram. Check ends a test that hangs. */
static void wait_for_nobody(int how)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(20 * sizeof(int))];
    } ctl = {0};
    int peer, fd = lingering(&peer), n = how == 1 ? 20 : 1, fds[20];
    struct iovec iov = {.iov_base = (char[]){"x"}, .iov_len = 1};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf};
    pair();
    b.wary = true;
    if (how == 3)
        ck_assert_int_eq(send(a.fd, "", 0, 0), 0);
    for (int i = 0; i < n; i++)
        fds[i] = fd;
    m.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
    ctl.align.cmsg_level = SOL_SOCKET;
    ctl.align.cmsg_type = SCM_RIGHTS;
    ctl.align.cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
    memcpy(CMSG_DATA(&ctl.align), fds, (size_t)n * sizeof(int));
    ck_assert_int_eq(sendmsg(a.fd, &m, 0), 1);
    close(fd); /* not the last: it is on its way */
    if (how == 0)
        ck_assert_int_eq(sp_chan_recv(&b, &frame), 1);
    if (how == 1)
        ck_assert_int_eq(sp_chan_recv(&b, &frame), -EPROTO);
    if (how < 2)
        sp_frame_close_fds(&frame);
    sp_chan_close(&b);
    close(peer);
}

START_TEST(lingering_in_a_frame)
{
    wait_for_nobody(0);
}
END_TEST

START_TEST(lingering_one_of_too_many)
{
    wait_for_nobody(1);
}
END_TEST

START_TEST(lingering_unread)
{
    wait_for_nobody(2);
}
END_TEST

START_TEST(lingering_behind_nothing)
{
    wait_for_nobody(3);
}
END_TEST

/* Descriptors of a queue are bounded, too: a peer that doesn't read can't use up ours. */
START_TEST(queued_descriptors)
{
    int sent = 0;
    pair();
    a.max_fds = 5;
    while (!sp_chan_pending(&a))
        ck_assert_int_eq(sp_chan_send(&a, "x", 1, &(int){null_fd()}, 1), 0);
    while (sent < 10 && sp_chan_send(&a, "x", 1, &(int){null_fd()}, 1) == 0)
        sent++;
    ck_assert_int_eq(sent, 4); /* one began the queue */
    ck_assert_uint_eq(a.queued_fds, 5);
    ck_assert_int_eq(sp_chan_send(&a, "x", 1, NULL, 0), 0); /* without one it still goes */
    while (sp_chan_pending(&a)) {
        while (sp_chan_recv(&b, &frame) == 1)
            sp_frame_close_fds(&frame);
        ck_assert_int_eq(sp_chan_flush(&a), 0);
    }
    ck_assert_uint_eq(a.queued_fds, 0);
    ck_assert_int_eq(sp_chan_send(&a, "x", 1, &(int){null_fd()}, 1), 0);
    sp_chan_close(&a);
    sp_chan_close(&b);
}
END_TEST

UNIT_MAIN("frame", all_sizes, descriptors, send_takes_on_failure, hostile_peer, no_descriptor_left,
          credentials_refused, queue, queue_closed, last_words, queued_descriptors,
          lingering_in_a_frame, lingering_one_of_too_many, lingering_unread,
          lingering_behind_nothing)
