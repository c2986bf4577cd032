/* front.c: the front process: gives up what it has, then runs the loop. It trusts main for its
 * settings; it holds the listening sockets, the broker's socket and nothing else. */
#include "tls.h"

#include "sallyport/affinity.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"
#include "sallyport/view.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

struct front front;

#define LINGER_MS 2000
#define HANGUP_MS 250
#define BEAT_MS 15000
#define FILES_OTHER 64u /* open files that are no connection's */

static void on_accept(h2o_socket_t *listener, const char *err)
{
    (void)err;
    conn_accept(listener);
}

void front_resume_accept(void)
{
    if (!front.accept_paused || front.draining)
        return;
    front.accept_paused = false;
    for (unsigned i = 0; i < front.nlisteners; i++)
        h2o_socket_read_start(front.listeners[i], on_accept);
}

void front_check_drained(void)
{
    if (front.draining && front.nconns == 0)
        exit(0);
}

static void drain(void)
{
    front.draining = true;
    for (unsigned i = 0; i < front.nlisteners; i++)
        h2o_socket_close(front.listeners[i]);
    front.nlisteners = 0;
    conn_close_idle();
}

static void on_main(h2o_socket_t *sock, const char *err)
{
    static struct sp_frame frame;
    (void)sock;
    (void)err;
    int r = sp_chan_recv(&front.main, &frame);
    if (r == 0)
        return;
    struct sp_msg m;
    if (r < 0 || !sp_msg_decode(&m, frame.data, frame.len, frame.nfds))
        exit(1); /* main is gone: nobody would restart us */
    if (m.op == SP_OP_TLS && front.cfg->tls)
        tls_reload(sp_frame_take_fd(&frame, 0));
    sp_frame_close_fds(&frame);
    if (m.op == SP_OP_DRAIN && !front.draining) {
        drain();
    } else if (m.op == SP_OP_BEGIN) {
        metrics_restarts(m.size, m.ino);
        front_resume_accept();
    }
}

/* A connection has its socket and a file or pipe; the command's three are among those put by. A
 * descriptor that finds no room is lost with its message, which is the end of us. */
static void limit_connections(void)
{
    struct rlimit rl;
    front.max_conns = front.cfg->max_connections;
    if (getrlimit(RLIMIT_NOFILE, &rl) != 0)
        return;
    rl.rlim_cur = rl.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &rl);
    size_t most = rl.rlim_max > 2 * FILES_OTHER ? (rl.rlim_max - FILES_OTHER) / 2 : FILES_OTHER / 4;
    if (front.max_conns <= most)
        return;
    front.max_conns = most;
    sp_log(SP_LOG_WARN, "%zu connections at most: %llu files may be open", most,
           (unsigned long long)rl.rlim_max);
}

/* Everything that opens a file or asks the kernel for something unusual, before the doors close. */
static bool prepare(void)
{
    size_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        return false;
    json_object_seed(seed | 1);
    limit_connections();
    metrics_init();
    if (front.cfg->tls && !tls_init(SP_FD_TLS))
        return false;
    (void)signal(SIGPIPE, SIG_IGN);
    h2o_linklist_init_anchor(&front.conns);
    h2o_linklist_init_anchor(&front.dead);
    front.loop = ticks_loop();
    if (front.loop == NULL)
        return false;
    const uint64_t ms[CLOCK_COUNT] = {[CLOCK_HEAD] = front.cfg->head_timeout_ms,
                                      [CLOCK_IDLE] = front.cfg->idle_timeout_ms,
                                      [CLOCK_STALL] = front.cfg->stall_timeout_ms,
                                      [CLOCK_LINGER] = LINGER_MS,
                                      [CLOCK_HANGUP] = HANGUP_MS,
                                      [CLOCK_BEAT] = BEAT_MS,
                                      [CLOCK_NOW] = 0};
    for (int i = CLOCK_HEAD; i < CLOCK_COUNT; i++)
        h2o_timeout_init(front.loop, &front.clocks[i], ms[i]);
    return true;
}

static int confine(const struct sp_config *cfg)
{
    struct sp_view_error e;
    int r = sp_filters_load();
    if (r == 0 && cfg->front_ns != 0 && cfg->user_ns)
        r = sp_userns_settle(cfg->front_uid, cfg->front_gid);
    if (r == 0 && cfg->front_ns != 0)
        r = sp_view_empty(&e);
    if (r == 0 && cfg->switch_uid && !(cfg->front_ns != 0 && cfg->user_ns))
        r = sp_confine_ids(cfg->front_uid, cfg->front_gid);
    if (r == 0)
        r = sp_confine_caps(NULL, 0);
    if (r == 0)
        r = sp_confine_basics(true);
    if (r == 0 && cfg->have_landlock)
        r = sp_landlock_front(cfg->landlock_abi);
    if (r == 0)
        r = sp_filters_install(SP_FILTER_FRONT);
    return r;
}

/* TLS is for TCP: who may open a unix socket is the host's to say. */
static void listen_on(unsigned i)
{
    struct sockaddr_storage a = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof a;
    int fd = SP_FD_LISTEN + (int)i;
    (void)getsockname(fd, (struct sockaddr *)&a, &len);
    front.listeners[i] = h2o_evloop_socket_create(front.loop, fd, H2O_SOCKET_FLAG_DONT_READ);
    front.listeners[i]->data = front.cfg->tls && a.ss_family != AF_UNIX ? &front : NULL;
}

int sp_front_main(void)
{
    front.cfg = sp_config_load();
    sp_log_init("front", (enum sp_log_level)front.cfg->log_level);
    int r = sp_affinity_pin(front.cfg);
    if (r != 0) {
        sp_log(SP_LOG_ERROR, "can't stay on one processor: %s", strerror(-r));
        return 1;
    }
    if (!prepare()) {
        sp_log(SP_LOG_ERROR, "can't prepare: %s", strerror(errno));
        return 1;
    }
    r = confine(front.cfg);
    if (r != 0) {
        sp_log(SP_LOG_ERROR, "can't confine itself: %s", strerror(-r));
        return 1;
    }
    sp_chan_init(&front.main, SP_FD_MAIN);
    sp_chan_init(&front.broker, SP_FD_EXTRA);
    front.main_sock = h2o_evloop_socket_create(front.loop, SP_FD_MAIN, H2O_SOCKET_FLAG_DONT_READ);
    h2o_socket_read_start(front.main_sock, on_main);
    link_init();
    front.nlisteners = front.cfg->nlisten;
    for (unsigned i = 0; i < front.nlisteners; i++)
        listen_on(i);
    front.accept_paused = true;
    struct sp_msg up = {.op = SP_OP_UP};
    if (sp_msg_send(&front.main, &up, NULL, 0) != 0)
        return 1;
    for (;;) {
        conn_free_dead();
        front_check_drained();
        (void)h2o_evloop_run(front.loop, INT32_MAX);
    }
}
