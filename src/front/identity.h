/* identity.h: who asks, by a request's head: the API key and the identity. Pure: bytes in, a digest
 * or a sentence out. The head is a stranger's, but has passed the strict grammar. */
#ifndef SP_IDENTITY_H
#define SP_IDENTITY_H

#include "sallyport/err.h"
#include "sallyport/proto.h"
#include "sallyport/role.h"

/* head[0..n): as it came, from the request line to the blank line. True: it shows one of the keys.
 */
bool identity_authorised(const char *head, size_t n, const struct sp_config *c);
/* SP_OK with the key of the identity, or SP_E_BAD_IDENTITY with a sentence in *why. */
enum sp_err identity_read(const char *head, size_t n, uint8_t key[SP_KEY_LEN], const char **why);
/* The key that /ready's command runs under; no headers lead to it. */
void identity_probe(uint8_t key[SP_KEY_LEN]);

#endif
