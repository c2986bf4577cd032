/* test_process.c: what a process has given up after each step, read back from the kernel. Check
 * forks a process for each test. */
#include "sallyport/confine.h"

#include <cap-ng.h>
#include <check.h>
#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *status_line(const char *key, char buf[128])
{
    FILE *f = fopen("/proc/self/status", "re");
    ck_assert_ptr_nonnull(f);
    size_t n = strlen(key);
    while (fgets(buf, 128, f) != NULL)
        if (strncmp(buf, key, n) == 0 && buf[n] == ':') {
            (void)fclose(f);
            buf[strcspn(buf, "\n")] = '\0';
            return buf + n + 1 + strspn(buf + n + 1, " \t");
        }
    ck_abort_msg("no %s", key);
    return NULL;
}

static unsigned long long set(const char *key)
{
    char buf[128];
    unsigned long long v;
    ck_assert_int_eq(sscanf(status_line(key, buf), "%llx", &v), 1);
    return v;
}

START_TEST(basics)
{
    ck_assert_int_eq(sp_confine_basics(true), 0);
    ck_assert_int_eq(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
    ck_assert_int_eq(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 0);
    int sig = 0;
    ck_assert_int_eq(prctl(PR_GET_PDEATHSIG, &sig, 0, 0, 0), 0);
    ck_assert_int_eq(sig, SIGKILL);
    ck_assert_uint_eq(umask(0), 022);
    struct rlimit l;
    ck_assert_int_eq(getrlimit(RLIMIT_CORE, &l), 0);
    ck_assert(l.rlim_cur == 0 && l.rlim_max == 0);
}
END_TEST

START_TEST(basics_outlive_parent)
{
    ck_assert_int_eq(sp_confine_basics(false), 0);
    int sig = 1;
    ck_assert_int_eq(prctl(PR_GET_PDEATHSIG, &sig, 0, 0, 0), 0);
    ck_assert_int_eq(sig, 0);
}
END_TEST

START_TEST(no_caps)
{
    ck_assert_int_eq(sp_confine_basics(false), 0);
    ck_assert_int_eq(sp_confine_caps(NULL, 0), 0);
    ck_assert(set("CapEff") == 0 && set("CapPrm") == 0 && set("CapInh") == 0);
    ck_assert(set("CapBnd") == 0 && set("CapAmb") == 0);
    ck_assert_int_eq(sp_confine_caps(NULL, 0), 0); /* again, with nothing left to do it by */
    int kill_cap = CAP_KILL;
    ck_assert_int_eq(sp_confine_caps(&kill_cap, 1), 0); /* of those only what is permitted */
    ck_assert(set("CapEff") == 0);
}
END_TEST

START_TEST(some_caps)
{
    const int keep[] = {CAP_SETUID, CAP_SETGID, CAP_KILL, 63, -1};
    unsigned long long want = 1ull << CAP_SETUID | 1ull << CAP_SETGID | 1ull << CAP_KILL;
    ck_assert_int_eq(sp_confine_caps(keep, 5), 0);
    ck_assert(set("CapEff") == want && set("CapPrm") == want && set("CapInh") == want);
    ck_assert(set("CapBnd") == 0 && set("CapAmb") == 0);
    /* Again with less, as a role does that was started with these. */
    ck_assert_int_eq(sp_confine_caps(keep, 1), 0);
    ck_assert(set("CapEff") == 1ull << CAP_SETUID && set("CapInh") == 1ull << CAP_SETUID);
    ck_assert_int_eq(sp_confine_caps(NULL, 1), -EINVAL);
}
END_TEST

/* The bounding set stays, which only no_new_privs makes good. */
START_TEST(caps_without_setpcap)
{
    const int keep[] = {CAP_SETUID};
    ck_assert_int_eq(capng_get_caps_process(), 0);
    ck_assert_int_eq(capng_update(CAPNG_DROP, CAPNG_EFFECTIVE | CAPNG_PERMITTED, CAP_SETPCAP), 0);
    ck_assert_int_eq(capng_apply(CAPNG_SELECT_CAPS), 0);
    ck_assert_int_eq(sp_confine_caps(keep, 1), -EPERM);
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(sp_confine_caps(keep, 1), 0);
    ck_assert(set("CapEff") == 1ull << CAP_SETUID);
}
END_TEST

START_TEST(ids)
{
    char buf[128];
    const int keep[] = {CAP_SETUID, CAP_SETGID, CAP_KILL};
    gid_t groups[] = {0, 5};
    ck_assert_int_eq(setgroups(2, groups), 0);
    ck_assert_int_eq(sp_confine_basics(true), 0);
    ck_assert_int_eq(sp_confine_caps(keep, 3), 0);
    ck_assert_int_eq(sp_confine_ids(60002, 60003), 0);
    ck_assert_str_eq(status_line("Uid", buf), "60002\t60002\t60002\t60002");
    ck_assert_str_eq(status_line("Gid", buf), "60003\t60003\t60003\t60003");
    ck_assert_int_eq(getgroups(0, NULL), 0);
    ck_assert(set("CapEff") == 0 && set("CapPrm") == 0);
    ck_assert(setuid(0) == -1 && setgid(0) == -1);
    /* What the kernel clears when ids change is there again. */
    int sig = 0;
    ck_assert_int_eq(prctl(PR_GET_PDEATHSIG, &sig, 0, 0, 0), 0);
    ck_assert_int_eq(sig, SIGKILL);
    ck_assert_int_eq(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), 0);
    ck_assert_int_eq(sp_confine_caps(NULL, 0), 0);
    ck_assert_int_lt(sp_confine_ids(60004, 60004), 0);
}
END_TEST

/* keepcaps is the way to change ids and keep capabilities: it must not help. */
START_TEST(ids_with_keepcaps)
{
    ck_assert_int_eq(prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(sp_confine_ids(60002, 60002), 0);
    ck_assert(set("CapEff") == 0 && set("CapPrm") == 0 && set("CapAmb") == 0);
}
END_TEST

#ifdef SP_SANITIZE
#define MEMORY (UINT64_C(1) << 50) /* shadow memory is data, too */
#else
#define MEMORY (UINT64_C(512) << 20)
#endif

START_TEST(limits)
{
    static struct sp_config c;
    c.limit_procs = 50;
    c.limit_memory = MEMORY;
    c.limit_cpu_s = 100;
    c.limit_file_bytes = 1u << 20;
    c.limit_open_files = 64;
    ck_assert_int_eq(sp_confine_limits(&c), 0);
    const struct {
        __rlimit_resource_t what;
        rlim_t to;
    } want[] = {{RLIMIT_NPROC, 50},       {RLIMIT_DATA, MEMORY}, {RLIMIT_CPU, 100},
                {RLIMIT_FSIZE, 1u << 20}, {RLIMIT_NOFILE, 64},   {RLIMIT_CORE, 0}};
    struct rlimit l;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        ck_assert_int_eq(getrlimit(want[i].what, &l), 0);
        ck_assert(l.rlim_cur == want[i].to && l.rlim_max == want[i].to);
    }
    /* Only lower, even for root. */
    c.limit_open_files = 100;
    c.limit_cpu_s = 0;
    c.limit_procs = UINT64_MAX;
    ck_assert_int_eq(sp_confine_limits(&c), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
    ck_assert(l.rlim_max == 64);
    ck_assert_int_eq(getrlimit(RLIMIT_CPU, &l), 0);
    ck_assert(l.rlim_max == 100);
    ck_assert_int_eq(getrlimit(RLIMIT_NPROC, &l), 0);
    ck_assert(l.rlim_max == 50);
}
END_TEST

START_TEST(no_limits)
{
    static struct sp_config c;
    struct rlimit before, after;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_int_eq(sp_confine_limits(&c), 0);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &after), 0);
    ck_assert(before.rlim_cur == after.rlim_cur && before.rlim_max == after.rlim_max);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("process");
    TCase *t = tcase_create("process");
    tcase_set_timeout(t, 50);
    tcase_add_test(t, basics);
    tcase_add_test(t, basics_outlive_parent);
    tcase_add_test(t, limits);
    tcase_add_test(t, no_limits);
    if (geteuid() == 0) {
        tcase_add_test(t, no_caps);
        tcase_add_test(t, some_caps);
        tcase_add_test(t, caps_without_setpcap);
        tcase_add_test(t, ids);
        tcase_add_test(t, ids_with_keepcaps);
    }
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
