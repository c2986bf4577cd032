/* cgroup_end.c: ends all that lives in the commands' cgroup, however fast it forks: frozen, nothing
 * in it runs another instruction, and what is being forked is born frozen; so the list of its
 * processes is soon whole, and dies.
 *
 * cgroup.kill would be one write. But a kernel that has its fix for a race with fork (6.14, and
 * older ones by backport) compares the wrong counter: in a cgroup that was killed once, whatever
 * clone3 starts there is killed at its birth. Seen on 6.18; tests/confine/test_cgroup.py would see
 * it go. */
#include "sallyport/confine.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static int freeze(int fd, const char *to)
{
    return pwrite(fd, to, 1, 0) == 1 ? 0 : -errno;
}

/* Numbers are those of our own PID namespace; 0 is somebody outside of it. */
static void kill_number(const char *digits)
{
    long pid = strtol(digits, NULL, 10);
    if (pid > 1 && pid <= INT32_MAX && pid != getpid())
        (void)kill((pid_t)pid, SIGKILL);
}

static int kill_listed(int procs)
{
    char buf[4096], number[16];
    size_t n = 0;
    off_t at = 0;
    for (;;) {
        ssize_t got = pread(procs, buf, sizeof buf, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : 0;
        at += got;
        for (ssize_t i = 0; i < got; i++) {
            if (buf[i] >= '0' && buf[i] <= '9' && n < sizeof number - 1) {
                number[n++] = buf[i];
                continue;
            }
            number[n] = '\0';
            n = 0;
            kill_number(number);
        }
    }
}

int sp_cgroup_kill(int freezer, int procs)
{
    int r = freeze(freezer, "1");
    return r == 0 ? kill_listed(procs) : r;
}

int sp_cgroup_thaw(int freezer)
{
    return freeze(freezer, "0");
}
