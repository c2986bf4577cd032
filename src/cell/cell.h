/* cell.h: the state of the cell's main thread. */
#ifndef SALLYPORT_CELL_CELL_H
#define SALLYPORT_CELL_CELL_H

#include "cell/archiver.h"
#include "cell/environ.h"
#include "cell/held.h"
#include "cell/pool.h"
#include "cell/quota.h"
#include "cell/spawn.h"
#include "cell/tree.h"

enum sp_exec_state {
    SP_EXEC_IDLE,
    SP_EXEC_SPAWNING, /* at the spawner; its pid isn't known */
    SP_EXEC_RUNNING,
    SP_EXEC_KILLING /* the shell ended or was cancelled: until no child is left */
};

struct sp_exec {
    enum sp_exec_state state;
    uint32_t id;
    uint8_t exit_flags;     /* SP_EXIT_*: cancelled */
    bool with_stdin, eager; /* eager: its STARTED is wanted at once */
    bool shell_ended;
    bool answered;        /* the spawner's word on it is taken */
    bool told;            /* STARTED is sent; a short command needs none */
    bool unheard;         /* its pipes couldn't be sent for want of descriptors: ends with FAIL */
    uint64_t quickest_ns; /* what commands take at least, of late */
    uint64_t last_ns;     /* when to send STARTED at the latest */
    uint64_t tell_ns;     /* when to send STARTED, 0: as soon as the spawner says that it runs */
    uint64_t rest_ns;     /* when a child that waits is let go, 0 never */
    int status;
    uint64_t end_ns;    /* of the last command's shell */
    int next_ms;        /* KILLING: until the next round */
    uint64_t oom_kills; /* of the kernel in the commands' cgroup, so far */
    int dev_null;       /* stdin of commands without one */
    int out[2], err[2], in[2];
    int next_out[2], next_err[2]; /* of the next command, -1 none yet */
    int cwd;                      /* -1: the workspace's */
    struct sp_spawn spawn;
    struct sp_tree tree;
    struct sp_environ environ;
};

/* Of the quota, while a command runs. */
struct sp_watch {
    bool on, counting, have_base;
    unsigned failed;   /* counts in a row */
    uint64_t base;     /* the quota, or what was there before the command if that is more */
    uint64_t left;     /* what the file system had when the last count began, bytes; 0 unknown */
    uint64_t count_ns; /* when to count whatever the file system says */
    uint64_t due_ns;   /* when to look at it */
};

struct sp_cell {
    const struct sp_config *config;
    int root, epoll, sigfd;
    struct sp_chan chan;
    bool watching_write;
    struct sp_outbox out;
    struct sp_exec exec;
    struct sp_held held;
    struct sp_spawner spawner;
    struct sp_pool pool;
    struct sp_quota quota;
    struct sp_watch watch;
    struct sp_archiver archiver;
    struct sp_frame frame;
};

/* Sends; a broker that is gone or doesn't read ends the cell's loop: false. */
bool sp_cell_send(struct sp_cell *c, const struct sp_msg *m, const int *fds, int nfds);
/* The same with descriptors. *sent false: the kernel counts those on their way by user id, and a
 * command of ours may have used them up; the operation is to fail, not the cell. */
bool sp_cell_send_fds(struct sp_cell *c, const struct sp_msg *m, const int *fds, int nfds,
                      bool *sent);
bool sp_cell_fail(struct sp_cell *c, uint32_t id, enum sp_err e);

/* ---- cell.c, for idle.c ---- */
struct sp_view_error;
const char *sp_cell_view_failed(const struct sp_view_error *e); /* a sentence's beginning */
/* All that is opened by path, or by a call the filter refuses, is had before confinement: 0, or
 * -errno with *what was being done. */
int sp_cell_ready(struct sp_cell *c, const char **what);
/* Gives up every right and starts the threads; 0, or -errno with *what was being done. */
int sp_cell_settle(struct sp_cell *c, const char **what);
/* Until the broker is gone; the exit status. */
int sp_cell_serve(struct sp_cell *c);

/* standing.c. First of all: a command is no more worth to the kernel than any other. */
void sp_cell_standing(void);

/* ---- exec.c: the one command. Each false: as sp_cell_send. ---- */
int sp_exec_init(struct sp_cell *c); /* before confinement; 0 or -errno */
bool sp_exec_start(struct sp_cell *c, const struct sp_msg *m);
void sp_exec_cancel(struct sp_cell *c, uint32_t id, uint8_t flags);
bool sp_exec_spawned(struct sp_cell *c);  /* asks the spawner for its answer */
bool sp_exec_children(struct sp_cell *c); /* SIGCHLD came, or the time for a round */
bool sp_exec_tick(struct sp_cell *c);     /* every turn: a command that lasts is told */
void sp_exec_rest(struct sp_cell *c);     /* none runs: makes ready for the next */
/* The held shell that was waited for has the command; else there is none. */
bool sp_exec_held(struct sp_cell *c, bool given);
/* cwd.c. A command may have shut the workspace to itself (chmod 0 .): none could start there any
 * more to open it again, and of the seat's nobody else is asked to. */
void sp_exec_unshut(const struct sp_cell *c);
/* The folder to start in; rest: its path as a string. */
enum sp_err sp_exec_cwd(struct sp_cell *c, struct sp_slice cwd, char rest[4096]);
/* pipes.c. Its own: those made in advance, or new ones. 0 or -errno. */
int sp_exec_make_pipes(struct sp_exec *x, bool with_stdin);
/* /dev/null is one description for all commands: what the last one did to it, as not to block or a
 * lock, isn't to stay for the next. */
void sp_exec_renew_null(const struct sp_exec *x);
int sp_exec_pipes(int out[2], int err[2]);    /* of a command. 0 or -errno, -1 in what isn't made */
void sp_exec_close(int fds[2]);               /* both ends, and sets them to -1 */
int sp_exec_wait_ms(const struct sp_cell *c); /* for epoll_wait */
void sp_exec_over_quota(struct sp_cell *c);   /* kills what runs */
/* The broker is gone: kills what runs and waits at most ms. */
void sp_exec_abort(struct sp_cell *c, unsigned ms);

/* ---- held.c ---- */
void sp_held_init(struct sp_cell *c); /* after sp_exec_init */
/* A command is to start, and set in the environ. */
enum sp_held_answer sp_held_take(struct sp_cell *c, const struct sp_msg *m);
void sp_held_quiet(struct sp_cell *c); /* a command has ended, no child is left */
/* What the spawner answered, if *ours; and SIGCHLD while there is one. False: as sp_cell_send. */
bool sp_held_spawned(struct sp_cell *c, bool *ours);
bool sp_held_children(struct sp_cell *c);
int sp_held_wait_ms(const struct sp_cell *c); /* for epoll_wait; -1: for nothing */
void sp_held_tick(struct sp_cell *c);
void sp_held_drop(struct sp_cell *c);

/* ---- watch.c ---- */
void sp_watch_started(struct sp_cell *c);
void sp_watch_ended(struct sp_cell *c);
int sp_watch_wait_ms(const struct sp_cell *c); /* for epoll_wait; -1: for nothing */
void sp_watch_tick(struct sp_cell *c);
void sp_watch_counted(struct sp_cell *c, bool ok); /* the count with id 0 is done */

#endif
