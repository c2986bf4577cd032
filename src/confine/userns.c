/* userns.c: what a process does first in namespaces of its own. Trusts its caller for the ids. */
#include "sallyport/view.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t len = strlen(text);
    ssize_t n = write(fd, text, len);
    int r = n < 0 ? -errno : (size_t)n == len ? 0 : -EIO;
    close(fd);
    return r;
}

int sp_userns_settle(uid_t uid, gid_t gid)
{
    char line[64];
    /* The kernel lets an unprivileged owner map its group only without a way to change groups. */
    int r = write_file("/proc/self/setgroups", "deny");
    if (r == -ENOENT) /* a kernel without it (gVisor) doesn't ask for it either */
        r = 0;
    if (r == 0) {
        (void)snprintf(line, sizeof line, "%u %u 1\n", uid, uid);
        r = write_file("/proc/self/uid_map", line);
    }
    if (r == 0) {
        (void)snprintf(line, sizeof line, "%u %u 1\n", gid, gid);
        r = write_file("/proc/self/gid_map", line);
    }
    uid_t ru, eu, su;
    gid_t rg, eg, sg;
    if (r == 0 && (getresuid(&ru, &eu, &su) != 0 || getresgid(&rg, &eg, &sg) != 0 || ru != uid ||
                   eu != uid || su != uid || rg != gid || eg != gid || sg != gid))
        r = -EPERM;
    return r;
}

int sp_net_loopback(void)
{
    struct ifreq ifr = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int r = ioctl(fd, SIOCGIFFLAGS, &ifr) == 0 ? 0 : -errno;
    if (r == 0) {
        ifr.ifr_flags = (short)(ifr.ifr_flags | IFF_UP | IFF_RUNNING);
        r = ioctl(fd, SIOCSIFFLAGS, &ifr) == 0 ? 0 : -errno;
    }
    close(fd);
    return r;
}
