/* policy_build.c: a parsed policy -> classic BPF. Trusts the parser; libseccomp for the numbers of
 * calls alone, as its own compiler has no order among the conditional rules of one call, and makes
 * twice to three times as many steps.
 *
 * Here the first rule that matches decides. Calls without conditions only look at the number and
 * the architecture, so that the kernel keeps those in its table of calls it needn't run the filter
 * for. How long a program is counts: the kernel compiles it whenever it is put on, for each cell
 * twice. */
#include "policy.h"
#include "policy_tree.h"

#include <endian.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "argument halves are addressed little-endian");

#define NR ((int)offsetof(struct seccomp_data, nr))
#define X32_BIT 0x40000000u
#define SPANS_MAX (SP_POLICY_NR_MAX + 4)

struct build {
    const struct sp_policy *p;
    uint32_t known; /* the highest number that this libseccomp has a name for */
    struct code code;
    struct span span[SPANS_MAX];
    size_t nspans;
};

static uint32_t low(uint64_t v)
{
    return (uint32_t)(v & UINT32_MAX);
}

static uint32_t high(uint64_t v)
{
    return (uint32_t)(v >> 32);
}

/* A comparison with the word at off. */
static struct entry test(struct code *c, int off, uint16_t op, uint32_t k, struct entry *yes,
                         struct entry *no)
{
    size_t y = code_enter(c, yes, off), n = code_enter(c, no, off);
    if (y == n) /* whatever the word is */
        return (struct entry){.at = y, .wants = CODE_NOTHING};
    return (struct entry){.at = code_branch(c, op, k, y, n), .wants = off};
}

static struct entry half_masked(struct code *c, int off, uint32_t mask, uint32_t value,
                                struct entry *match, struct entry *fail)
{
    if (mask == 0)
        return *match;
    if (mask == UINT32_MAX)
        return test(c, off, BPF_JEQ, value, match, fail);
    size_t y = code_enter(c, match, CODE_NOTHING), n = code_enter(c, fail, CODE_NOTHING);
    if (y == n)
        return (struct entry){.at = y, .wants = CODE_NOTHING};
    size_t at = code_branch(c, BPF_JEQ, value, y, n);
    return (struct entry){.at = code_then(c, BPF_ALU | BPF_AND | BPF_K, mask, at), .wants = off};
}

static struct entry condition(struct code *c, const struct sp_cond *d, struct entry *match,
                              struct entry *fail)
{
    int lo = (int)offsetof(struct seccomp_data, args) + 8 * d->arg, hi = lo + 4;
    uint32_t vlo = low(d->value), vhi = high(d->value);
    struct entry e, same;
    switch (d->op) {
    case SP_COND_EQ:
    case SP_COND_MASKED:
        e = half_masked(c, lo, low(d->mask), vlo, match, fail);
        return half_masked(c, hi, high(d->mask), vhi, &e, fail);
    case SP_COND_NE:
        e = test(c, lo, BPF_JEQ, vlo, fail, match);
        return d->lo ? e : test(c, hi, BPF_JEQ, vhi, &e, match);
    case SP_COND_GT:
    case SP_COND_GE:
        e = test(c, lo, d->op == SP_COND_GT ? BPF_JGT : BPF_JGE, vlo, match, fail);
        if (d->lo)
            return e;
        same = test(c, hi, BPF_JEQ, vhi, &e, fail);
        return test(c, hi, BPF_JGT, vhi, match, &same);
    case SP_COND_LT:
    case SP_COND_LE:
        e = test(c, lo, d->op == SP_COND_LT ? BPF_JGE : BPF_JGT, vlo, fail, match);
        if (d->lo)
            return e;
        same = test(c, hi, BPF_JEQ, vhi, &e, match);
        return test(c, hi, BPF_JGT, vhi, fail, &same);
    }
    return *fail;
}

/* All rules of one number, the last first: what follows a rule is there before it. */
static size_t block(struct code *c, const struct sp_policy *p, int nr)
{
    struct entry next = code_answer(c, p->decided[nr] ? p->decision[nr] : p->def);
    for (size_t i = p->nrules; i-- > 0;) {
        const struct sp_rule *r = &p->rules[i];
        if (r->nr != nr)
            continue;
        struct entry match = code_answer(c, r->action);
        for (uint32_t k = r->nconds; k-- > 0;)
            match = condition(c, &r->conds[k], &match, &next);
        next = match;
    }
    return code_enter(c, &next, NR);
}

/* Asked once: it looks through the whole table for each number. */
static int find_newest(uint32_t *known)
{
    static uint32_t newest;
    *known = newest;
    if (newest != 0)
        return 0;
    errno = 0;
    for (int nr = SP_POLICY_NR_MAX - 1; nr > 0; nr--) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
        if (name != NULL) {
            free(name);
            *known = newest = (uint32_t)nr;
            return 0;
        }
        if (errno == ENOMEM) /* it has a name, but no room for it */
            return -ENOMEM;
    }
    return -ENOSYS;
}

static void answer_from(struct build *b, uint32_t from, uint32_t action)
{
    const struct span *last = b->nspans == 0 ? NULL : &b->span[b->nspans - 1];
    if (last == NULL || last->block || last->action != action)
        b->span[b->nspans++] = (struct span){.from = from, .action = action};
}

static void numbers(struct build *b)
{
    const struct sp_policy *p = b->p;
    for (int nr = 0; nr < SP_POLICY_NR_MAX; nr++) {
        if (p->has_newer && (uint32_t)nr > b->known)
            break;
        if (p->conditional[nr])
            b->span[b->nspans++] =
                (struct span){.from = (uint32_t)nr, .block = true, .at = block(&b->code, p, nr)};
        else
            answer_from(b, (uint32_t)nr, p->decided[nr] ? p->decision[nr] : p->def);
    }
    if (p->has_newer)
        answer_from(b, b->known + 1, p->newer);
    else
        answer_from(b, SP_POLICY_NR_MAX, p->def);
#ifdef __x86_64__ /* x32's calls; -1 is nobody's, which a tracer may make of a call */
    answer_from(b, X32_BIT, SECCOMP_RET_KILL_PROCESS);
    answer_from(b, UINT32_MAX, p->def);
#endif
}

static void program(struct build *b)
{
    struct code *c = &b->code;
    numbers(b);
    size_t at = code_tree(c, b->span, b->nspans);
    at = code_then(c, BPF_LD | BPF_W | BPF_ABS, (uint32_t)NR, at);
    at = code_branch(c, BPF_JEQ, seccomp_arch_native(), at, code_ret(c, SECCOMP_RET_KILL_PROCESS));
    (void)code_then(c, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, arch), at);
}

static int build(struct build *b, void **bpf, size_t *n, struct sp_policy_error *e)
{
    const struct code *c = &b->code;
    int r = find_newest(&b->known);
    if (r != 0)
        return r;
    program(b);
    if (c->full)
        return sp_policy_fail(e, 0, "the filter is longer than %d instructions", BPF_MAXINSNS);
    struct sock_filter *f = malloc(c->n * sizeof *f);
    if (f == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < c->n; i++)
        f[i] = c->back[c->n - 1 - i];
    r = sp_policy_try(b->p, seccomp_arch_native(), b->known, f, c->n);
    if (r != 0) {
        free(f);
        return r;
    }
    *bpf = f;
    *n = c->n;
    return 0;
}

int sp_policy_compile(const char *text, size_t len, void **bpf, size_t *n,
                      struct sp_policy_error *e)
{
    return sp_policy_compile_added(NULL, 0, false, text, len, bpf, n, e);
}

int sp_policy_compile_added(const char *added, size_t added_len, bool loosen, const char *text,
                            size_t len, void **bpf, size_t *n, struct sp_policy_error *e)
{
    *bpf = NULL;
    *n = 0;
    struct sp_policy *p = malloc(sizeof *p);
    struct build *b = calloc(1, sizeof *b);
    int r = p == NULL || b == NULL
                ? -ENOMEM
                : sp_policy_parse_added(added, added_len, loosen, text, len, p, e);
    if (r == 0) {
        b->p = p;
        r = build(b, bpf, n, e);
    }
    free(b);
    free(p);
    return r;
}
