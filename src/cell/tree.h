/* tree.h: ends all that a command started. The cell is a child subreaper, so whatever forks away is
 * in the end its child, and "no child left" is the proof that the tree is gone. */
#ifndef SALLYPORT_CELL_TREE_H
#define SALLYPORT_CELL_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum sp_tree_method {
    SP_TREE_KILL_ALL, /* kill(-1): only where Landlock or an own user id bounds it */
    SP_TREE_WALK      /* /proc, from us down */
};

struct sp_config;

struct sp_tree_proc {
    pid_t pid, parent;
    bool ours, stopped;
};

struct sp_tree {
    enum sp_tree_method method;
    bool adopts;             /* orphans become ours */
    int freezer, procs, cpu; /* of the commands' own cgroup; -1 none */
    const struct sp_config *limits;
    bool frozen, lifted;
    int proc; /* /proc, opened before confinement; -1 none */
    pid_t self, shell;
    unsigned rounds; /* of sp_tree_kill since sp_tree_begin */
    bool warned;
    uint64_t begun_ns;
    struct sp_tree_proc *list;
    size_t count, cap;
};

/* signal_scope, own_uid: what keeps kill(-1) to commands. Never used as root without the scope.
 * proc may be -1, or of another PID namespace, which counts as none. */
void sp_tree_init(struct sp_tree *t, int proc, bool signal_scope, bool own_uid);
/* From here on the commands' cgroup comes first (its cgroup.freeze and cgroup.procs); the method is
 * for what that leaves. cpu: its cpu.max, -1 where c limits none: lifted while processes are ended,
 * which have to run for that. */
void sp_tree_use_cgroup(struct sp_tree *t, int freezer, int procs, int cpu,
                        const struct sp_config *c);
/* Reaps what has ended. True: no child is left. When `shell` is among them *ended is set, and
 * *status to its wait status. */
bool sp_tree_reap(pid_t shell, int *status, bool *ended);
/* Once sp_tree_reap says so: true if none is left anywhere. Where orphans become another's children
 * no child says nothing: kills all of our user then, and looks for any that lives. */
bool sp_tree_gone(const struct sp_tree *t);
void sp_tree_begin(struct sp_tree *t, pid_t shell);
/* One bounded round of signals, to be repeated after each SIGCHLD or the returned milliseconds (1
 * to 50) until sp_tree_reap says that none is left. */
int sp_tree_kill(struct sp_tree *t);
/* When none is left: the next command may run. */
void sp_tree_end(struct sp_tree *t);

#endif
