/* tlspair.c: a certificate and key made fit for serving, by main to see that they are and by the
 * front to use them. The files are the operator's: trusted, but people mistype. The protocol's
 * choices are here: TLS 1.2 and 1.3, forward secrecy and AEAD only, and no state that outlives a
 * connection, so no resumption: a ticket's key would be worth all connections it was used for. */
#include "tls.h"

#include "sallyport/role.h"
#include "sallyport/tls.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x53505431u

struct bundle {
    uint32_t magic, cert_len, key_len; /* the bytes follow */
};

int sp_tls_bundle(const char *cert, size_t cert_len, const char *key, size_t key_len)
{
    const struct bundle head = {MAGIC, (uint32_t)cert_len, (uint32_t)key_len};
    if (cert_len > SP_TLS_FILE_MAX || key_len > SP_TLS_FILE_MAX)
        return -EFBIG;
    size_t n = sizeof head + cert_len + key_len;
    char *all = malloc(n);
    if (all == NULL)
        return -ENOMEM;
    memcpy(all, &head, sizeof head);
    memcpy(all + sizeof head, cert, cert_len);
    memcpy(all + sizeof head + cert_len, key, key_len);
    int fd = sp_sealed_memfd("sallyport-tls", all, n);
    OPENSSL_cleanse(all, n);
    free(all);
    return fd;
}

static int no_passphrase(char *buf, int size, int writing, void *arg)
{
    (void)buf;
    (void)size;
    (void)writing;
    (void)arg;
    return -1;
}

static int only_http1(SSL *ssl, const unsigned char **out, unsigned char *outlen,
                      const unsigned char *in, unsigned inlen, void *arg)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *got = NULL;
    (void)ssl;
    (void)arg;
    if (SSL_select_next_proto(&got, outlen, ours, sizeof ours - 1, in, inlen) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = got;
    return SSL_TLSEXT_ERR_OK;
}

static SSL_CTX *new_context(void)
{
    /* No configuration file: what is negotiated doesn't depend on the host's. */
    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
        return NULL;
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (ctx == NULL)
        return NULL;
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                                       SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    /* A record that brings no data (a key update) ends a read: else a client that sends nothing
     * else would have us for itself. */
    (void)SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_alpn_select_cb(ctx, only_http1, NULL);
    if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
        SSL_CTX_set_num_tickets(ctx, 0) == 1 &&
        SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
        SSL_CTX_set1_groups_list(ctx, "X25519:P-256:P-384") == 1)
        return ctx;
    SSL_CTX_free(ctx);
    return NULL;
}

/* The first certificate is ours, those behind it lead to the root. NULL: done. */
static const char *use_chain(SSL_CTX *ctx, const char *pem, size_t n)
{
    BIO *in = BIO_new_mem_buf(pem, (int)n);
    X509 *x = in != NULL ? PEM_read_bio_X509(in, NULL, no_passphrase, NULL) : NULL;
    const char *why = x == NULL ? "the certificate file holds none in PEM"
                      : SSL_CTX_use_certificate(ctx, x) != 1 ? "the certificate isn't acceptable"
                                                             : NULL;
    X509_free(x);
    while (why == NULL && (x = PEM_read_bio_X509(in, NULL, no_passphrase, NULL)) != NULL) {
        if (SSL_CTX_add1_chain_cert(ctx, x) != 1)
            why = "the certificate's chain isn't acceptable";
        X509_free(x);
    }
    if (why == NULL && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        why = "the certificate's chain is damaged";
    ERR_clear_error();
    BIO_free(in);
    return why;
}

static const char *use_key(SSL_CTX *ctx, const char *pem, size_t n)
{
    BIO *in = BIO_new_mem_buf(pem, (int)n);
    EVP_PKEY *key = in != NULL ? PEM_read_bio_PrivateKey(in, NULL, no_passphrase, NULL) : NULL;
    const char *why = NULL;
    if (key == NULL)
        why = "the key file holds no private key in PEM without a passphrase";
    else if (SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1)
        why = "the key isn't the certificate's";
    EVP_PKEY_free(key);
    BIO_free(in);
    ERR_clear_error();
    return why;
}

static char *read_bundle(int fd, struct bundle *head)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || pread(fd, head, sizeof *head, 0) != (ssize_t)sizeof *head ||
        head->magic != MAGIC || head->cert_len > SP_TLS_FILE_MAX ||
        head->key_len > SP_TLS_FILE_MAX ||
        st.st_size != (off_t)(sizeof *head + head->cert_len + head->key_len))
        return NULL;
    size_t n = (size_t)head->cert_len + head->key_len;
    char *all = malloc(n > 0 ? n : 1);
    if (all != NULL && pread(fd, all, n, sizeof *head) != (ssize_t)n) {
        free(all);
        all = NULL;
    }
    return all;
}

SSL_CTX *tls_context(int fd, char *why, size_t whylen)
{
    struct bundle head;
    const char *fault = "OpenSSL can't be set up";
    char *pem = read_bundle(fd, &head);
    SSL_CTX *ctx = pem != NULL ? new_context() : NULL;
    if (ctx != NULL)
        fault = use_chain(ctx, pem, head.cert_len);
    if (ctx != NULL && fault == NULL)
        fault = use_key(ctx, pem + head.cert_len, head.key_len);
    if (pem != NULL)
        OPENSSL_cleanse(pem, (size_t)head.cert_len + head.key_len);
    free(pem);
    if (fault == NULL)
        return ctx;
    (void)snprintf(why, whylen, "%s", fault);
    SSL_CTX_free(ctx);
    return NULL;
}

bool sp_tls_check(int fd, char *why, size_t whylen)
{
    SSL_CTX *ctx = tls_context(fd, why, whylen);
    SSL_CTX_free(ctx);
    return ctx != NULL;
}
