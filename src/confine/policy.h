/* policy.h: a seccomp policy after parsing; shared by the parser, the builder and their tests.
 * The text may come from a lint's caller or a fuzzer: the parser trusts none of it. */
#ifndef SP_CONFINE_POLICY_H
#define SP_CONFINE_POLICY_H

#include "sallyport/confine.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_POLICY_TEXT_MAX 65536u
#define SP_POLICY_RULES_MAX 4096u
#define SP_POLICY_CONDS_MAX 6u
#define SP_POLICY_NR_MAX 1024 /* native call numbers are below this */

enum sp_cond_op {
    SP_COND_EQ,
    SP_COND_NE,
    SP_COND_LT,
    SP_COND_LE,
    SP_COND_GT,
    SP_COND_GE,
    SP_COND_MASKED /* (arg & mask) == value */
};

struct sp_cond {
    uint8_t arg; /* 0..5 */
    bool lo;     /* only the low 32 bits count */
    enum sp_cond_op op;
    uint64_t mask, value;
};

struct sp_rule {
    int nr;
    int line;
    uint32_t action; /* SECCOMP_RET_* with its data */
    uint32_t nconds; /* 0: always matches */
    uint16_t next;   /* the next rule of this call: 1 + its place, 0 none */
    struct sp_cond conds[SP_POLICY_CONDS_MAX];
};

/* Which text is being read: one that stands alone; the operator's, which comes first and decides
 * nothing by default; the built-in one after it, whose rules yield to it. */
enum sp_policy_part { SP_POLICY_WHOLE, SP_POLICY_ADDED, SP_POLICY_BELOW };

/* One fixed block, so that no text can make a parser allocate more than this. For one call the
 * first rule that matches decides; without one, def does. */
struct sp_policy {
    bool has_default, has_newer;
    uint32_t def;
    uint32_t newer;                      /* for numbers above all that this libseccomp knows */
    bool decided[SP_POLICY_NR_MAX];      /* an unconditional rule was seen */
    uint32_t decision[SP_POLICY_NR_MAX]; /* its action */
    bool conditional[SP_POLICY_NR_MAX];  /* a conditional rule was seen */
    enum sp_policy_part part;
    bool loosen;                      /* of an added text only what allows counts */
    bool above[SP_POLICY_NR_MAX];     /* decided by the added text */
    size_t nrules, nadded;            /* nadded: of the added text */
    uint16_t first[SP_POLICY_NR_MAX]; /* a call's first rule and its last: 1 + the place */
    uint16_t last[SP_POLICY_NR_MAX];
    struct sp_rule rules[SP_POLICY_RULES_MAX]; /* in the order of the text; only nrules are set */
};

/* 0, or -EINVAL with *e set. */
int sp_policy_parse(const char *text, size_t len, struct sp_policy *p, struct sp_policy_error *e);
/* The same for text with the operator's rules (added, may be NULL) before it. loosen: leaves those
 * out that refuse, and takes log for allow. e->added says whose line it is. */
int sp_policy_parse_added(const char *added, size_t added_len, bool loosen, const char *text,
                          size_t len, struct sp_policy *p, struct sp_policy_error *e);

/* A finished filter for arch (AUDIT_ARCH_*), tried: 0, or -EBADMSG where it says something else
 * than p. known: the highest number that isn't "newer". */
struct sock_filter;
int sp_policy_try(const struct sp_policy *p, uint32_t arch, uint32_t known,
                  const struct sock_filter *f, size_t n);

/* Sets *e (both may be cut) and returns -EINVAL. */
__attribute__((format(printf, 3, 4))) int sp_policy_fail(struct sp_policy_error *e, int line,
                                                         const char *fmt, ...);

/* A name of the fixed table (AF_UNIX ...). */
bool sp_policy_value(const char *s, size_t n, uint64_t *out);
/* The positive number of an errno name, or 0. */
int sp_policy_errno(const char *s, size_t n);

/* Built by policy/embed.py. */
struct sp_policy_embedded {
    const char *name;
    const char *text;
    size_t len;
};
extern const struct sp_policy_embedded sp_policy_embedded[];
extern const size_t sp_policy_embedded_n;
/* By file name; NULL when there is none. */
const struct sp_policy_embedded *sp_policy_embedded_find(const char *name);

#endif
