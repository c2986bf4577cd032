/* policy_code.c: steps of a filter, written backwards. The fewer there are, the less the kernel has
 * to compile each time that a filter is put on: answers are shared, and a word that is in the
 * accumulator already isn't loaded again. Trusts its caller. */
#include "policy_code.h"

#define FAR 255u  /* of a conditional jump */
#define LOOK 200u /* how far back an answer is looked for */

static size_t put(struct code *c, uint16_t op, uint32_t k, size_t jt, size_t jf)
{
    if (c->n == BPF_MAXINSNS) {
        c->full = true;
        return c->n - 1;
    }
    c->back[c->n] = (struct sock_filter){op, (uint8_t)jt, (uint8_t)jf, k};
    return c->n++;
}

size_t code_ret(struct code *c, uint32_t action)
{
    for (size_t i = c->n; i > 0 && c->n - i < LOOK; i--)
        if (c->back[i - 1].code == (BPF_RET | BPF_K) && c->back[i - 1].k == action)
            return i - 1;
    return put(c, BPF_RET | BPF_K, action, 0, 0);
}

struct entry code_answer(struct code *c, uint32_t action)
{
    return (struct entry){.at = code_ret(c, action), .wants = CODE_NOTHING};
}

/* The same place, a step before all that is there. */
static size_t nearer(struct code *c, size_t at)
{
    if (c->back[at].code == (BPF_RET | BPF_K))
        return put(c, BPF_RET | BPF_K, c->back[at].k, 0, 0);
    return put(c, BPF_JMP | BPF_JA, (uint32_t)(c->n - at - 1), 0, 0);
}

size_t code_then(struct code *c, uint16_t op, uint32_t k, size_t next)
{
    if (c->n != next + 1)
        (void)nearer(c, next);
    return put(c, op, k, 0, 0);
}

size_t code_branch(struct code *c, uint16_t op, uint32_t k, size_t yes, size_t no)
{
    if (yes == no)
        return yes;
    if (c->n - no > FAR) /* and one more step, if that for `yes` comes between */
        no = nearer(c, no);
    if (c->n - yes - 1 > FAR)
        yes = nearer(c, yes);
    return put(c, (uint16_t)(BPF_JMP | op | BPF_K), k, c->n - yes - 1, c->n - no - 1);
}

size_t code_enter(struct code *c, struct entry *e, int has)
{
    if (e->wants == CODE_NOTHING || e->wants == has)
        return e->at;
    if (e->loaded == 0)
        e->loaded = code_then(c, BPF_LD | BPF_W | BPF_ABS, (uint32_t)e->wants, e->at);
    return e->loaded;
}
