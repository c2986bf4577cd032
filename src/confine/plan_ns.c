/* plan_ns.c: the part of the plan that is about namespaces: which the host gives, by which way, for
 * cells and for the front. Trusts the operator's settings. */
#include "plan_ns.h"
#include "probe_ns.h"

#include <cap-ng.h>
#include <sched.h>
#include <string.h>

/* Nobody outside a cell shares these with it. Not a cgroup namespace: most hosts let clone3 move
 * nobody over its edge, and commands are started in a cgroup by it. Nor has the front one: in its
 * empty root there is nothing that would show a cgroup's name. */
#define CELL_NS (CLONE_NEWNS | CLONE_NEWIPC)
#define FRONT_NS (CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET)

static void say(struct sp_layer_state *l, bool active, const char *why)
{
    (void)snprintf(l->why, sizeof l->why, "%s", why);
    l->active = active;
}

static bool privileged(void)
{
    return capng_get_caps_process() == 0 &&
           capng_have_capability(CAPNG_EFFECTIVE, CAP_SYS_ADMIN) == 1;
}

struct sp_role_ns sp_ns_of(const struct sp_config *c, bool cell)
{
    return (struct sp_role_ns){.flags = cell ? c->cell_ns : c->front_ns,
                               .user = c->user_ns && (cell ? c->cell_ns : c->front_ns) != 0,
                               .switch_ids = c->switch_uid,
                               .uid = cell ? c->command_uid : c->front_uid,
                               .gid = cell ? c->command_gid : c->front_gid};
}

static void none(struct sp_config *c)
{
    c->cell_ns = 0;
    c->view = c->pid_ns = false;
}

/* True with c as it works. */
static bool try_cell(struct sp_config *c, bool user, bool pid, bool ipc, char *why, size_t len)
{
    c->user_ns = user;
    c->view = true;
    c->pid_ns = pid;
    c->cell_ns = CELL_NS;
    if (!ipc)
        c->cell_ns &= ~CLONE_NEWIPC;
    if (pid)
        c->cell_ns |= CLONE_NEWPID;
    if (c->net_none)
        c->cell_ns |= CLONE_NEWNET;
    const struct sp_role_ns ns = sp_ns_of(c, true);
    if (sp_probe_ns(c, &ns, true, why, len) == 0)
        return true;
    none(c);
    return false;
}

/* With CAP_SYS_ADMIN first: user ids then look as they are. With a PID namespace first: without
 * one that /proc may be mounted in, the host's /proc has to do. */
static bool find_way(struct sp_config *c, bool want_pid, bool want_ipc, char why[160],
                     char no_pid[160])
{
    const int first = privileged() ? 0 : 1;
    char no_view[160] = "";
    for (int user = first; user <= 1; user++) {
        if (want_pid && try_cell(c, user == 1, true, want_ipc, no_pid, 160))
            return true;
        if (try_cell(c, user == 1, false, want_ipc, no_view, 160))
            return true;
        if (user == first) /* the way that ought to work tells more */
            (void)snprintf(why, 160, "%s", no_view);
    }
    return false;
}

static void plan_front(struct sp_plan *p, struct sp_config *c, bool off)
{
    struct sp_layer_state *l = &p->layer[SP_LAYER_FRONT_ROOT];
    char why[160];
    (void)snprintf(why, sizeof why,
                   c->isolation == SP_ISOLATION_BASIC ? "SALLYPORT_ISOLATION=basic" : "disabled");
    bool user = c->user_ns;
    bool works = false, told = false;
    char again[160] = "";
    for (int u = c->view ? user : !privileged(); !off && !works && u <= (c->view ? user : 1); u++) {
        c->user_ns = u == 1;
        c->front_ns = FRONT_NS;
        const struct sp_role_ns ns = sp_ns_of(c, false);
        works = sp_probe_ns(c, &ns, false, again, sizeof again) == 0;
        if (!works && !told)
            (void)snprintf(why, sizeof why, "%s", again);
        told = true;
    }
    if (!works) {
        c->front_ns = 0;
        c->user_ns = user;
    }
    say(l, works,
        works ? "the front has an empty root, no network and no process but itself" : why);
}

void sp_plan_namespaces(struct sp_plan *p, struct sp_config *c, const bool off[SP_LAYER_COUNT])
{
    struct sp_layer_state *view = &p->layer[SP_LAYER_VIEW], *pid = &p->layer[SP_LAYER_PID_NS];
    struct sp_layer_state *ipc = &p->layer[SP_LAYER_IPC_NS], *net = &p->layer[SP_LAYER_NET_NS];
    char why[160] = "", no_pid[160] = "";
    bool basic = c->isolation == SP_ISOLATION_BASIC;
    none(c);
    c->front_ns = 0;
    c->user_ns = false;
    if (basic || off[SP_LAYER_VIEW]) {
        (void)snprintf(why, sizeof why, basic ? "SALLYPORT_ISOLATION=basic" : "disabled");
    } else if (find_way(c, !off[SP_LAYER_PID_NS], !off[SP_LAYER_IPC_NS], why, no_pid)) {
        say(view, true,
            c->user_ns ? "a root of their own for commands, through a user namespace"
                       : "a root of their own for commands");
    }
    if (!c->view)
        say(view, false, why);
    if (c->pid_ns)
        say(pid, true, "commands see no process but theirs");
    else
        say(pid, false, off[SP_LAYER_PID_NS] ? "disabled" : c->view ? no_pid : "it needs the view");
    if ((c->cell_ns & CLONE_NEWIPC) != 0)
        say(ipc, true, "System V and POSIX IPC of their own for commands");
    else
        say(ipc, false, off[SP_LAYER_IPC_NS] ? "disabled" : "it needs the view");
    if ((c->cell_ns & CLONE_NEWNET) != 0)
        say(net, true, "commands reach no network");
    else
        say(net, false, c->net_none ? "it needs the view" : "SALLYPORT_NETWORK=host");
    plan_front(p, c, basic || off[SP_LAYER_FRONT_ROOT]);
}
