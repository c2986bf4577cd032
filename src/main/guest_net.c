/* guest_net.c: a guest's network: the loopback device, and one address for one Ethernet device in
 * the form of the kernel's own ip= (which Debian's kernels leave to the system). IPv4, no DHCP.
 * Trusts the kernel's command line. */
#include "main/guest.h"

#include "sallyport/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <net/route.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DEVICE_TRIES 100 /* of 50 ms, until its driver has found it */

enum field { CLIENT, SERVER, GATEWAY, MASK, HOST, DEVICE, AUTOCONF, FIELDS };

static bool failed(const char *what, const char *name)
{
    sp_log(SP_LOG_ERROR, "network: %s %s: %s", what, name, strerror(errno));
    return false;
}

static bool set_up(int s, const char *name)
{
    struct ifreq r = {0};
    (void)snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    if (ioctl(s, SIOCGIFFLAGS, &r) != 0)
        return failed("no device", name);
    r.ifr_flags = (short)(r.ifr_flags | IFF_UP);
    return ioctl(s, SIOCSIFFLAGS, &r) == 0 || failed("can't bring up", name);
}

static bool await_device(int s, const char *name)
{
    struct ifreq r = {0};
    (void)snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    for (int i = 0; i < DEVICE_TRIES; i++) {
        if (ioctl(s, SIOCGIFINDEX, &r) == 0)
            return true;
        const struct timespec t = {.tv_nsec = 50000000};
        (void)nanosleep(&t, NULL);
    }
    return failed("no device", name);
}

static bool address(struct sockaddr *out, const char *text)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    if (inet_pton(AF_INET, text, &a.sin_addr) != 1) {
        sp_log(SP_LOG_ERROR, "network: ip= has no IPv4 address in \"%s\"", text);
        return false;
    }
    memcpy(out, &a, sizeof a);
    return true;
}

static bool set_address(int s, char *const f[FIELDS], const char *name)
{
    struct ifreq r = {0};
    (void)snprintf(r.ifr_name, sizeof r.ifr_name, "%s", name);
    if (!address(&r.ifr_addr, f[CLIENT]))
        return false;
    if (ioctl(s, SIOCSIFADDR, &r) != 0)
        return failed("can't set the address of", name);
    if (f[MASK][0] == '\0') /* the address's class has one */
        return true;
    if (!address(&r.ifr_netmask, f[MASK]))
        return false;
    return ioctl(s, SIOCSIFNETMASK, &r) == 0 || failed("can't set the netmask of", name);
}

static bool set_gateway(int s, const char *gateway)
{
    struct rtentry r = {.rt_flags = RTF_UP | RTF_GATEWAY};
    r.rt_dst.sa_family = r.rt_genmask.sa_family = AF_INET; /* 0.0.0.0/0 */
    if (!address(&r.rt_gateway, gateway))
        return false;
    /* There already where the kernel has done ip= itself. */
    return ioctl(s, SIOCADDRT, &r) == 0 || errno == EEXIST ||
           failed("no route by the gateway", gateway);
}

bool guest_word(const char *line, const char *key, char *out, size_t cap)
{
    size_t n = strlen(key), len;
    out[0] = '\0';
    for (const char *at = line; (at = strstr(at, key)) != NULL; at += n) {
        if (at != line && at[-1] != ' ')
            continue;
        at += n;
        len = strcspn(at, " \n");
        if (len >= cap) {
            sp_log(SP_LOG_ERROR, "the kernel's command line: %s has more than %zu characters", key,
                   cap - 1);
            return false;
        }
        memcpy(out, at, len);
        out[len] = '\0';
        return true;
    }
    return true;
}

/* CLIENT:SERVER:GATEWAY:NETMASK:HOSTNAME:DEVICE:AUTOCONF, of which SERVER is for NFS. */
static bool configure(int s, char *text)
{
    static char none[1];
    char *f[FIELDS] = {none, none, none, none, none, none, none};
    for (int i = 0; i < FIELDS && text != NULL; i++)
        f[i] = strsep(&text, ":");
    if (strcmp(f[AUTOCONF], "") != 0 && strcmp(f[AUTOCONF], "off") != 0 &&
        strcmp(f[AUTOCONF], "none") != 0) {
        sp_log(SP_LOG_ERROR, "network: ip= may only ask for an address that it gives, not for %s",
               f[AUTOCONF]);
        return false;
    }
    const char *name = f[DEVICE][0] != '\0' ? f[DEVICE] : "eth0";
    if (f[HOST][0] != '\0' && sethostname(f[HOST], strlen(f[HOST])) != 0)
        return failed("can't take the name", f[HOST]);
    return await_device(s, name) && set_address(s, f, name) && set_up(s, name) &&
           (f[GATEWAY][0] == '\0' || set_gateway(s, f[GATEWAY]));
}

bool guest_net(const char *line)
{
    char ip[256];
    int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return failed("no socket", "");
    bool done = set_up(s, "lo") && guest_word(line, "ip=", ip, sizeof ip);
    if (done && ip[0] != '\0')
        done = configure(s, ip);
    close(s);
    return done;
}
