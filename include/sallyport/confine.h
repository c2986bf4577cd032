/* confine.h: what a process gives up, and the filters it runs under.
 * Called by each role on itself before it reads a byte from anyone it doesn't trust. */
#ifndef SALLYPORT_CONFINE_H
#define SALLYPORT_CONFINE_H

#include "sallyport/role.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- policy text -> BPF (libseccomp) ---- */
enum sp_filter {
    SP_FILTER_FRONT,
    SP_FILTER_BROKER,
    SP_FILTER_CELL,
    SP_FILTER_COMMAND,
    SP_FILTER_REGISTRY,
    SP_FILTER_COUNT
};

struct sp_policy_error {
    int line;
    bool added; /* the line is of the operator's text, not of a built-in one */
    char text[200];
};
/* Line form: docs/policy.md. Builds the filter and returns its BPF in malloc'ed memory (struct
 * sock_filter array, *n entries); 0, -EINVAL with *e set, or -errno. */
int sp_policy_compile(const char *text, size_t len, void **bpf, size_t *n,
                      struct sp_policy_error *e);
/* The same with the operator's rules before text's own, which yield to them. loosen: of those only
 * what allows, for a filter that others inherit from. added NULL: none. */
int sp_policy_compile_added(const char *added, size_t added_len, bool loosen, const char *text,
                            size_t len, void **bpf, size_t *n, struct sp_policy_error *e);
/* Parses only, calls nothing of libseccomp but name look-ups. For the lint and the fuzzer. */
int sp_policy_check(const char *text, size_t len, struct sp_policy_error *e);
/* The operator's rules (SALLYPORT_COMMAND_POLICY) as they would stand before the commands' built-in
 * ones: their form, and that they refuse nothing without which no command starts. */
int sp_policy_check_added(const char *added, size_t len, struct sp_policy_error *e);
/* Tries them: starts the shell as commands are, under the filter, to run nothing. 0, or -EINVAL
 * with a sentence in e. */
int sp_policy_try_added(const struct sp_config *c, const char *added, size_t len,
                        struct sp_policy_error *e);
/* The policies built into the binary. */
const char *sp_policy_text(enum sp_filter f, size_t *len);

struct sp_plan;
/* main: compiles all into one sealed memfd for SP_FD_FILTERS; fd or -errno. Where the plan does
 * without seccomp (NULL: it has it) the set is empty and installing from it succeeds. added: the
 * operator's rules, NULL for none. They stand first in the commands' filter, and what they allow in
 * the broker's, which commands inherit. With plan->held the cell may trace, and a thread that has
 * that number in its sixth argument may use prctl(PR_SET_MM, PR_SET_MM_MAP). */
int sp_filters_build(const struct sp_plan *plan, const char *added, size_t len,
                     struct sp_policy_error *e);
/* role: maps SP_FD_FILTERS once, leaves it open (the broker hands it on). 0 or -errno. */
int sp_filters_load(void);
/* Installs on the calling thread. Needs no_new_privs. 0 or -errno. */
int sp_filters_install(enum sp_filter f);

/* ---- the process ---- */
/* no_new_privs, non-dumpable, PR_SET_PDEATHSIG(SIGKILL) if die_with_parent, umask 022, core limit
 * 0. 0 or -errno. */
int sp_confine_basics(bool die_with_parent);
/* Makes the caller take in the orphans below it. 1 where the kernel lets none but the first process
 * of a PID namespace do that (gVisor before 2023), 0 or -errno. */
int sp_confine_reaper(void);
/* Permitted, effective and inheritable set: only keep (array of CAP_* numbers), and of those only
 * what is permitted now; ambient set: empty; bounding set: empty, if CAP_SETPCAP is there to lower
 * it. A role of user id 0 that is started later inherits keep. libcap-ng. 0 or -errno. */
int sp_confine_caps(const int *keep, int n);
/* What main and the broker keep, for the roles they start: CAP_* numbers into keep, their count. */
#define SP_KEEP_MAX 8
int sp_caps_to_keep(const struct sp_config *c, int keep[SP_KEEP_MAX]);
/* setgroups(0)/setresgid/setresuid and verify it can't go back; then no capability is left. Keeps
 * what sp_confine_basics set (the kernel would clear it). Only where switch_uid. 0 or -errno. */
int sp_confine_ids(uid_t uid, gid_t gid);
/* RLIMIT_* of commands from c, on the calling process: only lower, hard as soft. limit_memory is
 * RLIMIT_DATA. Async-signal-safe. 0 or -errno. */
int sp_confine_limits(const struct sp_config *c);

/* ---- Landlock ---- */
/* Highest ABI of the running kernel, 0 when there is none. */
int sp_landlock_abi(void);
/* Rule sets. Each restricts the calling thread. abi: what to use, at most. 0 or -errno.
 * front: no path, no TCP bind or connect, scoped. */
int sp_landlock_front(int abi);
/* cell: what policy/command.landlock allows, with its workspace line, what the operator added (as
 * sp_landlock_each), and the shell to execute (an absolute path, NULL for none) wherever it is;
 * signals and abstract sockets scoped (abi >= 6). workspace_fd: the folder, or -1 to open it by its
 * path. own_root: in a private view, whose folders may all be listed. */
int sp_landlock_cell(int abi, const char *workspace, int workspace_fd, const char *shell,
                     const char *added, bool own_root);
/* The part of it that depends on no workspace, before: sp_landlock_cell then takes what was made.
 */
int sp_landlock_cell_begin(int abi, const char *shell, const char *added, bool own_root);
/* command: as the cell's (nested, so that commands can't signal the cell). After sp_landlock_cell
 * in the same process it is that one's set, once, and the arguments don't count. */
int sp_landlock_command(int abi, const char *workspace, int workspace_fd, const char *shell,
                        const char *added, bool own_root);
/* registry: files of one folder, no TCP, scoped. */
int sp_landlock_registry(int abi, const char *folder);
/* file thread: the workspace alone. */
int sp_landlock_files(int abi, int workspace_fd);
/* a thread that only reads the workspace, an archive's. */
int sp_landlock_reader(int abi, int workspace_fd);

/* ---- the paths of commands, as text: docs/policy.md "command.landlock" ---- */
enum sp_path_word {
    SP_PATH_READ,
    SP_PATH_EXEC,
    SP_PATH_WRITE,
    SP_PATH_DEVICE,
    SP_PATH_WORKSPACE /* path NULL: the workspace, to write and execute */
};
/* Not 0 ends the iteration and is its result. path is gone when it returns. */
typedef int (*sp_path_fn)(void *arg, enum sp_path_word word, const char *path);
/* Every line of policy/command.landlock, then of added, in their order. added: what the operator
 * gave, sp_config.command_paths; NULL or "" for none. All that decides by path, Landlock's rule
 * sets and the private view, is made through here. A path is absolute and plain but may be missing,
 * a link, or no folder, and may come several times: the words add up. Allocates nothing. 0, what fn
 * returned, or -EINVAL for a line of another form (which main refused before). */
int sp_landlock_each(const char *added, sp_path_fn fn, void *arg);
/* The built-in text. */
const char *sp_landlock_text(size_t *len);
/* One text, for the lint and for what the operator gives: as above, but *e has line and sentence of
 * what is wrong; where fn fails, the line is set and the sentence is fn's to give. */
int sp_landlock_check(const char *text, size_t len, struct sp_policy_error *e, sp_path_fn fn,
                      void *arg);

/* ---- cgroup v2 ---- */
/* A cgroup of commands, open; -1 where one isn't there. */
struct sp_cgroup_fds {
    int dir;            /* its folder, for sp_cgroup_clone */
    int freezer, procs; /* its files, for sp_cgroup_kill */
    int events;         /* memory.events, where memory is limited */
    int cpu;            /* cpu.max, where processors are */
};
struct sp_cgroup {
    char own[4096], base[4096 + 64]; /* base "": none was made */
    struct sp_cgroup_fds fds;        /* of the seat's; of the box the folder of its cells' */
    int lock;
    bool memory, pids, cpu; /* limited for all of a command together */
    bool gave_memory, gave_pids, gave_cpu;
    char why[160];
    const char *fix; /* NULL: nothing to be done, or nothing known */
};
/* main, with its first privileges: makes a cgroup for commands with c's limits on it, and moves the
 * caller into another one beside it. In the box it is one for the cgroups of cells, where a cell's
 * was tried. g->why is a sentence in every case. 0, or -errno when nothing of it is there. */
int sp_cgroup_make(struct sp_cgroup *g, const struct sp_config *c);
/* True where no limit that c asks for has a controller in our cgroup, told without making one: to
 * enter a cgroup takes the kernel some 10 ms. *fix: as in struct sp_cgroup. False too where that
 * can't be told: sp_cgroup_make will. */
bool sp_cgroup_limits_nothing(const struct sp_config *c, const char **fix);
/* Moves the caller back and removes what was made, as far as nobody lives there. */
void sp_cgroup_remove(struct sp_cgroup *g);
/* spawner thread: of what is called on it and its children from here on, only sp_cgroup_clone with
 * this token may use clone3. 0 or -errno. */
int sp_cgroup_seal(uint64_t token[2]);
/* Where a role finds them (SP_FD_CGROUP ...): appended to its map; how many. */
#define SP_CGROUP_FDS 5
int sp_cgroup_map(const struct sp_cgroup_fds *f, struct sp_fdmap *map);
void sp_cgroup_close(struct sp_cgroup_fds *f);
/* The box's broker: cgroups of one cell, COMMANDS/n/cell for itself and COMMANDS/n/run, which has
 * the limits, for what it starts; commands: COMMANDS. Makes them (f and the first one's folder are
 * the caller's to close), gives them to the cell's user, removes them when both are empty. 0 or
 * -errno, with nothing left open; what was made stays for sp_cgroup_cell_remove. */
int sp_cgroup_cell_make(int commands, unsigned n, const struct sp_config *c,
                        struct sp_cgroup_fds *f, int *home);
int sp_cgroup_cell_give(int commands, unsigned n, uid_t uid);
int sp_cgroup_cell_lift(int commands, unsigned n); /* no limit of processors any more */
int sp_cgroup_cell_remove(int commands, unsigned n);
/* Freezes a cgroup and kills who is found in it; the descriptors: its cgroup.freeze and
 * cgroup.procs. To be repeated until all are reaped; then it has to be thawed. 0 or -errno. */
int sp_cgroup_kill(int freezer, int procs);
int sp_cgroup_thaw(int freezer);
/* Limits processors as c says, or (c NULL) not at all, so that what was killed can end at once; fd:
 * its cpu.max. 0 or -errno. */
int sp_cgroup_cpus(int fd, const struct sp_config *c);
/* How many processes the kernel has killed in it for want of memory; fd: its memory.events. */
uint64_t sp_cgroup_oom_kills(int events);

/* ---- the plan ---- */
enum sp_layer {
    SP_LAYER_NO_NEW_PRIVS,
    SP_LAYER_CAPS,
    SP_LAYER_UID,
    SP_LAYER_SECCOMP,
    SP_LAYER_LANDLOCK,
    SP_LAYER_SIGNAL_SCOPE,
    SP_LAYER_OPENAT2,
    SP_LAYER_CGROUP, /* for sp_cgroup_make to fill; required where only it can keep a limit */
    SP_LAYER_VIEW,
    SP_LAYER_PID_NS,
    SP_LAYER_IPC_NS,
    SP_LAYER_NET_NS,
    SP_LAYER_FRONT_ROOT,
    SP_LAYER_COUNT
};
/* As SALLYPORT_ACCEPT_MISSING names it. */
const char *sp_layer_name(enum sp_layer l);
struct sp_layer_state {
    const char *name; /* as SALLYPORT_ACCEPT_MISSING names it */
    bool active;
    bool required; /* missing and not accepted stops the start */
    bool accepted; /* the operator starts without it */
    char why[160];
    const char *fix; /* how the operator gets it, where it is off; NULL: nothing to be done */
};
struct sp_plan {
    struct sp_layer_state layer[SP_LAYER_COUNT];
    uint64_t held; /* sp_config.held */
};
/* Probes the host once (forks where a probe can't be undone) and fills the plan and the
 * fields of c that follow from it. accept: comma list of layer names or NULL. disable: for tests,
 * layers to treat as absent. Returns 0, or -1 with a sentence in err (unknown name, layer missing).
 */
int sp_plan_make(struct sp_plan *p, struct sp_config *c, const char *accept, const char *disable,
                 char *err, size_t errlen);
/* The sentence that refuses a start for want of layer l. */
void sp_plan_refusal(const struct sp_plan *p, enum sp_layer l, const char *why, char *err,
                     size_t errlen);
/* The namespaces that a cell, or the front, is started in. */
struct sp_role_ns sp_ns_of(const struct sp_config *c, bool cell);

#endif
