/* store.h: the table of user ids: which identity's workspace has which, which are in quarantine.
 * One row for every id that was ever given, so that none is given twice. */
#ifndef SALLYPORT_REGISTRY_STORE_H
#define SALLYPORT_REGISTRY_STORE_H

#include "sallyport/err.h"
#include "sallyport/proto.h"

#include <sqlite3.h>
#include <stdint.h>

enum store_sql {
    SQL_FIND,
    SQL_USE,
    SQL_HIGHEST,
    SQL_OLDEST_FREE,
    SQL_INSERT,
    SQL_REUSE,
    SQL_RETIRE,
    SQL_FREE,
    SQL_DUE,
    SQL_HOLD_NEW,
    SQL_HOLD_OLD,
    SQL_ASSIGN,
    SQL_FORGET,
    SQL_COUNT
};

#define STORE_HELD_MAX 8u
/* An id that the disk knows to be taken, and that is nobody's yet. */
struct held {
    uint32_t uid;
    bool fresh; /* it never was anybody's */
};

struct store {
    sqlite3 *db;
    sqlite3_stmt *sql[SQL_COUNT];
    uint32_t min, max;
    struct held held[STORE_HELD_MAX]; /* the next to be given first */
    unsigned nheld, want;
    bool unsynced; /* one of them was given, which the disk doesn't know yet */
    bool stuck;    /* a lock or a transaction of ours stays: only a new process gets further */
};

/* Opens or makes the database file, which must be whole. 0, or with a sentence in why -1, or
 * STORE_UNFIT: damaged, of another version or of other user ids, which another try won't change. */
#define STORE_UNFIT (-2)
int store_open(struct store *s, const char *file, uint32_t min, uint32_t max, char *why,
               size_t whylen);
void store_close(struct store *s);
/* Whether the table has ids up to that of a workspace's owner (0: there is none): one that was
 * lost, or is older than the workspaces, would give their ids to others, and clear away those that
 * it holds for nobody. As store_open. */
int store_reaches(struct store *s, uint32_t owner, char *why, size_t whylen);

/* Each: now in seconds since 1970. SP_OK or what to FAIL with. */
/* The id of key; a new one where there is none yet. SP_E_BUSY: its workspace is being removed.
 * SP_E_OVERLOADED: every id is taken. A new one that was held is in the file, but not yet sure to
 * be on the disk: store_settle, soon. */
enum sp_err store_name(struct store *s, const uint8_t key[SP_KEY_LEN], int64_t now, uint32_t *uid);
enum sp_err store_touch(struct store *s, const uint8_t key[SP_KEY_LEN], int64_t now);
/* Marks a workspace as going; done before is fine. */
enum sp_err store_retire(struct store *s, const uint8_t key[SP_KEY_LEN], uint32_t *uid);
/* It is gone; unknown keys are fine, since a crash may have kept the answer. */
enum sp_err store_freed(struct store *s, const uint8_t key[SP_KEY_LEN], int64_t now);
/* One that is going, or was used last before. SP_E_NOT_FOUND: none. */
enum sp_err store_due(struct store *s, int64_t before, uint8_t key[SP_KEY_LEN], uint32_t *uid);
/* Whether store_settle has something to do; and does it: what was given is on the disk, and new ids
 * are held. Waits for the disk. */
bool store_unsettled(const struct store *s);
enum sp_err store_settle(struct store *s, int64_t now);
/* Before the end: what is held is free again. */
void store_release(struct store *s, int64_t now);

#endif
