/* policy_build.c: a parsed policy -> classic BPF. Trusts the parser, and libseccomp for what has no
 * condition: architecture, x32 and the search for the number are its work.
 *
 * Calls with conditions get code of our own in front of libseccomp's, because libseccomp has no
 * "else": it merges the conditions of one call into a tree in an order it doesn't promise, and an
 * unconditional rule swallows the conditional ones. Here the first rule that matches decides. Both
 * parts only look at the number and the architecture for a call without conditions, so that the
 * kernel still keeps those in its table of calls it needn't run the filter for. */
#include "policy.h"

#include <endian.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER == __LITTLE_ENDIAN, "argument halves are addressed little-endian");
#define API_KILL_PROCESS 3 /* the first level of libseccomp's that has SCMP_ACT_KILL_PROCESS */
_Static_assert(SCMP_ACT_KILL_PROCESS == SECCOMP_RET_KILL_PROCESS, "actions are shared");
_Static_assert(SCMP_ACT_ALLOW == SECCOMP_RET_ALLOW, "actions are shared");

#define X32_BIT 0x40000000u
/* Longest code of one condition, of which a rule has at most SP_POLICY_CONDS_MAX: jumps in a rule
 * fit in their 8 bits. */
#define COND_CODE_MAX 6u
_Static_assert(COND_CODE_MAX *SP_POLICY_CONDS_MAX < 255, "a rule's jumps fit");

struct code {
    struct sock_filter ins[BPF_MAXINSNS];
    size_t n;
    uint32_t known; /* the highest number that this libseccomp has a name for */
    bool full;
};

enum { NEXT = 0, FAIL = 254, MATCH = 255 }; /* targets, patched when the rule's length is known */

static void emit(struct code *c, uint16_t op, uint32_t k, uint8_t jt, uint8_t jf)
{
    if (c->n == BPF_MAXINSNS) {
        c->full = true;
        return;
    }
    c->ins[c->n++] = (struct sock_filter){op, jt, jf, k};
}

static void load(struct code *c, uint32_t off)
{
    emit(c, BPF_LD | BPF_W | BPF_ABS, off, 0, 0);
}

static void jump(struct code *c, uint16_t op, uint32_t k, uint8_t jt, uint8_t jf)
{
    emit(c, (uint16_t)(BPF_JMP | op | BPF_K), k, jt, jf);
}

static uint32_t low(uint64_t v)
{
    return (uint32_t)(v & UINT32_MAX);
}

static uint32_t high(uint64_t v)
{
    return (uint32_t)(v >> 32);
}

static void half_masked(struct code *c, uint32_t off, uint32_t mask, uint32_t value)
{
    if (mask == 0)
        return;
    load(c, off);
    if (mask != UINT32_MAX)
        emit(c, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    jump(c, BPF_JEQ, value, NEXT, FAIL);
}

static void condition(struct code *c, const struct sp_cond *d)
{
    uint32_t lo = (uint32_t)offsetof(struct seccomp_data, args) + 8u * d->arg;
    uint32_t hi = lo + 4, vlo = low(d->value), vhi = high(d->value);
    switch (d->op) {
    case SP_COND_EQ:
    case SP_COND_MASKED:
        half_masked(c, hi, high(d->mask), vhi);
        half_masked(c, lo, low(d->mask), vlo);
        return;
    case SP_COND_NE:
        if (!d->lo) {
            load(c, hi);
            jump(c, BPF_JEQ, vhi, NEXT, MATCH);
        }
        load(c, lo);
        jump(c, BPF_JEQ, vlo, FAIL, NEXT);
        return;
    case SP_COND_GT:
    case SP_COND_GE:
        if (!d->lo) {
            load(c, hi);
            jump(c, BPF_JGT, vhi, MATCH, NEXT);
            jump(c, BPF_JEQ, vhi, NEXT, FAIL);
        }
        load(c, lo);
        jump(c, d->op == SP_COND_GT ? BPF_JGT : BPF_JGE, vlo, NEXT, FAIL);
        return;
    case SP_COND_LT:
    case SP_COND_LE:
        if (!d->lo) {
            load(c, hi);
            jump(c, BPF_JGT, vhi, FAIL, NEXT);
            jump(c, BPF_JEQ, vhi, NEXT, MATCH);
        }
        load(c, lo);
        jump(c, d->op == SP_COND_LT ? BPF_JGE : BPF_JGT, vlo, FAIL, NEXT);
        return;
    }
}

/* Turns target t of the jump at i into an offset. match: the next condition; fail: after the rule.
 */
static uint8_t target(uint8_t t, size_t i, size_t match, size_t fail)
{
    if (t == MATCH)
        return (uint8_t)(match - i - 1);
    if (t == FAIL)
        return (uint8_t)(fail - i - 1);
    return t;
}

static void rule(struct code *c, const struct sp_rule *r)
{
    size_t starts[SP_POLICY_CONDS_MAX + 1];
    for (uint32_t i = 0; i < r->nconds; i++) {
        starts[i] = c->n;
        condition(c, &r->conds[i]);
    }
    starts[r->nconds] = c->n;
    emit(c, BPF_RET | BPF_K, r->action, 0, 0);
    if (c->full)
        return;
    for (uint32_t k = 0; k < r->nconds; k++)
        for (size_t i = starts[k]; i < starts[k + 1]; i++) {
            struct sock_filter *f = &c->ins[i];
            if (BPF_CLASS(f->code) != BPF_JMP)
                continue;
            f->jt = target(f->jt, i, starts[k + 1], c->n);
            f->jf = target(f->jf, i, starts[k + 1], c->n);
        }
}

/* All rules of one number, behind a test for it. Ends in a return on every path. */
static void block(struct code *c, const struct sp_policy *p, int nr)
{
    jump(c, BPF_JEQ, (uint32_t)nr, 1, 0);
    size_t over = c->n;
    emit(c, BPF_JMP | BPF_JA, 0, 0, 0);
    for (size_t i = 0; i < p->nrules; i++)
        if (p->rules[i].nr == nr)
            rule(c, &p->rules[i]);
    if (!p->decided[nr])
        emit(c, BPF_RET | BPF_K, p->def, 0, 0);
    if (!c->full)
        c->ins[over].k = (uint32_t)(c->n - over - 1);
}

static int find_newest(struct code *c)
{
    errno = 0;
    for (int nr = SP_POLICY_NR_MAX - 1; nr > 0; nr--) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
        if (name != NULL) {
            free(name);
            c->known = (uint32_t)nr;
            return 0;
        }
        if (errno == ENOMEM) /* it has a name, but no room for it */
            return -ENOMEM;
    }
    return -ENOSYS;
}

static void prologue(struct code *c, const struct sp_policy *p)
{
    load(c, (uint32_t)offsetof(struct seccomp_data, arch));
    jump(c, BPF_JEQ, seccomp_arch_native(), 1, 0);
    size_t foreign = c->n;
    emit(c, BPF_JMP | BPF_JA, 0, 0, 0); /* to libseccomp's part, which kills it */
    load(c, (uint32_t)offsetof(struct seccomp_data, nr));
    if (p->has_newer) {
        jump(c, BPF_JGE, X32_BIT, 2, 0);
        jump(c, BPF_JGT, c->known, 0, 1);
        emit(c, BPF_RET | BPF_K, p->newer, 0, 0);
    }
    for (int nr = 0; nr < SP_POLICY_NR_MAX; nr++)
        if (p->conditional[nr])
            block(c, p, nr);
    if (!c->full)
        c->ins[foreign].k = (uint32_t)(c->n - foreign - 1);
}

/* Appends the file's instructions. 2.5 exports to descriptors only. */
static int append_fd(struct code *c, int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    size_t left = (size_t)st.st_size, at = 0;
    if (left % sizeof c->ins[0] != 0)
        return -EIO;
    if (left / sizeof c->ins[0] > BPF_MAXINSNS - c->n)
        return -E2BIG;
    char *to = (char *)&c->ins[c->n];
    while (at < left) {
        ssize_t n = pread(fd, to + at, left - at, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        at += (size_t)n;
    }
    c->n += left / sizeof c->ins[0];
    return 0;
}

static int unconditional(scmp_filter_ctx ctx, const struct sp_policy *p)
{
    int r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (r == 0)
        r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    for (int nr = 0; r == 0 && nr < SP_POLICY_NR_MAX; nr++) {
        /* A conditional call never gets this far. One with the default action is refused as a rule.
         */
        if (!p->decided[nr] || p->conditional[nr] || p->decision[nr] == p->def)
            continue;
        r = seccomp_rule_add_exact(ctx, p->decision[nr], nr, 0);
    }
    return r;
}

static int append_libseccomp(struct code *c, const struct sp_policy *p)
{
    scmp_filter_ctx ctx = seccomp_init(p->def);
    /* libseccomp asks the kernel what it can do, which gVisor can't be asked. It needn't be: we
     * only make the bytes here, and the plan has tried the kernel. */
    if (ctx == NULL && seccomp_api_set(API_KILL_PROCESS) == 0)
        ctx = seccomp_init(p->def);
    if (ctx == NULL)
        return -ENOMEM;
    int fd = memfd_create("sallyport-bpf", MFD_CLOEXEC);
    int r = fd < 0 ? -errno : unconditional(ctx, p);
    if (r == 0)
        r = seccomp_export_bpf(ctx, fd);
    if (r == 0)
        r = append_fd(c, fd);
    if (fd >= 0)
        close(fd);
    seccomp_release(ctx);
    return r;
}

static int build(const struct sp_policy *p, struct code *c, void **bpf, size_t *n,
                 struct sp_policy_error *e)
{
    int r = find_newest(c);
    if (r != 0)
        return r;
    prologue(c, p);
    r = c->full ? -E2BIG : append_libseccomp(c, p);
    if (r == -E2BIG)
        return sp_policy_fail(e, 0, "the filter is longer than %d instructions", BPF_MAXINSNS);
    if (r == 0)
        r = sp_policy_try(p, seccomp_arch_native(), c->known, c->ins, c->n);
    if (r != 0)
        return r;
    *bpf = malloc(c->n * sizeof c->ins[0]);
    if (*bpf == NULL)
        return -ENOMEM;
    memcpy(*bpf, c->ins, c->n * sizeof c->ins[0]);
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
    struct code *c = calloc(1, sizeof *c);
    int r = p == NULL || c == NULL
                ? -ENOMEM
                : sp_policy_parse_added(added, added_len, loosen, text, len, p, e);
    if (r == 0)
        r = build(p, c, bpf, n, e);
    free(c);
    free(p);
    return r;
}
