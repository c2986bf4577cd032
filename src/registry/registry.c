/* registry.c: the process that keeps the box's table of user ids. It talks to the broker alone, by
 * messages without text, and can reach one folder. Trusts main's settings; a message that the
 * broker can't have meant ends it. */
#include "store.h"

#include "sallyport/confine.h"
#include "sallyport/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SETTLE_AGAIN_MS 5000

static struct store store;
static struct sp_chan main_chan, broker;
static struct sp_frame frame;

static int confine(const struct sp_config *c)
{
    int r = sp_filters_load();
    if (r == 0 && c->switch_uid)
        r = sp_confine_ids(c->registry_uid, c->registry_gid);
    if (r == 0)
        r = sp_confine_basics(true);
    if (r == 0)
        r = sp_confine_caps(NULL, 0);
    umask(077);
    if (r == 0 && chdir(c->state) != 0)
        r = -errno;
    return r;
}

/* What SQLite opens, it opens in the folder that we are in. */
static int shut_doors(const struct sp_config *c)
{
    int r = c->have_landlock ? sp_landlock_registry(c->landlock_abi, c->state) : 0;
    return r == 0 ? sp_filters_install(SP_FILTER_REGISTRY) : r;
}

static bool answer(const struct sp_msg *q, enum sp_err e, const uint8_t *key, uint32_t uid)
{
    struct sp_msg m = {.op = SP_OP_FAIL, .id = q->id, .err = (uint16_t)e};
    if (e == SP_OK) {
        m.op = key != NULL ? SP_OP_NAMED : SP_OP_DONE;
        m.uid = uid;
    }
    if (key != NULL)
        m.key = (struct sp_slice){(const char *)key, SP_KEY_LEN};
    return sp_msg_send(&broker, &m, NULL, 0) == 0;
}

static bool handle(const struct sp_msg *m)
{
    const uint8_t *key = (const uint8_t *)m->key.p;
    uint8_t due[SP_KEY_LEN];
    uint32_t uid = 0;
    int64_t now = (int64_t)time(NULL);
    enum sp_err e;
    switch (m->op) {
    case SP_OP_NAME:
        e = store_name(&store, key, now, &uid);
        return answer(m, e, key, uid);
    case SP_OP_TOUCH:
        (void)store_touch(&store, key, now); /* logged; nobody waits */
        return true;
    case SP_OP_RETIRE:
        e = store_retire(&store, key, &uid);
        return answer(m, e, key, uid);
    case SP_OP_FREED:
        return answer(m, store_freed(&store, key, now), NULL, 0);
    case SP_OP_DUE:
        e = store_due(&store, (int64_t)m->size, due, &uid);
        return answer(m, e, due, uid);
    default:
        return false;
    }
}

/* False: it is over. */
static bool on_broker(void)
{
    for (;;) {
        struct sp_msg m;
        int r = sp_chan_recv(&broker, &frame);
        if (r == 0)
            return true;
        if (r < 0)
            return false;
        bool ok = sp_msg_decode(&m, frame.data, frame.len, frame.nfds) && handle(&m);
        sp_frame_close_fds(&frame);
        if (!ok) {
            sp_log(SP_LOG_ERROR, "the broker sent what isn't its to send");
            return false;
        }
        if (store.stuck) {
            sp_log(SP_LOG_ERROR, "the database doesn't come back: ending, for a new registry");
            return false;
        }
    }
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Nobody asks: the disk's turn. False: it is over. */
static bool settle(int64_t *next)
{
    enum sp_err e = store_settle(&store, (int64_t)time(NULL));
    if (e != SP_OK || store_unsettled(&store)) /* logged, or the pool is empty */
        *next = now_ms() + SETTLE_AGAIN_MS;
    return !store.stuck;
}

static void serve(void)
{
    int64_t next = 0;
    for (;;) {
        struct pollfd p[] = {{.fd = main_chan.fd, .events = POLLIN},
                             {.fd = broker.fd, .events = POLLIN}};
        int64_t wait = -1;
        if (store_unsettled(&store) && (wait = next - now_ms()) < 0)
            wait = 0;
        if (sp_chan_pending(&broker))
            p[1].events |= POLLOUT;
        int n = poll(p, 2, (int)wait);
        if (n < 0 && errno != EINTR)
            return;
        if (n == 0 && !settle(&next))
            return;
        if (p[0].revents != 0) /* main has nothing to say to us: it is gone */
            return;
        if ((p[1].revents & POLLOUT) && sp_chan_flush(&broker) != 0)
            return;
        if ((p[1].revents & ~POLLOUT) && !on_broker())
            return;
    }
}

int sp_registry_main(void)
{
    const struct sp_config *c = sp_config_load();
    char why[300];
    sp_log_init("registry", (enum sp_log_level)c->log_level);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* SQLite tells of a write that failed */
    int r = confine(c);
    int opened =
        r == 0 ? store_open(&store, SP_REGISTRY_FILE, c->uid_min, c->uid_max, why, sizeof why) : 0;
    if (r == 0 && opened == 0)
        opened = store_reaches(&store, c->highest_owner, why, sizeof why);
    if (opened != 0) {
        sp_log(SP_LOG_ERROR, "%s", why);
        return opened == STORE_UNFIT ? SP_EXIT_UNFIT : 1;
    }
    if (r == 0)
        r = shut_doors(c);
    if (r != 0) {
        sp_log(SP_LOG_ERROR, "can't confine itself: %s", strerror(-r));
        return 1;
    }
    sp_chan_init(&main_chan, SP_FD_MAIN);
    sp_chan_init(&broker, SP_FD_EXTRA);
    const struct sp_msg up = {.op = SP_OP_UP};
    if (sp_msg_send(&main_chan, &up, NULL, 0) != 0)
        return 1;
    serve();
    store_release(&store, (int64_t)time(NULL));
    store_close(&store);
    return 0;
}
