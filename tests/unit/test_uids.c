/* test_uids.c: all processes of a user id are ended at once, also those that fight back: what ends
 * them is one of them for an instant, and can be stopped or killed then. */
#include "private_ns.h"
#include "sallyport/uids.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define FIGHTERS 2 /* threads: a process can't hit itself */
#define ROUNDS 20

static int fights_with;

__attribute__((noreturn)) static void *fight(void *arg)
{
    (void)arg;
    for (;;)
        (void)kill(-1, fights_with);
}

__attribute__((noreturn)) static void fighter(int sig, int ready)
{
    pthread_t t;
    fights_with = sig;
    private_drop_ids();
    for (int i = 0; i < FIGHTERS; i++)
        if (pthread_create(&t, NULL, fight, NULL) != 0)
            _exit(1);
    (void)!write(ready, "r", 1);
    (void)fight(NULL);
}

static pid_t start_fighter(int sig)
{
    int ready[2];
    char c;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        fighter(sig, ready[1]);
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return pid;
}

/* Comes back each time, and in the end the fighter is dead. */
START_TEST(who_fights_back)
{
    int sig = _i == 0 ? SIGSTOP : SIGKILL;
    for (int i = 0; i < ROUNDS; i++) {
        int status = 0;
        pid_t pid = start_fighter(sig);
        while (waitpid(pid, &status, WNOHANG) == 0)
            sp_uid_kill(private_uid());
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    ck_assert(!sp_uid_in_use(private_uid()));
}
END_TEST

START_TEST(nobody_else)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pause();
        _exit(1);
    }
    sp_uid_kill(0);
    sp_uid_kill((uid_t)-1);
    sp_uid_kill(getuid());
    sp_uid_kill(private_uid());
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

static int run(void)
{
    Suite *s = suite_create("uids");
    TCase *c = tcase_create("uids");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, who_fights_back, 0, 2);
    tcase_add_test(c, nobody_else);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}

int main(void)
{
    return private_ns_run(run);
}
