/* frame.h: one message = one SOCK_SEQPACKET datagram with at most SP_FRAME_FDS
 * descriptors. Never blocks: what the socket doesn't take is queued, up to a bound.
 * Source: unix(7), cmsg(3). Trusts nobody on the other end. */
#ifndef SALLYPORT_FRAME_H
#define SALLYPORT_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SP_FRAME_MAX 200704u /* 196 KiB: below the default net.core.wmem_max less its overhead */
#define SP_FRAME_FDS 3
#define SP_CHAN_QUEUE_MAX (8u << 20) /* bytes queued before sp_chan_send refuses */
/* Descriptors queued before sp_chan_send refuses. Who can't spare so many sets a lower max_fds. */
#define SP_CHAN_QUEUE_FDS 1024u

struct sp_frame {
    size_t len;
    int fds[SP_FRAME_FDS]; /* -1 where none; owned by the receiver, all close-on-exec */
    int nfds;
    bool wary; /* came by such a channel */
    uint8_t data[SP_FRAME_MAX];
};

struct sp_chan_item;
struct sp_chan {
    int fd; /* nonblocking SOCK_SEQPACKET; -1 when closed */
    struct sp_chan_item *head, *tail;
    size_t queued;
    unsigned queued_fds, max_fds; /* descriptors in the queue, and how many may be */
    bool wary;                    /* see sp_chan_init_wary */
};

/* A connected pair, nonblocking and close-on-exec. 0 or -errno. */
int sp_frame_pair(int fds[2]);
void sp_chan_init(struct sp_chan *c, int fd);
/* The same, to a role that may be an attacker's: a socket that it sends and that isn't taken is
 * closed without waiting for its peer (SO_LINGER, socket(7)), and so is one left unread at the
 * channel's end. Needs setsockopt, which front and registry don't have, and whose peers are the
 * broker and main. */
void sp_chan_init_wary(struct sp_chan *c, int fd);
/* Closes the socket, frees the queue and closes descriptors queued in it. */
void sp_chan_close(struct sp_chan *c);
/* Sends or queues a copy. Takes ownership of fds[0..nfds) in every case (closes them
 * after the send, or on failure). 0, -EPIPE (peer gone), -ENOBUFS (queue full),
 * -EMSGSIZE. */
int sp_chan_send(struct sp_chan *c, const void *data, size_t len, const int *fds, int nfds);
/* Sends at once, or not at all: anything but 0 leaves the descriptors the caller's. -EAGAIN: not
 * now, or others wait to be sent before. */
int sp_chan_try(const struct sp_chan *c, const void *data, size_t len, const int *fds, int nfds);
/* True while something is queued: wait for writability and call sp_chan_flush. */
bool sp_chan_pending(const struct sp_chan *c);
int sp_chan_flush(struct sp_chan *c); /* 0 or -EPIPE */
/* The kernel had no memory: a moment's pause. A loop asks for the same again at once, as what it
 * waits for is still there, and would take a processor for it. sp_chan_recv and sp_chan_flush pause
 * by themselves. */
void sp_pause(void);
/* Receives one frame: 1 got one, 0 nothing there now, -EPIPE peer closed, -EPROTO a
 * truncated datagram or control message (descriptors already closed), -errno else. */
int sp_chan_recv(struct sp_chan *c, struct sp_frame *f);
/* Closes the descriptors still in f and forgets them. */
void sp_frame_close_fds(struct sp_frame *f);
/* Takes descriptor i out of f (-1 if none), so that close_fds leaves it alone. */
int sp_frame_take_fd(struct sp_frame *f, int i);

#endif
