/* test_policy_parse.c: the policy text's grammar and bounds, and the BPF that comes of it, run in a
 * small interpreter beside a plain reading of the parsed rules. */
#include "confine/policy.h"

#include <check.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

static struct sp_policy parsed;

static int check(const char *s, struct sp_policy_error *e)
{
    memset(e, 0, sizeof *e);
    return sp_policy_check(s, strlen(s), e);
}

static const char *const good[] = {
    "default kill",
    "default kill\n",
    "# a comment\n\n default  errno\tEPERM # more\nallow read write",
    "default allow\nnewer errno ENOSYS\nkill ptrace",
    "default kill\nallow ?no_such_call read",
    "default kill\nlog read\ntrap write",
    "default kill\nallow socket if arg0 == AF_UNIX",
    "default kill\nallow socket if arg0.lo == AF_UNIX and arg1.lo & 0xf == SOCK_STREAM and arg2 != "
    "7",
    "default kill\nallow read if arg2 < 010\nallow write if arg2 >= 0x10\nallow lseek if arg0 <= 9",
    "default kill\nallow clone if arg0.lo & CLONE_NEWNS|CLONE_NEWUSER|1 == 0\nerrno EPERM clone",
    "default kill\nallow read\nallow read",
    "default kill\nallow read if arg0 == 1\nallow read",
    "default kill\nallow read if arg0 == 18446744073709551615",
    "default kill\nallow read if arg0 == 01777777777777777777777",
};

static const struct {
    const char *text;
    int line;
} bad[] = {
    {"", 0},
    {"# nothing", 1},
    {"allow read", 1},
    {"default", 1},
    {"default maybe", 1},
    {"default errno", 1},
    {"default errno EWHAT", 1},
    {"default kill read", 1},
    {"default kill\ndefault kill", 2},
    {"default kill\nnewer kill\nnewer kill", 3},
    {"newer kill\ndefault kill", 1},
    {"default kill\nallow", 2},
    {"default kill\npermit read", 2},
    {"default kill\nallow raed", 2},
    {"default kill\nallow ?", 2},
    {"default kill\nallow 1", 2},
    {"default kill\nallow read write if arg0 == 1", 2},
    {"default kill\nallow read if", 2},
    {"default kill\nallow read if arg6 == 1", 2},
    {"default kill\nallow read if arg0.hi == 1", 2},
    {"default kill\nallow read if arg0 = 1", 2},
    {"default kill\nallow read if arg0 ==", 2},
    {"default kill\nallow read if arg0 == AF_WHAT", 2},
    {"default kill\nallow read if arg0 == 1x", 2},
    {"default kill\nallow read if arg0 == 08", 2},
    {"default kill\nallow read if arg0 == 0x", 2},
    {"default kill\nallow read if arg0 == -1", 2},
    {"default kill\nallow read if arg0 == 1|", 2},
    {"default kill\nallow read if arg0 == 18446744073709551616", 2},
    {"default kill\nallow read if arg0.lo == 0x100000000", 2},
    {"default kill\nallow read if arg0 & 3", 2},
    {"default kill\nallow read if arg0 & 3 != 1", 2},
    {"default kill\nallow read if arg0 & 0 == 0", 2},
    {"default kill\nallow read if arg0 & 3 == 4", 2},
    {"default kill\nallow read if arg0 < 0", 2},
    {"default kill\nallow read if arg0 == 1 and", 2},
    {"default kill\nallow read if arg0 == 1 or arg0 == 2", 2},
    {"default kill\nallow read\nerrno EPERM read", 3},
    {"default kill\nallow read\nerrno EPERM read if arg0 == 1", 3},
    {"default kill\nallow read\r\n", 2},
    {"default kill\nallow r\xc3\xa9"
     "ad",
     2},
    {"default kill\nallow read if arg0 == 1 and arg0 == 1 and arg0 == 1 and arg0 == 1 and arg0 == "
     "1 "
     "and arg0 == 1 and arg0 == 1",
     2},
};

START_TEST(accepts)
{
    struct sp_policy_error e;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_msg(check(good[i], &e) == 0, "%s\nline %d: %s", good[i], e.line, e.text);
}
END_TEST

START_TEST(refuses)
{
    struct sp_policy_error e;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(check(bad[i].text, &e) == -EINVAL, "taken: %s", bad[i].text);
        ck_assert_msg(e.line == bad[i].line, "line %d for: %s", e.line, bad[i].text);
        ck_assert_msg(e.text[0] != '\0', "no text for: %s", bad[i].text);
    }
    ck_assert_int_eq(sp_policy_check("default kill\0", 13, &e), -EINVAL);
    ck_assert_int_eq(sp_policy_check("defaul", 6, NULL), -EINVAL);
}
END_TEST

START_TEST(bounds)
{
    struct sp_policy_error e;
    static char big[SP_POLICY_TEXT_MAX + 1];
    memset(big, ' ', sizeof big);
    memcpy(big, "default kill", 12);
    ck_assert_int_eq(sp_policy_check(big, SP_POLICY_TEXT_MAX, &e), 0);
    ck_assert_int_eq(sp_policy_check(big, sizeof big, &e), -EINVAL);
    /* Too much for the kernel is told, not cut. */
    size_t n = (size_t)snprintf(big, sizeof big, "default kill\n");
    for (int i = 0; i < 1500; i++)
        n += (size_t)snprintf(big + n, sizeof big - n, "allow read if arg0 == %d\n", i);
    void *bpf;
    size_t ins;
    ck_assert_int_eq(sp_policy_check(big, n, &e), 0);
    ck_assert_int_eq(sp_policy_compile(big, n, &bpf, &ins, &e), -EINVAL);
    ck_assert_ptr_null(bpf);
    ck_assert_ptr_nonnull(strstr(e.text, "instructions"));
    /* 4096 rules end it before 64 KiB do, with short lines. */
    n = (size_t)snprintf(big, sizeof big, "default kill\n");
    for (int i = 0; i < 2600; i++)
        n += (size_t)snprintf(big + n, sizeof big - n, "log dup if arg0 < 9\n");
    ck_assert_int_eq(sp_policy_check(big, n, &e), 0);
}
END_TEST

/* Any cut and any single wrong byte of a real policy must be safe to parse. */
START_TEST(mangled)
{
    struct sp_policy_error e;
    size_t len;
    const char *t = sp_policy_text(SP_FILTER_COMMAND, &len);
    for (size_t cut = 0; cut < len; cut += 7) {
        char *copy = malloc(cut + 1); /* exact, for the sanitizer */
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, t, cut);
        char *tight = realloc(copy, cut == 0 ? 1 : cut);
        ck_assert_ptr_nonnull(tight);
        (void)sp_policy_check(tight, cut, &e);
        if (cut > 0) {
            tight[cut / 2] = (char)(cut * 31 & 0x7f);
            (void)sp_policy_check(tight, cut, &e);
        }
        free(tight);
    }
}
END_TEST

/* ---- BPF, as the kernel runs it ---- */
static uint32_t run(const struct sock_filter *f, size_t n, const struct seccomp_data *d)
{
    uint32_t a = 0, x = 0;
    for (size_t pc = 0; pc < n; pc++) {
        uint32_t k = f[pc].k;
        switch (f[pc].code) {
        case BPF_LD | BPF_W | BPF_ABS:
            ck_assert_uint_le(k, sizeof *d - 4);
            memcpy(&a, (const char *)d + k, 4);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= k;
            break;
        case BPF_JMP | BPF_JA:
            pc += k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == k ? f[pc].jt : f[pc].jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            pc += a > k ? f[pc].jt : f[pc].jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= k ? f[pc].jt : f[pc].jf;
            break;
        case BPF_RET | BPF_K:
            return k;
        default:
            ck_abort_msg("instruction %#x at %zu", f[pc].code, pc);
        }
    }
    (void)x;
    ck_abort_msg("ran off the end");
    return 0;
}

static bool holds(const struct sp_cond *c, const uint64_t *args)
{
    uint64_t v = args[c->arg];
    if (c->lo)
        v &= UINT32_MAX;
    switch (c->op) {
    case SP_COND_EQ:
        return v == c->value;
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
    case SP_COND_MASKED:
        return (v & c->mask) == c->value;
    }
    return false;
}

static uint32_t expected(const struct sp_policy *p, int nr, const uint64_t *args)
{
    for (size_t i = 0; i < p->nrules; i++) {
        bool all = p->rules[i].nr == nr;
        for (uint32_t k = 0; all && k < p->rules[i].nconds; k++)
            all = holds(&p->rules[i].conds[k], args);
        if (all)
            return p->rules[i].action;
    }
    return p->def;
}

static uint64_t seed = 88172645463325252u;
static uint64_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* A value near something that the rules compare with. */
static uint64_t near(const struct sp_policy *p)
{
    if (p->nrules == 0 || rnd() % 8 == 0)
        return rnd() % 3 == 0 ? rnd() : rnd() % 40;
    const struct sp_rule *r = &p->rules[rnd() % p->nrules];
    uint64_t v = r->nconds == 0 ? rnd() % 20 : r->conds[rnd() % r->nconds].value;
    switch (rnd() % 6) {
    case 0:
        return v + 1;
    case 1:
        return v - 1;
    case 2:
        return v ^ (UINT64_C(1) << rnd() % 64);
    case 3:
        return v | (rnd() << 32);
    default:
        return v;
    }
}

static void differ(const char *text, size_t len, int rounds)
{
    void *bpf;
    size_t n;
    struct sp_policy_error e;
    ck_assert_int_eq(sp_policy_parse(text, len, &parsed, &e), 0);
    ck_assert_msg(sp_policy_compile(text, len, &bpf, &n, &e) == 0, "line %d: %s", e.line, e.text);
    for (int i = 0; i < rounds; i++) {
        struct seccomp_data d = {.arch = seccomp_arch_native()};
        const struct sp_rule *any = parsed.nrules > 0 ? &parsed.rules[rnd() % parsed.nrules] : NULL;
        d.nr = any == NULL || rnd() % 4 == 0 ? (int)(rnd() % 440) : any->nr;
        uint64_t args[6];
        for (int k = 0; k < 6; k++)
            args[k] = d.args[k] = near(&parsed);
        uint32_t want = expected(&parsed, d.nr, args), got = run(bpf, n, &d);
        ck_assert_msg(want == got, "call %d args %llx %llx %llx: %#x, expected %#x", d.nr,
                      (unsigned long long)args[0], (unsigned long long)args[1],
                      (unsigned long long)args[2], got, want);
        d.nr |= 0x40000000;
        ck_assert_uint_eq(run(bpf, n, &d), SECCOMP_RET_KILL_PROCESS);
        d.nr &= 0x3fffffff;
        d.arch = AUDIT_ARCH_I386;
        ck_assert_uint_eq(run(bpf, n, &d), SECCOMP_RET_KILL_PROCESS);
    }
    free(bpf);
}

START_TEST(built_in)
{
    for (int f = 0; f < SP_FILTER_COUNT; f++) {
        size_t len;
        const char *t = sp_policy_text((enum sp_filter)f, &len);
        ck_assert_ptr_nonnull(t);
        differ(t, len, 40000);
    }
}
END_TEST

START_TEST(random_rules)
{
    static const char *const acts[] = {"allow", "kill", "errno EPERM", "log", "trap", "errno EIO"};
    static const char *const calls[] = {"read", "write", "socket", "clone"};
    static const char *const ops[] = {"==", "!=", "<", "<=", ">", ">="};
    for (int round = 0; round < 300; round++) {
        char t[8192];
        size_t n = (size_t)snprintf(t, sizeof t, "default %s\nallow getpid\n", acts[rnd() % 6]);
        for (int i = 0; i < 12; i++) {
            n += (size_t)snprintf(t + n, sizeof t - n, "%s %s", acts[rnd() % 6], calls[rnd() % 4]);
            unsigned conds = 1 + (unsigned)(rnd() % SP_POLICY_CONDS_MAX);
            for (unsigned k = 0; k < conds; k++) {
                bool lo = rnd() % 2 == 0;
                uint64_t v = 1 + (rnd() % 3 == 0 ? rnd() >> 2 : rnd() % 16);
                v = lo ? v & 0x7fffffff : v;
                v |= 1;
                n += (size_t)snprintf(t + n, sizeof t - n, " %s arg%u%s ", k == 0 ? "if" : "and",
                                      (unsigned)(rnd() % 3), lo ? ".lo" : "");
                if (rnd() % 3 == 0)
                    n += (size_t)snprintf(t + n, sizeof t - n, "& %#llx == %#llx",
                                          (unsigned long long)v, (unsigned long long)(v & rnd()));
                else
                    n += (size_t)snprintf(t + n, sizeof t - n, "%s %#llx", ops[rnd() % 6],
                                          (unsigned long long)v);
            }
            t[n++] = '\n';
        }
        differ(t, n, 400);
    }
}
END_TEST

/* What the operator adds decides first, then the commands' own rules; and the broker's filter,
 * which commands inherit, never refuses what the commands' allows. */
START_TEST(added)
{
    static const char ours[] =
        "errno EACCES socket if arg0.lo == AF_INET and arg1.lo == 1\n"
        "allow socket if arg0.lo == AF_NETLINK\nkill sync getcwd\n"
        "log ptrace if arg0.lo == 16\nallow personality mount\n"
        "errno EIO prctl if arg0.lo == 22\nallow prctl if arg0.lo == PR_SET_MM\n";
    static struct sp_policy own, whole;
    void *cmd, *brk;
    size_t nc, nb, tc, tb;
    struct sp_policy_error e;
    const char *c = sp_policy_text(SP_FILTER_COMMAND, &tc),
               *b = sp_policy_text(SP_FILTER_BROKER, &tb);
    size_t no = sizeof ours - 1;
    ck_assert_int_eq(sp_policy_check_added(ours, no, &e), 0);
    ck_assert_int_eq(sp_policy_parse(c, tc, &own, &e), 0);
    ck_assert_int_eq(sp_policy_parse_added(ours, no, false, c, tc, &whole, &e), 0);
    ck_assert_uint_eq(whole.nadded, 8 + 1);
    ck_assert_int_eq(sp_policy_compile_added(ours, no, false, c, tc, &cmd, &nc, &e), 0);
    ck_assert_int_eq(sp_policy_compile_added(ours, no, true, b, tb, &brk, &nb, &e), 0);
    for (int i = 0; i < 60000; i++) {
        struct seccomp_data d = {.arch = seccomp_arch_native()};
        d.nr = rnd() % 3 == 0 ? whole.rules[rnd() % whole.nadded].nr : (int)(rnd() % 440);
        for (int k = 0; k < 6; k++)
            d.args[k] = near(&whole);
        uint64_t args[6];
        memcpy(args, d.args, sizeof args);
        uint32_t got = run(cmd, nc, &d), want = expected(&own, d.nr, args);
        for (size_t r = whole.nadded; r-- > 0;) { /* the first one that matches has the last word */
            bool all = whole.rules[r].nr == d.nr;
            for (uint32_t k = 0; all && k < whole.rules[r].nconds; k++)
                all = holds(&whole.rules[r].conds[k], args);
            want = all ? whole.rules[r].action : want;
        }
        ck_assert_msg(got == want, "call %d: %#x, expected %#x", d.nr, got, want);
        uint32_t above = run(brk, nb, &d);
        ck_assert_msg((int32_t)(above & 0xffff0000) >= (int32_t)(got & 0xffff0000) || above == got,
                      "call %d: the broker's %#x, the commands' %#x", d.nr, above, got);
    }
    free(cmd);
    free(brk);
    ck_assert_int_eq(sp_policy_check_added("allow nosuch", 12, &e), -EINVAL);
    ck_assert(e.added && e.line == 1);
}
END_TEST

START_TEST(newer)
{
    void *bpf;
    size_t n;
    const char *t = "default allow\nnewer errno EIO\nkill ptrace\nerrno EPERM read if arg0 == 1";
    ck_assert_int_eq(sp_policy_compile(t, strlen(t), &bpf, &n, NULL), 0);
    struct seccomp_data d = {.arch = seccomp_arch_native(), .nr = 999};
    ck_assert_uint_eq(run(bpf, n, &d), SECCOMP_RET_ERRNO | EIO);
    d.nr = 1023;
    ck_assert_uint_eq(run(bpf, n, &d), SECCOMP_RET_ERRNO | EIO);
    d.nr = SYS_getpid;
    ck_assert_uint_eq(run(bpf, n, &d), SECCOMP_RET_ALLOW);
    d.nr = 0x40000000 + 999;
    ck_assert_uint_eq(run(bpf, n, &d), SECCOMP_RET_KILL_PROCESS);
    free(bpf);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("policy_parse");
    TCase *t = tcase_create("parse");
    tcase_set_timeout(t, 50);
    tcase_add_test(t, accepts);
    tcase_add_test(t, refuses);
    tcase_add_test(t, bounds);
    tcase_add_test(t, mangled);
    tcase_add_test(t, built_in);
    tcase_add_test(t, random_rules);
    tcase_add_test(t, added);
    tcase_add_test(t, newer);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
