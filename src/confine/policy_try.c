/* policy_try.c: runs a finished filter against the policy that it was made of, call by call. The
 * kernel checks that a program is one, not what it says. Trusts the parsed policy; the program is
 * suspect. */
#include "policy.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <string.h>

#define X32_BIT 0x40000000u

/* What the program answers: false if it isn't one of the few kinds of steps, or leaves its bounds.
 */
static bool run(const struct sock_filter *f, size_t n, const struct seccomp_data *d, uint32_t *ret)
{
    uint32_t a = 0;
    for (size_t i = 0; i < n; i++) { /* jumps go forward alone */
        const struct sock_filter *s = &f[i];
        bool yes = false;
        switch (s->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            if (s->k > sizeof *d - sizeof a)
                return false;
            memcpy(&a, (const char *)d + s->k, sizeof a);
            continue;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= s->k;
            continue;
        case BPF_RET | BPF_K:
            *ret = s->k;
            return true;
        case BPF_JMP | BPF_JA:
            if (s->k >= n)
                return false;
            i += s->k;
            continue;
        case BPF_JMP | BPF_JEQ | BPF_K:
            yes = a == s->k;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            yes = a > s->k;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            yes = a >= s->k;
            break;
        default:
            return false;
        }
        i += yes ? s->jt : s->jf;
    }
    return false;
}

static bool holds(const struct sp_cond *c, const uint64_t args[6])
{
    uint64_t v = c->lo ? args[c->arg] & UINT32_MAX : args[c->arg];
    switch (c->op) {
    case SP_COND_EQ:
    case SP_COND_MASKED:
        return (v & c->mask) == c->value; /* which has no bits outside it */
    case SP_COND_NE:
        return v != c->value;
    case SP_COND_LT:
        return v < c->value;
    case SP_COND_LE:
        return v <= c->value;
    case SP_COND_GT:
        return v > c->value;
    case SP_COND_GE:
        return v >= c->value;
    }
    return false;
}

static uint32_t want(const struct sp_policy *p, uint32_t known, const struct seccomp_data *d)
{
    const uint32_t nr = (uint32_t)d->nr;
    uint64_t args[6];
    memcpy(args, d->args, sizeof args);
#ifdef __x86_64__
    if (nr == UINT32_MAX) /* nobody's: a tracer may make a call that */
        return p->def;
#endif
    if (p->has_newer && nr > known)
        return p->newer;
    if (nr >= SP_POLICY_NR_MAX)
        return p->def;
    for (uint16_t i = p->first[nr]; p->conditional[nr] && i != 0; i = p->rules[i - 1].next) {
        const struct sp_rule *r = &p->rules[i - 1];
        bool match = true;
        for (uint32_t k = 0; match && k < r->nconds; k++)
            match = holds(&r->conds[k], args);
        if (match)
            return r->action;
    }
    return p->decided[nr] ? p->decision[nr] : p->def;
}

static bool same(const struct sp_policy *p, uint32_t known, const struct sock_filter *f, size_t n,
                 const struct seccomp_data *d)
{
    uint32_t got;
    return run(f, n, d, &got) && got == want(p, known, d);
}

/* The values that a rule asks for, with those next to them in either half: in one argument while
 * the others hold theirs, and in all (which: nconds). */
static bool rule_holds(const struct sp_policy *p, uint32_t known, const struct sock_filter *f,
                       size_t n, const struct sp_rule *r, uint32_t which, uint32_t arch)
{
    static const uint64_t off[] = {0, 1, UINT64_MAX, 1ull << 32, UINT64_MAX << 32, 1ull << 63};
    struct seccomp_data d = {.arch = arch, .nr = r->nr};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        for (int others = 0; others <= 0xff; others += 0xff) {
            memset(d.args, others, sizeof d.args);
            for (uint32_t k = 0; k < r->nconds; k++)
                d.args[r->conds[k].arg] =
                    r->conds[k].value + (k == which || which == r->nconds ? off[i] : 0);
            if (!same(p, known, f, n, &d))
                return false;
        }
    return true;
}

int sp_policy_try(const struct sp_policy *p, uint32_t arch, uint32_t known,
                  const struct sock_filter *f, size_t n)
{
    uint32_t got;
    struct seccomp_data d = {.arch = arch ^ 1u};
    if (!run(f, n, &d, &got) || got != SECCOMP_RET_KILL_PROCESS)
        return -EBADMSG;
    d.arch = arch;
#ifdef __x86_64__
    static const uint32_t x32[] = {X32_BIT, X32_BIT | 1u, INT32_MAX, 1u << 31, UINT32_MAX - 1};
    for (size_t i = 0; i < sizeof x32 / sizeof *x32; i++) {
        d.nr = (int)x32[i];
        if (!run(f, n, &d, &got) || got != SECCOMP_RET_KILL_PROCESS)
            return -EBADMSG;
    }
#endif
    for (d.nr = -1; d.nr <= SP_POLICY_NR_MAX; d.nr++)
        if (!same(p, known, f, n, &d))
            return -EBADMSG;
    d.nr = (int)(X32_BIT - 1);
    if (!same(p, known, f, n, &d))
        return -EBADMSG;
    for (size_t i = 0; i < p->nrules; i++)
        for (uint32_t k = 0; k <= p->rules[i].nconds; k++)
            if (!rule_holds(p, known, f, n, &p->rules[i], k, arch))
                return -EBADMSG;
    return 0;
}
