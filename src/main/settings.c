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

enum kind { TEXT, NUMBER, DURATION, SIZE, CPUS, BOOL, LEVEL, FORMAT, ISOLATION, NETWORK };

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

/* SANDBOX_ settings are the seat's, RUNBOX_ settings the box's. SALLYPORT_ settings are for both,
 * but where the box has one of its own for the same field. */
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
    {"SALLYPORT_ISOLATION", ISOLATION, AT(isolation), "auto", 0, 0, "auto: all that the host gives; strict: every layer but a cgroup, or no start; basic: no namespaces"},
    {"SALLYPORT_NETWORK", NETWORK, AT(network_none), "host", 0, 0, "of commands: host, or none"},
    {"SALLYPORT_TMP_SIZE", SIZE, AT(tmp_size), NULL, 1ull << 20, ANY, "of the commands' own /tmp, which is memory; default 1GiB, in the box 128MiB"},
    {"SALLYPORT_DEFAULT_TIMEOUT", DURATION, AT(default_timeout), "5m", 1, 365 * DAY, "of a command that names none"},
    {"SALLYPORT_MAX_TIMEOUT", DURATION, AT(max_timeout), "24h", 1, 365 * DAY, "that a command may ask for"},
    {"SALLYPORT_HEAD_TIMEOUT", DURATION, AT(head_timeout), "10s", 100, DAY, "for a request's head"},
    {"SALLYPORT_IDLE_TIMEOUT", DURATION, AT(idle_timeout), "60s", 100, DAY, "between requests of a connection"},
    {"SALLYPORT_STALL_TIMEOUT", DURATION, AT(stall_timeout), "30s", 100, DAY, "without progress in a body or answer"},
    {"SALLYPORT_SHUTDOWN_TIMEOUT", DURATION, AT(shutdown_timeout), "10s", 0, DAY, "to finish requests after SIGTERM"},
    {"SALLYPORT_MAX_OUTPUT", SIZE, AT(max_output), "1MiB", 1, 64ull << 20, "kept of each of stdout and stderr"},
    {"SALLYPORT_MAX_UPLOAD", SIZE, AT(max_upload), "1GiB", 1, ANY, "of one PUT"},
    {"SALLYPORT_MAX_CONNECTIONS", NUMBER, AT(max_connections), "4096", 1, 100000, "open at a time"},
    {"SALLYPORT_MAX_PROCS", NUMBER, AT(max_procs), "4096", 0, 4194304, "processes of the commands' user; 0 no limit"},
    {"SALLYPORT_MAX_MEMORY", SIZE, AT(max_memory), "0", 0, ANY, "writable memory of one process; 0 no limit"},
    {"SALLYPORT_MAX_CPU", DURATION, AT(max_cpu), "0", 0, 365 * DAY, "processor time of one process; 0 no limit"},
    {"SALLYPORT_CPUS", CPUS, AT(cpus), "0", 10, 4096000, "processors for all of a command together, such as 1.5; 0 no limit"},
    {"SALLYPORT_MAX_FILE_BYTES", SIZE, AT(max_file_bytes), "0", 0, ANY, "of a file a command writes; 0 no limit"},
    {"SALLYPORT_MAX_OPEN_FILES", NUMBER, AT(max_open_files), "0", 0, 1048576, "of one process; 0 as inherited"},
    {"SALLYPORT_HELD_SHELL", BOOL, AT(held_shell), "off", 0, 0, "keep a shell ready for the next command: on or off"},
    {"SALLYPORT_ONE_CPU", BOOL, AT(one_cpu), "off", 0, 0, "front, broker and the seat's cell stay on one processor; commands don't: on or off"},
    {"SALLYPORT_LOG", LEVEL, AT(log_level), "info", 0, 0, "error, warn, info or debug"},
    {"SALLYPORT_LOG_REQUESTS", BOOL, AT(log_requests), "false", 0, 0, "a line for each request"},
    {"SALLYPORT_TLS_CERT", TEXT, AT(tls_cert), NULL, 0, 0, "file: certificate chain in PEM; TCP speaks TLS then"},
    {"SALLYPORT_TLS_KEY", TEXT, AT(tls_key), NULL, 0, 0, "file: its private key in PEM"},
    {"SALLYPORT_METRICS", BOOL, AT(metrics), "false", 0, 0, "serve GET /metrics, for Prometheus"},
    {"SALLYPORT_REGISTRY_USER", TEXT, AT(registry_user), "64996:64996", 0, 0, "box: user[:group] of the process that keeps the user ids"},
    {"RUNBOX_API_KEY", TEXT, AT(api_key), NULL, 0, 0, "what clients must show; several with commas; at least 16 characters each"},
    {"RUNBOX_ROOT", TEXT, AT(root), "/data", 0, 0, "the folder of state and workspaces"},
    {"RUNBOX_PORT", NUMBER, AT(port), "8080", 0, 65535, "TCP port; 0 takes any that is free"},
    {"RUNBOX_BIND", TEXT, AT(bind), NULL, 0, 0, "addresses, a comma between; default all, IPv6 and IPv4"},
    {"RUNBOX_SHELL", TEXT, AT(shell), NULL, 0, 0, "runs commands with -c; default /bin/bash, else /bin/sh"},
    {"RUNBOX_UID_MIN", NUMBER, AT(uid_min), "200000", 1000, 4294967293, "first user id for identities"},
    {"RUNBOX_UID_MAX", NUMBER, AT(uid_max), "265535", 1000, 4294967293, "last user id for identities"},
    {"RUNBOX_MAX_CONCURRENCY", NUMBER, AT(max_running), "16", 1, 100, "identities with a command at work"},
    {"RUNBOX_QUEUE", NUMBER, AT(queue), "8", 0, 64, "commands of one identity that wait"},
    {"RUNBOX_QUOTA", SIZE, AT(quota), "1GiB", 0, ANY, "of a workspace; 0 no limit"},
    {"RUNBOX_RETENTION", DURATION, AT(retention), "0", 0, 3650 * DAY, "a workspace unused for so long is removed; 0 never"},
    {"RUNBOX_SWEEP_INTERVAL", DURATION, AT(sweep_interval), "10m", 100, DAY, "between looks for those"},
    {"RUNBOX_CELL_IDLE", DURATION, AT(cell_idle), "60s", 100, DAY, "an identity's process is kept without work"},
    {"RUNBOX_SPARE_CELLS", NUMBER, AT(spare_cells), "1", 0, 8, "processes kept ready for identities without one"},
    {"RUNBOX_DEFAULT_TIMEOUT", DURATION, AT(default_timeout), "5m", 1, 365 * DAY, "of a command that names none"},
    {"RUNBOX_MAX_TIMEOUT", DURATION, AT(max_timeout), "24h", 1, 365 * DAY, "that a command may ask for"},
    {"RUNBOX_MAX_OUTPUT", SIZE, AT(max_output), "1MiB", 1, 64ull << 20, "kept of each of stdout and stderr"},
    {"RUNBOX_MAX_UPLOAD", SIZE, AT(max_upload), "1GiB", 1, ANY, "of one uploaded file"},
    {"RUNBOX_SHUTDOWN_TIMEOUT", DURATION, AT(shutdown_timeout), "10s", 0, DAY, "to finish requests after SIGTERM"},
    {"RUNBOX_TLS_CERT", TEXT, AT(tls_cert), NULL, 0, 0, "file: certificate chain in PEM; TCP speaks TLS then"},
    {"RUNBOX_TLS_KEY", TEXT, AT(tls_key), NULL, 0, 0, "file: its private key in PEM"},
    {"RUNBOX_LOG_FORMAT", FORMAT, AT(log_json), "text", 0, 0, "text or json: a line for each request"},
    {"SALLYPORT_TEST_DISABLE", TEXT, AT(test_disable), NULL, 0, 0, "for tests: layers to treat as missing"},
};
/* clang-format on */
#define SETTINGS (sizeof table / sizeof table[0])

static bool starts(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool applies(const struct setting *t, enum sp_mode mode)
{
    if (mode == SP_MODE_SEAT)
        return !starts(t->name, "RUNBOX_") && t->at != AT(registry_user);
    if (starts(t->name, "RUNBOX_"))
        return true;
    if (!starts(t->name, "SALLYPORT_") || t->at == AT(user))
        return false;
    for (size_t i = 0; i < SETTINGS; i++)
        if (table[i].at == t->at && starts(table[i].name, "RUNBOX_"))
            return false;
    return true;
}

/* The words of a kind, in the order of their numbers. */
static const char *const *words_of(enum kind kind)
{
    static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
    static const char *const isolation[] = {"auto", "strict", "basic", NULL};
    static const char *const network[] = {"host", "none", NULL};
    static const char *const format[] = {"text", "json", NULL};
    return kind == LEVEL       ? levels
           : kind == FORMAT    ? format
           : kind == ISOLATION ? isolation
                               : network;
}

static bool parse_word(const char *const *words, const char *v, uint64_t *out)
{
    for (unsigned i = 0; words[i] != NULL; i++)
        if (strcasecmp(v, words[i]) == 0) {
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
    case CPUS:
        ok = sp_parse_thousandths(v, out);
        if (ok && *out == 0)
            return true;
        break;
    case BOOL:
        ok = sp_parse_bool(v, &truth);
        *out = ok && truth;
        return ok;
    case LEVEL:
    case FORMAT:
    case ISOLATION:
    case NETWORK:
        return parse_word(words_of(t->kind), v, out);
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
    case CPUS:
        return "a number of processors like 2 or 0.5";
    case BOOL:
        return "true or false";
    case LEVEL:
        return "error, warn, info or debug";
    case FORMAT:
        return "text or json";
    case ISOLATION:
        return "auto, strict or basic";
    case NETWORK:
        return "host or none";
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
    else if (t->kind >= BOOL)
        (void)snprintf(err, errlen, "%s=%.100s isn't %s.", t->name, v, wanted(t));
    else
        (void)snprintf(err, errlen, "%s=%.100s isn't %s in its range.", t->name, v, wanted(t));
    return -1;
}

static const struct setting *known(const char *name, size_t n)
{
    for (size_t i = 0; i < SETTINGS; i++)
        if (strlen(table[i].name) == n && strncmp(table[i].name, name, n) == 0)
            return &table[i];
    return NULL;
}

/* Kubernetes announces a Service named as the prefix with variables of these forms. */
static bool service_link(const char *name, size_t n, const char *prefix, const char *value)
{
    const char *rest = name + strlen(prefix);
    size_t left = n - strlen(prefix);
    if (left >= 8 && strncmp(rest, "SERVICE_", 8) == 0)
        return true;
    if (left == 4 && strncmp(rest, "PORT", 4) == 0)
        return strstr(value, "://") != NULL;
    return left > 5 && strncmp(rest, "PORT_", 5) == 0 && isdigit((unsigned char)rest[5]);
}

/* What it makes of NAME_PORT, which for a Service called "sandbox" or "runbox" is a setting's name.
 */
static bool announced(const char *value)
{
    return starts(value, "tcp://") || starts(value, "udp://") || starts(value, "sctp://");
}

/* The prefix of names that must be settings; NULL: others use it too. */
static const char *strict_prefix(const char *name, size_t n, enum sp_mode mode)
{
    if (n >= 10 && starts(name, "SALLYPORT_"))
        return "SALLYPORT_";
    return mode == SP_MODE_BOX && n > 7 && starts(name, "RUNBOX_") ? "RUNBOX_" : NULL;
}

/* 0: fine, or not ours. */
static int check_name(const char *pair, enum sp_mode mode, char *err, size_t errlen)
{
    const char *eq = strchr(pair, '=');
    size_t n = eq != NULL ? (size_t)(eq - pair) : 0;
    if (n == 0)
        return 0;
    const char *prefix = strict_prefix(pair, n, mode);
    bool near = n > 7 && (starts(pair, "SANDBOX_") || starts(pair, "RUNBOX_"));
    const struct setting *t = known(pair, n);
    int shown = n > 80 ? 80 : (int)n;
    if ((prefix == NULL && !near) || (t != NULL && applies(t, mode)))
        return 0;
    if (prefix == NULL) {
        sp_log(SP_LOG_WARN, "%.*s is no setting of ours: ignored", shown, pair);
        return 0;
    }
    if (eq[1] == '\0' || service_link(pair, n, prefix, eq + 1))
        return 0;
    if (t != NULL)
        (void)snprintf(err, errlen, "%.*s is no setting of the %s; see sallyport --help.", shown,
                       pair, mode == SP_MODE_BOX ? "box" : "seat");
    else
        (void)snprintf(err, errlen, "%.*s is no setting; see sallyport --help.", shown, pair);
    return -1;
}

/* A default over the maximum is a mistake where it was given, and follows it where it wasn't. */
static int check_timeouts(struct settings *s, char *const *envp, char *err, size_t errlen)
{
    const char *prefix = s->mode == SP_MODE_BOX ? "RUNBOX" : "SALLYPORT";
    char name[40];
    (void)snprintf(name, sizeof name, "%s_DEFAULT_TIMEOUT", prefix);
    if (s->default_timeout <= s->max_timeout)
        return 0;
    if (value_of(envp, name) != NULL) {
        (void)snprintf(err, errlen, "%s is over %s_MAX_TIMEOUT.", name, prefix);
        return -1;
    }
    s->default_timeout = s->max_timeout;
    return 0;
}

int settings_read(struct settings *s, enum sp_mode mode, char *const *envp, char *err,
                  size_t errlen)
{
    memset(s, 0, sizeof *s);
    s->mode = mode;
    for (char *const *e = envp; *e != NULL; e++)
        if (check_name(*e, mode, err, errlen) != 0)
            return -1;
    for (size_t i = 0; i < SETTINGS; i++) {
        const struct setting *t = &table[i];
        if (!applies(t, mode))
            continue;
        const char *v = value_of(envp, t->name);
        if (t->at == AT(port)) {
            if (v != NULL && announced(v)) {
                sp_log(SP_LOG_WARN, "%s=%.80s announces a Service, and is no port of ours: ignored",
                       t->name, v);
                v = NULL;
            }
            s->port_given = v != NULL;
        }
        if (v == NULL)
            v = t->def;
        void *at = (char *)s + t->at;
        uint64_t n = 0;
        if (t->kind == TEXT)
            memcpy(at, &v, sizeof v);
        else if (v != NULL && !parse(t, v, &n)) /* NULL: 0, and config.c decides */
            return refuse_value(t, v, err, errlen);
        else
            memcpy(at, &n, sizeof n);
    }
    return check_timeouts(s, envp, err, errlen);
}

void settings_refused(const char *why)
{
    char line[REFUSAL_MAX];
    size_t n = 0;
    for (; n < sizeof line - 1 && why[n] != '\0'; n++)
        line[n] = (unsigned char)why[n] < ' ' || why[n] == 0x7f ? '?' : why[n];
    line[n] = '\0';
    fprintf(stderr, "sallyport: %s\n", line);
}

void settings_print(FILE *out, enum sp_mode mode)
{
    for (size_t i = 0; i < SETTINGS; i++) {
        const struct setting *t = &table[i];
        bool both = applies(t, SP_MODE_SEAT) && applies(t, SP_MODE_BOX);
        if (!applies(t, mode) || (both && mode == SP_MODE_BOX))
            continue;
        fprintf(out, "  %-27s %s", t->name, t->help);
        if (t->def != NULL)
            fprintf(out, " [%s]", t->def);
        fputc('\n', out);
    }
}
