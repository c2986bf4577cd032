/* probe_kernel.c: the machine and the kernel's settings: modules, kexec, clocks, names, ports,
 * quotas. Every call is chosen so that its success changes nothing: where only a change would show
 * it, the answer that the kernel gives after it has looked at who asks counts as success. */
#include "probe.h"

#include <fcntl.h>
#include <linux/quota.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/timex.h>
#include <time.h>

static int modules(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    if (p->x == 0)
        return reached(CALL(SYS_init_module, NULL, 0, ""), ENOEXEC);
    if (p->x == 1)
        return reached(CALL(SYS_finit_module, 0, "", 0), EINVAL);
    if (p->x == 2)
        return reached(CALL(SYS_delete_module, "sp-none", O_NONBLOCK), ENOENT);
    if (p->x == 3)
        return reached(CALL(SYS_kexec_load, 0, 0, NULL, ~0UL), EINVAL);
    return reached(CALL(SYS_kexec_file_load, -1, -1, 0, NULL, ~0UL), EINVAL);
}

static int machine(const struct probe_stage *s, const struct probe *p)
{
    switch (p->x) {
    case 0:
        return reached(CALL(SYS_reboot, 0, 0, 0, NULL), EINVAL);
    case 1:
        return reached(CALL(SYS_swapon, inside(s, "none"), 0), ENOENT);
    case 2:
        return reached(CALL(SYS_swapoff, inside(s, "none")), ENOENT);
    case 3:
        return reached(CALL(SYS_acct, inside(s, "none")), ENOENT);
    case 4:
        return CALL(SYS_quotactl, QCMD(Q_SYNC, 0), NULL, 0, NULL);
    case 5:
        return reached(CALL(SYS_quotactl_fd, -1, QCMD(Q_SYNC, 0), 0, NULL), EBADF);
    case 6:
        return CALL(SYS_vhangup);
    case 7:
        return CALL(SYS_syslog, 10, NULL, 0);
    case 8:
        return CALL(SYS_syslog, 3, &(char[64]){0}, 64);
    default:
        return reached(CALL(SYS_uselib, inside(s, "none")), ENOENT);
    }
}

static int clocks(const struct probe_stage *s, const struct probe *p)
{
    struct timex t = {0};
    const struct timespec bad = {0, 2000000000};
    (void)s;
    switch (p->x) {
    case 0:
        return CALL(SYS_settimeofday, NULL, NULL);
    case 1:
        return reached(CALL(SYS_clock_settime, CLOCK_REALTIME, &bad), EINVAL);
    case 2:
        return CALL(SYS_adjtimex, &t);
    case 3:
        return CALL(SYS_clock_adjtime, CLOCK_REALTIME, &t);
    default:
        return CALL(SYS_clock_adjtime, CLOCK_REALTIME | p->y, &t);
    }
}

static int host_name(const struct probe_stage *s, const struct probe *p)
{
    take_namespaces(s, CLONE_NEWUTS);
    return reached(CALL(p->x ? SYS_setdomainname : SYS_sethostname, "x", -1), EINVAL);
}

static int ports(const struct probe_stage *s, const struct probe *p)
{
    char ldt[64];
    (void)s;
    if (p->x == 0)
        return CALL(SYS_iopl, 3);
    if (p->x == 1)
        return CALL(SYS_ioperm, 0x80, 1, 1);
    return CALL(SYS_modify_ldt, 0, ldt, sizeof ldt);
}

static int old_calls(const struct probe_stage *s, const struct probe *p)
{
    struct stat st;
    char buf[256];
    switch (p->x) {
    case 0:
        return CALL(SYS_sysfs, 3);
    case 1:
        return stat(s->ws, &st) != 0 ? errno : CALL(SYS_ustat, st.st_dev, buf);
    case 2:
        return CALL(SYS_lookup_dcookie, 0, buf, sizeof buf);
    case 3:
        return CALL(SYS_nfsservctl, 0, NULL, NULL);
    case 4:
        return CALL(SYS__sysctl, NULL);
    default:
        return CALL(p->y, 0, 0, 0, 0, 0, 0);
    }
}

static int memory_policy(const struct probe_stage *s, const struct probe *p)
{
    static char page[8192];
    int mode;
    void *at = (void *)(((uintptr_t)page + 4095) & ~(uintptr_t)4095);
    (void)s;
    switch (p->x) {
    case 0:
        return CALL(SYS_mbind, at, 4096, 0, NULL, 0, 0);
    case 1:
        return CALL(SYS_set_mempolicy, 0, NULL, 0);
    case 2:
        return CALL(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0);
    default:
        return CALL(SYS_set_mempolicy_home_node, at, 0, 0, 0);
    }
}

static int taste(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    return CALL(SYS_personality, p->x);
}

static int control(const struct probe_stage *s, const struct probe *p)
{
    unsigned size = 0;
    (void)s;
    switch (p->x) {
    case 0:
        return CALL(SYS_prctl, PR_SET_MM | p->y, PR_SET_MM_MAP_SIZE, &size, 0, 0);
    case 1: /* cookies tell which processes may share a core */
        return reached(CALL(SYS_prctl, 62 /* PR_SCHED_CORE */, 1, 0, 0, 0), ENODEV);
    case 2: /* once it is set, nobody may take it back */
        return CALL(SYS_prctl, PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0);
    case 3:
        return CALL(SYS_prctl, PR_SET_SECUREBITS, 0, 0, 0, 0);
    case 4:
        return CALL(SYS_prctl, PR_CAPBSET_DROP, 40, 0, 0, 0);
    default:
        return CALL(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0);
    }
}

static int ids(const struct probe_stage *s, const struct probe *p)
{
    gid_t none[1] = {0};
    struct {
        uint32_t version;
        int pid;
    } head = {0x20080522, 0};
    uint32_t data[6] = {1u << 21, 1u << 21, 0, 0, 0, 0};
    (void)s;
    switch (p->x) {
    case 0:
        return getuid() == 0 ? EPERM : CALL(SYS_setuid, 0);
    case 1:
        return CALL(SYS_setresuid, 64998, 64998, 64998);
    case 2:
        return CALL(SYS_setgid, 64998);
    case 3:
        return CALL(SYS_setgroups, 1, none);
    case 4:
        return CALL(SYS_capset, &head, data);
    default:
        return CALL(SYS_setfsuid, 64998) != 0       ? errno
               : syscall(SYS_setfsuid, -1) == 64998 ? 0
                                                    : EPERM;
    }
}

#define HIGH (1L << 32)
#define UNKNOWN(n)                                                                                 \
    {                                                                                              \
        "call-" #n, old_calls, NULL, 5, n, 0                                                       \
    }

const struct probe probes_kernel[] = {
    {"init-module", modules, NULL, 0, 0, 0},
    {"finit-module", modules, NULL, 1, 0, 0},
    {"delete-module", modules, NULL, 2, 0, 0},
    {"kexec-load", modules, NULL, 3, 0, 0},
    {"kexec-file-load", modules, NULL, 4, 0, 0},
    {"reboot", machine, NULL, 0, 0, 0},
    {"swapon", machine, NULL, 1, 0, 0},
    {"swapoff", machine, NULL, 2, 0, 0},
    {"acct", machine, NULL, 3, 0, 0},
    {"quotactl", machine, NULL, 4, 0, 0},
    {"quotactl-fd", machine, NULL, 5, 0, 0},
    {"vhangup", machine, NULL, 6, 0, 0},
    {"syslog-size", machine, NULL, 7, 0, 0},
    {"syslog-read", machine, NULL, 8, 0, 0},
    {"uselib", machine, NULL, 9, 0, 0},
    {"settimeofday", clocks, NULL, 0, 0, 0},
    {"clock-settime", clocks, NULL, 1, 0, 0},
    {"adjtimex", clocks, NULL, 2, 0, 0},
    {"clock-adjtime", clocks, NULL, 3, 0, 0},
    {"clock-adjtime-bit32", clocks, NULL, 4, HIGH, 0},
    {"sethostname", host_name, NULL, 0, 0, 0},
    {"setdomainname", host_name, NULL, 1, 0, 0},
    {"iopl", ports, NULL, 0, 0, 0},
    {"ioperm", ports, NULL, 1, 0, 0},
    {"modify-ldt", ports, NULL, 2, 0, 0},
    {"sysfs", old_calls, NULL, 0, 0, 0},
    {"ustat", old_calls, NULL, 1, 0, 0},
    {"lookup-dcookie", old_calls, NULL, 2, 0, 0},
    {"nfsservctl", old_calls, NULL, 3, 0, 0},
    {"sysctl", old_calls, NULL, 4, 0, 0},
    UNKNOWN(335),
    UNKNOWN(471),
    UNKNOWN(500),
    UNKNOWN(10000),
    {"mbind", memory_policy, NULL, 0, 0, 0},
    {"set-mempolicy", memory_policy, NULL, 1, 0, 0},
    {"get-mempolicy", memory_policy, NULL, 2, 0, 0},
    {"set-mempolicy-home", memory_policy, NULL, 3, 0, 0},
    {"personality-read-exec", taste, NULL, 0x400000, 0, 0},
    {"personality-page-zero", taste, NULL, 0x100000, 0, 0},
    {"personality-bit32", taste, NULL, HIGH | 0x400000, 0, 0},
    {"prctl-mm", control, NULL, 0, 0, 0},
    {"prctl-mm-bit32", control, NULL, 0, HIGH, 0},
    {"prctl-core-cookie", control, NULL, 1, 0, 0},
    {"prctl-new-privs-again", control, NULL, 2, 0, 0},
    {"prctl-securebits", control, NULL, 3, 0, 0},
    {"prctl-bounding-set", control, NULL, 4, 0, 0},
    {"prctl-ambient-raise", control, NULL, 5, 0, 0},
    {"setuid-0", ids, NULL, 0, 0, 0},
    {"setuid-front", ids, NULL, 1, 0, 0},
    {"setgid-other", ids, NULL, 2, 0, 0},
    {"setgroups", ids, NULL, 3, 0, 0},
    {"capset", ids, NULL, 4, 0, 0},
    {"setfsuid", ids, NULL, 5, 0, 0},
    {NULL, NULL, NULL, 0, 0, 0},
};
