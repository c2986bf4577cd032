/* policy_tree.h: which answer, or which piece of code, a call's number leads to. */
#ifndef SP_CONFINE_POLICY_TREE_H
#define SP_CONFINE_POLICY_TREE_H

#include "policy_code.h"

/* Numbers from this one on, up to the next span's. */
struct span {
    uint32_t from;
    bool block;      /* else an answer */
    uint32_t action; /* the answer */
    size_t at;       /* the piece, for the number in the accumulator */
};

/* spans: by number, the first from 0, no two neighbours alike. The place where the search begins.
 */
size_t code_tree(struct code *c, const struct span *spans, size_t n);

#endif
