/* test_settings.c: what the environment may say, and that everything else is refused. */
#include "main/settings.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct settings s;
static struct sp_config c;
static char err[REFUSAL_MAX];

static char text[4][256];
static char *env[5];

static char *const *with(const char *a, const char *b, const char *d)
{
    const char *in[] = {a, b, d};
    int n = 0;
    for (int i = 0; i < 3; i++)
        if (in[i] != NULL) {
            (void)snprintf(text[n], sizeof text[n], "%s", in[i]);
            env[n] = text[n];
            n++;
        }
    env[n] = NULL;
    return env;
}

static int reading(const char *pair)
{
    err[0] = '\0';
    return settings_read(&s, SP_MODE_SEAT, with(pair, NULL, NULL), err, sizeof err);
}

START_TEST(defaults)
{
    ck_assert_int_eq(reading(NULL), 0);
    ck_assert_str_eq(s.workspace, "/workspace");
    ck_assert_ptr_null(s.shell);
    ck_assert_uint_eq(s.port, 8080);
    ck_assert(!s.port_given);
    ck_assert_uint_eq(s.default_timeout, 300000);
    ck_assert_uint_eq(s.max_timeout, 86400000);
    ck_assert_uint_eq(s.max_output, 1 << 20);
    ck_assert_uint_eq(s.max_upload, 1 << 30);
    ck_assert_uint_eq(s.log_level, 2);
    ck_assert_str_eq(s.front_user, "64998:64998");
}
END_TEST

START_TEST(values)
{
    ck_assert_int_eq(reading("SANDBOX_PORT=0"), 0);
    ck_assert(s.port_given);
    ck_assert_int_eq(reading("SANDBOX_PORT="), 0); /* empty: as if absent */
    ck_assert(!s.port_given);
    ck_assert_uint_eq(s.port, 8080);
    ck_assert_int_eq(reading("SANDBOX_PORT=tcp://10.0.0.1:80"), 0); /* of Kubernetes: so, too */
    ck_assert(!s.port_given);
    ck_assert_uint_eq(s.port, 8080);
    char *const *box = with("RUNBOX_PORT=udp://10.0.0.1:80", NULL, NULL);
    ck_assert_int_eq(settings_read(&s, SP_MODE_BOX, box, err, sizeof err), 0);
    ck_assert_uint_eq(s.port, 8080);
    ck_assert_int_eq(reading("SALLYPORT_MAX_OUTPUT=64MiB"), 0);
    ck_assert_int_eq(reading("SALLYPORT_CPUS=1.5"), 0);
    ck_assert_uint_eq(s.cpus, 1500);
    ck_assert_int_eq(reading("SALLYPORT_CPUS=0"), 0);
    ck_assert_uint_eq(s.cpus, 0);
    ck_assert_int_eq(reading("SALLYPORT_CPUS=0.01"), 0);
    ck_assert_uint_eq(s.cpus, 10);
    ck_assert_int_eq(reading("SALLYPORT_LOG=DEBUG"), 0);
    ck_assert_uint_eq(s.log_level, 3);
    ck_assert_int_eq(reading("SALLYPORT_MAX_TIMEOUT=1m"), 0);
    ck_assert_uint_eq(s.default_timeout, 60000); /* the default follows */
    ck_assert_int_eq(
        settings_read(&s, SP_MODE_SEAT,
                      with("SALLYPORT_MAX_TIMEOUT=1m", "SALLYPORT_DEFAULT_TIMEOUT=2m", NULL), err,
                      sizeof err),
        -1);
}
END_TEST

START_TEST(refused)
{
    static const char *const bad[] = {
        "SANDBOX_PORT=65536", "SANDBOX_PORT=-1", "SANDBOX_PORT=80x", "SANDBOX_PORT= 80",
        "SANDBOX_PORT=http://10.0.0.1:80", "SALLYPORT_MAX_OUTPUT=65MiB", "SALLYPORT_MAX_OUTPUT=0",
        "SALLYPORT_DEFAULT_TIMEOUT=0", "SALLYPORT_HEAD_TIMEOUT=1ms", "SALLYPORT_LOG=loud",
        "SALLYPORT_LOG_REQUESTS=2", "SALLYPORT_MAX_CONNECTIONS=0",
        "SALLYPORT_MAX_UPLOAD=99999999999999999999", "SALLYPORT_CPUS=0.009", "SALLYPORT_CPUS=5000",
        "SALLYPORT_CPUS=2 ", "SALLYPORT_CPUS=all",
        /* names */
        "SALLYPORT_ACCEPT_MISING=landlock", "SALLYPORT_=1", "SALLYPORT_PORT=8080",
        "SALLYPORT_USERS=x"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(reading(bad[i]) == -1, "%s", bad[i]);
        ck_assert_msg(err[0] != '\0' && err[strlen(err) - 1] == '.', "%s: %s", bad[i], err);
    }
}
END_TEST

START_TEST(foreign)
{
    static const char *const fine[] = {"SANDBOX_OTHER=1",
                                       "SALLYPORT_SERVICE_HOST=10.0.0.1",
                                       "SALLYPORT_SERVICE_PORT_HTTP=80",
                                       "SALLYPORT_PORT=tcp://10.0.0.1:80",
                                       "SALLYPORT_PORT_8080_TCP_ADDR=10.0.0.1",
                                       "SANDBOX_PORT=tcp://10.0.0.1:80",
                                       "SANDBOX_PORT_80_TCP=tcp://10.0.0.1:80",
                                       "HOME=/root"};
    for (unsigned i = 0; i < sizeof fine / sizeof fine[0]; i++)
        ck_assert_msg(reading(fine[i]) == 0, "%s: %s", fine[i], err);
}
END_TEST

static bool has(const char *pair)
{
    for (uint32_t at = 0; at < c.env_len; at += (uint32_t)strlen(c.env + at) + 1)
        if (strcmp(c.env + at, pair) == 0)
            return true;
    return false;
}

static int base(const char *pass, const char *a, const char *b, const char *d)
{
    memset(&c, 0, sizeof c);
    s.env_pass = pass;
    return basenv_build(&s, &c, with(a, b, d), err, sizeof err);
}

START_TEST(environment)
{
    ck_assert_int_eq(base(NULL, "SECRET=x", "LC_ALL=C", "TZ=UTC"), 0);
    ck_assert(has("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    ck_assert(has("LC_ALL=C") && has("TZ=UTC") && !has("SECRET=x"));
    ck_assert_int_eq(base("A, B", "A=1", "B=2", "AB=3"), 0);
    ck_assert(has("A=1") && has("B=2") && !has("AB=3"));
    ck_assert_int_eq(base("*", "A=1", "SALLYPORT_USER=x", "NOTIFY_SOCKET=/x"), 0);
    ck_assert(has("A=1") && !has("SALLYPORT_USER=x") && !has("NOTIFY_SOCKET=/x"));
    ck_assert_int_eq(base("*", "HOME=/root", "PATH=/x", "no-equals"), 0);
    ck_assert(!has("HOME=/root") && has("PATH=/x") && !has("no-equals"));
    ck_assert_int_eq(base("HOME", "HOME=/root", NULL, NULL), 0);
    ck_assert(has("HOME=/root"));
    ck_assert_int_eq(base("A=1", NULL, NULL, NULL), -1);
    ck_assert_int_eq(base("A*", NULL, NULL, NULL), -1);
}
END_TEST

START_TEST(workspace)
{
    char dir[] = "/tmp/sp-settings-XXXXXX", file[64], link[64], real[4096];
    int fd = -1;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(file, sizeof file, "%s/f", dir);
    (void)snprintf(link, sizeof link, "%s/l", dir);
    ck_assert_int_eq(mkdir(file, 0755), 0);
    ck_assert_int_eq(symlink(file, link), 0);
    ck_assert_int_eq(reading(NULL), 0);
    s.workspace = link;
    ck_assert_msg(config_make(&s, &c, &fd, err, sizeof err) == 0, "%s", err);
    ck_assert_ptr_nonnull(realpath(file, real));
    ck_assert_str_eq(c.workspace, real);
    close(fd);
    s.shell = "bash";
    ck_assert_int_eq(config_make(&s, &c, &fd, err, sizeof err), -1);
    s.shell = dir; /* a folder is not a shell */
    ck_assert_int_eq(config_make(&s, &c, &fd, err, sizeof err), -1);
    static const char *const bad[] = {"/", "relative", "/nonexistent/x", "/dev/null"};
    s.shell = NULL;
    for (unsigned i = 0; i < 4; i++) {
        s.workspace = bad[i];
        ck_assert_msg(config_make(&s, &c, &fd, err, sizeof err) == -1, "%s", bad[i]);
    }
    ck_assert_int_eq(unlink(link) | rmdir(file) | rmdir(dir), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("settings");
    TCase *t = tcase_create("settings");
    tcase_add_test(t, defaults);
    tcase_add_test(t, values);
    tcase_add_test(t, refused);
    tcase_add_test(t, foreign);
    tcase_add_test(t, environment);
    tcase_add_test(t, workspace);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
