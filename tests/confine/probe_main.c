/* probe_main.c: the probes as a program: as a command it is started through POST /execute, as a
 * control by the fence's launcher, without the daemon. The hostile front links all but this file.
 * Trusts the test that starts it. */
#include "probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define LEAK_FD 77
#define LISTEN_FD 8

/* What the daemon's processes have: a listening socket. And what no command should: a folder. */
static bool lay_out_descriptors(struct probe_stage *s)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int dir = open("/", O_RDONLY | O_DIRECTORY), sock = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t len = sizeof in;
    bool ok = dir >= 0 && dup2(dir, LEAK_FD) == LEAK_FD && sock >= 0 &&
              bind(sock, (const struct sockaddr *)&in, sizeof in) == 0 && listen(sock, 8) == 0 &&
              dup2(sock, LISTEN_FD) == LISTEN_FD &&
              getsockname(sock, (struct sockaddr *)&in, &len) == 0;
    s->port = ntohs(in.sin_port);
    return ok;
}

static bool raised(void)
{
    uint32_t head[2] = {0x20080522, 0}, data[6] = {0};
    return getuid() != geteuid() || getgid() != getegid() ||
           (getuid() != 0 && syscall(SYS_capget, head, data) == 0 && (data[1] | data[4]) != 0);
}

int main(int argc, char **argv)
{
    struct probe_stage s;
    const char *only;
    /* Started by the probes of set-user-id bits and file capabilities: did exec give us rights? */
    if (argc == 2 && strcmp(argv[1], "ran") == 0)
        return 0;
    if (argc == 2 && strcmp(argv[1], "raised") == 0)
        return raised() ? 0 : EPERM;
    if (!probe_stage_parse(&s, &only, argc - 1, argv + 1)) {
        (void)fputs("usage: see the head of probe.c\n", stderr);
        return 2;
    }
    if (chdir(s.ws) != 0 || (s.control && !lay_out_descriptors(&s))) {
        perror("probe: the stage");
        return 2;
    }
    return probe_all(&s, only, NULL, STDOUT_FILENO) == 0 ? 0 : 1;
}
