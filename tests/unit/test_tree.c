/* test_tree.c: no process of a command survives, whatever it does, by each of the three ways to
 * kill: kill(-1) within Landlock's scope, kill(-1) under an own user id, and the walk. */
#include "cell/tree.h"
#include "private_ns.h"
#include "sallyport/confine.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* BY_UID_ALONE: orphans go to the first process, as in gVisor. */
enum way { BY_SCOPE, BY_UID, BY_WALK, BY_UID_ALONE, WAYS };

static struct sp_tree tree;
static int ready[2]; /* a child writes when it has done its worst */

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

static void say_ready(void)
{
    (void)!write(ready[1], "r", 1);
}

__attribute__((noreturn)) static void linger(void)
{
    for (;;)
        pause();
}

/* ---- what commands do ---- */

static void ignore_all(void)
{
    for (int sig = 1; sig < 64; sig++)
        signal(sig, SIG_IGN);
    say_ready();
    linger();
}

static void double_fork(void)
{
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            setsid();
            say_ready();
            linger();
        }
        _exit(0);
    }
    _exit(0);
}

static void stopped(void)
{
    pid_t p = fork();
    if (p == 0) {
        raise(SIGSTOP);
        linger();
    }
    int st;
    waitpid(p, &st, WUNTRACED);
    say_ready();
    _exit(0);
}

/* What is forked from a sanitizer's process is dear, and teaches the kernel's part nothing: fewer.
 */
#ifdef SP_SANITIZE
#define MOST 150
#else
#define MOST 600
#endif

static void hundreds(void)
{
    for (int i = 0; i < MOST - 100; i++) {
        pid_t p = fork();
        if (p == 0)
            linger();
        if (p < 0)
            break;
    }
    say_ready();
    _exit(0);
}

static void chain(void)
{
    for (int i = 0; i < MOST / 6; i++) { /* ThreadSanitizer's have two threads each */
        setsid();
        pid_t p = fork();
        if (p != 0)
            linger();
    }
    say_ready();
    linger();
}

static void bomb(void)
{
    signal(SIGCHLD, SIG_IGN);
    say_ready();
    for (;;)
        (void)!fork();
}

/* Whoever is killed is replaced by another. */
static void hydra(void)
{
    for (int i = 0; i < 8; i++) {
        if (fork() == 0)
            break;
    }
    say_ready();
    for (;;) {
        pid_t p = fork();
        if (p > 0)
            waitpid(p, NULL, 0);
        else
            setsid();
    }
}

static void *stay(void *arg)
{
    (void)arg;
    say_ready();
    linger();
}

/* Looks like a zombie in /proc, and isn't. */
static void headless(void)
{
    pthread_t t;
    if (fork() == 0) {
        setsid();
        pthread_create(&t, NULL, stay, NULL);
        pthread_exit(NULL);
    }
    _exit(0);
}

static void odd_name(void)
{
    prctl(PR_SET_NAME, ") Z 1 (x");
    if (fork() == 0) {
        setsid();
        say_ready();
        linger();
    }
    _exit(0);
}

static void (*const deeds[])(void) = {ignore_all, double_fork, stopped,  hundreds, chain,
                                      bomb,       hydra,       headless, odd_name};
#define DEEDS ((int)(sizeof deeds / sizeof *deeds))

/* ---- the cell's part ---- */

static void become_cell(enum way way)
{
    char path[64];
    int ws = private_folder(path);
    /* The bomb's bound: of the uid, so that it doesn't fill the machine's process table. */
    struct rlimit procs = {MOST, MOST};
    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, way != BY_UID_ALONE), 0);
    private_drop_ids();
    ck_assert_int_eq(setrlimit(RLIMIT_NPROC, &procs), 0);
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(proc, 0);
    sp_tree_init(&tree, proc, way == BY_SCOPE, way == BY_UID || way == BY_UID_ALONE);
    ck_assert_int_eq(tree.adopts, way != BY_UID_ALONE);
    ck_assert_int_eq(tree.proc, proc);
    ck_assert_int_eq(tree.method, way == BY_WALK ? SP_TREE_WALK : SP_TREE_KILL_ALL);
    if (way == BY_SCOPE) {
        ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        ck_assert_int_eq(sp_landlock_cell(sp_landlock_abi(), path, ws, NULL, NULL, false), 0);
    }
}

static void kill_until_gone(pid_t shell)
{
    int status = 0;
    bool ended = false;
    uint64_t until = private_now_ms() + 60000;
    sp_tree_begin(&tree, shell);
    while (!sp_tree_reap(shell, &status, &ended) || !sp_tree_gone(&tree)) {
        int ms = sp_tree_kill(&tree);
        ck_assert_int_ge(ms, 1);
        ck_assert_int_le(ms, 50);
        ck_assert_msg(private_now_ms() < until, "processes survive");
        pause_ms(ms);
    }
    ck_assert(ended);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}

START_TEST(nothing_survives)
{
    enum way way = (enum way)(_i / DEEDS);
    char r;
    if (way == BY_SCOPE && sp_landlock_abi() < 6)
        return;
    become_cell(way);
    /* Another process of the same user, out of our tree: the scope and the walk must spare it. */
    pid_t shell = fork();
    if (shell == 0) {
        setsid();
        deeds[_i % DEEDS]();
        _exit(0);
    }
    ck_assert_int_gt(shell, 0);
    ck_assert_int_eq(read(ready[0], &r, 1), 1);
    if (deeds[_i % DEEDS] == bomb || deeds[_i % DEEDS] == hydra)
        pause_ms(100); /* only makes it worse */
    kill_until_gone(shell);
}
END_TEST

/* Neither the walk nor the scope touches a process that isn't below us. */
START_TEST(strangers_are_spared)
{
    int up[2];
    char r;
    if (_i == BY_SCOPE && sp_landlock_abi() < 6)
        return;
    ck_assert_int_eq(pipe2(up, 0), 0);
    pid_t stranger = fork(); /* same user; not in our domain, as it is older */
    if (stranger == 0) {
        private_drop_ids();
        close(up[0]);
        (void)!write(up[1], "r", 1);
        linger();
    }
    ck_assert_int_eq(read(up[0], &r, 1), 1);
    pid_t cell = fork(); /* the stranger is its sibling */
    if (cell == 0) {
        become_cell(_i == 0 ? BY_SCOPE : BY_WALK);
        pid_t shell = fork();
        if (shell == 0)
            ignore_all();
        (void)!read(ready[0], &r, 1);
        kill_until_gone(shell);
        _exit(0);
    }
    int st = 0;
    ck_assert_int_eq(waitpid(cell, &st, 0), cell);
    ck_assert(WIFEXITED(st) && WEXITSTATUS(st) == 0);
    ck_assert_int_eq(waitpid(stranger, &st, WNOHANG), 0);
    kill(stranger, SIGKILL);
    waitpid(stranger, &st, 0);
}
END_TEST

START_TEST(careful_choice)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sp_tree_init(&tree, proc, false, true); /* root: kill(-1) would reach everyone */
    ck_assert_int_eq(tree.method, SP_TREE_WALK);
    int etc = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sp_tree_init(&tree, etc, false, false);
    ck_assert_int_eq(tree.proc, -1);
    sp_tree_init(&tree, -1, false, false);
    ck_assert_int_eq(tree.proc, -1);
    /* Without /proc the process group is what is left. */
    pid_t shell = fork();
    if (shell == 0) {
        setsid();
        (void)!fork();
        linger();
    }
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    while (getpgid(shell) != shell)
        pause_ms(1);
    kill_until_gone(shell);
}
END_TEST

static int tests(void)
{
    Suite *s = suite_create("tree");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, nothing_survives, 0, WAYS * DEEDS);
    tcase_add_loop_test(t, strangers_are_spared, 0, 2);
    tcase_add_test(t, careful_choice);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}

int main(void)
{
    return private_ns_run(tests);
}
