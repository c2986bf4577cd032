/* policy_parse.c: reads a seccomp policy (docs/policy.md). Trusts nothing of the text: it is the
 * lint's and the fuzzer's entry. Works in one block given by the caller, never recurses. */
#include "policy.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    const char *p;
    size_t n;
};

struct line {
    const char *p, *end;
    int no;
    struct sp_policy_error *e;
};

int sp_policy_fail(struct sp_policy_error *e, int line, const char *fmt, ...)
{
    if (e != NULL) {
        va_list ap;
        va_start(ap, fmt);
        e->line = line;
        (void)vsnprintf(e->text, sizeof e->text, fmt, ap);
        va_end(ap);
    }
    return -EINVAL;
}

/* A word for an error text: short enough to leave room for the sentence. */
static int shown(struct word w)
{
    return w.n > 60 ? 60 : (int)w.n;
}

static bool next(struct line *l, struct word *w)
{
    while (l->p < l->end && (*l->p == ' ' || *l->p == '\t'))
        l->p++;
    w->p = l->p;
    while (l->p < l->end && *l->p != ' ' && *l->p != '\t')
        l->p++;
    w->n = (size_t)(l->p - w->p);
    return w->n > 0;
}

static bool is(struct word w, const char *s)
{
    return w.n == strlen(s) && memcmp(w.p, s, w.n) == 0;
}

static bool digit_of(char c, unsigned base, unsigned *d)
{
    if (c >= '0' && c <= '9')
        *d = (unsigned)(c - '0');
    else if (c >= 'a' && c <= 'f')
        *d = (unsigned)(c - 'a') + 10;
    else if (c >= 'A' && c <= 'F')
        *d = (unsigned)(c - 'A') + 10;
    else
        return false;
    return *d < base;
}

static bool number(const char *p, size_t n, uint64_t *out)
{
    unsigned base = 10;
    if (n > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X')) {
        base = 16;
        p += 2;
        n -= 2;
    } else if (n > 1 && p[0] == '0') {
        base = 8;
        p++;
        n--;
    }
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned d;
        if (!digit_of(p[i], base, &d) || v > (UINT64_MAX - d) / base)
            return false;
        v = v * base + d;
    }
    *out = v;
    return n > 0;
}

/* Numbers and names joined by '|', no white space inside. */
static int value(struct line *l, uint64_t *out)
{
    struct word w;
    if (!next(l, &w))
        return sp_policy_fail(l->e, l->no, "a value is missing");
    *out = 0;
    for (size_t i = 0; i <= w.n;) {
        size_t j = i;
        while (j < w.n && w.p[j] != '|')
            j++;
        uint64_t v;
        if (!number(w.p + i, j - i, &v) && !sp_policy_value(w.p + i, j - i, &v))
            return sp_policy_fail(l->e, l->no, "\"%.*s\" is no number and no known name", shown(w),
                                  w.p);
        *out |= v;
        i = j + 1;
    }
    return 0;
}

static bool argument(struct word w, struct sp_cond *c)
{
    if (w.n < 4 || memcmp(w.p, "arg", 3) != 0 || w.p[3] < '0' || w.p[3] > '5')
        return false;
    c->arg = (uint8_t)(w.p[3] - '0');
    c->lo = w.n == 7 && memcmp(w.p + 4, ".lo", 3) == 0;
    return w.n == 4 || c->lo;
}

static bool operator(struct word w, enum sp_cond_op *op)
{
    static const struct {
        const char *s;
        enum sp_cond_op op;
    } ops[] = {{"==", SP_COND_EQ}, {"!=", SP_COND_NE}, {"<", SP_COND_LT},    {"<=", SP_COND_LE},
               {">", SP_COND_GT},  {">=", SP_COND_GE}, {"&", SP_COND_MASKED}};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (is(w, ops[i].s)) {
            *op = ops[i].op;
            return true;
        }
    return false;
}

static int condition(struct line *l, struct sp_cond *c)
{
    struct word w;
    if (!next(l, &w) || !argument(w, c))
        return sp_policy_fail(l->e, l->no, "expected arg0 to arg5, with or without .lo");
    if (!next(l, &w) || !operator(w, &c->op))
        return sp_policy_fail(l->e, l->no, "expected == != < <= > >= or &");
    c->mask = c->lo ? UINT32_MAX : UINT64_MAX;
    if (c->op == SP_COND_MASKED) {
        if (value(l, &c->mask) != 0)
            return -EINVAL;
        if (!next(l, &w) || !is(w, "=="))
            return sp_policy_fail(l->e, l->no, "expected == after the mask");
    }
    if (value(l, &c->value) != 0)
        return -EINVAL;
    if (c->lo && (c->mask > UINT32_MAX || c->value > UINT32_MAX))
        return sp_policy_fail(l->e, l->no, ".lo compares 32 bits: the number is too large");
    if (c->mask == 0)
        return sp_policy_fail(l->e, l->no, "a mask of 0 compares nothing");
    if (c->op == SP_COND_MASKED && (c->value & ~c->mask) != 0)
        return sp_policy_fail(l->e, l->no, "never true: the value has bits outside the mask");
    if ((c->op == SP_COND_LT && c->value == 0) || (c->op == SP_COND_GT && c->value == c->mask))
        return sp_policy_fail(l->e, l->no, "never true");
    return 0;
}

/* The action in w and, for errno, in the next word. */
static int action(struct line *l, struct word w, uint32_t *out)
{
    if (is(w, "allow"))
        *out = SECCOMP_RET_ALLOW;
    else if (is(w, "kill"))
        *out = SECCOMP_RET_KILL_PROCESS;
    else if (is(w, "log"))
        *out = SECCOMP_RET_LOG;
    else if (is(w, "trap"))
        *out = SECCOMP_RET_TRAP;
    else if (is(w, "errno")) {
        int err = next(l, &w) ? sp_policy_errno(w.p, w.n) : 0;
        if (err <= 0)
            return sp_policy_fail(l->e, l->no, "errno needs a known error name");
        *out = SECCOMP_RET_ERRNO | (uint32_t)err;
    } else
        return sp_policy_fail(l->e, l->no, "\"%.*s\" is no action", shown(w), w.p);
    return 0;
}

/* 0 with *nr >= 0, or -1 in *nr: nothing to do here. */
static int syscall_number(struct line *l, struct word w, int *nr)
{
    struct word full = w;
    bool optional = w.p[0] == '?';
    char name[64];
    if (optional) {
        w.p++;
        w.n--;
    }
    *nr = __NR_SCMP_ERROR;
    if (w.n > 0 && w.n < sizeof name) {
        memcpy(name, w.p, w.n);
        name[w.n] = '\0';
        *nr = seccomp_syscall_resolve_name_arch(SCMP_ARCH_NATIVE, name);
    }
    if (*nr == __NR_SCMP_ERROR && (!optional || w.n == 0))
        return sp_policy_fail(l->e, l->no, "unknown system call \"%.*s\"", shown(full), full.p);
    if (*nr < 0)
        *nr = -1; /* unknown but optional, or of another architecture alone */
    else if (*nr >= SP_POLICY_NR_MAX)
        return sp_policy_fail(l->e, l->no, "system call number out of range");
    return 0;
}

static int add(struct line *l, struct sp_policy *p, const struct sp_rule *r)
{
    if (r->nr < 0)
        return 0;
    if (p->loosen && r->action != SECCOMP_RET_ALLOW)
        return 0;
    if (p->decided[r->nr]) {
        if (p->decision[r->nr] == r->action || p->above[r->nr])
            return 0; /* says the same again, or yields to the operator's */
        return sp_policy_fail(l->e, l->no, "never reached: an earlier line decides this call");
    }
    if (p->nrules == SP_POLICY_RULES_MAX)
        return sp_policy_fail(l->e, l->no, "more than %u rules", SP_POLICY_RULES_MAX);
    if (r->nconds == 0) {
        p->decided[r->nr] = true;
        p->decision[r->nr] = r->action;
    } else
        p->conditional[r->nr] = true;
    p->rules[p->nrules++] = *r;
    uint16_t place = (uint16_t)p->nrules; /* at most SP_POLICY_RULES_MAX */
    *(p->first[r->nr] == 0 ? &p->first[r->nr] : &p->rules[p->last[r->nr] - 1].next) = place;
    p->last[r->nr] = place;
    return 0;
}

static int conditional(struct line *l, struct sp_policy *p, struct sp_rule *r)
{
    struct word w;
    do {
        if (r->nconds == SP_POLICY_CONDS_MAX)
            return sp_policy_fail(l->e, l->no, "more than %u conditions", SP_POLICY_CONDS_MAX);
        if (condition(l, &r->conds[r->nconds]) != 0)
            return -EINVAL;
        r->nconds++;
        if (!next(l, &w))
            return add(l, p, r);
    } while (is(w, "and"));
    return sp_policy_fail(l->e, l->no, "expected \"and\" or the end of the line");
}

static int calls(struct line *l, struct sp_policy *p, uint32_t act)
{
    struct word w;
    struct sp_rule r = {.action = act, .line = l->no};
    if (!next(l, &w))
        return sp_policy_fail(l->e, l->no, "a system call is missing");
    for (bool first = true;; first = false) {
        if (syscall_number(l, w, &r.nr) != 0)
            return -EINVAL;
        bool more = next(l, &w);
        if (more && is(w, "if")) {
            if (!first)
                return sp_policy_fail(l->e, l->no, "a condition is for one system call");
            return conditional(l, p, &r);
        }
        if (add(l, p, &r) != 0)
            return -EINVAL;
        if (!more)
            return 0;
    }
}

/* "default" and "newer". */
static int general(struct line *l, bool *has, uint32_t *out, const char *what)
{
    struct word w;
    if (*has)
        return sp_policy_fail(l->e, l->no, "a second %s", what);
    if (!next(l, &w))
        return sp_policy_fail(l->e, l->no, "%s needs an action", what);
    if (action(l, w, out) != 0)
        return -EINVAL;
    if (next(l, &w))
        return sp_policy_fail(l->e, l->no, "something after the %s action", what);
    *has = true;
    return 0;
}

static int one_line(struct line *l, struct sp_policy *p)
{
    const char *hash = memchr(l->p, '#', (size_t)(l->end - l->p));
    if (hash != NULL)
        l->end = hash;
    for (const char *c = l->p; c < l->end; c++)
        if ((*c < ' ' && *c != '\t') || *c > '~')
            return sp_policy_fail(l->e, l->no, "a byte that is no printable ASCII");
    struct word w;
    uint32_t act = SECCOMP_RET_KILL_PROCESS;
    if (!next(l, &w))
        return 0;
    if (p->part == SP_POLICY_ADDED && (is(w, "default") || is(w, "newer")))
        return sp_policy_fail(l->e, l->no, "%.*s is for the built-in policy to say", shown(w), w.p);
    if (is(w, "default"))
        return general(l, &p->has_default, &p->def, "default");
    if (!p->has_default && p->part != SP_POLICY_ADDED)
        return sp_policy_fail(l->e, l->no, "the first line must be the default");
    if (is(w, "newer"))
        return general(l, &p->has_newer, &p->newer, "newer");
    if (action(l, w, &act) != 0)
        return -EINVAL;
    if (p->loosen && act == SECCOMP_RET_LOG)
        act = SECCOMP_RET_ALLOW;
    return calls(l, p, act);
}

static int parse_part(const char *text, size_t len, struct sp_policy *p, struct sp_policy_error *e)
{
    if (len > SP_POLICY_TEXT_MAX)
        return sp_policy_fail(e, 0, "longer than %u bytes", SP_POLICY_TEXT_MAX);
    if (len > 0 && memchr(text, '\0', len) != NULL)
        return sp_policy_fail(e, 0, "a NUL in the text");
    struct line l = {.no = 0, .e = e};
    for (size_t at = 0; at < len;) {
        const char *nl = memchr(text + at, '\n', len - at);
        size_t end = nl == NULL ? len : (size_t)(nl - text);
        l.p = text + at;
        l.end = text + end;
        l.no++;
        if (one_line(&l, p) != 0)
            return -EINVAL;
        at = end + 1;
    }
    if (!p->has_default && p->part != SP_POLICY_ADDED)
        return sp_policy_fail(e, l.no, "no default");
    return 0;
}

/* The rules stay as they are: to write them all takes longer than to read a policy. */
static void empty(struct sp_policy *p)
{
    memset(p, 0, offsetof(struct sp_policy, rules));
}

int sp_policy_parse(const char *text, size_t len, struct sp_policy *p, struct sp_policy_error *e)
{
    empty(p);
    if (e != NULL)
        e->added = false;
    return parse_part(text, len, p, e);
}

int sp_policy_parse_added(const char *added, size_t added_len, bool loosen, const char *text,
                          size_t len, struct sp_policy *p, struct sp_policy_error *e)
{
    if (added == NULL)
        return sp_policy_parse(text, len, p, e);
    empty(p);
    p->part = SP_POLICY_ADDED;
    p->loosen = loosen;
    if (e != NULL)
        e->added = true;
    int r = parse_part(added, added_len, p, e);
    if (r != 0)
        return r;
    p->nadded = p->nrules;
    memcpy(p->above, p->decided, sizeof p->above);
    p->part = SP_POLICY_BELOW;
    p->loosen = false;
    if (e != NULL)
        e->added = false;
    return parse_part(text, len, p, e);
}

int sp_policy_check(const char *text, size_t len, struct sp_policy_error *e)
{
    struct sp_policy *p = malloc(sizeof *p);
    if (p == NULL)
        return -ENOMEM;
    int r = sp_policy_parse(text, len, p, e);
    free(p);
    return r;
}
