/* spawn.h: the spawner thread, which carries the confinement of commands and starts them. It lives
 * as long as the cell: a command dies with the thread that started it (PR_SET_PDEATHSIG). While no
 * command runs a child of it may be parked: cloned, confined, and waiting just before exec for the
 * next command, which then pays for neither the clone nor the thread's wake-up. */
#ifndef SALLYPORT_CELL_SPAWN_H
#define SALLYPORT_CELL_SPAWN_H

#include "sallyport/role.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

enum sp_spawn_step { SP_SPAWN_CLONE, SP_SPAWN_CHDIR, SP_SPAWN_LIMITS, SP_SPAWN_EXEC };

struct sp_spawn {
    /* asked */
    char *const *argv;
    char *const *envp;
    int cwd;    /* folder; the workspace's own descriptor is fine */
    int std[3]; /* none below 3 */
    bool hold;  /* to be stopped by SIGSTOP at its first instruction */
    bool tell;  /* efd is written to when it runs; else only when it doesn't */
    /* answered */
    pid_t pid; /* > 0 also when the child failed before exec: it is still to be reaped */
    int error; /* errno, 0 the shell runs */
    enum sp_spawn_step step;
    uint64_t start_ns; /* CLOCK_MONOTONIC */
};

enum sp_spawner_go { SP_SPAWNER_WAIT, SP_SPAWNER_GO, SP_SPAWNER_QUIT };
enum sp_spawner_state { SP_SPAWNER_IDLE, SP_SPAWNER_ASKED, SP_SPAWNER_DONE, SP_SPAWNER_FAILED };

struct sp_spawner {
    const struct sp_config *config;
    int workspace;
    int efd; /* written to when an answer is there */
    pid_t parent;
    int ignored[64]; /* signals that exec would leave ignored */
    int nignored;
    bool limits;
    struct rlimit files; /* of open files, for commands */
    char *stack;         /* its upper end */
    uint64_t token[2];   /* for sp_cgroup_clone */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum sp_spawner_state state;
    int failed; /* -errno of confining itself */
    struct sp_spawn *job;
    atomic_bool parks; /* a child can wait for its job here */
    bool may_park;     /* the next one may be made before there is a job for it */
    bool dismissed;    /* the child was told to quit, and may or may not have seen that */
    atomic_int parked; /* pid of the child that waits, 0 none */
    atomic_bool taken; /* the child has seen its job */
    atomic_uint go;    /* futex: enum sp_spawner_go */
};

/* What the thread will need, and nothing of an identity; after the caller's signals are as they
 * stay. 0 or -errno. */
int sp_spawner_prepare(struct sp_spawner *s);
/* Starts the thread. 0 or -errno. */
int sp_spawner_start(struct sp_spawner *s, const struct sp_config *c, int workspace, int efd);
/* Waits until it is confined, and may be asked. 0 or -errno. */
int sp_spawner_confined(struct sp_spawner *s);
/* No command's process is left: the child for the next one may be made. Nothing is promised. */
void sp_spawner_park(struct sp_spawner *s);
/* Lets the one go that is parked, if one is. */
void sp_spawner_dismiss(struct sp_spawner *s);
/* One at a time; j must stay until sp_spawner_take returns it. True: a parked child has it, and
 * j->pid is set; whether exec worked is told as ever. */
bool sp_spawner_ask(struct sp_spawner *s, struct sp_spawn *j);
/* Sets the job's tell, if it isn't done. True: it is, and is to be taken. */
bool sp_spawner_tell(struct sp_spawner *s);
struct sp_spawn *sp_spawner_take(struct sp_spawner *s); /* NULL: not done */
struct sp_spawn *sp_spawner_wait(struct sp_spawner *s); /* as take, for what was asked */

uint64_t sp_now_ns(void);

#endif
