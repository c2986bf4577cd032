/* store_open.c: opens the registry's SQLite database: its tables, the questions it will be asked,
 * and whether the file is one to go on with. It trusts the file's place, which is this process's
 * alone; what is in the file it checks, as a disk may have changed it, or another version written
 * it. */
#include "store.h"

#include <stdio.h>
#include <string.h>

#define SCHEMA_VERSION 1
#define BUSY_MS 5000
#define HOLD_SHARE 64u /* of the pool: a small one has no id to spare */

static const char schema[] = "BEGIN IMMEDIATE;"
                             "CREATE TABLE workspace("
                             " uid INTEGER PRIMARY KEY,"
                             " key BLOB UNIQUE CHECK (key IS NULL OR length(key) = 32),"
                             " state INTEGER NOT NULL CHECK (state IN (0, 1, 2)),"
                             " made INTEGER NOT NULL, used INTEGER NOT NULL,"
                             " CHECK ((state = 2) = (key IS NULL))) STRICT;"
                             "CREATE INDEX workspace_used ON workspace(state, used);"
                             "PRAGMA user_version = 1;"
                             "COMMIT;";

static const char *const texts[SQL_COUNT] = {
    [SQL_FIND] = "SELECT uid, state, used FROM workspace WHERE key = ?1",
    [SQL_USE] = "UPDATE workspace SET used = ?2 WHERE key = ?1 AND used < ?2",
    [SQL_HIGHEST] = "SELECT max(uid) FROM workspace",
    [SQL_OLDEST_FREE] =
        "SELECT uid FROM workspace WHERE state = 2 AND used <= ?1 AND uid BETWEEN ?2 AND ?3"
        " ORDER BY used, uid LIMIT 1",
    [SQL_INSERT] = "INSERT INTO workspace(uid, key, state, made, used) VALUES (?3, ?1, 0, ?2, ?2)",
    [SQL_REUSE] = "UPDATE workspace SET key = ?1, state = 0, made = ?2, used = ?2"
                  " WHERE uid = ?3 AND state = 2",
    [SQL_RETIRE] = "UPDATE workspace SET state = 1 WHERE key = ?1 AND state = 0",
    [SQL_FREE] = "UPDATE workspace SET state = 2, key = NULL, used = ?2 WHERE key = ?1",
    [SQL_DUE] = "SELECT key, uid FROM workspace WHERE state = 1 OR (state = 0 AND used < ?1)"
                " ORDER BY used, uid LIMIT 9", /* STORE_HELD_MAX and one */
    [SQL_HOLD_NEW] =
        "INSERT INTO workspace(uid, key, state, made, used) VALUES (?3, ?1, 1, ?2, ?2)",
    [SQL_HOLD_OLD] = "UPDATE workspace SET key = ?1, state = 1, made = ?2, used = ?2"
                     " WHERE uid = ?3 AND state = 2",
    [SQL_ASSIGN] = "UPDATE workspace SET key = ?1, state = 0, made = ?2, used = ?2"
                   " WHERE uid = ?3 AND state = 1 AND key = ?4",
    [SQL_FORGET] = "DELETE FROM workspace WHERE key = ?1 AND state = 1",
};
_Static_assert(STORE_HELD_MAX == 8, "SQL_DUE looks past all that is held");

/* Of no use, now at least; or for good, where SQLite says that of the file. */
static int refuse(struct store *s, const char *what, char *why, size_t whylen)
{
    int code = s->db != NULL ? sqlite3_errcode(s->db) & 0xff : SQLITE_NOMEM;
    (void)snprintf(why, whylen, "%s: %s", what,
                   s->db != NULL ? sqlite3_errmsg(s->db) : "no memory");
    store_close(s);
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? STORE_UNFIT : -1;
}

/* Of no use for good. */
static int unfit(struct store *s, const char *why_not, char *why, size_t whylen)
{
    (void)snprintf(why, whylen, "%s", why_not);
    store_close(s);
    return STORE_UNFIT;
}

/* The first column of the first row of a query, as a number; false: failed. */
static bool ask(sqlite3 *db, const char *text, int64_t *n)
{
    sqlite3_stmt *q = NULL;
    bool ok =
        sqlite3_prepare_v2(db, text, -1, &q, NULL) == SQLITE_OK && sqlite3_step(q) == SQLITE_ROW;
    if (ok)
        *n = sqlite3_column_int64(q, 0);
    return sqlite3_finalize(q) == SQLITE_OK && ok;
}

/* 0, 1: damaged, or -1: can't be told. */
static int damaged(sqlite3 *db)
{
    sqlite3_stmt *q = NULL;
    int r = -1;
    if (sqlite3_prepare_v2(db, "PRAGMA integrity_check(1)", -1, &q, NULL) == SQLITE_OK &&
        sqlite3_step(q) == SQLITE_ROW) {
        const char *said = (const char *)sqlite3_column_text(q, 0);
        r = said == NULL ? -1 : strcmp(said, "ok") != 0;
    }
    return sqlite3_finalize(q) == SQLITE_OK ? r : -1;
}

/* 0, 1: there are workspaces outside the range, or -1. */
static int prepare(struct store *s)
{
    char outside[200];
    int64_t n;
    for (int i = 0; i < SQL_COUNT; i++)
        if (sqlite3_prepare_v3(s->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT, &s->sql[i], NULL) !=
            SQLITE_OK)
            return -1;
    (void)snprintf(outside, sizeof outside,
                   "SELECT count(*) FROM workspace WHERE state != 2 AND uid NOT BETWEEN %u AND %u",
                   s->min, s->max);
    return ask(s->db, outside, &n) ? n != 0 : -1;
}

static int schema_fits(struct store *s, char *why, size_t whylen)
{
    int64_t version = -1, tables = 1;
    char other[80];
    if (!ask(s->db, "PRAGMA user_version", &version) ||
        (version == 0 && !ask(s->db, "SELECT count(*) FROM sqlite_schema", &tables)))
        return refuse(s, "the registry can't be read", why, whylen);
    if (tables == 0) {
        if (sqlite3_exec(s->db, schema, NULL, NULL, NULL) != SQLITE_OK)
            return refuse(s, "the registry's tables can't be made", why, whylen);
        version = SCHEMA_VERSION;
    }
    if (version == SCHEMA_VERSION)
        return 0;
    (void)snprintf(other, sizeof other, "the registry has version %lld, this program knows %d",
                   (long long)version, SCHEMA_VERSION);
    return unfit(s, other, why, whylen);
}

int store_open(struct store *s, const char *file, uint32_t min, uint32_t max, char *why,
               size_t whylen)
{
    *s = (struct store){.min = min, .max = max};
    s->want = (max - min) / HOLD_SHARE < STORE_HELD_MAX ? (max - min) / HOLD_SHARE : STORE_HELD_MAX;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOFOLLOW |
                SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE;
    if (sqlite3_open_v2(file, &s->db, flags, NULL) != SQLITE_OK)
        return refuse(s, "the registry can't be opened", why, whylen);
    (void)sqlite3_busy_timeout(s->db, BUSY_MS);
    if (sqlite3_exec(s->db,
                     "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                     "PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;",
                     NULL, NULL, NULL) != SQLITE_OK)
        return refuse(s, "the registry can't be used", why, whylen);
    int r = schema_fits(s, why, whylen);
    if (r != 0)
        return r;
    r = damaged(s->db);
    if (r < 0)
        return refuse(s, "the registry can't be checked", why, whylen);
    if (r > 0)
        return unfit(s, "the registry's file is damaged", why, whylen);
    r = prepare(s);
    if (r < 0)
        return refuse(s, "the registry doesn't understand its own questions", why, whylen);
    return r == 0 ? 0
                  : unfit(s,
                          "there are workspaces of user ids outside RUNBOX_UID_MIN to "
                          "RUNBOX_UID_MAX",
                          why, whylen);
}

int store_reaches(struct store *s, uint32_t owner, char *why, size_t whylen)
{
    int64_t highest = 0;
    char text[200];
    if (!ask(s->db, texts[SQL_HIGHEST], &highest)) /* none: NULL, which is 0 */
        return refuse(s, "the registry can't be read", why, whylen);
    if (highest >= owner)
        return 0;
    (void)snprintf(
        text, sizeof text,
        "user id %u has a workspace, but the registry's table ends at %lld: it was lost, "
        "or is older than the workspaces (docs/production.md, Backups)",
        owner, (long long)highest);
    return unfit(s, text, why, whylen);
}

void store_close(struct store *s)
{
    for (int i = 0; i < SQL_COUNT; i++) {
        sqlite3_finalize(s->sql[i]);
        s->sql[i] = NULL;
    }
    sqlite3_close(s->db);
    s->db = NULL;
}
