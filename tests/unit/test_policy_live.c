/* test_policy_live.c: installs each built-in filter in a child for each line of
 * policy/<role>.cases, makes the call, and compares what happened with what the line says. */
#include "confine/policy.h"

#include <check.h>
#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct sp_policy_embedded sp_policy_cases[];
extern const size_t sp_policy_cases_n;

struct one {
    char name[64], verdict[32];
    long nr, args[6];
};

static const struct sp_policy_embedded *cases(const char *name)
{
    for (size_t i = 0; i < sp_policy_cases_n; i++)
        if (strcmp(sp_policy_cases[i].name, name) == 0)
            return &sp_policy_cases[i];
    ck_abort_msg("no %s", name);
    return NULL;
}

static bool parse(char *line, struct one *o)
{
    char *save = NULL, *w = strtok_r(line, " ", &save);
    memset(o, 0, sizeof *o);
    if (w == NULL || w[0] == '#')
        return false;
    (void)snprintf(o->name, sizeof o->name, "%s", w);
    o->nr = strncmp(w, "nr", 2) == 0 ? strtol(w + 2, NULL, 0) : seccomp_syscall_resolve_name(w);
    ck_assert_msg(o->nr >= 0, "unknown call %s", w);
    for (int i = 0; (w = strtok_r(NULL, " ", &save)) != NULL && strcmp(w, "->") != 0; i++) {
        ck_assert_int_lt(i, 6);
        o->args[i] = w[0] == '-' ? strtol(w, NULL, 0) : (long)strtoul(w, NULL, 0);
    }
    w = strtok_r(NULL, " ", &save);
    ck_assert_msg(w != NULL, "no verdict for %s", o->name);
    (void)snprintf(o->verdict, sizeof o->verdict, "%s", w);
    return true;
}

/* Exit status 0, or the errno, or 250 when the filter didn't go in. */
static void child(enum sp_filter f, const struct one *o)
{
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        sp_filters_install(f) != 0)
        _exit(250);
    long r = syscall(o->nr, o->args[0], o->args[1], o->args[2], o->args[3], o->args[4], o->args[5]);
    syscall(SYS_exit_group, r < 0 && r >= -1 ? errno : 0);
}

static void observe(enum sp_filter f, const struct one *o, char out[32])
{
    int status;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        child(f, o);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    int err = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    if (WIFSIGNALED(status))
        (void)snprintf(out, 32, WTERMSIG(status) == SIGSYS ? "kill" : "signal %d",
                       WTERMSIG(status));
    else if (err == EPERM || err == ENOSYS || err == EAFNOSUPPORT)
        (void)snprintf(out, 32, "%s", strerrorname_np(err));
    else if (err == 250)
        (void)snprintf(out, 32, "no filter");
    else if (o->verdict[0] ==
             'E') /* another answer that only the filter gives for these arguments */
        (void)snprintf(out, 32, "%s", err == 0 ? "allow" : strerrorname_np(err));
    else
        (void)snprintf(out, 32, "allow");
}

/* Sanitizer builds give the daemon's roles more. */
static bool widened(enum sp_filter f, const char *call)
{
#ifdef SP_SANITIZE
    const char *t = cases("sanitizer.seccomp")->text;
    size_t n = strlen(call);
    if (f == SP_FILTER_COMMAND || f == SP_FILTER_BROKER)
        return false;
    for (const char *p = t; (p = strstr(p, call)) != NULL; p += n)
        if (p > t && p[-1] == ' ' && (p[n] == ' ' || p[n] == '\n'))
            return true;
    return false;
#else
    (void)f;
    (void)call;
    return false;
#endif
}

static void run(enum sp_filter f, const char *file)
{
    const struct sp_policy_embedded *t = cases(file);
    char *copy = strdup(t->text), *save = NULL;
    int wrong = 0, n = 0;
    ck_assert_ptr_nonnull(copy);
    for (char *l = strtok_r(copy, "\n", &save); l != NULL; l = strtok_r(NULL, "\n", &save)) {
        struct one o;
        char seen[32];
        if (!parse(l, &o) || (strcmp(o.verdict, "allow") != 0 && widened(f, o.name)))
            continue;
        observe(f, &o, seen);
        n++;
        if (strcmp(seen, o.verdict) != 0) {
            wrong++;
            (void)fprintf(stderr, "%s: %s %#lx %#lx %#lx: expected %s, saw %s\n", file, o.name,
                          (unsigned long)o.args[0], (unsigned long)o.args[1],
                          (unsigned long)o.args[2], o.verdict, seen);
        }
    }
    free(copy);
    ck_assert_int_gt(n, 20);
    ck_assert_msg(wrong == 0, "%d of %d verdicts differ", wrong, n);
}

START_TEST(front)
{
    run(SP_FILTER_FRONT, "front.cases");
}
END_TEST

START_TEST(broker)
{
    run(SP_FILTER_BROKER, "broker.cases");
}
END_TEST

START_TEST(cell)
{
    run(SP_FILTER_CELL, "cell.cases");
}
END_TEST

START_TEST(command)
{
    run(SP_FILTER_COMMAND, "command.cases");
}
END_TEST

START_TEST(registry)
{
    run(SP_FILTER_REGISTRY, "registry.cases");
}
END_TEST

/* The broker's filter under the command's, as in the daemon: nothing gets lost or looser. */
START_TEST(stacked)
{
    struct rlimit none = {0, 0};
    ck_assert_int_eq(setrlimit(RLIMIT_CORE, &none), 0);
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(sp_filters_install(SP_FILTER_BROKER), 0);
    run(SP_FILTER_COMMAND, "command.cases");
}
END_TEST

#ifdef __x86_64__
static int foreign(bool filter)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = {0, 0};
        long r = 20; /* getpid of i386 */
        (void)signal(SIGSEGV, SIG_DFL);
        if (setrlimit(RLIMIT_CORE, &none) != 0 ||
            (filter && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                        sp_filters_install(SP_FILTER_COMMAND) != 0)))
            _exit(250);
        __asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
        _exit(r > 0 ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

START_TEST(i386)
{
    int bare = foreign(false);
    if (!WIFEXITED(bare) || WEXITSTATUS(bare) != 0)
        return; /* a kernel without it */
    int status = foreign(true);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(WTERMSIG(status), SIGSYS);
}
END_TEST
#endif

/* What a cell does before it has its own filter: limits of a tree that it kills, its root. */
static bool for_cells(int nr)
{
    static const int calls[] = {SYS_prlimit64,  SYS_clone,      SYS_mount,        SYS_umount2,
                                SYS_pivot_root, SYS_open_tree,  SYS_fsopen,       SYS_fsconfig,
                                SYS_fsmount,    SYS_move_mount, SYS_mount_setattr};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (calls[i] == nr)
            return true;
    return false;
}

/* All that the command filter refuses is refused by the broker's with the same answer, and nothing
 * that it allows: else a command would meet the broker's filter first. */
START_TEST(broker_contains_command)
{
    static struct sp_policy b, c;
    size_t len;
    const char *t = sp_policy_text(SP_FILTER_BROKER, &len);
    ck_assert_int_eq(sp_policy_parse(t, len, &b, NULL), 0);
    t = sp_policy_text(SP_FILTER_COMMAND, &len);
    ck_assert_int_eq(sp_policy_parse(t, len, &c, NULL), 0);
    for (int nr = 0; nr < SP_POLICY_NR_MAX; nr++) {
        if (for_cells(nr))
            continue;
        ck_assert_msg(b.conditional[nr] == c.conditional[nr], "call %d", nr);
        if (c.decided[nr] && c.decision[nr] != SCMP_ACT_ALLOW)
            ck_assert_msg(b.decided[nr] && b.decision[nr] == c.decision[nr], "call %d", nr);
        if (b.decided[nr] && b.decision[nr] != SCMP_ACT_ALLOW)
            ck_assert_msg(c.decided[nr] && c.decision[nr] == b.decision[nr], "call %d", nr);
    }
    for (size_t i = 0, j = 0; i < c.nrules; i++) {
        if (c.rules[i].nconds == 0 || for_cells(c.rules[i].nr))
            continue;
        while (j < b.nrules && b.rules[j].nconds == 0)
            j++;
        ck_assert_uint_lt(j, b.nrules);
        ck_assert_int_eq(b.rules[j].nr, c.rules[i].nr);
        ck_assert_uint_eq(b.rules[j].action, c.rules[i].action);
        ck_assert_int_eq(memcmp(b.rules[j].conds, c.rules[i].conds, sizeof b.rules[j].conds), 0);
        j++;
    }
}
END_TEST

START_TEST(without_seccomp)
{
    struct sp_plan plan = {0};
    struct sp_policy_error e;
    int fd = sp_filters_build(&plan, NULL, 0, &e);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)lseek(fd, 0, SEEK_END) < 200, 1);
    close(fd);
}
END_TEST

int main(void)
{
    /* Before Check opens descriptors of its own. */
    struct sp_policy_error e;
    int fd = sp_filters_build(NULL, NULL, 0, &e);
    if (fd < 0) {
        (void)fprintf(stderr, "line %d: %s (%d)\n", e.line, e.text, fd);
        return 1;
    }
    if (fd != SP_FD_FILTERS && dup2(fd, SP_FD_FILTERS) != SP_FD_FILTERS)
        return 1;
    if (sp_filters_install(SP_FILTER_FRONT) != -ENODATA || sp_filters_load() != 0)
        return 1;
    Suite *s = suite_create("policy_live");
    TCase *t = tcase_create("live");
    tcase_set_timeout(t, 50);
    tcase_add_test(t, front);
    tcase_add_test(t, broker);
    tcase_add_test(t, cell);
    tcase_add_test(t, command);
    tcase_add_test(t, registry);
    tcase_add_test(t, stacked);
#ifdef __x86_64__
    tcase_add_test(t, i386);
#endif
    tcase_add_test(t, broker_contains_command);
    tcase_add_test(t, without_seccomp);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
