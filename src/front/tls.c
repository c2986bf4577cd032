/* tls.c: one client's TLS, over its socket and without blocking. The handshake is part of the first
 * reads, so that its time is the head's. What comes is hostile; OpenSSL meets it first.
 *
 * OpenSSL takes a record at a time from the socket. What it has decrypted and nobody has taken yet
 * makes no socket readable: tls_arm sees to that. */
#include "tls.h"

#include "sallyport/log.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct tls {
    SSL *ssl;
    struct conn *conn;
    h2o_timeout_entry_t again;
    bool up;         /* the handshake is done; OpenSSL forgets that with an error */
    bool broken;     /* no more of it, in either direction */
    bool eof;        /* close_notify came */
    bool untold;     /* and the connection doesn't know, or not of the break */
    bool want_write; /* reading waits for room in the socket */
};

static SSL_CTX *context;

bool tls_init(int fd)
{
    char why[200] = "";
    context = tls_context(fd, why, sizeof why);
    close(fd);
    if (context == NULL)
        sp_log(SP_LOG_ERROR, "TLS: %s", why);
    return context != NULL;
}

void tls_reload(int fd)
{
    char why[200] = "";
    SSL_CTX *fresh = tls_context(fd, why, sizeof why);
    close(fd);
    if (fresh == NULL) {
        sp_log(SP_LOG_ERROR, "TLS: %s; the old certificate stays", why);
        return;
    }
    SSL_CTX_free(context); /* connections that use it keep it */
    context = fresh;
    sp_log(SP_LOG_INFO, "TLS: new connections get the new certificate");
}

static void on_again(h2o_timeout_entry_t *entry)
{
    struct tls *t = H2O_STRUCT_FROM_MEMBER(struct tls, again, entry);
    if (t->conn->reading)
        conn_readable(t->conn);
}

bool tls_begin(struct conn *c)
{
    struct tls *t = calloc(1, sizeof *t);
    SSL *ssl = t != NULL ? SSL_new(context) : NULL;
    if (ssl == NULL || SSL_set_fd(ssl, c->fd) != 1) {
        SSL_free(ssl);
        free(t);
        return false;
    }
    SSL_set_accept_state(ssl);
    *t = (struct tls){.ssl = ssl, .conn = c, .again = {.cb = on_again}};
    c->tls = t;
    return true;
}

/* The one mistake that everybody makes gets an answer. */
static void answer_plain_http(struct conn *c)
{
    static const char text[] =
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\n"
        "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\nContent-Length: 77\r\n\r\n"
        "{\"error\":\"This port speaks TLS: use https in its URL.\",\"code\":\"bad_request\"}\n";
    (void)send(c->fd, text, sizeof text - 1, MSG_NOSIGNAL);
}

/* What we said last shall not be overtaken by a reset, which unread bytes would cause. */
static void last_words(const struct conn *c)
{
    char rest[4096];
    (void)shutdown(c->fd, SHUT_WR);
    for (int i = 0; i < 8 && recv(c->fd, rest, sizeof rest, 0) > 0; i++)
        ;
}

static void failed(struct conn *c)
{
    struct tls *t = c->tls;
    unsigned long e = ERR_peek_error();
    t->broken = true;
    if (t->up)
        return;
    metrics_tls_failure();
    if (ERR_GET_LIB(e) == ERR_LIB_SSL && ERR_GET_REASON(e) == SSL_R_HTTP_REQUEST)
        answer_plain_http(c);
    last_words(c);
    sp_log(SP_LOG_DEBUG, "TLS handshake failed: %s",
           e != 0 ? ERR_reason_error_string(e) : "the client left");
}

ssize_t tls_recv(struct conn *c, char *p, size_t n)
{
    struct tls *t = c->tls;
    size_t sum = 0;
    while (sum < n && !t->broken && !t->eof) {
        size_t want = n - sum < INT_MAX ? n - sum : INT_MAX;
        t->up = t->up || SSL_is_init_finished(t->ssl) == 1;
        ERR_clear_error();
        errno = 0;
        int r = SSL_read(t->ssl, p + sum, (int)want);
        if (r > 0) {
            sum += (size_t)r;
            continue;
        }
        int why = SSL_get_error(t->ssl, r);
        if (why == SSL_ERROR_WANT_READ)
            break;
        if (why == SSL_ERROR_WANT_WRITE) {
            t->want_write = true;
            reply_wait(c);
            break;
        }
        if (why == SSL_ERROR_ZERO_RETURN)
            t->eof = true;
        else
            failed(c);
        t->untold = true;
    }
    if (sum > 0) {
        tls_arm(c);
        return (ssize_t)sum;
    }
    t->untold = false;
    if (t->eof)
        return 0;
    errno = t->broken ? ECONNRESET : EAGAIN;
    return -1;
}

ssize_t tls_send(struct conn *c, const void *p, size_t n)
{
    struct tls *t = c->tls;
    errno = ECONNRESET;
    if (t->broken || n == 0)
        return n == 0 ? 0 : -1;
    ERR_clear_error();
    int r = SSL_write(t->ssl, p, n < INT_MAX ? (int)n : INT_MAX);
    if (r > 0)
        return r;
    if (SSL_get_error(t->ssl, r) == SSL_ERROR_WANT_WRITE) {
        errno = EAGAIN;
        return -1;
    }
    t->broken = true; /* waiting for input here would mean a second handshake: there is none */
    errno = ECONNRESET;
    return -1;
}

void tls_arm(struct conn *c)
{
    struct tls *t = c->tls;
    bool more = t->untold || (!t->broken && !t->eof && SSL_pending(t->ssl) > 0);
    if (more && c->reading && !h2o_timeout_is_linked(&t->again))
        h2o_timeout_link(front.loop, &front.clocks[CLOCK_NOW], &t->again);
}

bool tls_wanted_write(struct conn *c)
{
    bool was = c->tls->want_write;
    c->tls->want_write = false;
    return was;
}

void tls_shut_write(struct conn *c)
{
    struct tls *t = c->tls;
    /* Asked here again: the handshake's end may have been the last that was read. */
    if (t->broken || (!t->up && SSL_is_init_finished(t->ssl) != 1))
        return;
    ERR_clear_error();
    (void)SSL_shutdown(t->ssl); /* where the socket is full the client sees a cut, as it is one */
}

void tls_free(struct conn *c)
{
    struct tls *t = c->tls;
    if (h2o_timeout_is_linked(&t->again))
        h2o_timeout_unlink(&t->again);
    SSL_free(t->ssl);
    free(t);
    c->tls = NULL;
    ERR_clear_error();
}
