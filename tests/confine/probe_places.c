/* probe_places.c: the host's own places: system folders, /proc and /sys. Writing is only opened
 * for, never done. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static int file(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    return p->x == O_RDONLY ? try_read(p->path) : try_open(p->path, (int)p->x);
}

/* Entries other than the two that every folder has; an empty folder tells nothing. */
static int list(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    DIR *d = opendir(p->path);
    const struct dirent *e;
    if (d == NULL)
        return errno;
    while ((e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            return 0;
    return ENODATA;
}

static int list_parent(const struct probe_stage *s, const struct probe *p)
{
    (void)p;
    return try_open(inside(s, ".."), O_RDONLY | O_DIRECTORY);
}

static int make(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    return outcome(mkdir(p->path, 0700));
}

const struct probe probes_places[] = {
    {"list-root", list, "/", 0, 0, 0},
    {"list-parent-of-workspace", list_parent, NULL, 0, 0, 0},
    {"list-run", list, "/run", 0, 0, 0},
    {"list-home-of-root", list, "/root", 0, 0, 0},
    {"list-usr-bin", list, "/usr/bin", 0, 0, 0},
    {"read-passwd", file, "/etc/passwd", O_RDONLY, 0, 0},
    {"read-shadow", file, "/etc/shadow", O_RDONLY, 0, 0},
    {"write-passwd", file, "/etc/passwd", O_WRONLY, 0, 0},
    {"write-usr", make, "/usr/sp-made", 0, 0, 0},
    {"write-root", make, "/sp-made", 0, 0, 0},
    {"write-run", make, "/run/sp-made", 0, 0, 0},
    {"proc-core-pattern", file, "/proc/sys/kernel/core_pattern", O_WRONLY, 0, 0},
    {"proc-modprobe", file, "/proc/sys/kernel/modprobe", O_WRONLY, 0, 0},
    {"proc-hostname", file, "/proc/sys/kernel/hostname", O_WRONLY, 0, 0},
    {"proc-ns-last-pid", file, "/proc/sys/kernel/ns_last_pid", O_WRONLY, 0, 0},
    {"proc-suid-dumpable", file, "/proc/sys/fs/suid_dumpable", O_WRONLY, 0, 0},
    {"proc-binfmt", file, "/proc/sys/fs/binfmt_misc/register", O_WRONLY, 0, 0},
    {"proc-drop-caches", file, "/proc/sys/vm/drop_caches", O_WRONLY, 0, 0},
    {"proc-ip-forward", file, "/proc/sys/net/ipv4/ip_forward", O_WRONLY, 0, 0},
    {"proc-sysctl-read", file, "/proc/sys/kernel/ostype", O_RDONLY, 0, 0},
    {"proc-sysrq", file, "/proc/sysrq-trigger", O_WRONLY, 0, 0},
    {"proc-kcore", file, "/proc/kcore", O_RDONLY, 0, 0},
    {"proc-kmsg", file, "/proc/kmsg", O_RDONLY, 0, 0},
    {"proc-keys", file, "/proc/keys", O_RDONLY, 0, 0},
    {"proc-timer-list", file, "/proc/timer_list", O_RDONLY, 0, 0},
    {"proc-kallsyms", file, "/proc/kallsyms", O_RDONLY, 0, 0},
    {"proc-interrupts", file, "/proc/interrupts", O_RDONLY, 0, 0},
    {"proc-irq-write", file, "/proc/irq/default_smp_affinity", O_WRONLY, 0, 0},
    {"proc-bus-list", list, "/proc/bus", 0, 0, 0},
    {"proc-fs-list", list, "/proc/fs", 0, 0, 0},
    {"proc-acpi-list", list, "/proc/acpi", 0, 0, 0},
    {"proc-scsi-list", list, "/proc/scsi", 0, 0, 0},
    {"proc-mountinfo", file, "/proc/self/mountinfo", O_RDONLY, 0, 0},
    {"proc-net-unix", file, "/proc/net/unix", O_RDONLY, 0, 0},
    {"proc-sysvipc", file, "/proc/sysvipc/shm", O_RDONLY, 0, 0},
    {"proc-own-uid-map", file, "/proc/self/uid_map", O_WRONLY, 0, 0},
    {"proc-own-mem", file, "/proc/self/mem", O_RDWR, 0, 0},
    {"proc-init-root", file, "/proc/1/root/etc/passwd", O_RDONLY, 0, 0},
    {"proc-init-environ", file, "/proc/1/environ", O_RDONLY, 0, 0},
    {"sys-list", list, "/sys/kernel", 0, 0, 0},
    {"sys-write", file, "/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY, 0, 0},
    {"sys-power", file, "/sys/power/state", O_WRONLY, 0, 0},
    {"sys-uevent-write", file, "/sys/class/mem/null/uevent", O_WRONLY, 0, 0},
    {"sys-cgroup-write", file, "/sys/fs/cgroup/cgroup.procs", O_WRONLY, 0, 0},
    {"sys-cgroup-list", list, "/sys/fs/cgroup", 0, 0, 0},
    {"sys-firmware-list", list, "/sys/firmware", 0, 0, 0},
    {"sys-debug-list", list, "/sys/kernel/debug", 0, 0, 0},
    {"sys-vmcoreinfo", file, "/sys/kernel/vmcoreinfo", O_RDONLY, 0, 0},
    {NULL, NULL, NULL, 0, 0, 0},
};
