/* test_cgroup.c: what is read out of the kernel's texts about cgroups, and the filter that keeps
 * clone3 for the one who knows the number. Making cgroups is tested live, in
 * tests/confine/test_cgroup.py. */
#include "confine/cgroup.h"

#include <check.h>
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A host with systemd, one in a hybrid layout, a container with its own cgroup namespace, and
 * mounts of a part of the tree. */
#define UNIFIED "24 18 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
#define HYBRID                                                                                     \
    "20 1 0:18 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"                                             \
    "21 20 0:19 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"                                \
    "22 20 0:20 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
#define PART "30 1 0:22 /a/b /mnt/with\\040blank rw - cgroup2 none rw\n"

START_TEST(located)
{
    static const struct {
        const char *self, *mounts, *want;
        unsigned nth;
    } t[] = {
        {"0::/system.slice/x.service\n", UNIFIED, "/sys/fs/cgroup/system.slice/x.service", 0},
        {"0::/\n", UNIFIED, "/sys/fs/cgroup", 0},
        {"0::/\n", UNIFIED, NULL, 1},
        {"12:pids:/p\n1:name=systemd:/y\n0::/z\n", HYBRID, "/sys/fs/cgroup/unified/z", 0},
        {"12:pids:/p\n1:name=systemd:/y\n", HYBRID, NULL, 0},
        {"0::/a/b/c\n", PART, "/mnt/with blank/c", 0},
        {"0::/a/b\n", PART, "/mnt/with blank", 0},
        {"0::/a/bc\n", PART, NULL, 0},
        {"0::/a/b/c\n", UNIFIED PART, "/sys/fs/cgroup/a/b/c", 0},
        {"0::/a/b/c\n", UNIFIED PART, "/mnt/with blank/c", 1},
        {"0::/../x\n", UNIFIED, NULL, 0},
        {"0::/x (deleted)\n", UNIFIED, NULL, 0},
        {"0::/x\n", "", NULL, 0},
        {"", UNIFIED, NULL, 0},
        {"0::/x", "garbage\n- cgroup2\n", NULL, 0},
        {"0::/x", "1 - cgroup2 ", NULL, 0},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
        char out[4096] = "";
        bool got = sp_cgroup_locate(t[i].self, t[i].mounts, t[i].nth, out, sizeof out);
        ck_assert_msg(got == (t[i].want != NULL), "%zu: %s", i, out);
        if (got)
            ck_assert_str_eq(out, t[i].want);
    }
}
END_TEST

START_TEST(too_long)
{
    static char self[9000] = "0::/", mounts[20000] = "24 18 0:22 / /";
    char out[64];
    memset(self + 4, 'x', 5000);
    ck_assert(!sp_cgroup_locate(self, UNIFIED, 0, out, sizeof out));
    self[4 + 60] = '\0';
    ck_assert(!sp_cgroup_locate(self, UNIFIED, 0, out, sizeof out));
    memset(mounts + 14, 'y', 6000);
    memcpy(mounts + 6014, " rw - cgroup2 x rw\n", 20);
    ck_assert(!sp_cgroup_locate("0::/", mounts, 0, out, sizeof out));
}
END_TEST

START_TEST(words_and_values)
{
    ck_assert(sp_cgroup_word("cpuset cpu io memory pids\n", "memory"));
    ck_assert(sp_cgroup_word("pids", "pids"));
    ck_assert(!sp_cgroup_word("hugetlb memory_x pids2\n", "memory"));
    ck_assert(!sp_cgroup_word("", "pids"));
    static const char events[] = "low 0\nhigh 0\nmax 31\noom 2\noom_kill 17\noom_group_kill 1\n";
    ck_assert_uint_eq(sp_cgroup_value(events, "oom_kill"), 17);
    ck_assert_uint_eq(sp_cgroup_value(events, "oom"), 2);
    ck_assert_uint_eq(sp_cgroup_value(events, "low"), 0);
    ck_assert_uint_eq(sp_cgroup_value(events, "kill"), 0);
    ck_assert_uint_eq(sp_cgroup_value("", "oom_kill"), 0);
    ck_assert_uint_eq(sp_cgroup_value("oom_kill", "oom_kill"), 0);
    ck_assert_uint_eq(sp_cgroup_oom_kills(-1), 0);
}
END_TEST

/* An own call with chosen registers; no flag, so that what passes the filter is a plain fork. */
static long own_clone3(uint64_t a2, uint64_t a3)
{
    struct clone_args a = {.exit_signal = SIGCHLD};
    long r = syscall(SYS_clone3, &a, sizeof a, a2, a3, 0, 0);
    if (r == 0)
        _exit(0);
    if (r > 0)
        ck_assert_int_eq(waitpid((pid_t)r, NULL, 0), (pid_t)r);
    return r > 0 ? 0 : -errno;
}

START_TEST(sealed)
{
    uint64_t t[2] = {0, 0}, u[2] = {0, 0};
    ck_assert_int_eq(own_clone3(0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(sp_cgroup_seal(t), 0);
    ck_assert(t[0] != 0 && t[1] != 0);
    ck_assert_int_eq(own_clone3(t[0], t[1]), 0);
    ck_assert_int_eq(own_clone3(0, 0), -ENOSYS);
    for (int bit = 0; bit < 128; bit++) {
        u[0] = bit < 64 ? t[0] ^ (UINT64_C(1) << bit) : t[0];
        u[1] = bit < 64 ? t[1] : t[1] ^ (UINT64_C(1) << (bit - 64));
        ck_assert_int_eq(own_clone3(u[0], u[1]), -ENOSYS);
    }
    ck_assert_int_eq(own_clone3(t[1], t[0]), -ENOSYS);
    ck_assert_int_eq((int)syscall(SYS_getpid), getpid()); /* nothing else is touched */
    ck_assert_int_eq(sp_cgroup_seal(u), 0); /* a second number: now both are asked for */
    ck_assert_int_eq(own_clone3(t[0], t[1]), -ENOSYS);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cgroup");
    TCase *t = tcase_create("cgroup");
    tcase_add_test(t, located);
    tcase_add_test(t, too_long);
    tcase_add_test(t, words_and_values);
    tcase_add_test(t, sealed);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
