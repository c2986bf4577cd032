/* supervise.h: main's view of the running daemon. */
#ifndef SALLYPORT_MAIN_SUPERVISE_H
#define SALLYPORT_MAIN_SUPERVISE_H

#include "main/listen.h"
#include "sallyport/confine.h"

/* One role that main starts. */
struct child {
    const char *name;
    pid_t pid; /* 0: not running */
    struct sp_chan chan;
    bool up;
    int status;          /* of the last one, from waitpid */
    uint64_t deaths[11]; /* times of the latest, a ring */
    unsigned ndeaths, in_row;
    uint64_t started;
};

struct tls_files {
    const char *prefix, *cert, *key; /* cert NULL: no TLS */
    int fd;                          /* a sp_tls_bundle, or -1 */
};

struct super {
    struct sp_config cfg;
    struct listeners listeners;
    struct sp_cgroup cgroup; /* of commands; base "": none */
    uint64_t shutdown_ms;
    int config_fd, filters_fd, workspace_fd, self_fd, signal_fd;
    struct tls_files tls;
    struct child broker, front, registry; /* the last: the box's */
    char *policy; /* the operator's system call rules for commands, or NULL */
    size_t policy_len;
    unsigned stops; /* SIGTERM, SIGINT, SIGQUIT so far */
};

/* ---- seat.c: everything before the first role ---- */
/* Reads settings, makes the plan, opens what must be open. 0, or -1 with a sentence in err. With
 * check: only the plan, no socket is opened. */
int seat_prepare(struct super *s, enum sp_mode mode, struct sp_plan *plan, bool check,
                 char *const *envp, char *err, size_t errlen);

/* ---- tls.c ---- */
/* 0, or -1 with a sentence. */
int tls_read(struct super *s, const struct settings *set, char *err, size_t errlen);
int tls_name(struct super *s, char *err, size_t errlen); /* the listeners, for the log */
void tls_again(struct super *s);                         /* SIGHUP */

/* ---- check.c ---- */
/* Prints what a start would have. 0, 1 where it can't be written, -1 with a sentence in err
 * where a start would be refused. */
int check_plan(struct super *s, enum sp_mode mode, bool json, char *err, size_t errlen);

/* ---- children.c: events and single children ---- */
uint64_t main_now_ms(void);
/* Blocks signals, opens signal_fd, becomes a subreaper. 0 or -errno. */
int children_init(struct super *s);
/* Waits for events until a time, at most, and takes note of them in s. */
void pump(struct super *s, uint64_t until);
/* Starts one; it isn't up when this returns. 0 or -errno. */
int start_broker(struct super *s);
int start_front(struct super *s);
int start_registry(struct super *s);
/* Once for each front, when all that it asks are up: it accepts nobody before. 0 or -errno. */
int begin_front(struct super *s);
/* Pumps until c is up. False: it died, took too long or we are asked to stop. */
bool await_up(struct super *s, struct child *c);
/* Pumps until c has ended. False when the time is over. */
bool await_end(struct super *s, struct child *c, uint64_t until, unsigned stops);
/* SIGKILL, and wait. */
void end_child(struct super *s, struct child *c);
void send_op(struct child *c, uint8_t op);
/* Everything below main that is no role of it. */
void sweep_all(struct super *s);

/* ---- supervise.c ---- */
/* Runs until a signal or a failure; the exit status. */
int supervise(struct super *s);

#endif
