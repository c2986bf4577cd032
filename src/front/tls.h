/* tls.h: TLS between io.c and a client's socket. */
#ifndef SP_FRONT_TLS_H
#define SP_FRONT_TLS_H

#include "front.h"

#include <openssl/ssl.h>

/* tlspair.c: NULL with a clause in why. */
SSL_CTX *tls_context(int fd, char *why, size_t whylen);

/* Before the doors close: everything that OpenSSL reads or sets up once. Takes fd. False: logged.
 */
bool tls_init(int fd);
/* A new pair; a bad one leaves the old in use, and is logged. Takes fd. */
void tls_reload(int fd);
/* c is new, and the server in a handshake from here on. False: no memory. */
bool tls_begin(struct conn *c);
/* As recv and send. A client's close_notify is the end of file. */
ssize_t tls_recv(struct conn *c, char *p, size_t n);
ssize_t tls_send(struct conn *c, const void *p, size_t n);
/* Something was decrypted and not taken, or the end not told: no event of the socket will tell of
 * it, so the connection is called as if it were readable. */
void tls_arm(struct conn *c);
/* The socket has room: true if it was reading that waited for it. */
bool tls_wanted_write(struct conn *c);
void tls_shut_write(struct conn *c); /* says close_notify */
void tls_free(struct conn *c);

#endif
