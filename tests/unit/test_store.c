/* test_store.c: the registry's table: nobody's id is given twice, and what was answered survives.
 */
#include "registry/store.h"

#include "unit.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIN 5000u
#define MAX 5009u

static struct store s;
static char folder[64], why[300];

static const uint8_t *key(unsigned n)
{
    static uint8_t k[SP_KEY_LEN];
    memset(k, 0, sizeof k);
    memcpy(k, &n, sizeof n);
    return k;
}

static void reopen(void)
{
    if (s.db != NULL)
        store_close(&s);
    ck_assert_msg(store_open(&s, "registry.db", MIN, MAX, why, sizeof why) == 0, "%s", why);
}

static void setup(void)
{
    (void)snprintf(folder, sizeof folder, "/tmp/sp-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    reopen();
}

static void teardown(void)
{
    static const char *const names[] = {"registry.db", "registry.db-wal", "registry.db-shm"};
    store_close(&s);
    for (int i = 0; i < 3; i++)
        (void)unlink(names[i]);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

static uint32_t named(unsigned n, int64_t now)
{
    uint32_t uid = 0;
    ck_assert_int_eq(store_name(&s, key(n), now, &uid), SP_OK);
    return uid;
}

START_TEST(names)
{
    for (unsigned n = 0; n < 5; n++)
        ck_assert_uint_eq(named(n, 100), MIN + n);
    reopen();
    for (unsigned n = 0; n < 5; n++)
        ck_assert_uint_eq(named(n, 200), MIN + n);
}
END_TEST

START_TEST(removal)
{
    uint32_t uid = 0;
    uint8_t due[SP_KEY_LEN];
    ck_assert_int_eq(store_retire(&s, key(1), &uid), SP_E_NOT_FOUND);
    ck_assert_uint_eq(named(1, 100), MIN);
    ck_assert_int_eq(store_due(&s, 100, due, &uid), SP_E_NOT_FOUND);
    ck_assert_int_eq(store_due(&s, 101, due, &uid), SP_OK);
    ck_assert_mem_eq(due, key(1), SP_KEY_LEN);
    ck_assert_int_eq(store_touch(&s, key(1), 500), SP_OK);
    ck_assert_int_eq(store_due(&s, 101, due, &uid), SP_E_NOT_FOUND);
    ck_assert_int_eq(store_retire(&s, key(1), &uid), SP_OK);
    ck_assert_int_eq(store_retire(&s, key(1), &uid), SP_OK); /* again, after a crash */
    ck_assert_uint_eq(uid, MIN);
    ck_assert_int_eq(store_name(&s, key(1), 600, &uid), SP_E_BUSY);
    reopen();
    ck_assert_int_eq(store_due(&s, 0, due, &uid), SP_OK); /* gone on with, however young */
    ck_assert_int_eq(store_freed(&s, key(1), 700), SP_OK);
    ck_assert_int_eq(store_freed(&s, key(1), 700), SP_OK);
    ck_assert_int_eq(store_due(&s, INT64_MAX, due, &uid), SP_E_NOT_FOUND);
    ck_assert_uint_eq(named(1, 800), MIN + 1); /* the old id rests */
}
END_TEST

START_TEST(quarantine)
{
    uint32_t uid = 0;
    for (unsigned n = 0; n < 10; n++)
        (void)named(n, 100);
    ck_assert_int_eq(store_name(&s, key(99), 200, &uid), SP_E_OVERLOADED);
    for (unsigned n = 3; n < 5; n++) {
        ck_assert_int_eq(store_retire(&s, key(n), &uid), SP_OK);
        ck_assert_int_eq(store_freed(&s, key(n), 1000 - n), SP_OK);
    }
    ck_assert_int_eq(store_name(&s, key(99), 1010, &uid), SP_E_OVERLOADED); /* too soon */
    ck_assert_uint_eq(named(99, 2000), MIN + 4);                            /* the longest free */
    ck_assert_uint_eq(named(98, 2000), MIN + 3);
    ck_assert_int_eq(store_name(&s, key(97), 9000, &uid), SP_E_OVERLOADED);
    ck_assert_uint_eq(named(99, 9000), MIN + 4);
}
END_TEST

START_TEST(refusals)
{
    struct store t;
    (void)named(1, 100);
    store_close(&s);
    ck_assert_int_eq(store_open(&t, "registry.db", MIN + 1, MAX, why, sizeof why), STORE_UNFIT);
    ck_assert_ptr_nonnull(strstr(why, "outside"));
    reopen();
    ck_assert_int_eq(sqlite3_exec(s.db, "PRAGMA user_version = 7", NULL, NULL, NULL), SQLITE_OK);
    store_close(&s);
    ck_assert_int_eq(store_open(&t, "registry.db", MIN, MAX, why, sizeof why), STORE_UNFIT);
    ck_assert_ptr_nonnull(strstr(why, "version 7"));
    FILE *f = fopen("registry.db", "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert(fputs("not a database, but long enough to be looked at as one; really it isn't", f) >
              0);
    fclose(f);
    ck_assert_int_eq(store_open(&t, "registry.db", MIN, MAX, why, sizeof why), -1);
    f = fopen("registry.db", "wb"); /* for teardown */
    fclose(f);
    reopen();
}
END_TEST

/* A process that gives ids is killed at some instant: every id that it answered is still there, and
 * there is no second owner. */
START_TEST(killed)
{
    int p[2];
    store_close(&s);
    ck_assert_int_eq(pipe(p), 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (unsigned n = 0;; n++) {
            if (s.db == NULL && store_open(&s, "registry.db", 1, 4000000, why, sizeof why) != 0)
                _exit(1);
            uint32_t uid;
            if (store_name(&s, key(n), 100, &uid) != SP_OK || write(p[1], &uid, sizeof uid) < 0)
                _exit(1);
        }
    }
    close(p[1]);
    uint32_t uid, count = 0;
    for (; count < 20u * (unsigned)(_i + 1); count++)
        ck_assert_int_eq(read(p[0], &uid, sizeof uid), sizeof uid);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    while (read(p[0], &uid, sizeof uid) == sizeof uid)
        count++;
    close(p[0]);
    ck_assert_int_eq(store_open(&s, "registry.db", 1, 4000000, why, sizeof why), 0);
    for (unsigned n = 0; n < count; n++)
        ck_assert_uint_eq(named(n, 100), 1 + n);
    ck_assert_uint_ge(named(count, 100), 1 + count);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *t = tcase_create("store");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, names);
    tcase_add_test(t, removal);
    tcase_add_test(t, quarantine);
    tcase_add_test(t, refusals);
    tcase_add_loop_test(t, killed, 0, 3);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failures = srunner_ntests_failed(r);
    srunner_free(r);
    return failures != 0;
}
