/* probe_sockets.c: socket families, and sockets of others: by path, by abstract name, the daemon's
 * own port. */
#include "probe.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static int make(const struct probe_stage *s, const struct probe *p)
{
    take_namespaces(s, CLONE_NEWNET);
    return CALL(SYS_socket, p->x, p->y, p->z);
}

static int make_pair(const struct probe_stage *s, const struct probe *p)
{
    int pair[2];
    (void)s;
    return CALL(SYS_socketpair, p->x, p->y, p->z, pair);
}

/* y: the socket's type */
static int to_path(const struct probe_stage *s, const struct probe *p)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, (int)p->y | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", outside(s, p->path));
    if (p->x == 1)
        return outcome(sendto(fd, "x", 1, MSG_DONTWAIT, (const struct sockaddr *)&un, sizeof un));
    return outcome(p->x == 2 ? bind(fd, (const struct sockaddr *)&un, sizeof un)
                             : connect(fd, (const struct sockaddr *)&un, sizeof un));
}

static int to_abstract(const struct probe_stage *s, const struct probe *p)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, (int)p->y | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    int n = snprintf(un.sun_path + 1, sizeof un.sun_path - 1, "%s%s", s->name, p->path);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    if (p->x == 1)
        return outcome(sendto(fd, "x", 1, MSG_DONTWAIT, (const struct sockaddr *)&un, len));
    return outcome(connect(fd, (const struct sockaddr *)&un, len));
}

static int to_port(const struct probe_stage *s, const struct probe *p)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, (p->x == 2 ? SOCK_DGRAM : SOCK_STREAM) | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    in.sin_port = htons((uint16_t)(p->x == 0 ? s->port : p->x == 3 ? 81 : 0));
    if (p->x == 0)
        return outcome(connect(fd, (const struct sockaddr *)&in, sizeof in));
    if (bind(fd, (const struct sockaddr *)&in, sizeof in) != 0)
        return errno;
    return p->x == 2 ? 0 : outcome(listen(fd, 1));
}

/* x: the message; a change needs rights over the network namespace. */
static int route(const struct probe_stage *s, const struct probe *p)
{
    struct {
        struct nlmsghdr h;
        struct ifinfomsg i;
    } m = {.h = {.nlmsg_len = sizeof m, .nlmsg_type = (uint16_t)p->x, .nlmsg_seq = 1}};
    char buf[8192];
    take_namespaces(s, CLONE_NEWNET);
    m.h.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | (p->x == RTM_GETLINK ? NLM_F_DUMP : NLM_F_ACK));
    m.i.ifi_index = 1;
    m.i.ifi_change = 1u /* IFF_UP */;
    m.i.ifi_flags = 1u /* IFF_UP */;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0 || send(fd, &m, sizeof m, 0) < 0)
        return errno;
    ssize_t n = recv(fd, buf, sizeof buf, 0);
    const struct nlmsghdr *h = (const struct nlmsghdr *)(const void *)buf;
    if (n < (ssize_t)sizeof *h)
        return PROBE_BROKEN;
    if (h->nlmsg_type != NLMSG_ERROR)
        return 0;
    const struct nlmsgerr *e = NLMSG_DATA(h);
    return -e->error;
}

enum { NL = AF_NETLINK };

const struct probe probes_sockets[] = {
    {"socket-packet", make, NULL, AF_PACKET, SOCK_RAW, 0},
    {"socket-packet-dgram", make, NULL, AF_PACKET, SOCK_DGRAM, 0},
    {"socket-packet-old", make, NULL, AF_INET, SOCK_PACKET, 0},
    {"socket-raw", make, NULL, AF_INET, SOCK_RAW, IPPROTO_ICMP},
    {"socket-raw6", make, NULL, AF_INET6, SOCK_RAW, IPPROTO_ICMPV6},
    {"socket-vsock", make, NULL, 40, SOCK_STREAM, 0},
    {"socket-vsock-dgram", make, NULL, 40, SOCK_DGRAM, 0},
    {"socket-alg", make, NULL, 38, SOCK_SEQPACKET, 0},
    {"socket-xdp", make, NULL, 44, SOCK_RAW, 0},
    {"socket-key", make, NULL, 15, SOCK_RAW, 2},
    {"socket-tipc", make, NULL, 30, SOCK_STREAM, 0},
    {"socket-smc", make, NULL, 43, SOCK_STREAM, 0},
    {"socket-can", make, NULL, 29, SOCK_RAW, 1},
    {"socket-bluetooth", make, NULL, 31, SOCK_RAW, 1},
    {"socket-rds", make, NULL, 21, SOCK_SEQPACKET, 0},
    {"socket-qipcrtr", make, NULL, 42, SOCK_DGRAM, 0},
    {"socket-kcm", make, NULL, 41, SOCK_DGRAM, 0},
    {"socket-netlink-diag", make, NULL, NL, SOCK_RAW, 4},
    {"socket-netlink-xfrm", make, NULL, NL, SOCK_RAW, 6},
    {"socket-netlink-audit", make, NULL, NL, SOCK_RAW, 9},
    {"socket-netlink-netfilter", make, NULL, NL, SOCK_RAW, 12},
    {"socket-netlink-uevent", make, NULL, NL, SOCK_RAW, 15},
    {"socket-netlink-generic", make, NULL, NL, SOCK_RAW, 16},
    {"socket-netlink-crypto", make, NULL, NL, SOCK_RAW, 21},
    {"socket-netlink-route", make, NULL, NL, SOCK_RAW, NETLINK_ROUTE},
    {"socketpair-tipc", make_pair, NULL, 30, SOCK_SEQPACKET, 0},
    {"socketpair-unix", make_pair, NULL, AF_UNIX, SOCK_STREAM, 0},
    {"route-see-links", route, NULL, RTM_GETLINK, 0, 0},
    {"route-set-link", route, NULL, RTM_NEWLINK, 0, 0},
    {"unix-path-connect", to_path, "sock", 0, SOCK_STREAM, 0},
    {"unix-path-send", to_path, "dgram", 1, SOCK_DGRAM, 0},
    {"unix-path-bind", to_path, "bound", 2, SOCK_STREAM, 0},
    {"unix-abstract-connect", to_abstract, "", 0, SOCK_STREAM, 0},
    {"unix-abstract-send", to_abstract, "-dgram", 1, SOCK_DGRAM, 0},
    {"tcp-daemon", to_port, NULL, 0, 0, 0},
    {"tcp-listen", to_port, NULL, 1, 0, 0},
    {"tcp-listen-low", to_port, NULL, 3, 0, 0},
    {"udp-bind", to_port, NULL, 2, 0, 0},
    {NULL, NULL, NULL, 0, 0, 0},
};
