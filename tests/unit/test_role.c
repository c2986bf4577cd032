/* test_role.c: descriptors land where they should whatever order they come in, nothing else leaks,
 * and a role starts from a clean state. This binary is also the role: `--role=probe<n>`. */
#include "sallyport/role.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each descriptor handed down holds the number it should have. The exit status names the fault. */
static int probe(int n)
{
    struct stat in, null;
    sigset_t mask;
    struct sigaction sa;
    for (int fd = 3; fd < 200; fd++) {
        char text[8] = {0};
        bool want = fd < 3 + n;
        if ((fcntl(fd, F_GETFD) >= 0) != want)
            return 10;
        if (want && (pread(fd, text, sizeof text - 1, 0) <= 0 || atoi(text) != fd))
            return 11;
    }
    if (fstat(0, &in) != 0 || stat("/dev/null", &null) != 0 || in.st_rdev != null.st_rdev)
        return 12;
    if (sigprocmask(SIG_BLOCK, NULL, &mask) != 0 || sigismember(&mask, SIGUSR1) != 0)
        return 13;
    if (sigaction(SIGUSR1, NULL, &sa) != 0 || sa.sa_handler != SIG_DFL)
        return 14;
#ifndef SP_SANITIZE
    if (environ[0] != NULL)
        return 15;
#endif
    return getsid(0) == getpid() ? 0 : 16;
}

static int numbered(int n)
{
    char text[8];
    int len = snprintf(text, sizeof text, "%d", n);
    return sp_sealed_memfd("numbered", text, (size_t)len);
}

/* In a process of its own, since it takes descriptors that the test runner uses. from[i] is
 * where the source of 3 + i is put. */
static int run(const int *from, int n)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct sp_fdmap map[8];
        int held[8];
        char role[24];
        (void)signal(SIGUSR1, SIG_IGN);
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, NULL);
        while (open("/dev/null", O_RDONLY) < 20)
            ; /* so that our own descriptors stay clear of the low places */
        if (sp_role_init_self(false) < 0)
            _exit(20);
        for (int i = 0; i < n; i++)
            held[i] = fcntl(numbered(3 + i), F_DUPFD, 150 + i);
        for (int i = 0; i < n; i++) {
            if (dup2(held[i], from[i]) < 0)
                _exit(21);
            map[i] = (struct sp_fdmap){from[i], 3 + i};
        }
        (void)snprintf(role, sizeof role, "probe%d", n);
        pid_t child = sp_role_spawn(role, map, n);
        if (child < 0)
            _exit(22);
        if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
            _exit(23);
        _exit(WEXITSTATUS(status));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

START_TEST(permutations)
{
    /* All orders of four sources that sit on the four targets, and on those but one. */
    for (int base = 3; base <= 4; base++)
        for (int p = 0; p < 256; p++) {
            int from[4], used = 0;
            for (int i = 0; i < 4; i++) {
                from[i] = base + ((p >> (2 * i)) & 3);
                used |= 1 << (from[i] - base);
            }
            if (used == 15)
                ck_assert_int_eq(run(from, 4), 0);
        }
}
END_TEST

START_TEST(overlaps)
{
    /* The self descriptor and /dev/null are somewhere low too: these sit where they may be. */
    static const int cases[][5] = {{40, 41, 42, 43, 44},
                                   {63, 62, 61, 60, 59},
                                   {64, 65, 66, 67, 68},
                                   {9, 8, 7, 6, 5},
                                   {100, 9, 64, 12, 70}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_int_eq(run(cases[i], 5), 0);
}
END_TEST

START_TEST(refuses)
{
    struct sp_fdmap map[SP_FDMAP_MAX + 1] = {{0, 3}};
    ck_assert_int_ge(sp_role_init_self(false), 0);
    ck_assert_int_eq(sp_role_spawn("probe1", map, SP_FDMAP_MAX + 1), -EINVAL);
    map[0] = (struct sp_fdmap){0, 2};
    ck_assert_int_eq(sp_role_spawn("probe1", map, 1), -EINVAL);
    map[0] = (struct sp_fdmap){0, 64};
    ck_assert_int_eq(sp_role_spawn("probe1", map, 1), -EINVAL);
    map[0] = (struct sp_fdmap){-1, 3};
    ck_assert_int_eq(sp_role_spawn("probe1", map, 1), -EINVAL);
    map[0] = (struct sp_fdmap){190, 3}; /* not open: fails in the child, told here */
    ck_assert_int_eq(sp_role_spawn("probe1", map, 1), -EBADF);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* and it is reaped */
}
END_TEST

START_TEST(sealed)
{
    int fd = sp_sealed_memfd("x", "abc", 3);
    char buf[8];
    ck_assert_int_ge(fd, 0);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    ck_assert_int_eq(read(fd, buf, sizeof buf), 3);
    ck_assert_int_eq(pwrite(fd, "z", 1, 0), -1);
    ck_assert_int_eq(ftruncate(fd, 0), -1);
    ck_assert_int_eq(ftruncate(fd, 9), -1);
    ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL), -1);
    ck_assert_ptr_eq(mmap(NULL, 3, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    close(fd);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 2 && strncmp(argv[1], "--role=probe", 12) == 0)
        return probe(atoi(argv[1] + 12));
    Suite *s = suite_create("role");
    TCase *t = tcase_create("role");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, permutations);
    tcase_add_test(t, overlaps);
    tcase_add_test(t, refuses);
    tcase_add_test(t, sealed);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
