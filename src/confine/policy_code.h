/* policy_code.h: classic BPF written from its end to its beginning, as all its jumps go forward:
 * what a jump leads to is there before the jump. A place is the number of steps behind it. */
#ifndef SP_CONFINE_POLICY_CODE_H
#define SP_CONFINE_POLICY_CODE_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct code {
    struct sock_filter back[BPF_MAXINSNS]; /* the last step first */
    size_t n;
    bool full; /* what was to be written didn't fit: places mean nothing any more */
};

#define CODE_NOTHING (-1)
/* Where a piece begins that may want a word of the call's data in the accumulator. */
struct entry {
    size_t at;
    int wants;     /* the word's offset, or CODE_NOTHING */
    size_t loaded; /* 0: no step that loads it before is there yet */
};

/* An answer; one that is near is used again. */
size_t code_ret(struct code *c, uint32_t action);
struct entry code_answer(struct code *c, uint32_t action);
/* A step that goes on at `next`. */
size_t code_then(struct code *c, uint16_t op, uint32_t k, size_t next);
/* A comparison of the accumulator (BPF_JEQ, BPF_JGT, BPF_JGE). */
size_t code_branch(struct code *c, uint16_t op, uint32_t k, size_t yes, size_t no);
/* Where to go with the word at `has` (or CODE_NOTHING) in the accumulator. */
size_t code_enter(struct code *c, struct entry *e, int has);

#endif
