/* fuzz_frame.c: two channels over one socket, and somebody who sends by hand what no channel would:
 * what was taken arrives once, in order, whole, with its descriptors; what isn't a frame is refused
 * with nothing left open; and queues keep their bounds.
 * Covers: src/base/frame.c */
#include "input.h"
#include "sallyport/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SENT_MAX 512

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sent {
    size_t len;
    int nfds;
    bool frame; /* false: no channel sent it, and a channel must refuse it */
};

static struct side {
    struct sp_chan c;
    struct sent due[SENT_MAX]; /* to this side, oldest first */
    unsigned from, to;
    bool mute; /* its peer's words may be lost */
} side[2];

static int null;
static uint8_t bytes[SP_FRAME_MAX + 64];
static struct sp_frame frame;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return null < 0;
}

static void expect(struct side *to, size_t len, int nfds, bool is_frame)
{
    if (to->to == SENT_MAX)
        abort();
    to->due[to->to++] = (struct sent){len, nfds, is_frame};
}

static int copies(int *fds, int n)
{
    for (int i = 0; i < n; i++)
        if ((fds[i] = fcntl(null, F_DUPFD_CLOEXEC, 3)) < 0)
            abort();
    return n;
}

static void stamp(size_t len, unsigned number)
{
    if (len > 0)
        memset(bytes, (int)(number % 251), len < 64 ? len : 64);
    if (len > 0)
        bytes[len - 1] = (uint8_t)(number % 251);
}

static void send_one(struct side *s, struct side *peer, size_t len, int nfds)
{
    int fds[8];
    copies(fds, nfds);
    stamp(len, peer->to);
    bool was_pending = sp_chan_pending(&s->c);
    int r = sp_chan_send(&s->c, bytes, len, fds, nfds);
    if (r == 0) {
        if (s->c.fd < 0 || len == 0 || len > SP_FRAME_MAX || nfds > SP_FRAME_FDS)
            abort();
        expect(peer, len, nfds, true);
    } else if (r == -ENOBUFS) {
        if (!was_pending && s->c.queued_fds + (unsigned)nfds <= s->c.max_fds)
            abort(); /* there was room */
    } else if (r == -EPIPE) {
        if (s->c.fd >= 0 && peer->c.fd >= 0)
            abort();
    } else if (r != -EMSGSIZE || (len > 0 && len <= SP_FRAME_MAX && nfds <= SP_FRAME_FDS)) {
        abort();
    }
    if (s->c.queued > SP_CHAN_QUEUE_MAX || s->c.queued_fds > s->c.max_fds)
        abort();
}

/* As a process that was taken over might. */
static void send_by_hand(struct side *s, struct side *peer, size_t len, int nfds, bool creds)
{
    union {
        struct cmsghdr align;
        char buf[CMSG_SPACE(8 * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    } ctl = {.buf = {0}};
    int fds[8];
    struct iovec iov = {bytes, len};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (s->c.fd < 0 || sp_chan_pending(&s->c))
        return; /* it would overtake */
    stamp(len, peer->to);
    copies(fds, nfds);
    m.msg_control = ctl.buf;
    m.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
    struct cmsghdr *h = (struct cmsghdr *)(void *)ctl.buf;
    *h = (struct cmsghdr){CMSG_LEN((size_t)nfds * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(h), fds, (size_t)nfds * sizeof(int));
    if (nfds == 0)
        m.msg_controllen = 0;
    if (creds) { /* the peer asks for none: the kernel drops them */
        struct ucred u = {getpid(), getuid(), getgid()};
        h = (struct cmsghdr *)(void *)(ctl.buf + m.msg_controllen);
        *h = (struct cmsghdr){CMSG_LEN(sizeof u), SOL_SOCKET, SCM_CREDENTIALS};
        memcpy(CMSG_DATA(h), &u, sizeof u);
        m.msg_controllen += CMSG_SPACE(sizeof u);
    }
    bool went = sendmsg(s->c.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
    for (int i = 0; i < nfds; i++)
        close(fds[i]);
    if (went)
        expect(peer, len, nfds, len > 0 && len <= SP_FRAME_MAX && nfds <= SP_FRAME_FDS);
}

static void check_frame(const struct sent *d, unsigned number, bool take)
{
    uint8_t mark = (uint8_t)(number % 251);
    if (!d->frame || frame.len != d->len || frame.nfds != d->nfds || frame.data[0] != mark ||
        frame.data[d->len - 1] != mark)
        abort();
    for (int i = 0; i < SP_FRAME_FDS; i++) {
        int flags = fcntl(frame.fds[i], F_GETFD);
        if ((i < frame.nfds) != (flags >= 0) || (flags >= 0 && !(flags & FD_CLOEXEC)))
            abort();
    }
    int fd = take ? sp_frame_take_fd(&frame, 0) : -1;
    if (take && ((fd >= 0) != (d->nfds > 0) || sp_frame_take_fd(&frame, SP_FRAME_FDS) != -1))
        abort();
    if (fd >= 0)
        close(fd);
    sp_frame_close_fds(&frame);
}

static void recv_one(struct side *s, bool take)
{
    int r = sp_chan_recv(&s->c, &frame);
    const struct sent *d = s->from < s->to ? &s->due[s->from] : NULL;
    if (r == 1) {
        if (d == NULL)
            abort();
        check_frame(d, s->from++, take);
    } else if (r == -EPROTO) {
        if (d == NULL || d->frame)
            abort();
        s->from++;
    } else if (r == -EPIPE && d != NULL && !d->frame && d->len == 0 && s->c.fd >= 0) {
        s->from++; /* an empty datagram is taken for the end */
    } else if (r == 0) {
        if (d != NULL && !s->mute && !sp_chan_pending(&side[s == side].c))
            abort(); /* it was sent, and isn't there */
    } else if (r != -EPIPE || (s->c.fd >= 0 && side[s == side].c.fd >= 0)) {
        abort();
    }
}

static size_t length(uint8_t kind, uint8_t fine)
{
    static const size_t large[] = {0,     SP_FRAME_MAX, SP_FRAME_MAX + 1, SP_FRAME_MAX + 63,
                                   70000, 4096};
    return kind < 6 ? large[kind] : (size_t)fine + 1;
}

static void step(struct input *in)
{
    uint8_t what = take8(in), kind = take8(in) % 24, fine = take8(in);
    struct side *s = &side[what & 1], *peer = &side[!(what & 1)];
    switch (what >> 1 & 7) {
    case 0:
    case 1:
        send_one(s, peer, length(kind, fine), fine % 5);
        break;
    case 2:
    case 3:
    case 4:
        recv_one(s, fine & 1);
        break;
    case 5:
        send_by_hand(s, peer, length(kind, fine), fine % 9, what & 0x80);
        break;
    case 6:
        if (fine > 8) {
            if (sp_chan_flush(&s->c) != 0 && peer->c.fd >= 0 && s->c.fd >= 0)
                abort();
        } else {
            s->c.max_fds = fine; /* who can't spare so many */
            if (s->c.queued_fds > fine)
                s->c.max_fds = s->c.queued_fds;
        }
        break;
    default:
        if (fine > 8)
            return;
        sp_chan_close(&s->c);
        peer->mute = s->mute = true; /* what was queued is gone with it */
        if (sp_chan_pending(&s->c) || s->c.queued != 0 || s->c.queued_fds != 0)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    int before = open_fds(), pair[2];
    if (sp_frame_pair(pair) != 0)
        abort();
    for (int i = 0; i < 2; i++) {
        side[i].from = side[i].to = 0;
        side[i].mute = false;
        sp_chan_init(&side[i].c, pair[i]);
    }
    for (int i = 0; i < SENT_MAX && in.left > 0; i++)
        step(&in);
    for (unsigned last = ~0u;
         last != side[0].from + side[1].from;) { /* all that was taken arrives */
        last = side[0].from + side[1].from;
        (void)sp_chan_flush(&side[0].c);
        (void)sp_chan_flush(&side[1].c);
        recv_one(&side[0], false);
        recv_one(&side[1], false);
    }
    for (int i = 0; i < 2; i++) {
        if (!side[i].mute && side[i].from != side[i].to)
            abort();
        sp_chan_close(&side[i].c);
    }
    if (open_fds() != before)
        abort();
    return 0;
}
