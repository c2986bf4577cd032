/* hostile_front.c: a front that was taken over. It confines itself by the real front's own
 * functions, which is why that file is included and not linked; then it runs the probes, or attacks
 * the broker and main until it is ended for it. After its last life it is the real front.
 *
 * What to do stands in HOSTILE, which SALLYPORT_ENV_PASS puts into the settings that a front sees.
 */
#define sp_front_main sp_real_front_main
#include "front/front.c"
#undef sp_front_main

#include "../confine/probe.h"
#include "hostile.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#define LIVES 8

int sp_front_main(void);

static const char *order(const struct sp_config *c)
{
    for (uint32_t at = 0; at < c->env_len; at += (uint32_t)strlen(c->env + at) + 1)
        if (strncmp(c->env + at, "HOSTILE=", 8) == 0)
            return c->env + at + 8;
    return "";
}

static int become_front(void)
{
    if (!prepare())
        return -1;
    return confine(front.cfg);
}

/* ---- the probes ---- */

static const char *of_proc(const char *pid, const char *file, char *buf, size_t size)
{
    char path[300];
    (void)snprintf(path, sizeof path, "/proc/%s/%s", pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, buf, size - 1);
    buf[n > 0 ? n : 0] = '\0';
    if (fd >= 0)
        close(fd);
    return buf;
}

/* Before anything is given up: who there is, as far as it can be seen from here. Not the cell's
 * child that waits for a command: it may be gone when it is tried. */
static void find_pids(struct probe_stage *s)
{
    DIR *d = opendir("/proc");
    const struct dirent *e;
    if (getppid() > 0)
        s->pids[s->npids++] = getppid();
    while (d != NULL && (e = readdir(d)) != NULL && s->npids < PROBE_PIDS) {
        char line[128] = "", name[32];
        (void)of_proc(e->d_name, "cmdline", line, sizeof line);
        if (strlen(line) == 9 &&
            strncmp(of_proc(e->d_name, "comm", name, sizeof name), "sp-spawner", 10) != 0 &&
            (strcmp(line + 10, "--role=broker") == 0 || strcmp(line + 10, "--role=cell") == 0))
            s->pids[s->npids++] = atoi(e->d_name);
    }
    if (d != NULL)
        closedir(d);
    if (s->npids == 0)
        for (int pid = 1; pid <= PROBE_PIDS; pid++)
            s->pids[s->npids++] = pid; /* what it would guess */
}

/* Lives are counted where the next front finds it: in a time limit of the listening socket, which
 * is main's. */
static int next_life(void)
{
    struct timeval t = {0, 0};
    socklen_t n = sizeof t;
    if (getsockopt(SP_FD_LISTEN, SOL_SOCKET, SO_SNDTIMEO, &t, &n) != 0)
        return LIVES;
    int life = (int)t.tv_sec;
    t.tv_sec++;
    return setsockopt(SP_FD_LISTEN, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t) == 0 ? life : LIVES;
}

/* In the second life, before anything is given up: each probe begins as the front does, in
 * namespaces of its own, and confines itself. The first life and the third are the real front. */
static int run_probes(char *line)
{
    struct probe_stage s;
    struct probe_place in = {.enter = become_front};
    const char *only;
    char *argv[16];
    int argc = 0;
    if (next_life() != 1)
        return sp_real_front_main();
    for (char *w = strtok(line, " "); w != NULL && argc < 16; w = strtok(NULL, " "))
        argv[argc++] = w;
    if (!probe_stage_parse(&s, &only, argc, argv)) {
        sp_log(SP_LOG_ERROR, "HOSTILE has no stage for the probes");
        return 1;
    }
    s.npids = 0;
    find_pids(&s);
    if (front.cfg->front_ns != 0) {
        in.flags = front.cfg->front_ns | (front.cfg->user_ns ? CLONE_NEWUSER : 0);
        if (front.cfg->user_ns && sp_userns_settle(front.cfg->front_uid, front.cfg->front_gid) != 0)
            return 1;
    }
    return probe_all(&s, only, &in, STDERR_FILENO);
}

/* ---- the attacks ---- */

static void tell(struct sp_chan *c, uint8_t op, int nfds)
{
    struct sp_msg m = {.op = op, .id = op >= SP_OP_DRAIN ? 0 : 7};
    static const struct sp_slice path = {"f", 1}, command = {"sleep 1000", 10}, none = {"", 0};
    int fds[SP_FRAME_FDS];
    m.path = path;
    m.command = command;
    m.cwd = m.env = m.etag = m.key = none;
    m.err = SP_E_BUSY;
    for (int i = 0; i < nfds; i++)
        fds[i] = dup(SP_FD_EXTRA);
    (void)sp_msg_send(c, &m, fds, nfds);
}

/* Asks and never reads, until the broker has had enough of it. */
static void flood(void)
{
    struct sp_msg m = {.op = SP_OP_OPEN, .path = {"f", 1}, .etag = {"", 0}, .key = {"", 0}};
    for (uint32_t id = 1; id < 200000; id++) {
        struct pollfd p = {.fd = SP_FD_EXTRA, .events = POLLOUT};
        m.id = id;
        while (sp_chan_pending(&front.broker) && poll(&p, 1, 100) > 0 &&
               sp_chan_flush(&front.broker) == 0)
            ;
        if (sp_msg_send(&front.broker, &m, NULL, 0) != 0)
            return;
    }
}

static void attack(int life)
{
    static char junk[SP_FRAME_MAX];
    memset(junk, 0xa5, sizeof junk);
    switch (life) {
    case 0: /* what no message is */
        (void)sp_chan_send(&front.broker, junk, 100, NULL, 0);
        break;
    case 1: /* main's word */
        tell(&front.broker, SP_OP_KILL_ALL, 0);
        break;
    case 2: /* the cell's word, with descriptors */
        tell(&front.broker, SP_OP_STARTED, 3);
        break;
    case 3: /* a new front of its own making */
        tell(&front.broker, SP_OP_FRONT, 1);
        break;
    case 4: /* a command that runs, then the same id again */
        tell(&front.broker, SP_OP_EXEC, 0);
        tell(&front.broker, SP_OP_OPEN, 0);
        break;
    case 5:
        flood();
        break;
    case 6: /* main hears it a second time */
        tell(&front.main, SP_OP_UP, 0);
        break;
    default: /* the broker's word to main, about a front */
        tell(&front.main, SP_OP_BREACH, 0);
    }
}

static int run_attacks(void)
{
    int life = next_life();
    if (life >= LIVES)
        return sp_real_front_main();
    if (become_front() != 0) {
        sp_log(SP_LOG_ERROR, "the hostile front can't confine itself");
        return 1;
    }
    sp_chan_init(&front.main, SP_FD_MAIN);
    sp_chan_init(&front.broker, SP_FD_EXTRA);
    sp_log(SP_LOG_INFO, "hostile life %d", life);
    tell(&front.main, SP_OP_UP, 0);
    /* Until main says that all are up: what breaks rules before that ends the start. */
    (void)poll(&(struct pollfd){.fd = SP_FD_MAIN, .events = POLLIN}, 1, -1);
    attack(life);
    for (;;)
        (void)poll(NULL, 0, -1); /* until it is killed for it */
}

int sp_front_main(void)
{
    static char line[4096];
    front.cfg = sp_config_load();
    sp_log_init("front", (enum sp_log_level)front.cfg->log_level);
    (void)snprintf(line, sizeof line, "%s", order(front.cfg));
    if (strncmp(line, "probe ", 6) == 0)
        return run_probes(line + 6);
    if (strcmp(line, "attack") == 0)
        return run_attacks();
    return sp_real_front_main();
}
