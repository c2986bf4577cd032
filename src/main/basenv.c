/* basenv.c: the environment that every command starts from. Nothing of the daemon's own passes
 * that isn't named here or by the operator: secrets of its environment stay there, and where others
 * would look for them there are none. */
#include "main/settings.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DEFAULT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Never passed on by '*': our settings, and words between us and whoever started us. */
static const char *const private_prefixes[] = {"SALLYPORT_", "SANDBOX_",       "RUNBOX_",
                                               "LISTEN_",    "NOTIFY_SOCKET=", NULL};
/* Set for each command, or about our own process: only passed on when named. */
static const char *const own_names[] = {
    "HOME=", "PWD=", "OLDPWD=", "SHELL=", "TMPDIR=", "SHLVL=", "_=", NULL};
/* Passed on always. LC_ stands for its whole family. */
static const char *const always[] = {"PATH=", "LANG=", "LC_", "TZ=", NULL};

static bool starts_with_any(const char *pair, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strncmp(pair, *list, strlen(*list)) == 0)
            return true;
    return false;
}

/* True if the comma list holds the name of pair, or '*'. */
static bool listed(const char *list, const char *pair, size_t name_len, bool *star)
{
    bool found = false;
    *star = false;
    while (list != NULL && *list != '\0') {
        list += strspn(list, ", ");
        size_t n = strcspn(list, ", ");
        if (n == 1 && *list == '*')
            *star = true;
        else if (n == name_len && strncmp(list, pair, n) == 0)
            found = true;
        list += n;
    }
    return found;
}

static bool wanted(const char *list, const char *pair)
{
    const char *eq = strchr(pair, '=');
    bool star;
    if (eq == NULL || eq == pair)
        return false;
    if (starts_with_any(pair, always))
        return true;
    if (listed(list, pair, (size_t)(eq - pair), &star))
        return true;
    return star && !starts_with_any(pair, private_prefixes) && !starts_with_any(pair, own_names);
}

static bool add(struct sp_config *c, const char *pair)
{
    size_t n = strlen(pair) + 1;
    if (n > sizeof c->env - c->env_len)
        return false;
    memcpy(c->env + c->env_len, pair, n);
    c->env_len += (uint32_t)n;
    return true;
}

/* A name that is no variable's would be passed over in silence: refuse it. */
static int check_list(const char *list, char *err, size_t errlen)
{
    while (list != NULL && *list != '\0') {
        list += strspn(list, ", ");
        size_t n = strcspn(list, ", ");
        if (memchr(list, '=', n) != NULL || (n > 1 && memchr(list, '*', n) != NULL)) {
            (void)snprintf(err, errlen,
                           "SALLYPORT_ENV_PASS: %.*s is no variable's name; only a lone * stands "
                           "for all.",
                           n > 80 ? 80 : (int)n, list);
            return -1;
        }
        list += n;
    }
    return 0;
}

int basenv_build(const struct settings *s, struct sp_config *c, char *const *envp, char *err,
                 size_t errlen)
{
    bool path = false, fits = true;
    c->env_len = 0;
    if (check_list(s->env_pass, err, errlen) != 0)
        return -1;
    for (; *envp != NULL && fits; envp++) {
        if (!wanted(s->env_pass, *envp))
            continue;
        fits = add(c, *envp);
        path = path || strncmp(*envp, "PATH=", 5) == 0;
    }
    if (fits && !path)
        fits = add(c, DEFAULT_PATH);
    if (!fits) {
        (void)snprintf(err, errlen, "SALLYPORT_ENV_PASS: more than %zu bytes of environment.",
                       sizeof c->env);
        return -1;
    }
    return 0;
}

int environ_hide(void)
{
    size_t n = 0;
    while (environ[n] != NULL)
        n++;
    char **own = calloc(n + 1, sizeof *own);
    if (own == NULL)
        return -1;
    for (size_t i = 0; i < n; i++) {
        own[i] = strdup(environ[i]);
        if (own[i] != NULL)
            continue;
        while (i-- > 0)
            free(own[i]);
        free(own);
        return -1;
    }
    for (size_t i = 0; i < n; i++)
        explicit_bzero(environ[i], strlen(environ[i]));
    environ = own;
    return 0;
}
