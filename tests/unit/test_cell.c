/* test_cell.c: a whole cell, confined as in earnest, driven by messages. */
#include "cell_stage.h"
#include "private_ns.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct stage s;
static struct sp_msg end;

static void up(void)
{
    stage_settings(&s);
    stage_raise(&s);
}

static void cancel(uint32_t id, uint8_t flags)
{
    struct sp_msg m = {.op = SP_OP_CANCEL, .id = id, .flags = flags};
    stage_send(&s, &m);
}

static void started(uint32_t id)
{
    (void)stage_expect(&s, SP_OP_STARTED, id);
    sp_frame_close_fds(&s.frame);
}

static void exited(uint32_t id, int code, int sig, int flags)
{
    const struct sp_msg *m = stage_expect(&s, SP_OP_EXITED, id);
    ck_assert_int_eq(m->exit_code, code);
    ck_assert_int_eq(m->signal, sig);
    ck_assert_int_eq(m->flags, flags);
}

START_TEST(commands)
{
    char want[200];
    up();
    ck_assert_str_eq(stage_run(&s, "echo out; echo err >&2; exit 7", &end), "out\nerr\n");
    ck_assert_int_eq(end.exit_code, 7);
    ck_assert_int_eq(end.signal, 0);
    ck_assert_uint_gt(end.duration_us, 0);
    snprintf(want, sizeof want, "sh\n%s %s /tmp yes\n0022\n", s.path, s.path);
    ck_assert_str_eq(stage_run(&s, "echo $0; cat; echo $HOME $PWD $TMPDIR $PASSED; umask", &end),
                     want);
    (void)stage_run(&s, "kill -SEGV $$", &end);
    ck_assert_int_eq(end.exit_code, 128 + SIGSEGV);
    ck_assert_int_eq(end.signal, SIGSEGV);
    ck_assert_str_eq(stage_run(&s, "-x", &end), "sh: 1: -x: not found\n");
    ck_assert_str_eq(stage_run(&s, "grep -E '^Sig(Blk|Ign)' /proc/self/status", &end),
                     "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    ck_assert_str_eq(stage_run(&s, "ls /proc/self/fd | tr '\\n' ' '", &end), "0 1 2 3 ");
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

static void plain_exec(uint32_t id, const char *command)
{
    stage_send(&s,
               &(struct sp_msg){.op = SP_OP_EXEC, .id = id, .command = {command, strlen(command)}});
}

/* One message where a command is over in a moment, two where it lasts; and its output, whole. */
START_TEST(short_and_long)
{
    int told = 0, n = 0;
    up();
    for (uint32_t id = 1; id < 40; id++) {
        plain_exec(id, id % 2 ? "echo short" : "echo long; sleep 0.05; echo longer >&2; exit 3");
        ck_assert(stage_next(&s, 60000));
        bool lasts = s.msg.op == SP_OP_STARTED;
        ck_assert(lasts || s.msg.op == SP_OP_EXITED);
        ck_assert_int_eq(s.frame.nfds, 2);
        int out = stage_fd(&s, 0), err = stage_fd(&s, 1);
        ck_assert_str_eq(stage_read(out), id % 2 ? "short\n" : "long\n");
        ck_assert_str_eq(stage_read(err), id % 2 ? "" : "longer\n");
        if (lasts)
            exited(id, id % 2 ? 0 : 3, 0, 0);
        told += lasts && id % 2 == 0;
        n += id % 2 == 0;
    }
    ck_assert_int_eq(told, n);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

/* However early it is taken back, one end comes, with pipes where they weren't sent. */
START_TEST(cancelled_at_any_moment)
{
    up();
    for (uint32_t id = 1; id < 60; id++) {
        plain_exec(id, "sleep 1000");
        if (id % 3 == 0)
            usleep(id * 50);
        cancel(id, SP_CANCEL_GONE);
        ck_assert(stage_next(&s, 60000));
        bool lasts = s.msg.op == SP_OP_STARTED;
        ck_assert_int_eq(s.frame.nfds, 2);
        sp_frame_close_fds(&s.frame);
        if (lasts)
            ck_assert(stage_next(&s, 60000));
        ck_assert_uint_eq(s.msg.op, SP_OP_EXITED);
        ck_assert_uint_eq(s.msg.id, id);
        ck_assert_uint_eq(s.msg.flags, SP_EXIT_CANCELLED);
    }
    ck_assert_str_eq(stage_run(&s, "ps -e -o comm= | grep -c sleep", &end), "0\n");
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

START_TEST(environment_and_folder)
{
    static const char env[] = "LANG=X\0OWN=a b\0OWN=c\0TMPDIR=/else";
    char want[400];
    up();
    mkdirat(s.ws, "d", 0755);
    private_write(s.ws, "f", "x", 1);
    private_link(s.ws, "d", "l");
    private_link(s.ws, "/tmp", "out");
    struct sp_msg m = {
        .op = SP_OP_EXEC, .id = 5, .flags = SP_EXEC_LIVE, .env = {env, sizeof env}, .nenv = 4};
    static const char line[] = "env | grep -v ^_= | sort; pwd -P";
    m.command = (struct sp_slice){line, sizeof line - 1};
    m.cwd = (struct sp_slice){"l", 1};
    stage_send(&s, &m);
    (void)stage_expect(&s, SP_OP_STARTED, 5);
    int out = stage_fd(&s, 0);
    sp_frame_close_fds(&s.frame);
    snprintf(want, sizeof want,
             "HOME=%s\nLANG=X\nOWN=c\nPASSED=yes\nPATH=/usr/bin:/bin\nPWD=%s/l\nSHELL=/bin/sh\n"
             "TMPDIR=/else\n%s/d\n",
             s.path, s.path, s.path);
    const char *got = stage_read(out);
    ck_assert_str_eq(got, want);
    exited(5, 0, 0, 0);
    static const struct {
        const char *cwd;
        enum sp_err e;
    } bad[] = {{"none", SP_E_NOT_FOUND},
               {"f", SP_E_NOT_A_DIRECTORY},
               {"out", SP_E_OUTSIDE_WORKSPACE},
               {"f/x", SP_E_NOT_A_DIRECTORY}};
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stage_exec(&s, 10 + i, "true", bad[i].cwd, 0);
        stage_expect_fail(&s, 10 + i, bad[i].e);
    }
    private_mode(s.ws, "d", 0);
    stage_exec(&s, 7, "true", "d", 0);
    stage_expect_fail(&s, 7, SP_E_FORBIDDEN);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

START_TEST(standard_input)
{
    up();
    stage_exec(&s, 1, "cat; echo done", "", SP_EXEC_STDIN);
    (void)stage_expect(&s, SP_OP_STARTED, 1);
    int out = stage_fd(&s, 0), in = stage_fd(&s, 2);
    sp_frame_close_fds(&s.frame);
    ck_assert_int_ne(fcntl(in, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_ne(fcntl(out, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_eq(write(in, "hello\n", 6), 6);
    close(in);
    ck_assert_str_eq(stage_read(out), "hello\ndone\n");
    exited(1, 0, 0, 0);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

START_TEST(one_at_a_time)
{
    up();
    stage_exec(&s, 1, "sleep 1000", "", 0);
    started(1);
    stage_exec(&s, 2, "true", "", 0);
    stage_expect_fail(&s, 2, SP_E_BUSY);
    cancel(99, 0);                        /* unknown: ignored */
    stage_path(&s, SP_OP_OPEN, 3, "", 0); /* files are served meanwhile */
    (void)stage_expect(&s, SP_OP_FILE, 3);
    sp_frame_close_fds(&s.frame);
    cancel(1, SP_CANCEL_TIMEOUT);
    exited(1, 124, 0, SP_EXIT_TIMED_OUT);
    cancel(1, SP_CANCEL_TIMEOUT);
    stage_exec(&s, 1, "trap '' TERM INT; setsid sleep 1000 & sleep 1000", "", 0);
    cancel(1, SP_CANCEL_GONE); /* perhaps while it is being started */
    started(1);
    exited(1, 137, SIGKILL, SP_EXIT_CANCELLED);
    ck_assert_str_eq(stage_run(&s, "echo again", &end), "again\n");
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

/* _i: 0 as the host allows, 1 own user id, 2 walk. */
START_TEST(what_is_left_is_killed)
{
    stage_settings(&s);
    if (_i > 0)
        s.config.have_landlock = s.config.signal_scope = false;
    s.config.own_uid = _i == 1;
    s.config.limit_procs = 300;
    stage_raise(&s);
    (void)stage_run(&s, "for i in 1 2 3 4 5; do setsid sleep 1000 >/dev/null 2>&1 & done; exit 3",
                    &end);
    ck_assert_int_eq(end.exit_code, 3);
    ck_assert_str_eq(stage_run(&s, "ps -e -o comm= | grep -c sleep", &end), "0\n");
    stage_exec(&s, 1, "b() { b | b & }; b; exit 0", "", 0);
    started(1);
    exited(1, 0, 0, 0);
    ck_assert_str_eq(stage_run(&s, "ps -e -o ppid= | wc -l > /dev/null; echo ok", &end), "ok\n");
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

START_TEST(spawn_failures)
{
    stage_settings(&s);
    strcpy(s.config.shell, "/usr/bin/no-such-shell");
    s.config.have_landlock = s.config.signal_scope = false;
    stage_raise(&s);
    for (uint32_t id = 1; id < 4; id++) {
        stage_exec(&s, id, "true", "", 0);
        stage_expect_fail(&s, id, SP_E_SPAWN_FAILED);
    }
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

START_TEST(commands_are_confined)
{
    up();
    (void)stage_run(&s, "echo x > f && cat f && ! echo x 2>/dev/null > /etc/x", &end);
    ck_assert_int_eq(end.exit_code, 0);
    if (s.config.signal_scope) {
        const char *said = stage_run(&s, "kill -9 $PPID", &end);
        ck_assert_msg(end.exit_code == 1, "%s", said);
    }
    ck_assert_str_eq(stage_run(&s,
                               "grep -E '^(CapEff|CapPrm|NoNewPrivs|Seccomp):' /proc/self/status "
                               "| cut -f2 | tr '\\n' ' '; unshare -U true 2>/dev/null; echo $?",
                               &end),
                     "0000000000000000 0000000000000000 1 2 1\n");
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

/* The broker's death ends all; nothing is left for the next reaper. */
START_TEST(broker_gone)
{
    int st;
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    up();
    stage_exec(&s, 1, "setsid sleep 1000 & sleep 1000", "", 0);
    started(1);
    stage_path(&s, SP_OP_PUT, 2, "a/b", 0);
    (void)stage_expect(&s, SP_OP_READY, 2);
    ck_assert_int_eq(stage_end(&s), 0);
    ck_assert_int_eq(waitpid(-1, &st, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}
END_TEST

START_TEST(breaches_end_the_cell)
{
    up();
    if (_i == 0)
        ck_assert_int_eq(sp_chan_send(&s.chan, "junk", 4, NULL, 0), 0);
    else
        stage_send(&s, &(struct sp_msg){.op = SP_OP_DRAIN});
    int st = 0;
    ck_assert_int_eq(waitpid(s.pid, &st, 0), s.pid);
    ck_assert(WIFEXITED(st) && WEXITSTATUS(st) == 1);
}
END_TEST

START_TEST(bad_start)
{
    stage_settings(&s);
    s.config.have_landlock = true;
    s.config.landlock_abi = 0;
    ck_assert_int_eq(stage_raise_in_vain(&s), 1);
}
END_TEST

static int tests(void)
{
    Suite *suite = suite_create("cell");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 150);
    tcase_add_test(t, commands);
    tcase_add_test(t, short_and_long);
    tcase_add_test(t, cancelled_at_any_moment);
    tcase_add_test(t, environment_and_folder);
    tcase_add_test(t, standard_input);
    tcase_add_test(t, one_at_a_time);
    tcase_add_loop_test(t, what_is_left_is_killed, 0, 3);
    tcase_add_test(t, spawn_failures);
    tcase_add_test(t, commands_are_confined);
    tcase_add_test(t, broker_gone);
    tcase_add_loop_test(t, breaches_end_the_cell, 0, 2);
    tcase_add_test(t, bad_start);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}

int main(void)
{
    return private_ns_run(tests);
}
