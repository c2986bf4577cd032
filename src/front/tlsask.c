/* tlsask.c: one question to a server of TLS, for `sallyport health`. Whose certificate it shows
 * isn't looked at: the caller tells no secret, and believes little. What comes is a stranger's. */
#include "sallyport/tls.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <signal.h>

/* -errno of a call of OpenSSL's that came to nothing. */
static int failed(const SSL *ssl, int r)
{
    int why = SSL_get_error(ssl, r);
    if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE)
        return -ETIMEDOUT;
    return why == SSL_ERROR_SYSCALL && errno != 0 ? -errno : -EPROTO;
}

static int converse(SSL *ssl, const char *request, int n, char *answer, int cap)
{
    int have = 0;
    errno = 0;
    int r = SSL_connect(ssl);
    if (r == 1)
        r = SSL_write(ssl, request, n);
    if (r <= 0)
        return failed(ssl, r);
    while (have < cap && (r = SSL_read(ssl, answer + have, cap - have)) > 0)
        have += r;
    return r > 0 || SSL_get_error(ssl, r) == SSL_ERROR_ZERO_RETURN ? have : failed(ssl, r);
}

int sp_tls_ask(int fd, const char *request, int n, char *answer, int cap)
{
    int r = -ENOMEM;
    (void)signal(SIGPIPE, SIG_IGN); /* OpenSSL writes without a flag for that */
    SSL_CTX *context = OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) == 1
                           ? SSL_CTX_new(TLS_client_method())
                           : NULL;
    SSL *ssl = context != NULL ? SSL_new(context) : NULL;
    if (ssl != NULL && SSL_set_fd(ssl, fd) == 1)
        r = converse(ssl, request, n, answer, cap);
    SSL_free(ssl);
    SSL_CTX_free(context);
    return r;
}
