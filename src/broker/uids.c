/* uids.c: looks for processes by user id, and ends them. Trusts the kernel's /proc. */
#include "sallyport/uids.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_TRIES 16

/* The kernel takes root's capabilities with its id, and nobody else's: with CAP_KILL left, kill(-1)
 * would reach everybody. */
static bool become(uid_t uid)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {0};
    return setresuid(uid, uid, uid) == 0 && syscall(SYS_capset, &head, none) == 0;
}

/* False: somebody ended or kept stopping our child, which for an instant is one of those that it is
 * to kill. Only where no namespace and no Landlock scope keeps them from it. */
static bool kill_as(uid_t uid)
{
    int status = 0;
    pid_t got, pid = fork();
    if (pid == 0) {
        if (become(uid))
            (void)kill(-1, SIGKILL);
        _exit(0);
    }
    for (int stops = 0; pid > 0; stops++) {
        do
            got = waitpid(pid, &status, WUNTRACED);
        while (got < 0 && errno == EINTR);
        if (got < 0 || !WIFSTOPPED(status))
            break;
        (void)kill(pid, stops < KILL_TRIES ? SIGCONT : SIGKILL);
    }
    return pid > 0 && WIFEXITED(status);
}

void sp_uid_kill(uid_t uid)
{
    if (uid == (uid_t)-1 || uid == 0 || uid == getuid())
        return;
    for (int i = 0; i < KILL_TRIES && !kill_as(uid); i++)
        ;
}

static uid_t match(const unsigned id[4], uid_t min, uid_t max)
{
    for (int i = 0; i < 4; i++)
        if (id[i] >= min && id[i] <= max)
            return id[i];
    return (uid_t)-1;
}

/* The id in the range that a process has, or (uid_t)-1: it has none, or is gone. */
static uid_t id_of(int proc, const char *pid, uid_t min, uid_t max)
{
    char path[32], buf[2048];
    unsigned id[4];
    (void)snprintf(path, sizeof path, "%.12s/status", pid);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof buf - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return (uid_t)-1;
    buf[n] = '\0';
    /* A process's name is escaped there: a line's start can't be forged by it. */
    const char *state = strstr(buf, "\nState:\t"), *line = strstr(buf, "\nUid:\t");
    if (state == NULL || state[8] == 'Z' || state[8] == 'X' || line == NULL ||
        sscanf(line + 6, "%u %u %u %u", &id[0], &id[1], &id[2], &id[3]) != 4)
        return (uid_t)-1;
    return match(id, min, max);
}

bool sp_uids_each(uid_t min, uid_t max, bool (*found)(void *arg, pid_t pid, uid_t uid), void *arg)
{
    DIR *d = opendir("/proc");
    if (d == NULL)
        return false;
    const struct dirent *e;
    bool go_on = true;
    while (go_on && (e = readdir(d)) != NULL) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        uid_t uid = id_of(dirfd(d), e->d_name, min, max);
        if (uid != (uid_t)-1)
            go_on = found(arg, (pid_t)strtol(e->d_name, NULL, 10), uid);
    }
    closedir(d);
    return true;
}

static bool note(void *arg, pid_t pid, uid_t uid)
{
    (void)pid;
    (void)uid;
    *(bool *)arg = true;
    return false;
}

bool sp_uid_in_use(uid_t uid)
{
    bool used = false;
    return !sp_uids_each(uid, uid, note, &used) || used;
}
