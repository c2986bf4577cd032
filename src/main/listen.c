/* listen.c: TCP, a unix socket, or systemd's. Runs before anything is given up, so that a low port
 * works as root. Whoever reaches these sockets may run commands: they are named in the log. */
#include "main/listen.h"

#include "sallyport/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024
#define SYSTEMD_FIRST 3

/* As the operator knows them. */
static const char *port_name = "SANDBOX_PORT", *bind_name = "SALLYPORT_BIND";

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
    struct sockaddr_storage room;
};

static void describe(int fd, char *out, size_t cap)
{
    union address a = {0};
    socklen_t len = sizeof a;
    char text[INET6_ADDRSTRLEN];
    if (getsockname(fd, &a.any, &len) != 0)
        a.any.sa_family = AF_UNSPEC;
    if (a.any.sa_family == AF_INET && inet_ntop(AF_INET, &a.v4.sin_addr, text, sizeof text))
        (void)snprintf(out, cap, "http://%s:%u", text, ntohs(a.v4.sin_port));
    else if (a.any.sa_family == AF_INET6 && inet_ntop(AF_INET6, &a.v6.sin6_addr, text, sizeof text))
        (void)snprintf(out, cap, "http://[%s]:%u", text, ntohs(a.v6.sin6_port));
    else if (a.any.sa_family == AF_UNIX)
        (void)snprintf(out, cap, "unix:%.108s", a.un.sun_path);
    else
        (void)snprintf(out, cap, "an unknown address");
}

static int keep(struct listeners *l, int fd)
{
    l->fd[l->n] = fd;
    describe(fd, l->name[l->n], sizeof l->name[0]);
    l->n++;
    return 0;
}

/* -errno, or the listening socket. */
static int tcp(const union address *a, socklen_t len, bool dual)
{
    int on = 1, off = 0;
    int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int r = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (r == 0 && a->any.sa_family == AF_INET6)
        r = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, dual ? &off : &on, sizeof on);
    if (r == 0)
        r = bind(fd, &a->any, len);
    if (r == 0)
        r = listen(fd, BACKLOG);
    if (r == 0)
        return fd;
    r = -errno;
    close(fd);
    return r;
}

static int refuse_tcp(const char *where, unsigned port, int e, char *err, size_t errlen)
{
    (void)snprintf(err, errlen, "%s: can't listen on %.60s port %u: %s.", port_name, where, port,
                   strerror(-e));
    return -1;
}

static int tcp_all(struct listeners *l, in_port_t port, char *err, size_t errlen)
{
    union address a = {.v6 = {.sin6_family = AF_INET6, .sin6_port = port}};
    int fd = tcp(&a, sizeof a.v6, true);
    if (fd == -EAFNOSUPPORT || fd == -EADDRNOTAVAIL) { /* a host without IPv6 */
        a = (union address){.v4 = {.sin_family = AF_INET, .sin_port = port}};
        fd = tcp(&a, sizeof a.v4, false);
    }
    return fd < 0 ? refuse_tcp("any address", ntohs(port), fd, err, errlen) : keep(l, fd);
}

static int tcp_one(struct listeners *l, const char *host, in_port_t port, char *err, size_t errlen)
{
    union address a = {0};
    socklen_t len;
    if (inet_pton(AF_INET, host, &a.v4.sin_addr) == 1) {
        a.v4.sin_family = AF_INET;
        a.v4.sin_port = port;
        len = sizeof a.v4;
    } else if (inet_pton(AF_INET6, host, &a.v6.sin6_addr) == 1) {
        a.v6.sin6_family = AF_INET6;
        a.v6.sin6_port = port;
        len = sizeof a.v6;
    } else {
        (void)snprintf(err, errlen, "%s: %.60s is no IPv4 or IPv6 address.", bind_name, host);
        return -1;
    }
    int fd = tcp(&a, len, false);
    return fd < 0 ? refuse_tcp(host, ntohs(port), fd, err, errlen) : keep(l, fd);
}

static int tcp_list(struct listeners *l, const char *list, in_port_t port, char *err, size_t errlen)
{
    int before = l->n;
    while (*list != '\0') {
        char host[64];
        list += strspn(list, ", ");
        size_t n = strcspn(list, ", ");
        bool bracket = n > 2 && list[0] == '[' && list[n - 1] == ']';
        size_t skip = bracket ? 1 : 0, len = bracket ? n - 2 : n;
        if (len >= sizeof host || l->n == SP_LISTEN_MAX) {
            (void)snprintf(err, errlen, "%s: %s.", bind_name,
                           l->n == SP_LISTEN_MAX ? "at most 8 sockets" : "an address is too long");
            return -1;
        }
        if (n == 0)
            break;
        memcpy(host, list + skip, len);
        host[len] = '\0';
        if (tcp_one(l, host, port, err, errlen) != 0)
            return -1;
        list += n;
    }
    if (l->n == before) {
        (void)snprintf(err, errlen, "%s holds no address.", bind_name);
        return -1;
    }
    return 0;
}

/* A socket file that nobody answers on is left from a crash; anything else isn't ours to remove. */
static int clear_stale(const union address *a)
{
    struct stat st;
    if (lstat(a->un.sun_path, &st) != 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EEXIST;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    int r = connect(fd, &a->any, sizeof a->un) == 0 ? 0 : errno;
    close(fd);
    if (r != ECONNREFUSED)
        return -EADDRINUSE;
    return unlink(a->un.sun_path) == 0 ? 0 : -errno;
}

static int unix_socket(struct listeners *l, const char *path, char *err, size_t errlen)
{
    union address a = {.un = {.sun_family = AF_UNIX}};
    if (path[0] != '/' || strlen(path) >= sizeof a.un.sun_path) {
        (void)snprintf(err, errlen,
                       "SALLYPORT_SOCKET: %.120s isn't an absolute path below %zu "
                       "bytes.",
                       path, sizeof a.un.sun_path);
        return -1;
    }
    memcpy(a.un.sun_path, path, strlen(path));
    int r = clear_stale(&a), fd = -1;
    if (r == 0 && (fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        r = -errno;
    if (r == 0) {
        mode_t old = umask(0117); /* 0660 from birth */
        r = bind(fd, &a.any, sizeof a.un) == 0 ? 0 : -errno;
        umask(old);
    }
    if (r == 0) {
        memcpy(l->unlink_path, path, strlen(path) + 1);
        r = listen(fd, BACKLOG) == 0 ? 0 : -errno;
    }
    if (r == 0)
        return keep(l, fd);
    if (fd >= 0)
        close(fd);
    (void)snprintf(err, errlen, "SALLYPORT_SOCKET: %.120s: %s.", path, strerror(-r));
    return -1;
}

static const char *env_value(char *const *envp, const char *name)
{
    size_t n = strlen(name);
    for (; *envp != NULL; envp++)
        if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
            return *envp + n + 1;
    return NULL;
}

/* sd_listen_fds(3), by hand. How many there are for us; 0 none; -1 refused. */
static int from_systemd(struct listeners *l, char *const *envp, char *err, size_t errlen)
{
    const char *pid = env_value(envp, "LISTEN_PID"), *fds = env_value(envp, "LISTEN_FDS");
    uint64_t p, n;
    if (pid == NULL || fds == NULL || !sp_parse_u64(pid, &p) || p != (uint64_t)getpid())
        return 0;
    if (!sp_parse_u64(fds, &n) || n > SP_LISTEN_MAX) {
        (void)snprintf(err, errlen, "LISTEN_FDS=%.20s: at most %d sockets.", fds, SP_LISTEN_MAX);
        return -1;
    }
    for (int fd = SYSTEMD_FIRST; fd < SYSTEMD_FIRST + (int)n; fd++) {
        int type = 0, accepting = 0, flags = fcntl(fd, F_GETFL);
        socklen_t len = sizeof type;
        if (flags < 0 || getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 ||
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &accepting, &len) != 0 ||
            type != SOCK_STREAM || accepting != 1 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
            fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
            (void)snprintf(err, errlen,
                           "LISTEN_FDS: descriptor %d isn't a listening stream socket.", fd);
            return -1;
        }
        (void)keep(l, fd);
    }
    return (int)n;
}

int listen_open(struct listeners *l, const struct settings *s, char *const *envp, char *err,
                size_t errlen)
{
    memset(l, 0, sizeof *l);
    if (s->mode == SP_MODE_BOX) {
        port_name = "RUNBOX_PORT";
        bind_name = "RUNBOX_BIND";
    }
    in_port_t port = htons((uint16_t)s->port); /* the table bounds it */
    int r = from_systemd(l, envp, err, errlen);
    if (r > 0)
        return 0;
    if (r == 0 && s->socket != NULL)
        r = unix_socket(l, s->socket, err, errlen);
    if (r == 0 && (s->socket == NULL || s->port_given)) {
        if (s->bind != NULL)
            r = tcp_list(l, s->bind, port, err, errlen);
        else
            r = tcp_all(l, port, err, errlen);
    }
    if (r < 0)
        listen_close(l);
    return r < 0 ? -1 : 0;
}

void listen_close(struct listeners *l)
{
    for (int i = 0; i < l->n; i++)
        close(l->fd[i]);
    l->n = 0;
    if (l->unlink_path[0] != '\0')
        (void)unlink(
            l->unlink_path); /* another user's folder may refuse: the next start clears it */
    l->unlink_path[0] = '\0';
}
