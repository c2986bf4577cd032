/* health.c: `sallyport health`, for a container's HEALTHCHECK: asks a seat for /healthz, once.
 * Needs no other program in the image. Trusts its arguments and environment; of the answer it
 * believes the status alone, and whose certificate it is doesn't matter: it shows no secret. */
#include "main/settings.h"

#include "sallyport/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_S 5

struct target {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un un;
    } at;
    socklen_t len;
    bool tls;
};

static bool unix_target(struct target *t, const char *path)
{
    t->at.un = (struct sockaddr_un){.sun_family = AF_UNIX};
    t->len = sizeof t->at.un;
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof t->at.un.sun_path)
        return false;
    memcpy(t->at.un.sun_path, path, n + 1);
    return true;
}

/* An address that listens for all is asked at this machine's own. */
static bool tcp_target(struct target *t, const char *host, uint16_t port)
{
    memset(&t->at, 0, sizeof t->at);
    if (inet_pton(AF_INET6, host, &t->at.v6.sin6_addr) == 1) {
        if (IN6_IS_ADDR_UNSPECIFIED(&t->at.v6.sin6_addr))
            t->at.v6.sin6_addr = in6addr_loopback;
        t->at.v6.sin6_family = AF_INET6;
        t->at.v6.sin6_port = htons(port);
        t->len = sizeof t->at.v6;
        return true;
    }
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &t->at.v4.sin_addr) != 1)
        return false;
    if (t->at.v4.sin_addr.s_addr == htonl(INADDR_ANY))
        t->at.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    t->at.v4.sin_family = AF_INET;
    t->at.v4.sin_port = htons(port);
    t->len = sizeof t->at.v4;
    return true;
}

/* "http://ADDRESS[:PORT][/...]", the same with https, an IPv6 address in brackets, or "unix:PATH".
 */
static bool parse_url(struct target *t, const char *url)
{
    char host[INET6_ADDRSTRLEN + 2];
    char end = '\0';
    if (strncmp(url, "unix:", 5) == 0)
        return unix_target(t, url + 5);
    t->tls = strncmp(url, "https://", 8) == 0;
    if (!t->tls && strncmp(url, "http://", 7) != 0)
        return false;
    unsigned port = t->tls ? 443 : 80;
    url += t->tls ? 8 : 7;
    bool v6 = *url == '[';
    size_t n = strcspn(url + v6, v6 ? "]" : ":/");
    if (n == 0 || n >= sizeof host || (v6 && url[n + 1] != ']'))
        return false;
    memcpy(host, url + v6, n);
    host[n] = '\0';
    const char *rest = url + n + (v6 ? 2 : 0);
    if (*rest == ':' && (sscanf(rest, ":%5u%c", &port, &end) < 1 || port == 0 || port > 65535 ||
                         (end != '\0' && end != '/')))
        return false;
    if (*rest != ':' && *rest != '/' && *rest != '\0')
        return false;
    return tcp_target(t, host, (uint16_t)port);
}

/* Where a seat with these settings listens: its socket, or its first address. */
static bool from_settings(struct target *t, const struct settings *s)
{
    char host[INET6_ADDRSTRLEN];
    if (s->socket != NULL && !s->port_given)
        return unix_target(t, s->socket);
    size_t n = s->bind == NULL ? 0 : strcspn(s->bind, ", ");
    if (n >= sizeof host)
        return false;
    memcpy(host, n == 0 ? "0.0.0.0" : s->bind, n == 0 ? sizeof "0.0.0.0" : n);
    if (n != 0)
        host[n] = '\0';
    t->tls = s->tls_cert != NULL;
    return tcp_target(t, host, (uint16_t)s->port);
}

/* As in TLS: the answer's first bytes, 0 at its end, or -errno. */
static int plainly(int fd, const char *request, int n, char *answer, int cap)
{
    int have = 0;
    ssize_t got = 1;
    if (send(fd, request, (size_t)n, MSG_NOSIGNAL) != n)
        return -errno;
    while (have < cap && (got = recv(fd, answer + have, (size_t)(cap - have), 0)) > 0)
        have += (int)got;
    return got < 0 ? -errno : have;
}

/* 0 and the answer's status, or -errno. */
static int ask(const struct target *t, int *status)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
                                  "Connection: close\r\n\r\n";
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    const int n = (int)sizeof request - 1;
    char answer[64] = "", end = '\0';
    int fd = socket(t->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int r;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) != 0 ||
        connect(fd, &t->at.any, t->len) != 0)
        r = -errno;
    else if (t->tls)
        r = sp_tls_ask(fd, request, n, answer, (int)sizeof answer - 1);
    else
        r = plainly(fd, request, n, answer, (int)sizeof answer - 1);
    close(fd);
    if (r < 0)
        return r;
    answer[r] = '\0';
    return sscanf(answer, "HTTP/1.%*1[01] %3d%c", status, &end) == 2 && end == ' ' ? 0 : -EPROTO;
}

int health(const char *url, char *const *envp)
{
    char err[REFUSAL_MAX];
    struct settings s;
    struct target t = {.tls = false};
    int status = 0;
    if (url == NULL && settings_read(&s, SP_MODE_SEAT, envp, err, sizeof err) != 0) {
        settings_refused(err);
        return 2;
    }
    if (url != NULL ? !parse_url(&t, url) : !from_settings(&t, &s)) {
        settings_refused(url != NULL
                             ? "health wants http://ADDRESS[:PORT], https://... or unix:PATH."
                             : "the settings name no one address to ask; give health its URL.");
        return 2;
    }
    int r = ask(&t, &status);
    if (r != 0) {
        if (r == -EAGAIN || r == -EINPROGRESS)
            r = -ETIMEDOUT;
        fprintf(stderr, "sallyport: no answer: %s.\n", strerror(-r));
        return 1;
    }
    if (status != 200)
        fprintf(stderr, "sallyport: /healthz answers %d.\n", status);
    return status == 200 ? 0 : 1;
}
