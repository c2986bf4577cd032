/* store.c: the registry's SQLite database. WAL with full synchronisation, so that an id that
 * somebody's files belong to is never given to somebody else. Every change is one statement or one
 * immediate transaction: killed at any instant, the file holds all of it or nothing. Trusts its
 * caller's keys to have their length.
 *
 * A new identity doesn't wait for the disk: some ids are held, as rows of nobody's that are on
 * their way out. Whose one is given to is written to the file at once, to the disk right after the
 * answer. A loss of power between the two leaves the row as it was, and that is one of an id that
 * somebody may have used: like each that is found so at the start it is removed, with all that the
 * id has, before it is free. */
#include "store.h"

#include "sallyport/log.h"
#include "sallyport/unnamed.h"

#include <string.h>

#define USE_GRAIN 60 /* seconds: a busy workspace isn't written down each time */
#define REST 60      /* seconds that an id stays in quarantine at least */

enum { LIVE = 0, GOING = 1, QUARANTINED = 2 };

static sqlite3_stmt *begin(struct store *s, enum store_sql which, const uint8_t *key)
{
    sqlite3_stmt *q = s->sql[which];
    sqlite3_reset(q);
    sqlite3_clear_bindings(q);
    if (key != NULL)
        sqlite3_bind_blob(q, 1, key, SP_KEY_LEN, SQLITE_STATIC);
    return q;
}

static enum sp_err failed(struct store *s, sqlite3_stmt *q)
{
    int code = sqlite3_extended_errcode(s->db);
    /* We are the only one: a lock of our own that was never let go. */
    if ((code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_PROTOCOL)
        s->stuck = true;
    sp_log(SP_LOG_ERROR, "the registry's database: %s (%d)", sqlite3_errmsg(s->db), code);
    if (q != NULL)
        sqlite3_reset(q);
    return (code & 0xff) == SQLITE_FULL ? SP_E_NO_SPACE : SP_E_INTERNAL;
}

/* A statement without rows. */
static enum sp_err run(struct store *s, sqlite3_stmt *q)
{
    int r = sqlite3_step(q);
    if (r != SQLITE_DONE)
        return failed(s, q);
    sqlite3_reset(q);
    return SP_OK;
}

struct row {
    bool there;
    uint32_t uid;
    int state;
    int64_t used;
};

static enum sp_err find(struct store *s, const uint8_t *key, struct row *out)
{
    sqlite3_stmt *q = begin(s, SQL_FIND, key);
    int r = sqlite3_step(q);
    *out = (struct row){.there = r == SQLITE_ROW};
    if (r != SQLITE_ROW && r != SQLITE_DONE)
        return failed(s, q);
    if (out->there) {
        out->uid = (uint32_t)sqlite3_column_int64(q, 0); /* store_open looked at the range */
        out->state = sqlite3_column_int(q, 1);
        out->used = sqlite3_column_int64(q, 2);
    }
    sqlite3_reset(q);
    return SP_OK;
}

/* Ids that were never given come first; then the one that was left alone longest. */
static enum sp_err choose(struct store *s, int64_t now, uint32_t *uid, enum store_sql *how)
{
    sqlite3_stmt *q = begin(s, SQL_HIGHEST, NULL);
    if (sqlite3_step(q) != SQLITE_ROW)
        return failed(s, q);
    int64_t highest = sqlite3_column_type(q, 0) == SQLITE_NULL ? -1 : sqlite3_column_int64(q, 0);
    sqlite3_reset(q);
    *how = SQL_INSERT;
    *uid = highest < (int64_t)s->min ? s->min : (uint32_t)highest + 1u;
    if (highest < (int64_t)s->max)
        return SP_OK;
    q = begin(s, SQL_OLDEST_FREE, NULL);
    sqlite3_bind_int64(q, 1, now - REST);
    sqlite3_bind_int64(q, 2, s->min);
    sqlite3_bind_int64(q, 3, s->max);
    int r = sqlite3_step(q);
    *how = SQL_REUSE;
    if (r == SQLITE_ROW)
        *uid = (uint32_t)sqlite3_column_int64(q, 0);
    else if (r != SQLITE_DONE)
        return failed(s, q);
    sqlite3_reset(q);
    return r == SQLITE_ROW ? SP_OK : SP_E_OVERLOADED;
}

/* A transaction that began without an error ends: all of it, or nothing. */
static enum sp_err end(struct store *s, enum sp_err e)
{
    if (e == SP_OK && sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
        e = failed(s, NULL);
    if (e != SP_OK)
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
    if (sqlite3_get_autocommit(s->db) == 0)
        s->stuck = true; /* or we would answer with what isn't written */
    return e;
}

static enum sp_err row_for(struct store *s, enum store_sql how, const uint8_t *key, int64_t now,
                           uint32_t uid)
{
    sqlite3_stmt *q = begin(s, how, key);
    sqlite3_bind_int64(q, 2, now);
    sqlite3_bind_int64(q, 3, uid);
    return run(s, q);
}

static enum sp_err give(struct store *s, const uint8_t *key, int64_t now, uint32_t *uid)
{
    enum store_sql how = SQL_INSERT;
    if (sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return failed(s, NULL);
    enum sp_err e = choose(s, now, uid, &how);
    if (e == SP_OK)
        e = row_for(s, how, key, now, *uid);
    e = end(s, e);
    s->unsynced = s->unsynced && e != SP_OK; /* a commit takes all before it to the disk */
    return e;
}

/* ---- ids that are held ---- */

/* Of the next commits. Tried again: a moment's lack of memory mustn't end us. */
static bool wait_for_disk(struct store *s, bool on)
{
    const char *text = on ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL";
    for (int i = 0; i < 3; i++)
        if (sqlite3_exec(s->db, text, NULL, NULL, NULL) == SQLITE_OK)
            return true;
    return false;
}

static enum sp_err assign(struct store *s, const uint8_t *key, int64_t now, uint32_t *uid)
{
    uint8_t unnamed[SP_KEY_LEN];
    *uid = s->held[0].uid;
    sp_unnamed_key(unnamed, *uid);
    enum sp_err e = SP_OK;
    if (!wait_for_disk(s, false))
        e = failed(s, NULL);
    if (e == SP_OK) {
        sqlite3_stmt *q = begin(s, SQL_ASSIGN, key);
        sqlite3_bind_int64(q, 2, now);
        sqlite3_bind_int64(q, 3, *uid);
        sqlite3_bind_blob(q, 4, unnamed, SP_KEY_LEN, SQLITE_STATIC);
        e = run(s, q);
    }
    if (!wait_for_disk(s, true))
        s->stuck = true; /* or others' changes wouldn't wait either */
    if (e != SP_OK)
        return e;
    bool ours = sqlite3_changes(s->db) == 1; /* else somebody else writes to our file */
    memmove(s->held, s->held + 1, --s->nheld * sizeof s->held[0]);
    s->unsynced = true;
    return ours ? SP_OK : SP_E_INTERNAL;
}

static enum sp_err hold(struct store *s, int64_t now, struct held *h)
{
    uint8_t unnamed[SP_KEY_LEN];
    enum store_sql how = SQL_INSERT;
    enum sp_err e = choose(s, now, &h->uid, &how);
    h->fresh = how == SQL_INSERT;
    sp_unnamed_key(unnamed, h->uid);
    return e != SP_OK ? e
                      : row_for(s, h->fresh ? SQL_HOLD_NEW : SQL_HOLD_OLD, unnamed, now, h->uid);
}

bool store_unsettled(const struct store *s)
{
    return s->unsynced || s->nheld < s->want;
}

/* Of what is in the file, without another change. */
static enum sp_err sync(struct store *s)
{
    int r = sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return r == SQLITE_OK ? SP_OK : failed(s, NULL);
}

enum sp_err store_settle(struct store *s, int64_t now)
{
    unsigned n = s->nheld;
    if (sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return failed(s, NULL);
    enum sp_err e = SP_OK;
    while (n < s->want && e == SP_OK)
        if ((e = hold(s, now, &s->held[n])) == SP_OK)
            n++;
    if (e == SP_E_OVERLOADED) /* no more are left in the pool: those before count */
        e = SP_OK;
    e = end(s, e);
    if (e == SP_OK && n == s->nheld && s->unsynced)
        e = sync(s);
    if (e != SP_OK)
        return e;
    s->nheld = n;
    s->unsynced = false;
    return SP_OK;
}

void store_release(struct store *s, int64_t now)
{
    uint8_t unnamed[SP_KEY_LEN];
    enum sp_err e = SP_OK;
    if (s->nheld == 0 || sqlite3_exec(s->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
        return; /* then the next registry has them removed */
    for (unsigned i = 0; i < s->nheld && e == SP_OK; i++) {
        sp_unnamed_key(unnamed, s->held[i].uid);
        sqlite3_stmt *q = begin(s, s->held[i].fresh ? SQL_FORGET : SQL_FREE, unnamed);
        if (!s->held[i].fresh)
            sqlite3_bind_int64(q, 2, now);
        e = run(s, q);
    }
    (void)end(s, e);
    s->nheld = 0;
}

/* ---- what the broker asks ---- */

enum sp_err store_name(struct store *s, const uint8_t key[SP_KEY_LEN], int64_t now, uint32_t *uid)
{
    struct row row;
    enum sp_err e = find(s, key, &row);
    if (e != SP_OK)
        return e;
    if (!row.there)
        return s->nheld > 0 ? assign(s, key, now, uid) : give(s, key, now, uid);
    *uid = row.uid;
    if (row.state != LIVE)
        return SP_E_BUSY;
    return row.used + USE_GRAIN <= now ? store_touch(s, key, now) : SP_OK;
}

enum sp_err store_touch(struct store *s, const uint8_t key[SP_KEY_LEN], int64_t now)
{
    sqlite3_stmt *q = begin(s, SQL_USE, key);
    sqlite3_bind_int64(q, 2, now);
    return run(s, q);
}

enum sp_err store_retire(struct store *s, const uint8_t key[SP_KEY_LEN], uint32_t *uid)
{
    struct row row;
    enum sp_err e = find(s, key, &row);
    if (e == SP_OK && !row.there)
        e = SP_E_NOT_FOUND;
    *uid = row.uid;
    return e == SP_OK && row.state == LIVE ? run(s, begin(s, SQL_RETIRE, key)) : e;
}

enum sp_err store_freed(struct store *s, const uint8_t key[SP_KEY_LEN], int64_t now)
{
    sqlite3_stmt *q = begin(s, SQL_FREE, key);
    sqlite3_bind_int64(q, 2, now);
    return run(s, q);
}

static bool is_held(const struct store *s, uint32_t uid)
{
    for (unsigned i = 0; i < s->nheld; i++)
        if (s->held[i].uid == uid)
            return true;
    return false;
}

enum sp_err store_due(struct store *s, int64_t before, uint8_t key[SP_KEY_LEN], uint32_t *uid)
{
    sqlite3_stmt *q = begin(s, SQL_DUE, NULL);
    sqlite3_bind_int64(q, 1, before);
    int r;
    do
        r = sqlite3_step(q);
    while (r == SQLITE_ROW && is_held(s, (uint32_t)sqlite3_column_int64(q, 1)));
    if (r == SQLITE_DONE) {
        sqlite3_reset(q);
        return SP_E_NOT_FOUND;
    }
    const void *blob = r == SQLITE_ROW ? sqlite3_column_blob(q, 0) : NULL;
    if (blob == NULL || sqlite3_column_bytes(q, 0) != (int)SP_KEY_LEN)
        return failed(s, q);
    memcpy(key, blob, SP_KEY_LEN);
    *uid = (uint32_t)sqlite3_column_int64(q, 1);
    sqlite3_reset(q);
    return SP_OK;
}
