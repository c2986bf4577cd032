/* settings.h: the daemon's settings, all from the environment, and what is made of them. */
#ifndef SALLYPORT_MAIN_SETTINGS_H
#define SALLYPORT_MAIN_SETTINGS_H

#include "sallyport/role.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define REFUSAL_MAX 400

struct settings {
    enum sp_mode mode;
    const char *workspace, *shell; /* shell NULL: look for one */
    const char *bind, *socket;     /* NULL: not given */
    uint64_t port;
    bool port_given;
    uint64_t default_timeout, max_timeout;
    uint64_t max_output, max_upload;
    uint64_t head_timeout, idle_timeout, stall_timeout;
    uint64_t max_connections, shutdown_timeout;
    const char *user, *front_user, *env_pass, *accept_missing;
    const char *command_policy, *command_paths;
    uint64_t max_procs, max_memory, max_cpu, max_file_bytes, max_open_files;
    uint64_t cpus; /* thousandths of a processor */
    uint64_t log_level, log_requests, metrics;
    const char *tls_cert, *tls_key;
    uint64_t isolation; /* enum sp_isolation */
    uint64_t network_none, tmp_size, held_shell, one_cpu;
    const char *test_disable;
    /* the box */
    const char *api_key, *root, *registry_user;
    uint64_t uid_min, uid_max, max_running, queue, quota;
    uint64_t retention, sweep_interval, cell_idle, spare_cells, log_json;
};

/* Reads the environment. 0, or -1 with a sentence in err (REFUSAL_MAX). warn gets foreign names. */
int settings_read(struct settings *s, enum sp_mode mode, char *const *envp, char *err,
                  size_t errlen);
/* Prints such a sentence to stderr. What stands in the environment may hold anything: it is one
 * line, and nothing for the terminal. */
void settings_refused(const char *why);
/* The table, for --help: the seat's, or what only the box has. */
void settings_print(FILE *out, enum sp_mode mode);

/* ids.c: who commands and the front run as; checks that the workspace and the shell are usable to
 * commands. 0, or -1 with a sentence. warn: set to a sentence when there is something to warn of,
 * "" else. */
int ids_choose(const struct settings *s, struct sp_config *c, char *warn, size_t warnlen, char *err,
               size_t errlen);
/* "user[:group]", each a number or a name, as the setting name has it. */
int ids_parse_user(const char *name, const char *text, uid_t *uid, gid_t *gid, char *err,
                   size_t errlen);
/* True if any process has uid: then commands don't have it for themselves, and kill(-1) is too
 * wide. */
bool ids_in_use(uid_t uid);
int ids_check_access(const struct sp_config *c, char *err, size_t errlen);

/* basenv.c: moves the environment from where /proc/PID/environ reads it, and leaves nothing there:
 * gVisor of 2022 lets any command read that of any process. 0, or -1 without memory. */
int environ_hide(void);
/* Fills c->env. */
int basenv_build(const struct settings *s, struct sp_config *c, char *const *envp, char *err,
                 size_t errlen);

/* added.c: what the operator adds to the policies. Fills c->command_paths; policy gets the text of
 * SALLYPORT_COMMAND_POLICY, malloc'ed, NULL without one. 0, or -1 with a sentence. */
int added_read(const struct settings *s, struct sp_config *c, char **policy, size_t *len, char *err,
               size_t errlen);
/* Starts the shell under that policy, to see that commands will. 0, or -1 with a sentence. */
int added_try(const struct settings *s, const struct sp_config *c, const char *policy, size_t len,
              char *err, size_t errlen);
/* A whole regular file of at most 64 KiB in malloc'ed memory, with a NUL behind it; NULL with errno
 * (EFBIG, or EISDIR where it is no file). For the lint too. */
char *added_file(const char *path, size_t *len);

/* policy.c: `sallyport policy ...`, argv from behind that word; the exit status. */
int policy_command(int argc, char **argv);

/* health.c: asks url, or the seat that has these settings, for /healthz. The exit status. */
int health(const char *url, char *const *envp);

/* config.c: everything of c that follows from s alone, with the workspace resolved and opened; the
 * box's folders are box.c's. */
int config_make(const struct settings *s, struct sp_config *c, int *workspace_fd, char *err,
                size_t errlen);

#endif
