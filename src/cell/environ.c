/* environ.c: what a command's shell is started with. Trusts the settings; the request's variables
 * were checked by the front for their form, and here again for their bounds.
 *
 * Later wins: HOME, SHELL, TMPDIR of ours, then the daemon's base, then PWD, then the request. */
#include "cell/environ.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static size_t name_len(const char *var)
{
    return strcspn(var, "=");
}

static bool same_name(const char *a, const char *b)
{
    size_t n = name_len(a);
    return n == name_len(b) && memcmp(a, b, n) == 0;
}

static int add_base(struct sp_environ *e, const char *var)
{
    for (size_t i = 0; i < e->nbase; i++) {
        if (same_name(e->base[i], var)) {
            e->base[i] = var;
            return 0;
        }
    }
    if (e->nbase == SP_BASE_VARS)
        return -E2BIG;
    e->base[e->nbase++] = var;
    return 0;
}

int sp_environ_init(struct sp_environ *e, const struct sp_config *c)
{
    static const char tmpdir[] = "TMPDIR=/tmp";
    e->config = c;
    e->nbase = 0;
    (void)snprintf(e->home, sizeof e->home, "HOME=%s", c->workspace);
    (void)snprintf(e->shell, sizeof e->shell, "SHELL=%s", c->shell);
    int err = add_base(e, e->home);
    if (err == 0)
        err = add_base(e, e->shell);
    if (err == 0)
        err = add_base(e, tmpdir);
    for (uint32_t at = 0; at < c->env_len && err == 0;) {
        const char *var = c->env + at;
        at += (uint32_t)strlen(var) + 1; /* sp_config_load checked that the last byte is a NUL */
        if (strncmp(var, "PWD=", 4) != 0 && strchr(var, '=') != NULL)
            err = add_base(e, var);
    }
    return err;
}

static void set_pwd(struct sp_environ *e, const char *cwd)
{
    const char *ws = e->config->workspace;
    bool top = strcmp(ws, "/") == 0;
    /* As the client named it: where it runs through links, the shell checks that it is right. */
    (void)snprintf(e->pwd, sizeof e->pwd, "PWD=%s%s%s", top && *cwd != '\0' ? "" : ws,
                   *cwd == '\0' ? "" : "/", cwd);
}

static char *unconst(const char *s)
{
    union {
        const char *from;
        char *to;
    } u = {.from = s}; /* execve's prototype predates const; it writes nothing */
    return u.to;
}

static bool set_envp(struct sp_environ *e, const struct sp_msg *m)
{
    size_t n = 0;
    for (size_t i = 0; i < e->nbase; i++)
        e->envp[n++] = unconst(e->base[i]);
    e->envp[n++] = e->pwd;
    size_t ours = n;
    if (m->env.n > SP_ENV_BYTES_MAX || (m->env.n > 0 && m->env.p[m->env.n - 1] != '\0'))
        return false;
    if (m->env.n > 0)
        memcpy(e->own, m->env.p, m->env.n);
    for (size_t at = 0; at < m->env.n;) {
        char *var = e->own + at;
        size_t i = 0;
        at += strlen(var) + 1;
        while (i < ours && !same_name(e->envp[i], var))
            i++;
        if (i == ours && n == SP_VARS)
            return false;
        if (i == ours)
            e->envp[n++] = var;
        else
            e->envp[i] = var;
    }
    e->envp[n] = NULL;
    return true;
}

static void set_argv(struct sp_environ *e)
{
    const char *slash = strrchr(e->config->shell, '/');
    size_t n = 0;
    e->argv[n++] = unconst(slash == NULL ? e->config->shell : slash + 1);
    e->argv[n++] = unconst("-c");
    /* A command that looks like an option would be taken for one. */
    if (e->command[0] == '-' || e->command[0] == '+')
        e->argv[n++] = unconst("--");
    e->argv[n++] = e->command;
    e->argv[n] = NULL;
}

bool sp_environ_set(struct sp_environ *e, const struct sp_msg *m, const char *cwd)
{
    if (m->command.n > SP_COMMAND_MAX)
        return false;
    if (m->command.n > 0)
        memcpy(e->command, m->command.p, m->command.n);
    e->command[m->command.n] = '\0';
    set_argv(e);
    set_pwd(e, cwd);
    return set_envp(e, m);
}
