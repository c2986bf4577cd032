/* files.h: the work of the file threads, one call a request. Nothing here knows of messages or of
 * the broker: a call gets a path that sp_path_check passed, and fills a result that the main thread
 * sends. Trusts neither path nor tree. */
#ifndef SALLYPORT_CELL_FILES_H
#define SALLYPORT_CELL_FILES_H

#include "sallyport/err.h"
#include "sallyport/proto.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct sp_quota;

struct sp_workspace {
    int root; /* descriptor of the workspace folder */
    bool use_openat2;
    uint64_t max_upload;    /* 0 none */
    struct sp_quota *quota; /* NULL: none is kept */
};

/* What goes to the broker. Made by a thread, owned by whoever holds it. */
struct sp_result {
    struct sp_result *next;
    uint32_t id;
    uint8_t op; /* SP_OP_FILE, READY, DONE or FAIL */
    uint8_t flags;
    enum sp_err err;
    int fd;     /* -1 none */
    char *data; /* size bytes, owned: with the flag SP_FILE_WHOLE. Else NULL */
    uint64_t size, entries;
    int64_t mtime_ns;
    char etag[SP_ETAG_MAX];
};

/* Each: SP_OK with *r filled (but for op and id), or the code to FAIL with. */
/* flags: SP_OPEN_*. */
enum sp_err sp_file_open(const struct sp_workspace *w, const char *path, size_t n, uint8_t flags,
                         struct sp_result *r);
struct sp_terms;
/* flags: SP_DELETE_*. t: conditions, or NULL. */
enum sp_err sp_file_delete(const struct sp_workspace *w, const char *path, size_t n, uint8_t flags,
                           const struct sp_terms *t);
enum sp_err sp_file_usage(const struct sp_workspace *w, const char *path, size_t n,
                          struct sp_result *r);

/* Size, time and tag of a regular file. */
void sp_file_stat(struct sp_result *r, const struct stat *st);
/* "<ino>-<size>-<ctime_ns>" in hex. */
void sp_file_etag(char out[SP_ETAG_MAX], const struct stat *st);

#define SP_LIST_MAX 100000u
/* Of its JSON, which is in memory; ordinary names need 15 MiB. */
#define SP_LIST_BYTES (64u << 20)
/* The JSON of docs/api.md for the folder dir, in a sealed memfd; what is short in r->data where
 * whole is set. 0 with r->flags and r->size, or -errno. max: entries at most. */
int sp_list(int dir, const char *path, size_t n, size_t max, bool whole, struct sp_result *r);
/* The same for all that is below dir: names are paths from it, folders come before what is in them,
 * in no other order. No link is followed and no mount entered. */
int sp_list_tree(int dir, const char *path, size_t n, size_t max, bool whole, struct sp_result *r);

#endif
