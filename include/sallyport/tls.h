/* tls.h: a certificate and its key on their way from main, which may open files, to the front,
 * which may not. Trusts main; what the files hold is checked. */
#ifndef SALLYPORT_TLS_H
#define SALLYPORT_TLS_H

#include <stdbool.h>
#include <stddef.h>

#define SP_TLS_FILE_MAX (256u << 10) /* of each file */

/* A sealed memfd with both, PEM as they stand in their files; fd or -errno. */
int sp_tls_bundle(const char *cert, size_t cert_len, const char *key, size_t key_len);
/* True if TLS can be served with it; else a clause for people in why, without a stop. */
bool sp_tls_check(int fd, char *why, size_t whylen);
/* As a client of whoever it is, over a connected socket that blocks: the first bytes of the answer,
 * at most cap, to its end. How many, or -errno; -ETIMEDOUT by the socket's own time limits. */
int sp_tls_ask(int fd, const char *request, int n, char *answer, int cap);

#endif
