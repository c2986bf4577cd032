/* test_store.c: the registry's table: nobody's id is given twice, and what was answered survives.
 */
#include "registry/store.h"
#include "sallyport/unnamed.h"

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
    ck_assert_int_eq(store_reaches(&s, 0, why, sizeof why), 0);
    ck_assert_int_eq(store_reaches(&s, MIN, why, sizeof why), 0);
    ck_assert_int_eq(store_reaches(&s, MIN + 1, why, sizeof why), STORE_UNFIT);
    ck_assert_ptr_nonnull(strstr(why, "user id 5001 has a workspace"));
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
    ck_assert_int_eq(store_open(&t, "registry.db", MIN, MAX, why, sizeof why), STORE_UNFIT);
    f = fopen("registry.db", "wb"); /* for teardown */
    fclose(f);
    reopen();
}
END_TEST

#define WIDE (MIN + 64u * 8u)

static void reopen_wide(void)
{
    if (s.db != NULL)
        store_close(&s);
    ck_assert_msg(store_open(&s, "registry.db", MIN, WIDE, why, sizeof why) == 0, "%s", why);
}

static void copy(const char *from, const char *to)
{
    char command[100];
    (void)snprintf(command, sizeof command, "cp %s %s", from, to);
    ck_assert_int_eq(system(command), 0);
}

/* What the disk has, whether it is told of the last changes or not. */
static void keep_disk(void)
{
    copy("registry.db", "disk.db");
    copy("registry.db-wal", "disk.db-wal");
}

/* As after a loss of power. */
static void back_to_disk(void)
{
    store_close(&s);
    (void)unlink("registry.db-shm");
    ck_assert_int_eq(rename("disk.db", "registry.db"), 0);
    ck_assert_int_eq(rename("disk.db-wal", "registry.db-wal"), 0);
    reopen_wide();
}

START_TEST(held)
{
    uint32_t uid = 0;
    uint8_t due[SP_KEY_LEN];
    ck_assert(!store_unsettled(&s)); /* ten ids: none to spare */
    ck_assert_uint_eq(named(0, 100), MIN);
    reopen_wide();
    ck_assert(store_unsettled(&s));
    ck_assert_int_eq(store_settle(&s, 100), SP_OK);
    ck_assert_uint_eq(s.nheld, STORE_HELD_MAX);
    ck_assert(!store_unsettled(&s));
    ck_assert_int_eq(store_due(&s, 0, due, &uid), SP_E_NOT_FOUND); /* they aren't anybody's */
    for (unsigned n = 1; n < 20; n++) { /* more than are held, too, in their order */
        ck_assert_uint_eq(named(n, 100), MIN + n);
        ck_assert(n >= 8 || s.unsynced);
        ck_assert_uint_eq(named(n, 100), MIN + n);
    }
    ck_assert_int_eq(store_settle(&s, 100), SP_OK);
    ck_assert(!s.unsynced);
    store_release(&s, 100); /* none is lost by an orderly end */
    reopen_wide();
    ck_assert_int_eq(store_due(&s, 0, due, &uid), SP_E_NOT_FOUND);
    ck_assert_uint_eq(named(20, 100), MIN + 20);
}
END_TEST

/* The row that told whose an id is was in the file, but not yet on the disk. */
START_TEST(lost_row)
{
    uint32_t uid = 0;
    uint8_t due[SP_KEY_LEN];
    reopen_wide();
    ck_assert_int_eq(store_settle(&s, 100), SP_OK);
    keep_disk();
    ck_assert_uint_eq(named(1, 100), MIN);
    ck_assert(s.unsynced);
    back_to_disk();
    ck_assert_uint_eq(named(1, 200), MIN + 8); /* nothing of the old one becomes its own */
    ck_assert_uint_eq(named(2, 200), MIN + 9); /* nor another's */
    ck_assert_int_eq(store_settle(&s, 200), SP_OK);
    ck_assert_uint_eq(s.held[0].uid, MIN + 10);
    for (unsigned n = 0; n < 8; n++) { /* each that may have been used is removed first */
        ck_assert_int_eq(store_due(&s, 0, due, &uid), SP_OK);
        ck_assert_uint_eq(uid, MIN + n);
        ck_assert(sp_is_unnamed(due, uid));
        uint8_t k[SP_KEY_LEN];
        memcpy(k, due, sizeof k);
        ck_assert_int_eq(store_retire(&s, k, &uid), SP_OK);
        ck_assert_int_eq(store_freed(&s, k, 300), SP_OK);
    }
    ck_assert_int_eq(store_due(&s, 0, due, &uid), SP_E_NOT_FOUND);
    ck_assert_uint_eq(named(1, 400), MIN + 8);
}
END_TEST

/* The pool has been through once: ids that rested are held as well, and what was given is synced
 * where there is no other to write down. */
START_TEST(held_again)
{
    uint32_t uid = 0;
    reopen_wide();
    for (unsigned n = 0; n <= WIDE - MIN; n++)
        ck_assert_uint_eq(named(n, 100), MIN + n);
    ck_assert_int_eq(store_settle(&s, 100), SP_OK);
    ck_assert_uint_eq(s.nheld, 0);
    for (unsigned n = 3; n < 6; n++) {
        ck_assert_int_eq(store_retire(&s, key(n), &uid), SP_OK);
        ck_assert_int_eq(store_freed(&s, key(n), 100), SP_OK);
    }
    ck_assert_int_eq(store_settle(&s, 120), SP_OK); /* they rest */
    ck_assert_uint_eq(s.nheld, 0);
    ck_assert_int_eq(store_settle(&s, 1000), SP_OK);
    ck_assert_uint_eq(s.nheld, 3);
    ck_assert_uint_eq(named(9000, 1000), MIN + 3);
    ck_assert(s.unsynced);
    ck_assert_int_eq(store_settle(&s, 1000), SP_OK);
    ck_assert(!s.unsynced);
    ck_assert_uint_eq(s.nheld, 2);
    store_release(&s, 1000);
    reopen_wide();
    ck_assert_int_eq(store_name(&s, key(9001), 1010, &uid), SP_E_OVERLOADED); /* they rest anew */
    ck_assert_uint_eq(named(9001, 2000), MIN + 4);
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
            if (n % 5 == 4 && store_settle(&s, 100) != SP_OK) /* and between: some are held */
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
    tcase_add_test(t, held);
    tcase_add_test(t, lost_row);
    tcase_add_test(t, held_again);
    tcase_add_loop_test(t, killed, 0, 3);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failures = srunner_ntests_failed(r);
    srunner_free(r);
    return failures != 0;
}
