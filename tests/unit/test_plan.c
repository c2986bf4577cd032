/* test_plan.c: what the plan requires, accepts and says, and that probing leaves the caller as it
 * was. */
#include "confine/probe.h"
#include "sallyport/confine.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sp_config c;
static struct sp_plan p;
static char err[400];

static int make(const char *accept, const char *disable)
{
    memset(err, 0, sizeof err);
    return sp_plan_make(&p, &c, accept, disable, err, sizeof err);
}

static void fresh(void)
{
    memset(&c, 0, sizeof c);
    c.front_uid = 60001;
    c.command_uid = 60002;
    c.front_gid = 60001;
    c.command_gid = 60002;
    c.isolation = SP_ISOLATION_BASIC; /* without namespaces, unless a test says otherwise */
}

/* A folder that a view can be built around. */
static void with_workspace(void)
{
    static char folder[] = "/tmp/sp-plan-XXXXXX";
    if (strchr(folder, 'X') != NULL)
        ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chmod(folder, 0777), 0);
    (void)snprintf(c.workspace, sizeof c.workspace, "%s", folder);
    (void)snprintf(c.shell, sizeof c.shell, "/bin/sh");
    c.tmp_bytes = 1 << 20;
    c.isolation = SP_ISOLATION_AUTO;
}

START_TEST(full)
{
    int abi = sp_landlock_abi();
    ck_assert_msg(make("landlock,signal-scope", NULL) == 0, "%s", err);
    ck_assert(p.layer[SP_LAYER_NO_NEW_PRIVS].active);
    ck_assert(p.layer[SP_LAYER_CAPS].active);
    ck_assert(p.layer[SP_LAYER_SECCOMP].active);
    ck_assert(p.layer[SP_LAYER_OPENAT2].active && c.use_openat2);
    ck_assert_int_eq(c.have_landlock, abi > 0);
    ck_assert_int_eq(c.landlock_abi, abi >= 6 ? abi : abi < 5 ? abi : 5);
    ck_assert_int_eq(c.signal_scope, abi >= 6);
    ck_assert(!c.own_uid && !p.layer[SP_LAYER_UID].active && !p.layer[SP_LAYER_UID].required);
    for (int i = 0; i < SP_LAYER_COUNT; i++) {
        ck_assert_str_ne(p.layer[i].name, "");
        ck_assert_str_ne(p.layer[i].why, "");
    }
}
END_TEST

START_TEST(leaves_the_caller)
{
    (void)make(NULL, NULL);
    ck_assert_int_eq(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), 0);
    ck_assert_int_ge(open("/", O_RDONLY | O_CLOEXEC), 0);
    ck_assert_int_eq(kill(getppid(), 0), 0);
    ck_assert(waitpid(-1, NULL, 0) == -1 && errno == ECHILD);
}
END_TEST

START_TEST(own_uid)
{
    if (geteuid() != 0)
        return;
    c.switch_uid = true;
    ck_assert_msg(make("landlock", NULL) == 0, "%s", err);
    ck_assert(c.own_uid && p.layer[SP_LAYER_UID].active);
    ck_assert(!p.layer[SP_LAYER_SIGNAL_SCOPE].required);
    ck_assert_int_eq(make("landlock", "signal-scope"), 0);
    ck_assert(!c.signal_scope && c.landlock_abi <= 5);
    c.command_uid = 0;
    ck_assert_int_eq(make("landlock,signal-scope", NULL), -1);
    ck_assert_ptr_nonnull(strstr(err, "SALLYPORT_ACCEPT_MISSING=uid"));
    (void)make("uid", NULL);
    ck_assert(!c.own_uid && p.layer[SP_LAYER_UID].required);
    ck_assert(p.layer[SP_LAYER_SIGNAL_SCOPE].required);
    c.command_uid = c.front_uid;
    (void)make(NULL, NULL);
    ck_assert(!c.own_uid);
    fresh();
    c.switch_uid = true;
    (void)make("signal-scope", "uid");
    ck_assert(!c.own_uid && p.layer[SP_LAYER_SIGNAL_SCOPE].required);
}
END_TEST

START_TEST(missing)
{
    static const char *const need[] = {"no-new-privs", "caps", "seccomp", "landlock",
                                       "signal-scope"};
    for (size_t i = 0; i < sizeof need / sizeof need[0]; i++) {
        char want[80];
        ck_assert_int_eq(make(NULL, need[i]), -1);
        (void)snprintf(want, sizeof want, "SALLYPORT_ACCEPT_MISSING=%s", need[i]);
        ck_assert_msg(strstr(err, want) != NULL, "%s", err);
        ck_assert_msg(strstr(err, "disabled") != NULL, "%s", err);
        /* What the sentence proposes is enough. */
        char list[200], *v = strstr(err, "MISSING=") + 8;
        (void)snprintf(list, sizeof list, "%.*s", (int)strcspn(v, " "), v);
        ck_assert_msg(make(list, need[i]) == 0, "%s", err);
    }
    ck_assert_int_eq(make("landlock,signal-scope", "openat2,uid"), 0);
    ck_assert(!c.use_openat2);
}
END_TEST

START_TEST(keeps_what_was_accepted)
{
    ck_assert_int_eq(make("caps", "caps,seccomp"), -1);
    ck_assert_msg(strstr(err, "=seccomp,caps") != NULL, "%s", err);
    ck_assert_int_eq(make("caps, seccomp,landlock,signal-scope", "caps,seccomp"), 0);
    ck_assert(!p.layer[SP_LAYER_SECCOMP].active);
}
END_TEST

START_TEST(landlock_off)
{
    ck_assert_int_eq(make("landlock,signal-scope", "landlock"), -1);
    ck_assert_ptr_nonnull(strstr(err, "The layer view is missing"));
    ck_assert_int_eq(make("landlock,view,signal-scope", "landlock"), 0);
    ck_assert(!c.have_landlock && !c.signal_scope && c.landlock_abi == 0);
    ck_assert(!p.layer[SP_LAYER_SIGNAL_SCOPE].active);
}
END_TEST

/* Each of the two keeps commands in the workspace; and who has neither is refused. */
START_TEST(view_or_landlock)
{
    with_workspace();
    ck_assert_msg(make(NULL, NULL) == 0, "%s", err);
    bool view = p.layer[SP_LAYER_VIEW].active;
    ck_assert_int_eq(view, c.view);
    ck_assert_int_eq(c.cell_ns != 0, view);
    if (geteuid() == 0)
        ck_assert_msg(view, "%s", p.layer[SP_LAYER_VIEW].why);
    if (!view)
        return; /* a host without: the rest needs it */
    ck_assert_int_eq(make(NULL, "landlock"), 0);
    ck_assert(!p.layer[SP_LAYER_LANDLOCK].required && !p.layer[SP_LAYER_SIGNAL_SCOPE].required);
    ck_assert_int_eq(make(NULL, "view"), 0);
    ck_assert(!c.view && !c.pid_ns && c.cell_ns == 0 && !p.layer[SP_LAYER_PID_NS].active);
    ck_assert_int_eq(make(NULL, "view,landlock"), -1);
    ck_assert_int_eq(make(NULL, "pid-ns"), 0);
    ck_assert(c.view && !c.pid_ns);
    ck_assert_int_eq(make(NULL, "ipc-ns"), 0);
    ck_assert(c.view && (c.cell_ns & CLONE_NEWIPC) == 0);
    ck_assert_int_eq(make(NULL, "front-root"), 0);
    ck_assert_int_eq(c.front_ns, 0);
}
END_TEST

/* Strict takes nothing that is off, unless it is named. */
START_TEST(strict)
{
    with_workspace();
    c.isolation = SP_ISOLATION_STRICT;
    ck_assert_int_eq(make("uid", "pid-ns"), -1);
    ck_assert_ptr_nonnull(strstr(err, "pid-ns"));
    ck_assert_int_eq(make("uid", "openat2"), -1);
    c.isolation = SP_ISOLATION_AUTO;
    c.net_none = true;
    ck_assert_int_eq(make(NULL, "view"), -1);
    ck_assert_ptr_nonnull(strstr(err, "net-ns"));
}
END_TEST

START_TEST(names)
{
    ck_assert_int_eq(make("landlok", NULL), -1);
    ck_assert_msg(strstr(err, "landlok") != NULL, "%s", err);
    ck_assert_int_eq(make("caps seccomp", NULL), -1);
    ck_assert_int_eq(make("Caps", NULL), -1);
    ck_assert_int_eq(make(NULL, "nothing"), -1);
    ck_assert_int_eq(make(" landlock ,, signal-scope ,", NULL), 0);
    ck_assert_int_eq(make(",", "landlock"), -1);
    /* A short buffer is cut, not overrun. */
    char small[8];
    ck_assert_int_eq(sp_plan_make(&p, &c, "x", NULL, small, sizeof small), -1);
    ck_assert_uint_lt(strlen(small), sizeof small);
}
END_TEST

START_TEST(probes)
{
    ck_assert_int_eq(sp_probe_landlock(0), -ENOSYS);
    ck_assert_int_eq(sp_probe_signal_scope(5), -ENOSYS);
    if (geteuid() == 0)
        ck_assert_int_eq(sp_probe_ids(60002, 60002), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("plan");
    TCase *t = tcase_create("plan");
    tcase_set_timeout(t, 50);
    tcase_add_checked_fixture(t, fresh, NULL);
    tcase_add_test(t, full);
    tcase_add_test(t, leaves_the_caller);
    tcase_add_test(t, own_uid);
    tcase_add_test(t, missing);
    tcase_add_test(t, keeps_what_was_accepted);
    tcase_add_test(t, landlock_off);
    tcase_add_test(t, view_or_landlock);
    tcase_add_test(t, strict);
    tcase_add_test(t, names);
    tcase_add_test(t, probes);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
