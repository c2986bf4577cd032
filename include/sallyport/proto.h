/* proto.h: every message between the processes, with its limits.
 * A decoded message borrows from the frame's bytes. Decoders check form and limits;
 * state is checked by the receiver. */
#ifndef SALLYPORT_PROTO_H
#define SALLYPORT_PROTO_H

#include "sallyport/err.h"
#include "sallyport/frame.h"
#include "sallyport/wire.h"

#include <stdbool.h>
#include <stdint.h>

#define SP_COMMAND_MAX 131000u
#define SP_PATH_BYTES_MAX 4000u
#define SP_ENV_COUNT_MAX 256u
#define SP_ENV_BYTES_MAX 65000u /* of the encoded pairs */
#define SP_ETAG_MAX 64u
#define SP_TAGS_MAX 512u    /* of a condition's, with a comma between them */
#define SP_KEY_LEN 32u      /* of an identity, in the box */
#define SP_WHOLE_MAX 16384u /* bytes of a file, or of a listing, that go in a message */

enum sp_op {
    /* front -> broker -> cell; id is the sender's, unique while the operation lives */
    SP_OP_EXEC = 1, /* answered by STARTED then EXITED, by EXITED with the pipes, or FAIL */
    SP_OP_CANCEL,   /* ends EXEC (then EXITED) or PUT (then FAIL); unknown id: ignored */
    SP_OP_OPEN,     /* GET, HEAD: answered by FILE or FAIL */
    SP_OP_PUT,      /* answered by READY or FAIL; FAIL may come after READY too. WHOLE: by DONE or
                       FAIL, without COMMIT */
    SP_OP_COMMIT,   /* after READY, once all bytes are in the pipe and it is closed: DONE or FAIL */
    SP_OP_DELETE,   /* DONE or FAIL */
    SP_OP_USAGE,    /* DONE (size = bytes, ino = entries) or FAIL */
    SP_OP_ARCHIVE,  /* a folder as tar: STREAM then DONE (size = bytes written, ino = entries) or
                       FAIL, or FAIL alone. Closing the pipe ends it: FAIL */
    SP_OP_REMOVE,   /* to the broker alone: a whole workspace goes. DONE or FAIL */
    /* cell -> broker -> front */
    SP_OP_STARTED = 32, /* fds: stdout, stderr [, stdin] */
    SP_OP_EXITED,       /* fds: none; without STARTED stdout, stderr. Not so with STDIN, LIVE */
    SP_OP_FILE,   /* fd: a regular file opened for reading, or a sealed memfd with JSON. WHOLE:
                     none, it is in data */
    SP_OP_READY,  /* fd: write end of a pipe */
    SP_OP_STAGED, /* to PUT with that flag: the pipe is closed, size bytes are there, and the target
                     is still fit. Once, between READY and the end */
    SP_OP_DONE,
    SP_OP_FAIL,
    SP_OP_STREAM, /* fd: read end of a pipe; only what DONE follows is whole */
    /* main -> front, broker */
    SP_OP_DRAIN = 64, /* front: stop accepting, finish, exit 0. */
    SP_OP_KILL_ALL,   /* broker: kill running commands; refuse new ones */
    SP_OP_BEGIN,      /* front: to accept, as the others are up; how often it (size) and the broker
                         (ino) were started anew */
    SP_OP_TLS,        /* front: fd = a new sp_tls_bundle */
    SP_OP_FRONT,      /* broker: fd = socket of a new front; drop the old one's work */
    /* role -> main */
    SP_OP_UP, /* confined and ready */
    /* broker -> main */
    SP_OP_BREACH, /* the front broke the protocol and was let go: end it */
    /* main -> broker, in the box */
    SP_OP_REGISTRY, /* fd = socket of a new registry */
    /* broker -> registry, in the box */
    SP_OP_NAME,   /* key: which user id has it, or gets it now. NAMED or FAIL */
    SP_OP_TOUCH,  /* key: it is in use at this moment. No answer */
    SP_OP_RETIRE, /* key: its workspace goes. NAMED (the id stays taken) or FAIL */
    SP_OP_FREED,  /* key: its workspace is gone, its id goes into quarantine. DONE or FAIL */
    SP_OP_DUE,    /* size = seconds since 1970: one that is retired, or was last used before. NAMED
                     or FAIL (NOT_FOUND: none) */
    /* registry -> broker */
    SP_OP_NAMED, /* key and uid */
    /* broker -> an idle cell, once */
    SP_OP_ADOPT, /* key and uid; fds: a detached copy of the workspace's mount, its folder. UP, or
                    its end */
    /* broker -> cell, once: fd = a second socket. What the file threads do without help (OPEN,
       DELETE, USAGE, PUT with WHOLE) may come by that, and wakes one of them at once; the answers
       come by the first */
    SP_OP_PORT,
    SP_OP_COUNT
};

enum { SP_EXEC_STDIN = 1, SP_EXEC_LIVE = 2 }; /* EXEC.flags; LIVE: output is wanted as it comes */
/* PUT.flags; NEW_ONLY = If-None-Match: *; WHOLE: data is the file; not with STAGED */
enum { SP_PUT_NEW_ONLY = 1, SP_PUT_WHOLE = 2, SP_PUT_STAGED = 4 };
enum { SP_DELETE_RECURSIVE = 1, SP_DELETE_MUST_DIR = 2 }; /* DELETE.flags */
/* Of both: the conditions that are asked for, on what is at the path. */
enum { SP_IF_MATCH = 16, SP_IF_NONE_MATCH = 32, SP_IF_UNMODIFIED = 64, SP_IF_ANY = 112 };
/* OPEN.flags: trailing slash; all below it; what is small may come WHOLE */
enum { SP_OPEN_MUST_DIR = 1, SP_OPEN_TREE = 2, SP_OPEN_WHOLE = 4 };
enum { SP_EXIT_TIMED_OUT = 1, SP_EXIT_CANCELLED = 2, SP_EXIT_OOM = 4, SP_EXIT_QUOTA = 8 };
enum { SP_FILE_LISTING = 1, SP_FILE_WHOLE = SP_PUT_WHOLE }; /* FILE.flags */
enum { SP_DONE_CREATED = 1, SP_DONE_PARTIAL = 2 };  /* PARTIAL: ARCHIVE left something out */
enum { SP_CANCEL_GONE = 0, SP_CANCEL_TIMEOUT = 1 }; /* CANCEL.flags */

struct sp_msg {
    uint8_t op;
    uint8_t flags;
    uint32_t id;
    /* EXEC: command, cwd, env (SP_ENV_COUNT_MAX "K=V" as encoded slices), timeout_ms (0 none) */
    struct sp_slice command, cwd, env; /* env: NUL-separated "K=V\0" strings, checked */
    uint32_t nenv;
    uint64_t timeout_ms;
    /* OPEN, PUT, DELETE, USAGE, ARCHIVE: workspace-relative, checked by sp_path_check; "" is the
     * workspace
     */
    struct sp_slice path;
    struct sp_slice etag; /* DONE, FILE: without quotes. PUT and DELETE with IF_MATCH: those that
                           * may be there, or "*"; none: nothing may */
    struct sp_slice none; /* PUT and DELETE with IF_NONE_MATCH: those that may not, or "*" */
    struct sp_slice data; /* PUT and FILE with WHOLE: SP_WHOLE_MAX bytes at most, of FILE size */
    uint64_t size;        /* COMMIT, FILE, DONE */
    int64_t mtime_ns;  /* FILE, DONE; PUT and DELETE with IF_UNMODIFIED: the latest it may have */
    uint64_t ino;      /* USAGE's and ARCHIVE's DONE: entries */
    int32_t exit_code; /* EXITED: 0..255 */
    uint8_t signal;    /* EXITED: 0 none */
    uint64_t duration_us; /* EXITED */
    uint16_t err;         /* FAIL: enum sp_err */
    struct sp_slice key;  /* whose workspace: SP_KEY_LEN bytes in the box, else empty */
    uint32_t uid;         /* NAMED, ADOPT */
};

/* Writes m to buf (SP_FRAME_MAX). Length, or 0 when it breaks a limit. */
size_t sp_msg_encode(const struct sp_msg *m, uint8_t *buf, size_t cap);
/* False: not a message, or a limit is broken, or nfds isn't what the op carries. */
bool sp_msg_decode(struct sp_msg *m, const uint8_t *buf, size_t len, int nfds);
/* Encodes and sends; takes the descriptors in every case. 0, a negative errno as sp_chan_send, or
 * -EINVAL where m breaks a limit or nfds is wrong for its op. */
int sp_msg_send(struct sp_chan *c, const struct sp_msg *m, const int *fds, int nfds);
/* The same by sp_chan_try: anything but 0 leaves the descriptors the caller's. */
int sp_msg_try(const struct sp_chan *c, const struct sp_msg *m, const int *fds, int nfds);
int sp_msg_fail(struct sp_chan *c, uint32_t id, enum sp_err e);

/* The path rule of docs/api.md on decoded bytes, without the trailing slash: SP_OK or
 * SP_E_BAD_PATH.
 * "" is fine. Used by the front, and again by the broker and the cell. */
enum sp_err sp_path_check(const char *p, size_t n);

#endif
