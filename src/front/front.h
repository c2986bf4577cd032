/* front.h: the structures the front's files share. The front trusts main alone: what a
 * client sends is hostile, what the broker sends is checked by sp_msg_decode.
 * Inside: one thread, one libh2o event loop, nothing that blocks. */
#ifndef SP_FRONT_H
#define SP_FRONT_H

#include "metrics.h"

#include "sallyport/http.h"
#include "sallyport/proto.h"
#include "sallyport/role.h"

#include <h2o.h>
#include <stdbool.h>

#define FRONT_JSON_MAX (1u << 20) /* bytes of an /execute body */
#define FRONT_LISTINGS_MAX (256ull << 20)
#define FRONT_OUT_CHUNK 65536u /* bytes of an answer made at a time */
/* Bytes moved for one connection, then the others get their turn. */
#define FRONT_TURN (256u << 10)
#define FRONT_IN_MAX (2 * SP_HEAD_MAX) /* head, and what a client sends ahead of our answer */

enum conn_state {
    CONN_HEAD,   /* waiting for, or inside, a request head */
    CONN_JSON,   /* reading an /execute body */
    CONN_WAIT,   /* the broker works */
    CONN_EXEC,   /* a command runs */
    CONN_EVENTS, /* a command runs, or ran, and its output is sent as it comes */
    CONN_UPLOAD, /* bytes go into the pipe */
    CONN_PARTS,  /* a multipart body is read */
    CONN_STREAM, /* an archive is sent as it is made */
    CONN_SEND,   /* an answer is on its way */
    CONN_LINGER, /* answered, the rest of the input is thrown away so that no reset eats the answer
                  */
    CONN_DEAD    /* closed; freed at the end of the loop's turn */
};

enum conn_clock {
    CLOCK_NONE,
    CLOCK_HEAD,
    CLOCK_IDLE,
    CLOCK_STALL,
    CLOCK_LINGER,
    CLOCK_HANGUP,
    CLOCK_BEAT, /* of events */
    CLOCK_NOW,  /* of TLS: as soon as the others had their turn */
    CLOCK_COUNT
};

/* One output stream of a command: its first `limit` bytes, the rest dropped. */
struct capture {
    int fd;             /* -1 before it is there and once it is closed */
    h2o_socket_t *sock; /* owns fd once the loop watches it; NULL before and after */
    char *buf;
    size_t len, cap;
    bool truncated;
};

struct events; /* in events.c */

struct exec_state {
    struct capture out, err;
    struct conn *conn;
    bool live;             /* events are asked for */
    bool counted;          /* as running */
    struct events *ev;     /* NULL before the first event, and for a plain answer */
    h2o_socket_t *in_sock; /* stdin's pipe, NULL when there is none or it is done */
    char *in;              /* text for stdin, owned */
    size_t in_len, in_pos;
    /* result, then the place the answer's generator is at */
    int32_t exit_code;
    uint8_t signal, flags;
    uint64_t duration_us;
    int part;
    size_t part_pos;
};

struct upload_state {
    h2o_socket_t *pipe; /* NULL before READY and after the last byte */
    uint64_t sent;
    struct sp_chunk chunk;
    size_t ready, ready_at; /* bytes out of their chunks, in the connection's buffer, and where */
    bool last;              /* they are the last ones */
    bool pipe_gone, committed;
};

enum want { WANT_ANY, WANT_FILE, WANT_LISTING };

struct tls; /* in tls.c */

struct conn {
    h2o_socket_t *sock;
    struct tls *tls; /* NULL: plain */
    int fd;
    enum conn_state state;
    enum conn_clock clock;
    h2o_timeout_entry_t timer;
    h2o_linklist_t all; /* in front.conns */
    bool running;       /* conn_run is on the stack */
    bool eof;           /* client closed its side */
    bool reading;       /* read interest is on */
    bool write_armed;

    char *in;
    size_t in_len, in_cap, scanned;
    struct sp_head head; /* borrows in while a request is served */
    size_t body_pos;     /* next unread body byte in in */
    uint64_t body_left;  /* with Content-Length: body bytes not yet consumed */
    bool close_after, unread_body, http_head;
    size_t moved;            /* bytes since the stall clock was last set */
    uint64_t sent;           /* bytes, by this connection */
    int64_t reached;         /* io_taken when it was last looked at */
    enum metrics_route kind; /* what the request counts as */
    uint64_t began_us;       /* when the request's head was whole; 0: no request */

    uint32_t id; /* the broker's name for our request, 0 none */
    uint8_t op;
    char *body; /* collected JSON */
    size_t body_len, body_cap;
    struct sp_chunk body_chunk;
    char *path; /* decoded, NUL-terminated, owned */
    size_t path_len;
    struct exec_state *exec;
    struct upload_state *upload;
    struct stream_state *stream; /* in stream.c */
    struct parts_state *parts;   /* in parts.h */
    /* the box: of the request at hand */
    bool has_key;
    bool probe; /* /ready's own command */
    uint8_t key[SP_KEY_LEN];
    char *space;        /* path of the key's workspace, owned */
    const char *route;  /* NULL: none of ours */
    uint64_t bytes_out; /* of the answer */
    enum want want;     /* what a path has to be */

    /* the answer */
    int status;
    char *out;
    size_t out_len, out_pos, out_cap;
    bool (*fill)(struct conn *c); /* appends more of the body to out; false: no more */
    int file;                     /* descriptor being sent, or -1 */
    uint64_t file_pos, file_left;
    uint64_t listing; /* of front.listings, by file */
};

struct front {
    const struct sp_config *cfg;
    h2o_loop_t *loop;
    h2o_timeout_t clocks[CLOCK_COUNT];
    h2o_linklist_t conns, dead;
    size_t nconns, max_conns;
    h2o_socket_t *listeners[SP_LISTEN_MAX];
    unsigned nlisteners;
    bool accept_paused, draining;
    uint64_t listings; /* bytes of memory that hold those being sent */
    struct sp_chan broker, main;
    h2o_socket_t *broker_sock, *main_sock;
    bool broker_armed;
};
extern struct front front;

/* conn.c */
void conn_accept(h2o_socket_t *listener);
void conn_run(struct conn *c);          /* serves what is in the buffer */
void conn_readable(struct conn *c);     /* input is there, or its end */
void conn_close(struct conn *c);        /* drops everything, tells the broker */
void conn_request_done(struct conn *c); /* answer sent: next request, linger, or close */
void conn_clock(struct conn *c, enum conn_clock clock);
void conn_progress(struct conn *c, size_t n); /* n bytes moved: feeds the stall clock */
void conn_read_on(struct conn *c, bool on);
void conn_free_dead(void);
void conn_close_idle(void);
/* recv into in; >0 bytes, 0 end of file, -1 nothing now, -2 broken. */
ssize_t conn_recv(struct conn *c, size_t max_total);
bool conn_send_continue(struct conn *c); /* 100 Continue if asked for; false: closed */

/* io.c: bytes to and from the client. As recv, send and sendfile, but never EINTR. */
ssize_t io_recv(struct conn *c, void *p, size_t n);
/* More of a body, behind what of it is in the buffer and wasn't used: bytes, 0 nothing now, -1 the
 * client left, and the connection is closed. */
ssize_t io_refill(struct conn *c);
ssize_t io_send(struct conn *c, const void *p, size_t n, bool more);
ssize_t io_send_file(struct conn *c, int fd, uint64_t at, size_t n);
/* Pipes that a cell made: as read and write, but never block, whatever the cell does to them. */
ssize_t io_pipe_read(int fd, void *p, size_t n);
ssize_t io_pipe_write(int fd, const void *p, size_t n);
/* Nothing of a next request came: at most the blank line that some clients send behind a body. */
bool io_idle(const struct conn *c);
/* There is input behind the request. To close the connection now would send a reset, which takes
 * what the client hasn't got yet of its answer. */
bool io_more(const struct conn *c);
/* Bytes that the client's side has taken; in TLS somewhat less.
 * The socket may hold megabytes, and has room for us only once a good part is gone: a slow client
 * would look like one that stopped. */
int64_t io_taken(const struct conn *c);
int64_t io_newly_taken(struct conn *c); /* since the last such call */
/* The client left. One that closed its side alone may still wait for an answer, but not for a
 * command's. */
bool io_hung_up(const struct conn *c);

/* reply.c */
/* Head with the body's length; type NULL: none. extra: more header lines with CRLF, or "". */
void reply_head(struct conn *c, int status, const char *type, uint64_t length, const char *extra);
void reply_json(struct conn *c, int status, const char *extra, const char *json, size_t n);
void reply_text(struct conn *c, const char *type, const char *text, size_t n); /* 200 */
void reply_error(struct conn *c, enum sp_err e, const char *sentence); /* sentence NULL: default */
void reply_error_extra(struct conn *c, enum sp_err e, const char *sentence, const char *extra);
bool reply_append(struct conn *c, const void *p, size_t n);
/* {"error":...,"code":...}; cap >= 1000. Returns its length. */
size_t reply_error_text(char *json, size_t cap, enum sp_err e, const char *sentence);
void reply_events_head(struct conn *c); /* of an answer whose end isn't known; keeps the request */
/* Of an answer whose length isn't known: chunks, or to the connection's end. The request goes on.
 */
void reply_stream_head(struct conn *c, const char *type, const char *extra);
int reply_flush(struct conn *c);  /* what is in out: 1 all sent, 0 the socket is full, -1 broken */
void reply_wait(struct conn *c);  /* on, by the state, when the socket has room */
void reply_start(struct conn *c); /* state SEND, and write what can be written */

/* route.c */
enum { /* methods of an address, or'ed */
       ROUTE_GET = 1 << SP_M_GET,
       ROUTE_HEAD = 1 << SP_M_HEAD,
       ROUTE_POST = 1 << SP_M_POST,
       ROUTE_PUT = 1 << SP_M_PUT,
       ROUTE_DELETE = 1 << SP_M_DELETE
};
void route_request(struct conn *c);
void route_execute(struct conn *c);
void route_metrics(struct conn *c);
void route_health(struct conn *c);
/* False: the address doesn't have the request's method, and that was told. */
bool route_method(struct conn *c, unsigned methods);
/* GET, HEAD and DELETE have no use for a body: it is left unread, and the connection ends. */
void route_ignore_body(struct conn *c);

/* exec.c, execreq.c */
void exec_body_ready(struct conn *c);
/* More of the request's text. False: answered. */
bool exec_body_append(struct conn *c, const char *p, size_t n);
/* Reads the body without doing what it says. False: answered. */
bool exec_body_check(struct conn *c);
struct exec_state *exec_state_new(struct conn *c); /* NULL: no memory */
void exec_begin(struct conn *c);
void exec_read_body(struct conn *c);
void exec_message(struct conn *c, const struct sp_msg *m, struct sp_frame *f);
void exec_failed(struct conn *c, enum sp_err e); /* the request is forgotten already */
void exec_free(struct conn *c);
h2o_socket_t *exec_watch(struct conn *c, int fd);
void exec_capture_end(struct capture *cap);
/* result.c */
bool exec_result_fill(struct conn *c);
uint64_t exec_result_length(struct conn *c);
/* How it ended, as members of an object, without braces. */
size_t exec_result_members(const struct exec_state *x, char *buf, size_t n);
/* events.c */
void events_begin(struct conn *c);
void events_pump(struct conn *c);
void events_exited(struct conn *c);
void events_failed(struct conn *c, enum sp_err e);
void events_free(struct exec_state *x);

/* files.c, upload.c */
/* Asks for what is at m->path; GET and HEAD of every kind. */
void files_open(struct conn *c, struct sp_msg *m);
void files_begin(struct conn *c, const char *path, size_t n, bool must_dir);
void files_delete(struct conn *c, struct sp_slice path, bool recursive, bool must_dir);
void files_message(struct conn *c, const struct sp_msg *m, struct sp_frame *f);
void upload_begin(struct conn *c);
/* terms.c. Whether the head has conditions for what is at a path. */
bool terms_there(const struct sp_head *h);
/* Into m, which is to be sent before this is called again. */
enum sp_err terms_read(const struct sp_head *h, struct sp_msg *m);
/* What a body that becomes files may ask by its head, into m: conditions, coding, range. */
enum sp_err upload_terms(const struct sp_head *h, struct sp_msg *m);
void upload_pump(struct conn *c);
void upload_message(struct conn *c, const struct sp_msg *m, struct sp_frame *f);
void upload_free(struct conn *c);

/* parts.c */
enum parts_kind {
    PARTS_FILE,  /* one file, into a folder */
    PARTS_BATCH, /* files, below a folder */
    PARTS_EXEC   /* a command's request, and files that it finds */
};
void parts_begin(struct conn *c, enum parts_kind kind);
void parts_pump(struct conn *c);
void parts_message(struct conn *c, const struct sp_msg *m, struct sp_frame *f); /* place.c */
void parts_cancel(struct conn *c); /* gives up what isn't at its place; place.c */
void parts_free(struct conn *c);
/* The body was whole and good: from here on all its files are placed, whoever is left to hear. */
bool parts_placing(const struct conn *c);

/* stream.c */
void stream_pump(struct conn *c);
void stream_free(struct conn *c);

/* link.c: the broker */
void link_init(void);
/* Sends m as c's request: sets id, state WAIT. Answers 503 itself when it can't. */
bool link_request(struct conn *c, struct sp_msg *m);
bool link_send(struct sp_msg *m);
void link_forget(struct conn *c, bool cancel);
/* One request of several that c has: its id, or 0 where it can't be sent. c->id is left alone. */
uint32_t link_take(struct conn *c, struct sp_msg *m);
void link_drop(uint32_t id);

/* ticks.c: a loop whose timers don't mind that the wall clock is set. NULL: no memory. */
h2o_loop_t *ticks_loop(void);

/* front.c */
void front_check_drained(void);
void front_resume_accept(void);

#endif
