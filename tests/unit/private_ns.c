/* private_ns.c: see private_ns.h. Refuses to go on if any step of the isolation fails. */
#include "private_ns.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SKIPPED 77

static bool inside;
static uid_t own_uid;

uid_t private_uid(void)
{
    return own_uid;
}

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "private_ns: %s: %s\n", what, strerror(errno));
    _exit(99);
}

static void write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), path);
    close(fd);
}

static void isolate_mounts(void)
{
    struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY};
    must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private mounts");
    must(mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &ro, sizeof ro) == 0, "read-only host");
    must(mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=512m,mode=1777") == 0, "/tmp");
    must(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) == 0, "/proc");
    must(chdir("/tmp") == 0, "chdir");
}

/* Number 1 of the namespace: reaps what nobody else does. */
static int init_main(int (*tests)(void))
{
    must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "pdeathsig");
    isolate_mounts();
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        inside = true;
        exit(tests());
    }
    for (;;) {
        int st = 0;
        pid_t got = waitpid(-1, &st, 0);
        if (got == pid)
            return WIFEXITED(st) ? WEXITSTATUS(st) : 98;
        must(got > 0 || errno == EINTR, "wait");
    }
}

static int wait_for(pid_t pid)
{
    int st = 0;
    must(pid >= 0, "fork");
    while (waitpid(pid, &st, 0) < 0)
        must(errno == EINTR, "wait");
    return WIFEXITED(st) ? WEXITSTATUS(st) : 98;
}

static int enter_and_run(int (*tests)(void))
{
    int flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC;
    uid_t uid = getuid();
    gid_t gid = getgid();
    if (unshare(uid == 0 ? flags : flags | CLONE_NEWUSER) != 0) {
        fprintf(stderr, "private_ns: skipped: %s\n", strerror(errno));
        return SKIPPED;
    }
    if (uid != 0) {
        char map[64];
        write_file("/proc/self/setgroups", "deny");
        snprintf(map, sizeof map, "0 %u 1", uid);
        write_file("/proc/self/uid_map", map);
        snprintf(map, sizeof map, "0 %u 1", gid);
        write_file("/proc/self/gid_map", map);
    }
    pid_t pid = fork();
    if (pid == 0)
        _exit(init_main(tests));
    return wait_for(pid);
}

int private_ns_run(int (*tests)(void))
{
    fflush(NULL);
    own_uid = 500000u + (uid_t)getpid();
    /* The process that unshared can't start another once its PID 1 is gone: LeakSanitizer would
     * want to, at our exit. */
    pid_t pid = fork();
    if (pid == 0)
        _exit(enter_and_run(tests));
    return wait_for(pid);
}

int private_folder(char *out)
{
    must(inside, "not in the private namespace");
    strcpy(out, "/tmp/ws-XXXXXX");
    must(mkdtemp(out) != NULL, "mkdtemp");
    if (geteuid() == 0)
        (void)!chown(out, private_uid(), private_uid()); /* fails in a user namespace of one id */
    int fd = open(out, O_PATH | O_DIRECTORY | O_CLOEXEC);
    must(fd >= 0, "open");
    return fd;
}

void private_drop_ids(void)
{
    must(inside, "not in the private namespace");
    if (setgroups(0, NULL) != 0 || setresgid(private_uid(), private_uid(), private_uid()) != 0 ||
        setresuid(private_uid(), private_uid(), private_uid()) != 0)
        must(false, "set ids");
}

void private_write(int dir, const char *path, const void *data, size_t n)
{
    int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    must(fd >= 0, path);
    must(write(fd, data, n) == (ssize_t)n, path);
    close(fd);
}

void private_link(int dir, const char *target, const char *name)
{
    must(symlinkat(target, dir, name) == 0, name);
}

void private_mode(int dir, const char *path, mode_t mode)
{
    must(fchmodat(dir, path, mode, 0) == 0, path);
}

uint64_t private_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}
