/* probe_ipc.c: what has no path, or one that everybody shares: System V and POSIX objects of
 * others, /tmp, /dev/shm; device nodes, there or to be made. */
#include "probe.h"

#include <fcntl.h>
#include <mqueue.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static int sysv(const struct probe_stage *s, const struct probe *p)
{
    struct {
        long type;
        char text[8];
    } m = {1, "x"};
    int id;
    switch (p->x) {
    case 0:
        id = shmget(s->key, 0, 0);
        return id < 0 ? errno : outcome((long)(intptr_t)shmat(id, NULL, SHM_RDONLY));
    case 1:
        id = semget(s->key, 0, 0);
        return id < 0 ? errno : outcome(semctl(id, 0, GETVAL));
    case 2:
        id = msgget(s->key, 0);
        return id < 0 ? errno : outcome(msgsnd(id, &m, 1, IPC_NOWAIT));
    case 3: /* all there are, whoever may use them */
        for (int i = 0; i < 4096; i++)
            if (shmctl(i, 13 /* SHM_STAT */, &(struct shmid_ds){.shm_segsz = 0}) >= 0)
                return 0;
        return ENOENT;
    default:
        id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
        return id < 0 ? errno : outcome(shmctl(id, IPC_RMID, NULL));
    }
}

static int posix(const struct probe_stage *s, const struct probe *p)
{
    char name[128];
    (void)snprintf(name, sizeof name, "%s", s->name);
    struct mq_attr a = {.mq_maxmsg = 1, .mq_msgsize = 8};
    if (p->x == 0)
        return CALL(SYS_mq_open, name, O_RDONLY | O_NONBLOCK, 0, NULL);
    if (p->x == 1)
        return CALL(SYS_mq_unlink, name);
    (void)snprintf(name, sizeof name, "%s-own", s->name);
    int r = CALL(SYS_mq_open, name, O_RDONLY | O_CREAT, 0600, &a);
    return r != 0 ? r : CALL(SYS_mq_unlink, name);
}

/* Files that the test put where everybody may write. */
static int shared(const struct probe_stage *s, const struct probe *p)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s", p->path, s->name);
    return p->x ? try_open(path, O_RDWR) : try_read(path);
}

static int node(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    return try_open(p->path, (int)p->x);
}

static int make_node(const struct probe_stage *s, const struct probe *p)
{
    const char *path = inside(s, p->name);
    int r = CALL(SYS_mknod, path, (mode_t)p->x | 0666, p->y);
    return r != 0 || p->z == 0 ? r : reached(try_open(path, O_RDONLY), ENXIO);
}

static int make_node_at(const struct probe_stage *s, const struct probe *p)
{
    return CALL(SYS_mknodat, AT_FDCWD, inside(s, p->name), (mode_t)p->x | 0666, p->y);
}

static int pseudo_terminal(const struct probe_stage *s, const struct probe *p)
{
    char name[64] = "";
    (void)s;
    (void)p;
    int fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || grantpt(fd) != 0 || unlockpt(fd) != 0 || ptsname_r(fd, name, sizeof name) != 0)
        return errno;
    return try_open(name, O_RDWR);
}

const struct probe probes_ipc[] = {
    {"sysv-shm-of-others", sysv, NULL, 0, 0, 0},
    {"sysv-sem-of-others", sysv, NULL, 1, 0, 0},
    {"sysv-msg-of-others", sysv, NULL, 2, 0, 0},
    {"sysv-shm-list", sysv, NULL, 3, 0, 0},
    {"sysv-shm-own", sysv, NULL, 4, 0, 0},
    {"mqueue-of-others", posix, NULL, 0, 0, 0},
    {"mqueue-path-of-others", shared, "/dev/mqueue", 1, 0, 0},
    {"mqueue-unlink", posix, NULL, 1, 0, 0},
    {"mqueue-own", posix, NULL, 2, 0, 0},
    {"dev-shm-of-others", shared, "/dev/shm", 0, 0, 0},
    {"dev-shm-of-others-write", shared, "/dev/shm", 1, 0, 0},
    {"tmp-of-others", shared, "/tmp", 0, 0, 0},
    {"tmp-of-others-write", shared, "/tmp", 1, 0, 0},
    {"var-tmp-of-others", shared, "/var/tmp", 0, 0, 0},
    {"dev-null", node, "/dev/null", O_RDWR, 0, 0},
    {"dev-kmsg", node, "/dev/kmsg", O_RDONLY, 0, 0},
    {"dev-kmsg-write", node, "/dev/kmsg", O_WRONLY, 0, 0},
    {"dev-mem", node, "/dev/mem", O_RDONLY, 0, 0},
    {"dev-port", node, "/dev/port", O_RDONLY, 0, 0},
    {"dev-disk", node, "/dev/sp-disk", O_RDONLY, 0, 0},
    {"dev-fuse", node, "/dev/fuse", O_RDWR, 0, 0},
    {"dev-tun", node, "/dev/net/tun", O_RDWR, 0, 0},
    {"dev-kvm", node, "/dev/kvm", O_RDWR, 0, 0},
    {"dev-userfaultfd", node, "/dev/userfaultfd", O_RDWR, 0, 0},
    {"dev-loop-control", node, "/dev/loop-control", O_RDWR, 0, 0},
    {"dev-create", node, "/dev/sp-made", O_WRONLY | O_CREAT, 0, 0},
    {"dev-pty-own", pseudo_terminal, NULL, 0, 0, 0},
    {"mknod-disk", make_node, NULL, S_IFBLK, 0x700, 1},
    {"mknod-mem", make_node, NULL, S_IFCHR, 0x101, 1},
    {"mknod-null", make_node_at, NULL, S_IFCHR, 0x103, 0},
    {"mknod-whiteout", make_node, NULL, S_IFCHR, 0, 0},
    {"mknod-fifo", make_node, NULL, S_IFIFO, 0, 0},
    {NULL, NULL, NULL, 0, 0, 0},
};
