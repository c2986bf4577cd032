/* seat.c: from the environment to a daemon that may be started. Everything that can be refused
 * is refused here, before a process exists or a byte is read from anyone. Then main gives up what
 * it won't need again; the roles inherit no more than that. */
#include "main/box.h"
#include "main/supervise.h"

#include "sallyport/affinity.h"
#include "sallyport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define WALK_PROCS 512u

static int refuse(char *err, size_t errlen, const char *what, int r)
{
    (void)snprintf(err, errlen, "%s: %s.", what, strerror(-r));
    return -1;
}

static void warn_of(const struct settings *s, const char *ids_warning)
{
    if (ids_warning[0] != '\0')
        sp_log(SP_LOG_WARN, "%s", ids_warning);
    if (s->test_disable != NULL)
        sp_log(SP_LOG_WARN,
               "SALLYPORT_TEST_DISABLE=%s: layers are OFF on purpose. This is for tests; never "
               "serve anyone like that",
               s->test_disable);
}

static void log_plan(const struct sp_plan *p)
{
    for (int i = 0; i < SP_LAYER_COUNT; i++) {
        const struct sp_layer_state *l = &p->layer[i];
        sp_log(l->active || !l->required ? SP_LOG_INFO : SP_LOG_WARN, "layer %s: %s (%s)", l->name,
               l->active ? "on" : "off", l->why);
    }
}

static int build_filters(const struct sp_plan *plan, const char *policy, size_t len, char *err,
                         size_t errlen)
{
    struct sp_policy_error e = {0};
    int fd = sp_filters_build(plan, policy, len, &e);
    if (fd >= 0)
        return fd;
    if (e.text[0] != '\0' && e.added) /* as a whole too long, as each rule was looked at */
        (void)snprintf(err, errlen, "SALLYPORT_COMMAND_POLICY: line %d: %s.", e.line, e.text);
    else if (e.text[0] != '\0')
        (void)snprintf(err, errlen, "a built-in policy is wrong at line %d: %s.", e.line, e.text);
    else if (fd == -EBADMSG)
        (void)snprintf(err, errlen,
                       "can't build the filters: one doesn't do what its policy says.");
    else
        (void)refuse(err, errlen, "can't build the filters", fd);
    return -1;
}

/* Low ports are bound and folders opened: what is left to do is starting roles and killing. */
static int confine_main(const struct sp_config *c, char *err, size_t errlen)
{
    int keep[SP_KEEP_MAX];
    int n = sp_caps_to_keep(c, keep);
    int r = sp_confine_caps(keep, n);
    if (r == -EPERM) /* without CAP_SETPCAP the bounding set counts only until no_new_privs */
        r = 0;
    if (r == 0)
        r = sp_confine_basics(false);
    if (r == 0)
        r = sp_confine_caps(keep, n);
    return r == 0 ? 0 : refuse(err, errlen, "main can't confine itself", r);
}

static int open_all(struct super *s, const struct settings *set, const struct sp_plan *plan,
                    char *const *envp, char *err, size_t errlen)
{
    int r = children_init(s);
    if (r != 0)
        return refuse(err, errlen, "can't set up signals", r);
    s->self_fd = sp_role_init_self(false);
    if (s->self_fd < 0)
        return refuse(err, errlen, "can't open our own binary at /proc/self/exe", s->self_fd);
    s->filters_fd = build_filters(plan, s->policy, s->policy_len, err, errlen);
    if (s->filters_fd < 0)
        return -1;
    if (listen_open(&s->listeners, set, envp, err, errlen) != 0)
        return -1;
    if (tls_name(s, err, errlen) != 0) {
        listen_close(&s->listeners);
        return -1;
    }
    s->cfg.nlisten = (uint32_t)s->listeners.n; /* 1..SP_LISTEN_MAX */
    s->config_fd = sp_sealed_memfd("sallyport-config", &s->cfg, sizeof s->cfg);
    if (s->config_fd < 0)
        r = refuse(err, errlen, "can't keep the settings in memory", s->config_fd);
    else
        r = confine_main(&s->cfg, err, errlen);
    if (r != 0)
        listen_close(&s->listeners);
    return r;
}

/* Walking /proc is the weakest way to end a tree: it races with the processes for the CPU, and
 * thousands that fork and leave their session hold it up for minutes. A few hundred don't. (No
 * limit binds user id 0.) */
static void bound_the_walk(struct sp_config *c)
{
    if (c->cgroup || c->pid_ns || c->signal_scope || c->own_uid)
        return;
    if (c->limit_procs == 0 || c->limit_procs > WALK_PROCS)
        c->limit_procs = WALK_PROCS;
    sp_log(SP_LOG_WARN,
           "commands are ended by walking /proc, at most %llu processes each: Linux 6.12, or a "
           "user of their "
           "own in SALLYPORT_USER, would end them at once",
           (unsigned long long)c->limit_procs);
}

/* Where orphans go to another process than the cell, their absence can't be told by having no
 * child: only a user that is the commands' alone lets kill(-1) find them, and none left. */
static int can_end_trees(const struct sp_config *c, char *err, size_t errlen)
{
    if (c->adopts || c->own_uid || c->pid_ns)
        return 0;
    (void)snprintf(err, errlen,
                   "This kernel gives a command's orphans to its first process alone "
                   "(PR_SET_CHILD_SUBREAPER is refused), so they couldn't be ended: start as root "
                   "with a user of the commands' own in SALLYPORT_USER.");
    return -1;
}

/* Every role and command begins with it, and some images have none. */
static int need_null(char *err, size_t errlen)
{
    struct stat st;
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool ok = fd >= 0 && fstat(fd, &st) == 0 && S_ISCHR(st.st_mode);
    if (!ok)
        (void)snprintf(err, errlen, "/dev/null isn't there, or isn't the device%s%s.",
                       fd < 0 ? ": " : "", fd < 0 ? strerror(errno) : "");
    if (fd >= 0)
        close(fd);
    return ok ? 0 : -1;
}

/* Who runs as whom, and where. */
static int choose(struct super *s, const struct settings *set, bool check, char *warn,
                  size_t warnlen, char *err, size_t errlen)
{
    warn[0] = '\0';
    if (config_make(set, &s->cfg, &s->workspace_fd, err, errlen) != 0)
        return -1;
    if (set->mode == SP_MODE_BOX && check)
        return box_look(set, &s->cfg, err, errlen);
    if (set->mode == SP_MODE_BOX)
        return box_prepare(set, &s->cfg, &s->workspace_fd, err, errlen);
    return ids_choose(set, &s->cfg, warn, warnlen, err, errlen);
}

/* A PID namespace ends commands as surely, and each pays some 2 % for being born in a cgroup. */
static void without_cgroup(struct sp_layer_state *l, const struct sp_config *c)
{
    (void)snprintf(l->why, sizeof l->why,
                   "it would limit nothing here%s, and the PID namespace ends commands",
                   c->limit_cpus != 0     ? " (no controller for processors)"
                   : c->limit_memory != 0 ? " (no controller for memory)"
                                          : "");
}

/* A daemon can do without: what is missing is told, and no more, but where nothing else could keep
 * a limit that was asked for. */
static int make_cgroup(struct super *s, struct sp_plan *plan, char *err, size_t errlen)
{
    struct sp_layer_state *l = &plan->layer[SP_LAYER_CGROUP];
    struct sp_config *c = &s->cfg;
    bool made = false;
    if (c->cgroup && c->pid_ns && sp_cgroup_limits_nothing(c, &l->fix)) {
        without_cgroup(l, c);
    } else if (c->cgroup) {
        made = sp_cgroup_make(&s->cgroup, c) == 0;
        (void)snprintf(l->why, sizeof l->why, "%s", s->cgroup.why);
        l->fix = s->cgroup.fix;
        if (made && c->pid_ns && !s->cgroup.memory && !s->cgroup.pids && !s->cgroup.cpu) {
            sp_cgroup_remove(&s->cgroup);
            without_cgroup(l, c);
            made = false;
        }
    }
    l->active = c->cgroup = made;
    c->cgroup_memory = made && s->cgroup.memory;
    c->cgroup_pids = made && s->cgroup.pids;
    c->cgroup_cpu = made && s->cgroup.cpu;
    l->required = c->limit_cpus != 0;
    if (c->limit_cpus == 0 || c->cgroup_cpu || l->accepted)
        return 0;
    char why[240];
    (void)snprintf(why, sizeof why, "SALLYPORT_CPUS needs it; %s", l->why);
    sp_plan_refusal(plan, SP_LAYER_CGROUP, why, err, errlen);
    return -1;
}

/* A cell that may trace could trace what else runs as its user: only where it sees none of that, or
 * Landlock keeps it from it. */
static void may_hold(struct sp_config *c, struct sp_plan *plan)
{
#ifdef __x86_64__
    bool apart = c->pid_ns || c->have_landlock;
    if (apart && plan->layer[SP_LAYER_SECCOMP].active &&
        getrandom(&c->held, sizeof c->held, 0) != (ssize_t)sizeof c->held)
        c->held = 0;
#endif
    if (c->held == 0)
        sp_log(SP_LOG_INFO, "held shells: off: they need seccomp, and a PID namespace or Landlock");
    plan->held = c->held;
}

/* What commands leave in memory counts on: /tmp and /dev/shm together must not be all that they may
 * have, or the next command, which could remove it, would be ended as it starts. */
static void leave_room(struct sp_config *c)
{
    if (c->cgroup_memory && c->limit_memory != 0 && c->tmp_bytes > c->limit_memory / 4)
        c->tmp_bytes = c->limit_memory / 4;
}

static int prepare(struct super *s, enum sp_mode mode, struct sp_plan *plan, bool check,
                   char *const *envp, char *err, size_t errlen)
{
    struct settings set;
    char ids_warning[300];
    memset(s, 0, sizeof *s);
    sp_log_init("main", SP_LOG_INFO);
    if (settings_read(&set, mode, envp, err, errlen) != 0)
        return -1;
    sp_log_init("main", (enum sp_log_level)set.log_level);
    s->shutdown_ms = set.shutdown_timeout;
    if (need_null(err, errlen) != 0 ||
        choose(s, &set, check, ids_warning, sizeof ids_warning, err, errlen) != 0 ||
        basenv_build(&set, &s->cfg, envp, err, errlen) != 0 ||
        added_read(&set, &s->cfg, &s->policy, &s->policy_len, err, errlen) != 0)
        return -1;
    warn_of(&set, ids_warning);
    if (sp_plan_make(plan, &s->cfg, set.accept_missing, set.test_disable, err, errlen) != 0)
        return -1;
    /* kill(-1) by user id would end the workspace owner's other processes too, now or when they
     * come: only a user that the operator named for commands, and that runs nothing else, is
     * theirs. */
    if (mode == SP_MODE_SEAT && s->cfg.own_uid &&
        (set.user == NULL || ids_in_use(s->cfg.command_uid)))
        s->cfg.own_uid = false;
    if (can_end_trees(&s->cfg, err, errlen) != 0)
        return -1;
    if (make_cgroup(s, plan, err, errlen) != 0)
        return -1;
    if (set.tmp_size == 0)
        leave_room(&s->cfg);
    bound_the_walk(&s->cfg);
    if (mode == SP_MODE_BOX && check)
        box_look_at_way(&s->cfg);
    if (ids_check_access(&s->cfg, err, errlen) != 0)
        return -1;
    if (s->policy != NULL && plan->layer[SP_LAYER_SECCOMP].active &&
        added_try(&set, &s->cfg, s->policy, s->policy_len, err, errlen) != 0)
        return -1;
    /* The key is read when no process is made any more that has our memory and another's id. */
    if (tls_read(s, &set, err, errlen) != 0)
        return -1;
    if (set.held_shell != 0)
        may_hold(&s->cfg, plan);
    int one = set.one_cpu != 0 ? sp_affinity_note(&s->cfg) : 0;
    if (one != 0) {
        (void)snprintf(err, errlen, "SALLYPORT_ONE_CPU: which processors there are: %s.",
                       strerror(-one));
        return -1;
    }
    for (int i = 0; i < SP_LAYER_COUNT; i++)
        s->cfg.layers |= plan->layer[i].active ? 1u << i : 0;
    if (check)
        return 0;
    log_plan(plan);
    return open_all(s, &set, plan, envp, err, errlen);
}

int seat_prepare(struct super *s, enum sp_mode mode, struct sp_plan *plan, bool check,
                 char *const *envp, char *err, size_t errlen)
{
    int r = prepare(s, mode, plan, check, envp, err, errlen);
    if (r != 0 || check)
        sp_cgroup_remove(&s->cgroup);
    if (mode == SP_MODE_BOX && check)
        box_look_end(&s->cfg);
    return r;
}
