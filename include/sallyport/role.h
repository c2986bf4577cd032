/* role.h: how the processes of one daemon are started and what each is told.
 * main writes it, every role reads it; the roles trust main. */
#ifndef SALLYPORT_ROLE_H
#define SALLYPORT_ROLE_H

#include "sallyport/frame.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Descriptors that a role finds at start, whatever else was open. */
enum sp_role_fd {
    SP_FD_MAIN = 3,    /* front, broker: SEQPACKET to main. cell: to the broker */
    SP_FD_CONFIG = 4,  /* sealed memfd with struct sp_config */
    SP_FD_EXTRA = 5,   /* front, registry: SEQPACKET to the broker. cell, broker: the workspace
                          folder, in the box the folder of workspaces */
    SP_FD_FILTERS = 6, /* sealed memfd: see sp_filters_* in confine.h. All but main. */
    SP_FD_SELF = 7,    /* broker: O_PATH of the binary that it was started from, as its cells are */
    /* broker, cell, where sp_config.cgroup is set: the cgroup of commands, its cgroup.freeze and
     * cgroup.procs, its memory.events where cgroup_memory is, its cpu.max where cgroup_cpu is. The
     * box's broker has the folder of the cells' cgroups, and of that only the first three. */
    SP_FD_CGROUP = 20,
    SP_FD_CGROUP_FREEZE = 21,
    SP_FD_CGROUP_PROCS = 22,
    SP_FD_CGROUP_EVENTS = 23,
    SP_FD_CGROUP_CPU = 24
};

enum sp_mode { SP_MODE_SEAT, SP_MODE_BOX };
/* A role's exit status where what it found won't fit at another try either; main ends with 2 then.
 * A role that was started wrongly has 2 itself. */
#define SP_EXIT_UNFIT 3
#define SP_API_KEYS_MAX 8
#define SP_CPUS_BYTES 128 /* a bit each */
#define SP_REGISTRY_FILE "registry.db"
enum sp_isolation { SP_ISOLATION_AUTO, SP_ISOLATION_STRICT, SP_ISOLATION_BASIC };

/* Settings that roles need, fixed size, copied as bytes between execs of one binary. */
struct sp_config {
    uint32_t magic, size;
    char workspace[4096]; /* absolute, canonical */
    char shell[4096];     /* absolute */
    uint64_t default_timeout_ms, max_timeout_ms;
    uint64_t max_output, max_upload;
    uint64_t head_timeout_ms, idle_timeout_ms, stall_timeout_ms;
    uint32_t max_connections;
    uint32_t nlisten; /* front: listening sockets at SP_FD_LISTEN .. */
    uid_t front_uid, command_uid;
    gid_t front_gid, command_gid;
    bool switch_uid;    /* main runs as root: roles take the ids above */
    bool have_landlock; /* confine at all with Landlock */
    int landlock_abi;   /* 0 none */
    bool signal_scope;  /* Landlock ABI >= 6 in use: kill(-1) stays inside */
    bool own_uid;       /* command_uid belongs to commands alone */
    bool adopts;        /* the cell and the broker take in orphans below them */
    bool use_openat2;   /* false forces the component walk */
    /* Commands are started in a cgroup of their own, with these limits. Then a cell must not have a
     * cgroup namespace: on most hosts these are walls for clone3's move. */
    bool cgroup, cgroup_memory, cgroup_pids, cgroup_cpu;
    /* Cells hold a shell ready at its entry point; the number is what lets its last call before
     * the command pass the filter (sp_filters_build). 0: none is held. */
    uint64_t held;
    int isolation; /* enum sp_isolation */
    /* The view and the namespaces: CLONE_NEW* of each role, 0 where it has none. */
    int cell_ns, front_ns;
    bool user_ns;       /* they come through a user namespace: main has no CAP_SYS_ADMIN */
    bool view;          /* the cell builds a root of its own (sp_view_enter) */
    bool pid_ns;        /* the cell is the first process of its PID namespace */
    bool net_none;      /* commands have a network of their own, with nothing on it */
    uint64_t tmp_bytes; /* of /tmp in the view */
    char binary[4096];  /* our own, which the view hides; "" where it can't be told */
    uint64_t limit_procs, limit_memory, limit_cpu_s, limit_file_bytes,
        limit_open_files; /* 0 none */
    uint64_t limit_cpus;  /* of all of a command together: thousandths of a processor; 0 none */
    bool one_cpu;         /* see affinity.h */
    uint32_t cpu;
    uint8_t cpus[SP_CPUS_BYTES]; /* a cpu_set_t: what main may use */
    int log_level;
    bool log_requests;
    bool metrics;              /* serve GET /metrics */
    bool tls;                  /* on TCP; front: sp_tls_bundle at SP_FD_TLS */
    char command_paths[16384]; /* the operator's path lines, as sp_landlock_each takes them */
    /* the box */
    uint32_t mode;    /* enum sp_mode. In the box `workspace` is the folder of workspaces, but in a
                         cell's own copy its workspace; command_uid is 0 but in that copy */
    char state[4096]; /* the registry's folder, with SP_REGISTRY_FILE in it */
    uid_t registry_uid, uid_min, uid_max;
    uid_t highest_owner; /* at the start, of a workspace; 0 there is none */
    gid_t registry_gid;
    uint32_t max_running, queue_max, nkeys;
    uint8_t api_key[SP_API_KEYS_MAX][32]; /* SHA-256 of each; not in a cell's copy */
    uint64_t quota;                       /* bytes of a workspace, 0 none */
    uint64_t retention_ms, sweep_interval_ms, cell_idle_ms;
    uint32_t layers; /* one bit an active enum sp_layer */
    bool log_json;
    char cell_name[65];   /* a cell's copy: the workspace's name */
    bool purge;           /* a cell's copy: empty the workspace, and end */
    uint32_t spare_cells; /* the box: how many idle cells are kept */
    uint32_t env_len;
    char env[65536]; /* base environment of commands: NUL-terminated "K=V" strings */
};
#define SP_CONFIG_MAGIC 0x53505231u
#define SP_FD_LISTEN 8
#define SP_LISTEN_MAX 8
#define SP_FD_TLS (SP_FD_LISTEN + SP_LISTEN_MAX)

/* Reads SP_FD_CONFIG (mapped read-only, kept). Exits 2 if it isn't what we wrote. */
const struct sp_config *sp_config_load(void);
/* The same for an idle cell: a copy of its own, which sp_config_own may still change; after that
 * sp_config_settle makes it as read-only as the other. 0 or -errno. */
struct sp_config *sp_config_load_idle(void);
/* Another copy, of a role that has loaded its settings: for the broker, which makes those of one
 * cell of it. NULL with errno. */
struct sp_config *sp_config_copy(void);
void sp_config_unload(struct sp_config *c); /* of a copy */
int sp_config_settle(struct sp_config *c);
/* The box: makes settings for all cells those of the one with this key and user. 0, -ENAMETOOLONG.
 */
int sp_config_own(struct sp_config *c, const uint8_t key[32], uid_t uid);
/* All of it, by as many writes as that takes, to a file or blocking descriptor: 0 or -errno. */
int sp_write_all(int fd, const void *data, size_t len);
/* A sealed memfd that holds len bytes; fd or -errno. */
int sp_sealed_memfd(const char *name, const void *data, size_t len);

/* Starts our own binary again as `--role=<role>`, with map[i].from at map[i].to (any order, any
 * overlap; 3 <= to < 64) and nothing else open but stdin..stderr (stdin: /dev/null). The child has
 * an empty environment, its own session, every signal at its default and none blocked. Returns the
 * pid or -errno; a failure of exec itself is among them. */
#define SP_FDMAP_MAX 24
struct sp_fdmap {
    int from, to;
};
pid_t sp_role_spawn(const char *role, const struct sp_fdmap *map, int n);
/* The same in new namespaces (ns NULL: in ours). With user set, the role begins with every
 * capability over them and has to call sp_userns_settle before anything else. */
struct sp_role_ns {
    int flags;       /* CLONE_NEW*, without CLONE_NEWUSER */
    bool user;       /* in a user namespace too; else the caller needs CAP_SYS_ADMIN */
    bool switch_ids; /* user: take uid and gid first (needs SETUID, SETGID) */
    uid_t uid;
    gid_t gid;
    int cgroup; /* over 0: the folder of a cgroup to be born in */
};
pid_t sp_role_spawn_in(const char *role, const struct sp_fdmap *map, int n,
                       const struct sp_role_ns *ns);
/* As clone(2), in the cgroup whose folder is dir; stack: the lower end. The pid or -errno. With
 * CLONE_VFORK the child must not return from fn. token: what sp_cgroup_seal made; zeros without. */
pid_t sp_cgroup_clone(int dir, uint64_t flags, int (*fn)(void *), char *stack, size_t size,
                      void *arg, const uint64_t token[2]);
/* Keeps an O_PATH descriptor of our own binary for sp_role_spawn, so that an upgrade of the file
 * doesn't mix versions: SP_FD_SELF if inherited is set (the broker), else /proc/self/exe. Returns
 * the descriptor or -errno. */
int sp_role_init_self(bool inherited);
/* main: the broker and cells are executed from fd (taken; -1: from our own binary again), which
 * holds these two roles and nothing else. */
void sp_role_use_inner(int fd);
/* The descriptor that a role is executed from, ours to keep; -1: none is open. */
int sp_role_binary(const char *role);

/* Exit status of a front whose broker closed its socket. */
#define SP_EXIT_NO_BROKER 3

/* Entry points. Each returns the exit status. */
int sp_front_main(void);
int sp_broker_main(void);
int sp_cell_main(void);
/* A cell that waits for its workspace; name: the role's in the arguments, "idle", which it then
 * overwrites with "cell". */
int sp_idle_main(char *name);
int sp_registry_main(void);

#endif
