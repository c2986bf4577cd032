/* config.c: turns settings into the bytes that the roles read. Resolves the workspace once, so that
 * a link changed later moves nothing. Trusts the operator. */
#include "main/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TMP_SIZE_SEAT (1ull << 30)
#define TMP_SIZE_BOX (128ull << 20)

/* For the view, which hides it. A deleted one has no path. */
static void find_binary(struct sp_config *c)
{
    struct stat st;
    ssize_t n = readlink("/proc/self/exe", c->binary, sizeof c->binary - 1);
    c->binary[n > 0 ? n : 0] = '\0';
    if (c->binary[0] != '/' || stat(c->binary, &st) != 0)
        c->binary[0] = '\0';
}

static int find_workspace(const struct settings *s, struct sp_config *c, int *fd, char *err,
                          size_t errlen)
{
    char real[PATH_MAX];
    struct stat st;
    if (s->workspace[0] != '/') {
        (void)snprintf(err, errlen, "SANDBOX_WORKSPACE: %.200s isn't an absolute path.",
                       s->workspace);
        return -1;
    }
    if (realpath(s->workspace, real) == NULL || stat(real, &st) != 0) {
        (void)snprintf(err, errlen, "SANDBOX_WORKSPACE: %.200s: %s.", s->workspace,
                       strerror(errno));
        return -1;
    }
    if (!S_ISDIR(st.st_mode)) {
        (void)snprintf(err, errlen, "SANDBOX_WORKSPACE: %.200s isn't a folder.", s->workspace);
        return -1;
    }
    if (strcmp(real, "/") == 0) {
        (void)snprintf(err, errlen, "SANDBOX_WORKSPACE can't be the root folder.");
        return -1;
    }
    (void)snprintf(c->workspace, sizeof c->workspace, "%s", real); /* both PATH_MAX */
    *fd = open(real, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*fd < 0) {
        (void)snprintf(err, errlen, "SANDBOX_WORKSPACE: %.200s: %s.", s->workspace,
                       strerror(errno));
        return -1;
    }
    return 0;
}

static bool runnable(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 0111) != 0;
}

static int find_shell(const struct settings *s, struct sp_config *c, char *err, size_t errlen)
{
    const char *shell = s->shell;
    const char *name = s->mode == SP_MODE_BOX ? "RUNBOX_SHELL" : "SANDBOX_SHELL";
    if (shell == NULL)
        shell = runnable("/bin/bash") ? "/bin/bash" : "/bin/sh";
    if (shell[0] != '/' || strlen(shell) >= sizeof c->shell) {
        (void)snprintf(err, errlen, "%s: %.200s isn't an absolute path.", name, shell);
        return -1;
    }
    if (!runnable(shell)) {
        (void)snprintf(err, errlen, "%s: %.200s isn't there, or isn't executable.", name, shell);
        return -1;
    }
    (void)snprintf(c->shell, sizeof c->shell, "%s", shell);
    return 0;
}

int config_make(const struct settings *s, struct sp_config *c, int *workspace_fd, char *err,
                size_t errlen)
{
    memset(c, 0, sizeof *c);
    *workspace_fd = -1;
    c->magic = SP_CONFIG_MAGIC;
    c->size = sizeof *c;
    c->default_timeout_ms = s->default_timeout;
    c->max_timeout_ms = s->max_timeout;
    c->max_output = s->max_output;
    c->max_upload = s->max_upload;
    c->head_timeout_ms = s->head_timeout;
    c->idle_timeout_ms = s->idle_timeout;
    c->stall_timeout_ms = s->stall_timeout;
    c->max_connections = (uint32_t)s->max_connections; /* the table bounds it */
    c->limit_procs = s->max_procs;
    c->limit_memory = s->max_memory;
    c->limit_cpus = s->cpus;
    c->limit_cpu_s = s->max_cpu / 1000 + (s->max_cpu % 1000 != 0); /* never down to none */
    c->limit_file_bytes = s->max_file_bytes;
    c->limit_open_files = s->max_open_files;
    c->isolation = (int)s->isolation;
    c->net_none = s->network_none != 0;
    /* In the box each identity at work has one. */
    c->tmp_bytes = s->tmp_size != 0         ? s->tmp_size
                   : s->mode == SP_MODE_BOX ? TMP_SIZE_BOX
                                            : TMP_SIZE_SEAT;
    c->log_level = (int)s->log_level;
    c->log_requests = s->log_requests != 0;
    c->metrics = s->metrics != 0;
    find_binary(c);
    if (s->mode == SP_MODE_SEAT && find_workspace(s, c, workspace_fd, err, errlen) != 0)
        return -1;
    return find_shell(s, c, err, errlen);
}
