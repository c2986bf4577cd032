/* settings.c: one table of every setting: --help prints it, the parser obeys it. The environment is
 * the operator's and trusted, but people mistype: a value that doesn't parse and a name of ours
 * that we don't know stop the start, as a security setting must not be lost in silence. */
#include "main/settings.h"

#include "sallyport/log.h"
#include "sallyport/units.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

enum kind { TEXT, NUMBER, DURATION, SIZE, BOOL, LEVEL };

struct setting {
    const char *name;
    enum kind kind;
    size_t at; /* in struct settings: const char * for TEXT, uint64_t for all else */
    const char *def;
    uint64_t min, max;
    const char *help;
};

#define AT(field) offsetof(struct settings, field)
#define GIB (1ull << 30)
#define DAY (86400000ull)
#define ANY (INT64_MAX + 0ull)

/* clang-format off */
static const struct setting table[] = {
    {"SANDBOX_WORKSPACE", TEXT, AT(workspace), "/workspace", 0, 0, "the folder that is served"},
    {"SANDBOX_PORT", NUMBER, AT(port), "8080", 0, 65535, "TCP port; 0 takes any that is free"},
    {"SANDBOX_SHELL", TEXT, AT(shell), NULL, 0, 0, "runs commands with -c; default /bin/bash, else /bin/sh"},
    {"SALLYPORT_BIND", TEXT, AT(bind), NULL, 0, 0, "addresses, a comma between; default all, IPv6 and IPv4"},
    {"SALLYPORT_SOCKET", TEXT, AT(socket), NULL, 0, 0, "unix socket; no TCP then, unless SANDBOX_PORT is set"},
    {"SALLYPORT_USER", TEXT, AT(user), NULL, 0, 0, "user[:group] of commands and of nothing else; default the workspace's owner"},
    {"SALLYPORT_FRONT_USER", TEXT, AT(front_user), "64998:64998", 0, 0, "user[:group] of the HTTP process"},
    {"SALLYPORT_ENV_PASS", TEXT, AT(env_pass), NULL, 0, 0, "variables that commands get of ours: names, or *"},
    {"SALLYPORT_ACCEPT_MISSING", TEXT, AT(accept_missing), NULL, 0, 0, "layers to start without, see `check`"},
    {"SALLYPORT_COMMAND_PATHS", TEXT, AT(command_paths), NULL, 0, 0, "more paths for commands: a file, or \"exec /app, read /data\""},
    {"SALLYPORT_COMMAND_POLICY", TEXT, AT(command_policy), NULL, 0, 0, "file with system call rules ahead of the built-in ones"},
    {"SALLYPORT_DEFAULT_TIMEOUT", DURATION, AT(default_timeout), "5m", 1, 365 * DAY, "of a command that names none"},
    {"SALLYPORT_MAX_TIMEOUT", DURATION, AT(max_timeout), "24h", 1, 365 * DAY, "that a command may ask for"},
    {"SALLYPORT_HEAD_TIMEOUT", DURATION, AT(head_timeout), "10s", 100, DAY, "for a request's head"},
    {"SALLYPORT_IDLE_TIMEOUT", DURATION, AT(idle_timeout), "60s", 100, DAY, "between requests of a connection"},
    {"SALLYPORT_STALL_TIMEOUT", DURATION, AT(stall_timeout), "30s", 100, DAY, "without progress in a body or answer"},
    {"SALLYPORT_SHUTDOWN_TIMEOUT", DURATION, AT(shutdown_timeout), "10s", 0, DAY, "to finish requests after SIGTERM"},
    {"SALLYPORT_MAX_OUTPUT", SIZE, AT(max_output), "1MiB", 1, 64ull << 20, "kept of each of stdout and stderr"},
    {"SALLYPORT_MAX_UPLOAD", SIZE, AT(max_upload), "1GiB", 0, ANY, "of one PUT"},
    {"SALLYPORT_MAX_CONNECTIONS", NUMBER, AT(max_connections), "4096", 1, 100000, "open at a time"},
    {"SALLYPORT_MAX_PROCS", NUMBER, AT(max_procs), "4096", 0, 4194304, "processes of the commands' user; 0 no limit"},
    {"SALLYPORT_MAX_MEMORY", SIZE, AT(max_memory), "0", 0, ANY, "writable memory of one process; 0 no limit"},
    {"SALLYPORT_MAX_CPU", DURATION, AT(max_cpu), "0", 0, 365 * DAY, "processor time of one process; 0 no limit"},
    {"SALLYPORT_MAX_FILE_BYTES", SIZE, AT(max_file_bytes), "0", 0, ANY, "of a file a command writes; 0 no limit"},
    {"SALLYPORT_MAX_OPEN_FILES", NUMBER, AT(max_open_files), "0", 0, 1048576, "of one process; 0 as inherited"},
    {"SALLYPORT_LOG", LEVEL, AT(log_level), "info", 0, 0, "error, warn, info or debug"},
    {"SALLYPORT_LOG_REQUESTS", BOOL, AT(log_requests), "false", 0, 0, "a line for each request"},
    {"SALLYPORT_TEST_DISABLE", TEXT, AT(test_disable), NULL, 0, 0, "for tests: layers to treat as missing"},
};
/* clang-format on */
#define SETTINGS (sizeof table / sizeof table[0])

static bool parse_level(const char *v, uint64_t *out)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (unsigned i = 0; i < 4; i++)
        if (strcasecmp(v, names[i]) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static bool parse(const struct setting *t, const char *v, uint64_t *out)
{
    bool truth, ok = false;
    switch (t->kind) {
    case NUMBER:
        ok = sp_parse_u64(v, out);
        break;
    case DURATION:
        ok = sp_parse_duration_ms(v, out);
        break;
    case SIZE:
        ok = sp_parse_size(v, out);
        break;
    case BOOL:
        ok = sp_parse_bool(v, &truth);
        *out = ok && truth;
        return ok;
    case LEVEL:
        return parse_level(v, out);
    case TEXT:
        return false;
    }
    return ok && *out >= t->min && *out <= t->max;
}

static const char *wanted(const struct setting *t)
{
    switch (t->kind) {
    case NUMBER:
        return "a number";
    case DURATION:
        return "a duration like 250ms, 30s or 5m";
    case SIZE:
        return "a size like 64k or 16MiB";
    case BOOL:
        return "true or false";
    case LEVEL:
        return "error, warn, info or debug";
    case TEXT:
        break;
    }
    return "text";
}

/* The value of name in envp, NULL where it isn't or is empty: compose files set empty ones. */
static const char *value_of(char *const *envp, const char *name)
{
    size_t n = strlen(name);
    for (; *envp != NULL; envp++)
        if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=')
            return (*envp)[n + 1] != '\0' ? *envp + n + 1 : NULL;
    return NULL;
}

static int refuse_value(const struct setting *t, const char *v, char *err, size_t errlen)
{
    if (t->kind == NUMBER && t->max < ANY)
        (void)snprintf(err, errlen, "%s=%.100s isn't a number from %llu to %llu.", t->name, v,
                       (unsigned long long)t->min, (unsigned long long)t->max);
    else
        (void)snprintf(err, errlen, "%s=%.100s isn't %s in its range.", t->name, v, wanted(t));
    return -1;
}

static bool known(const char *name, size_t n)
{
    for (size_t i = 0; i < SETTINGS; i++)
        if (strlen(table[i].name) == n && strncmp(table[i].name, name, n) == 0)
            return true;
    return false;
}

/* Kubernetes announces a Service named "sallyport" with variables of these forms. */
static bool service_link(const char *name, size_t n, const char *value)
{
    const char *rest = name + strlen("SALLYPORT_");
    size_t left = n - strlen("SALLYPORT_");
    if (left >= 8 && strncmp(rest, "SERVICE_", 8) == 0)
        return true;
    if (left == 4 && strncmp(rest, "PORT", 4) == 0)
        return strstr(value, "://") != NULL;
    return left > 5 && strncmp(rest, "PORT_", 5) == 0 && isdigit((unsigned char)rest[5]);
}

static int check_names(char *const *envp, char *err, size_t errlen)
{
    for (; *envp != NULL; envp++) {
        const char *eq = strchr(*envp, '=');
        size_t n = eq != NULL ? (size_t)(eq - *envp) : 0;
        bool ours = n >= 10 && strncmp(*envp, "SALLYPORT_", 10) == 0;
        bool near = n > 8 && strncmp(*envp, "SANDBOX_", 8) == 0;
        if (n == 0 || (!ours && !near) || known(*envp, n))
            continue;
        if (near) { /* others use that prefix too */
            sp_log(SP_LOG_WARN, "%.*s is no setting of ours: ignored", n > 80 ? 80 : (int)n, *envp);
            continue;
        }
        if (service_link(*envp, n, eq + 1))
            continue;
        (void)snprintf(err, errlen, "%.*s is no setting; see sallyport --help.",
                       n > 80 ? 80 : (int)n, *envp);
        return -1;
    }
    return 0;
}

int settings_read(struct settings *s, char *const *envp, char *err, size_t errlen)
{
    memset(s, 0, sizeof *s);
    if (check_names(envp, err, errlen) != 0)
        return -1;
    for (size_t i = 0; i < SETTINGS; i++) {
        const struct setting *t = &table[i];
        const char *v = value_of(envp, t->name);
        if (v == NULL)
            v = t->def;
        void *at = (char *)s + t->at;
        uint64_t n = 0;
        if (t->kind == TEXT)
            memcpy(at, &v, sizeof v);
        else if (!parse(t, v, &n))
            return refuse_value(t, v, err, errlen);
        else
            memcpy(at, &n, sizeof n);
    }
    s->port_given = value_of(envp, "SANDBOX_PORT") != NULL;
    if (s->default_timeout > s->max_timeout) {
        if (value_of(envp, "SALLYPORT_DEFAULT_TIMEOUT") != NULL) {
            (void)snprintf(err, errlen, "SALLYPORT_DEFAULT_TIMEOUT is over SALLYPORT_MAX_TIMEOUT.");
            return -1;
        }
        s->default_timeout = s->max_timeout;
    }
    return 0;
}

void settings_print(FILE *out)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        const struct setting *t = &table[i];
        fprintf(out, "  %-27s %s", t->name, t->help);
        if (t->def != NULL)
            fprintf(out, " [%s]", t->def);
        fputc('\n', out);
    }
}
