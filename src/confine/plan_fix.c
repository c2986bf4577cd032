/* plan_fix.c: for each layer that is off, what an operator can do about it. Plain advice: nothing
 * is decided here. */
#include "plan_ns.h"

#include <stddef.h>

static const char *const fixes[SP_LAYER_COUNT] = {
    [SP_LAYER_NO_NEW_PRIVS] = "Linux 3.5 or later",
    [SP_LAYER_CAPS] = "in a container, a seccomp profile that allows capset and prctl",
    [SP_LAYER_UID] =
        "start as root with SETUID, SETGID and KILL, and name a user of the commands' own in "
        "SALLYPORT_USER or give it the workspace",
    [SP_LAYER_SECCOMP] =
        "a kernel with CONFIG_SECCOMP_FILTER; in a container, a profile that allows seccomp",
    [SP_LAYER_LANDLOCK] =
        "Linux 5.13 or later with landlock in lsm= at boot; in a container, a seccomp profile "
        "that allows the landlock_ calls",
    [SP_LAYER_SIGNAL_SCOPE] = "Linux 6.12 or later",
    [SP_LAYER_OPENAT2] =
        "Linux 5.6 or later; in a container, a seccomp profile that allows openat2",
    [SP_LAYER_CGROUP] = NULL, /* its reason has it */
    [SP_LAYER_VIEW] =
        "a root that is a mount, not a chroot; Linux 5.12 or later; and CAP_SYS_ADMIN (docker run "
        "--cap-add SYS_ADMIN) or user "
        "namespaces: "
        "sysctl user.max_user_namespaces over 0, kernel.unprivileged_userns_clone=1 (Debian), "
        "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu); in a container, a seccomp "
        "profile that allows clone with namespaces, mount, pivot_root and the new mount calls",
    [SP_LAYER_PID_NS] =
        "a /proc that isn't masked: docker run --security-opt systempaths=unconfined, podman run "
        "--security-opt unmask=ALL; or CAP_SYS_ADMIN",
    [SP_LAYER_IPC_NS] = "what the view needs",
    [SP_LAYER_NET_NS] = "what the view needs",
    [SP_LAYER_FRONT_ROOT] = "what the view needs",
};

void sp_plan_fixes(struct sp_plan *p, const struct sp_config *c)
{
    for (int i = 0; i < SP_LAYER_COUNT; i++)
        p->layer[i].fix = p->layer[i].active ? NULL : fixes[i];
    if (c->isolation == SP_ISOLATION_BASIC)
        for (int i = SP_LAYER_VIEW; i <= SP_LAYER_FRONT_ROOT; i++)
            p->layer[i].fix = "SALLYPORT_ISOLATION=auto";
    if (!c->net_none) /* as asked for */
        p->layer[SP_LAYER_NET_NS].fix = NULL;
}
