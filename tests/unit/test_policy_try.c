/* test_policy_try.c: each built-in filter as it is compiled says what its policy says; with any of
 * its answers changed, a step left out or its end cut off it is refused. */
#include "confine/policy.h"

#include "unit.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>

static struct sp_policy policy;
static struct sock_filter *filter, *changed;
static size_t n;
static uint32_t known;

static int tried(size_t len)
{
    return sp_policy_try(&policy, seccomp_arch_native(), known, changed, len);
}

/* Without what a build with a sanitizer adds: that allows whole calls of which the policy allows
 * some, and makes no difference of what the conditions compare with. */
static size_t own_length(const struct sp_policy_embedded *e)
{
    static const char added[] = "# sanitizer.seccomp:";
    const char *at = memmem(e->text, e->len, added, sizeof added - 1);
    return at == NULL ? e->len : (size_t)(at - e->text);
}

static void compile(const struct sp_policy_embedded *e)
{
    const size_t len = own_length(e);
    struct sp_policy_error err;
    void *bpf = NULL;
    ck_assert_int_eq(sp_policy_parse(e->text, len, &policy, &err), 0);
    ck_assert_int_eq(sp_policy_compile(e->text, len, &bpf, &n, &err), 0);
    filter = bpf;
    changed = malloc(n * sizeof *changed);
    ck_assert_ptr_nonnull(changed);
    for (int nr = 0; nr < SP_POLICY_NR_MAX; nr++) {
        char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
        known = name != NULL ? (uint32_t)nr : known;
        free(name);
    }
}

static void restore(void)
{
    memcpy(changed, filter, n * sizeof *changed);
}

static void answers_of(const struct sp_policy_embedded *e)
{
    size_t unseen = 0, answers = 0; /* unseen: of rules that want several values at once */
    compile(e);
    restore();
    ck_assert_int_eq(tried(n), 0);
    for (size_t i = 0; i < n; i++) {
        restore();
        if (changed[i].code != (BPF_RET | BPF_K))
            continue;
        answers++;
        changed[i].k = changed[i].k == SECCOMP_RET_ALLOW ? SECCOMP_RET_TRAP : SECCOMP_RET_ALLOW;
        unseen += tried(n) == 0;
    }
    ck_assert_uint_ge(answers, 2);
    ck_assert_msg(unseen * 10 <= answers, "%s: %zu of %zu", e->name, unseen, answers);
    for (size_t i = 0; i + 1 < n; i++) {
        restore();
        memmove(changed + i, changed + i + 1, (n - i - 1) * sizeof *changed);
        if (filter[i].code == (BPF_LD | BPF_W | BPF_ABS))
            continue; /* what it would load may be there already */
        ck_assert_msg(tried(n - 1) != 0 || filter[i].code != (BPF_RET | BPF_K), "%s: step %zu",
                      e->name, i);
    }
    restore();
    ck_assert_int_ne(tried(n / 2), 0);
    ck_assert_int_ne(tried(0), 0);
    free(filter);
    free(changed);
}

static bool compares(const struct sock_filter *f)
{
    return BPF_CLASS(f->code) == BPF_JMP && BPF_OP(f->code) != BPF_JA;
}

/* Each comparison the wrong way round, and with each bit of what it compares with changed. */
static void comparisons_of(const struct sp_policy_embedded *e)
{
    size_t unseen = 0, made = 0;
    compile(e);
    for (size_t i = 0; i < n; i++) {
        if (!compares(&filter[i]) || filter[i].jt == filter[i].jf)
            continue;
        for (int bit = -1; bit < 32; bit++) {
            restore();
            if (bit >= 0)
                changed[i].k ^= 1u << bit;
            else
                changed[i] =
                    (struct sock_filter){filter[i].code, filter[i].jf, filter[i].jt, filter[i].k};
            made++;
            unseen += tried(n) == 0; /* a bound may be anywhere in a gap with one answer */
        }
    }
    ck_assert_uint_gt(made, 1000);
    ck_assert_msg(unseen * 100 <= made, "%s: %zu of %zu", e->name, unseen, made);
    free(filter);
    free(changed);
}

START_TEST(each_comparison)
{
    for (size_t i = 0; i < sp_policy_embedded_n; i++)
        if (strstr(sp_policy_embedded[i].name, ".seccomp") != NULL &&
            strcmp(sp_policy_embedded[i].name, "sanitizer.seccomp") != 0)
            comparisons_of(&sp_policy_embedded[i]);
}
END_TEST

START_TEST(each_answer)
{
    for (size_t i = 0; i < sp_policy_embedded_n; i++)
        if (strstr(sp_policy_embedded[i].name, ".seccomp") != NULL &&
            strcmp(sp_policy_embedded[i].name, "sanitizer.seccomp") !=
                0) /* it is added to others */
            answers_of(&sp_policy_embedded[i]);
}
END_TEST

START_TEST(no_program)
{
    compile(sp_policy_embedded_find("cell.seccomp"));
    const struct sock_filter bad[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, sizeof(struct seccomp_data)},
                                      {BPF_LD | BPF_W | BPF_ABS, 0, 0, UINT32_MAX},
                                      {BPF_JMP | BPF_JA, 0, 0, UINT32_MAX},
                                      {BPF_JMP | BPF_JEQ | BPF_K, 255, 255, 0},
                                      {BPF_LD | BPF_IMM, 0, 0, 1},
                                      {BPF_RET | BPF_A, 0, 0, 0},
                                      {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    for (size_t i = 0; i < COUNT(bad); i++) {
        restore();
        changed[0] = bad[i];
        ck_assert_msg(tried(n) != 0, "%zu", i);
    }
    free(filter);
    free(changed);
}
END_TEST

UNIT_MAIN("policy_try", each_answer, each_comparison, no_program)
