/* input.h: takes a fuzzer's bytes as numbers, and counts descriptors. For targets that play a
 * sequence of steps. */
#ifndef SALLYPORT_FUZZ_INPUT_H
#define SALLYPORT_FUZZ_INPUT_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>

struct input {
    const uint8_t *p;
    size_t left;
};

/* 0 once nothing is left. */
static inline uint8_t take8(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->p++;
}

static inline uint32_t take32(struct input *in)
{
    uint32_t v = 0;
    for (int i = 0; i < 4; i++)
        v |= (uint32_t)take8(in) << (8 * i);
    return v;
}

/* Of the first so many numbers: what a target opens lies there. */
static inline int open_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

#endif
