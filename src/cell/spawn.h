/* spawn.h: the spawner thread, which carries the confinement of commands and starts them. It lives
 * as long as the cell: a command dies with the thread that started it (PR_SET_PDEATHSIG). */
#ifndef SALLYPORT_CELL_SPAWN_H
#define SALLYPORT_CELL_SPAWN_H

#include "sallyport/role.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

enum sp_spawn_step { SP_SPAWN_CLONE, SP_SPAWN_CHDIR, SP_SPAWN_LIMITS, SP_SPAWN_EXEC };

struct sp_spawn {
    /* asked */
    char *const *argv;
    char *const *envp;
    int cwd;    /* folder; the workspace's own descriptor is fine */
    int std[3]; /* none below 3 */
    bool hold;  /* to be stopped by SIGSTOP at its first instruction */
    /* answered */
    pid_t pid; /* > 0 also when the child failed before exec: it is still to be reaped */
    int error; /* errno, 0 the shell runs */
    enum sp_spawn_step step;
    uint64_t start_ns; /* CLOCK_MONOTONIC */
};

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
};

/* What the thread will need, and nothing of an identity; after the caller's signals are as they
 * stay. 0 or -errno. */
int sp_spawner_prepare(struct sp_spawner *s);
/* Starts the thread. 0 or -errno. */
int sp_spawner_start(struct sp_spawner *s, const struct sp_config *c, int workspace, int efd);
/* Waits until it is confined, and may be asked. 0 or -errno. */
int sp_spawner_confined(struct sp_spawner *s);
/* One at a time; j must stay until sp_spawner_take returns it. */
void sp_spawner_ask(struct sp_spawner *s, struct sp_spawn *j);
struct sp_spawn *sp_spawner_take(struct sp_spawner *s); /* NULL: not done */
struct sp_spawn *sp_spawner_wait(struct sp_spawner *s); /* as take, for what was asked */

uint64_t sp_now_ns(void);

#endif
