/* plan.c: which layers of confinement this host gives, and whether that is enough to start. Trusts
 * the operator's settings; never starts with less than they accepted. */
#include "landlock.h"
#include "plan_ns.h"
#include "probe.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const names[SP_LAYER_COUNT] = {
    [SP_LAYER_NO_NEW_PRIVS] = "no-new-privs",
    [SP_LAYER_CAPS] = "caps",
    [SP_LAYER_UID] = "uid",
    [SP_LAYER_SECCOMP] = "seccomp",
    [SP_LAYER_LANDLOCK] = "landlock",
    [SP_LAYER_SIGNAL_SCOPE] = "signal-scope",
    [SP_LAYER_OPENAT2] = "openat2",
    [SP_LAYER_CGROUP] = "cgroup",
    [SP_LAYER_VIEW] = "view",
    [SP_LAYER_PID_NS] = "pid-ns",
    [SP_LAYER_IPC_NS] = "ipc-ns",
    [SP_LAYER_NET_NS] = "net-ns",
    [SP_LAYER_FRONT_ROOT] = "front-root",
};

const char *sp_layer_name(enum sp_layer l)
{
    return names[l];
}

struct choice {
    bool named[SP_LAYER_COUNT];
};

/* A comma list of layer names; spaces around a name and empty places are nothing. */
static int choose(struct choice *ch, const char *list, const char *what, char *err, size_t errlen)
{
    memset(ch, 0, sizeof *ch);
    for (const char *p = list; p != NULL && *p != '\0';) {
        p += strspn(p, ", ");
        size_t n = strcspn(p, ","), full = n;
        while (n > 0 && p[n - 1] == ' ')
            n--;
        int found = -1;
        for (int i = 0; i < SP_LAYER_COUNT; i++)
            if (n > 0 && strlen(names[i]) == n && memcmp(names[i], p, n) == 0)
                found = i;
        if (n > 0 && found < 0) {
            (void)snprintf(err, errlen, "%s names \"%.*s\", which is no layer.", what,
                           n > 40 ? 40 : (int)n, p);
            return -1;
        }
        if (found >= 0)
            ch->named[found] = true;
        p += full;
    }
    return 0;
}

__attribute__((format(printf, 3, 4))) static void state(struct sp_layer_state *l, bool active,
                                                        const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(l->why, sizeof l->why, fmt, ap);
    va_end(ap);
    l->active = active;
}

static void result(struct sp_layer_state *l, int r, const char *good)
{
    if (r == 0)
        state(l, true, "%s", good);
    else if (r == -ESRCH)
        state(l, false, "the probe was killed by a signal");
    else
        state(l, false, "the kernel refuses it: %s", strerror(-r));
}

static void probe_uid(struct sp_layer_state *l, struct sp_config *c)
{
    c->own_uid = false;
    if (!c->switch_uid) {
        state(l, false, "not started as root: commands run as the daemon's own user");
        return;
    }
    int r = sp_probe_ids(c->command_uid, c->command_gid);
    if (r != 0)
        result(l, r, "");
    else if (c->command_uid == 0 || c->command_uid == getuid())
        state(l, false,
              c->command_uid == 0 ? "root owns the workspace, so commands would run as root"
                                  : "commands run as the daemon's own user");
    else if (c->command_uid == c->front_uid)
        state(l, false, "commands share user id %u with the front", c->command_uid);
    else {
        state(l, true, "commands run as user id %u", c->command_uid);
        c->own_uid = true;
    }
}

static void probe_landlock(struct sp_plan *p, struct sp_config *c, const struct choice *off)
{
    struct sp_layer_state *l = &p->layer[SP_LAYER_LANDLOCK], *s = &p->layer[SP_LAYER_SIGNAL_SCOPE];
    int abi = sp_landlock_abi();
    if (abi == 0)
        state(l, false, "the kernel has no Landlock, or it isn't enabled at boot (lsm=)");
    else {
        result(l, sp_probe_landlock(abi), "");
        if (l->active)
            state(l, true, "Landlock version %d", abi);
    }
    if (off->named[SP_LAYER_LANDLOCK])
        state(l, false, "disabled");
    if (!l->active)
        state(s, false, "it needs Landlock");
    else if (abi < 6)
        state(s, false, "it needs Landlock version 6 (Linux 6.12), this kernel has %d", abi);
    else
        result(s, sp_probe_signal_scope(abi), "signals of commands stay among commands");
    if (off->named[SP_LAYER_SIGNAL_SCOPE])
        state(s, false, "disabled");
    c->have_landlock = l->active;
    c->signal_scope = s->active;
    c->landlock_abi = l->active ? abi : 0;
    if (!s->active && c->landlock_abi > 5)
        c->landlock_abi = 5; /* so that no rule set uses what was found missing */
}

static void probe(struct sp_plan *p, struct sp_config *c, const struct choice *off)
{
    result(&p->layer[SP_LAYER_NO_NEW_PRIVS], sp_probe_no_new_privs(), "set in every process");
    result(&p->layer[SP_LAYER_CAPS], sp_probe_caps(), "dropped in every process");
    probe_uid(&p->layer[SP_LAYER_UID], c);
    result(&p->layer[SP_LAYER_SECCOMP], sp_probe_seccomp(), "a filter in every role and command");
    probe_landlock(p, c, off);
    /* A wish: to make it is sp_cgroup_make's. */
    c->cgroup = p->layer[SP_LAYER_SECCOMP].active && !off->named[SP_LAYER_SECCOMP] &&
                !off->named[SP_LAYER_CGROUP];
    state(&p->layer[SP_LAYER_CGROUP], false, "it needs seccomp");
    result(&p->layer[SP_LAYER_OPENAT2], sp_probe_openat2(), "paths are resolved by the kernel");
    sp_plan_namespaces(p, c, off->named);
    for (int i = 0; i < SP_LAYER_COUNT; i++)
        if (off->named[i])
            state(&p->layer[i], false, "disabled");
    if (!p->layer[SP_LAYER_UID].active)
        c->own_uid = false;
    c->adopts = sp_probe_reaper() == 0;
    c->use_openat2 = p->layer[SP_LAYER_OPENAT2].active;
}

/* The value that would let it start: what was accepted, and what is missing. */
static void suggest(const struct sp_plan *p, int first, char *out, size_t cap)
{
    int n = snprintf(out, cap, "%s", names[first]);
    for (int i = 0; i < SP_LAYER_COUNT; i++) {
        bool missing = p->layer[i].required && !p->layer[i].active;
        if (i != first && (missing || p->layer[i].accepted) && n > 0 && (size_t)n < cap)
            n += snprintf(out + n, cap - (size_t)n, ",%s", names[i]);
    }
}

void sp_plan_refusal(const struct sp_plan *p, enum sp_layer l, const char *why, char *err,
                     size_t errlen)
{
    char list[160];
    suggest(p, (int)l, list, sizeof list);
    (void)snprintf(err, errlen,
                   "The layer %s is missing (%s); SALLYPORT_ACCEPT_MISSING=%s starts without it.",
                   names[l], why, list);
}

int sp_plan_make(struct sp_plan *p, struct sp_config *c, const char *accept, const char *disable,
                 char *err, size_t errlen)
{
    struct choice ok, off;
    memset(p, 0, sizeof *p);
    for (int i = 0; i < SP_LAYER_COUNT; i++)
        p->layer[i].name = names[i];
    if (choose(&ok, accept, "SALLYPORT_ACCEPT_MISSING", err, errlen) != 0 ||
        choose(&off, disable, "the list of disabled layers", err, errlen) != 0)
        return -1;
    for (int i = 0; i < SP_LAYER_COUNT; i++)
        p->layer[i].accepted = ok.named[i];
    probe(p, c, &off);
    sp_plan_fixes(p, c);
    p->layer[SP_LAYER_NO_NEW_PRIVS].required = true;
    p->layer[SP_LAYER_CAPS].required = true;
    p->layer[SP_LAYER_SECCOMP].required = true;
    /* Without capabilities user id 0 still owns the system's files: Landlock keeps it from writing
     * them, not from changing their modes and owners. */
    p->layer[SP_LAYER_UID].required = c->switch_uid && c->command_uid == 0;
    /* One of the two has to keep commands in the workspace. */
    p->layer[SP_LAYER_LANDLOCK].required = !c->view;
    p->layer[SP_LAYER_VIEW].required = !c->have_landlock;
    /* Without it kill(-1) reaches what else runs under the commands' user id. */
    p->layer[SP_LAYER_SIGNAL_SCOPE].required = !c->own_uid && !c->pid_ns;
    p->layer[SP_LAYER_NET_NS].required = c->net_none;
    if (c->isolation == SP_ISOLATION_STRICT)
        for (int i = 0; i < SP_LAYER_COUNT; i++)
            p->layer[i].required |= i != SP_LAYER_NET_NS && i != SP_LAYER_CGROUP;
    for (int i = 0; i < SP_LAYER_COUNT; i++) {
        const struct sp_layer_state *l = &p->layer[i];
        if (l->active || !l->required || l->accepted)
            continue;
        sp_plan_refusal(p, (enum sp_layer)i, l->why, err, errlen);
        return -1;
    }
    return 0;
}
