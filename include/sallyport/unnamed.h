/* unnamed.h: the key under which the registry keeps a user id that is given to nobody yet. No
 * identity has it: theirs are SHA-256, none of which anybody can make begin so. */
#ifndef SALLYPORT_UNNAMED_H
#define SALLYPORT_UNNAMED_H

#include "sallyport/proto.h"

#include <string.h>

static inline void sp_unnamed_key(uint8_t key[SP_KEY_LEN], uint32_t uid)
{
    memset(key, 0, SP_KEY_LEN);
    for (unsigned i = 0; i < 4; i++)
        key[SP_KEY_LEN - 1 - i] = (uint8_t)(uid >> 8 * i);
}

static inline bool sp_is_unnamed(const uint8_t key[SP_KEY_LEN], uint32_t uid)
{
    uint8_t like[SP_KEY_LEN];
    sp_unnamed_key(like, uid);
    return memcmp(key, like, SP_KEY_LEN) == 0;
}

#endif
