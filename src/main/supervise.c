/* supervise.c: keeps the daemon whole. A role that dies is replaced while the listening sockets
 * stay open in main, so that clients wait instead of being refused; a role that keeps dying ends
 * the daemon, since something outside it has to be looked at. */
#include "main/supervise.h"

#include "sallyport/log.h"
#include "sallyport/proto.h"

#include <string.h>
#include <sys/wait.h>

#define BACKOFF_FIRST_MS 100u
#define BACKOFF_LAST_MS 2000u
#define SETTLED_MS 60000u
#define DEATHS_MAX 10u
#define FRONT_LAST_WORDS_MS 2000u
#define KILLED_FRONT_MS 3000u
#define BROKER_END_MS 8000u /* it gives its cell 5 s */
#define REGISTRY_END_MS 3000u
#define BROKER_NEWS_MS 200u /* for the end that a front reports to be seen here */

static void tell_death(const struct child *c)
{
    if (WIFSIGNALED(c->status))
        sp_log(SP_LOG_ERROR, "the %s was ended by signal %d", c->name, WTERMSIG(c->status));
    else
        sp_log(SP_LOG_ERROR, "the %s ended with status %d", c->name, WEXITSTATUS(c->status));
}

/* Waits as long as this role's latest deaths ask for. False: it dies too often. */
static bool back_off(struct super *s, struct child *c)
{
    uint64_t now = main_now_ms();
    if (c->ndeaths > DEATHS_MAX && now - c->deaths[(c->ndeaths - 1 - DEATHS_MAX) % 11] < 60000) {
        sp_log(SP_LOG_ERROR, "the %s died more than %u times in a minute: giving up", c->name,
               DEATHS_MAX);
        return false;
    }
    c->in_row = now - c->started >= SETTLED_MS ? 1 : c->in_row + 1;
    c->started = now; /* where no start comes to be, too: else each would count as the first */
    if (c->in_row == 1)
        return true; /* at once */
    unsigned shift = c->in_row - 2 < 8 ? c->in_row - 2 : 8;
    uint64_t wait = (uint64_t)BACKOFF_FIRST_MS << shift;
    uint64_t end = now + (wait < BACKOFF_LAST_MS ? wait : BACKOFF_LAST_MS);
    while (s->stops == 0 && main_now_ms() < end)
        pump(s, end);
    return true;
}

/* All roles, from nothing, side by side: the broker with its cell, the front and the registry take
 * about as long as each other. False when one failed to come up. The front accepts when there is
 * somebody to ask. */
static bool start_all(struct super *s)
{
    const bool box = s->cfg.mode == SP_MODE_BOX;
    if (start_broker(s) != 0 || (box && start_registry(s) != 0) || start_front(s) != 0)
        return false;
    if (!await_up(s, &s->broker) || (box && !await_up(s, &s->registry)))
        return false;
    return begin_front(s) == 0 && await_up(s, &s->front);
}

/* 2: what the registry has and what it was told don't fit, which another try won't change. */
static int start_failed(const struct super *s)
{
    const int status = s->registry.status;
    return s->registry.ndeaths > 0 && WIFEXITED(status) && WEXITSTATUS(status) == SP_EXIT_UNFIT ? 2
                                                                                                : 1;
}

static void end_all(struct super *s)
{
    end_child(s, &s->front);
    if (s->broker.pid > 0) {
        sp_chan_close(&s->broker.chan); /* its sign to end the cell, and itself */
        (void)await_end(s, &s->broker, main_now_ms() + BROKER_END_MS, ~0u);
        end_child(s, &s->broker);
    }
    if (s->registry.pid > 0) { /* it gives back the ids that it holds for nobody */
        sp_chan_close(&s->registry.chan);
        (void)await_end(s, &s->registry, main_now_ms() + REGISTRY_END_MS, ~0u);
    }
    end_child(s, &s->registry);
    sweep_all(s);
}

/* A first signal lets requests finish, as long as the settings say; a second one, or the time, ends
 * commands; then nobody is asked any more. */
static int shut_down(struct super *s)
{
    sp_log(SP_LOG_INFO, "stopping: no new connections, running requests may finish");
    send_op(&s->front, SP_OP_DRAIN);
    if (s->front.up && !await_end(s, &s->front, main_now_ms() + s->shutdown_ms, 1)) {
        sp_log(SP_LOG_WARN, "stopping: ending what still runs");
        send_op(&s->broker, SP_OP_KILL_ALL);
        (void)await_end(s, &s->front, main_now_ms() + KILLED_FRONT_MS, ~0u);
    }
    end_all(s);
    sp_log(SP_LOG_INFO, "stopped");
    return 0;
}

/* Dead, or at its end: it closes its socket to us only then. */
static bool broker_lost(const struct super *s)
{
    return s->broker.pid == 0 || s->broker.chan.fd < 0;
}

/* It ended because the broker did. */
static bool no_broker(const struct child *front)
{
    return front->pid == 0 && WIFEXITED(front->status) &&
           WEXITSTATUS(front->status) == SP_EXIT_NO_BROKER;
}

/* Not its own death: it isn't counted, and not taken back twice. */
static void forgive(struct child *front)
{
    front->ndeaths--;
    front->status = 0;
}

static bool replace_front(struct super *s)
{
    /* A front that ended because the broker did may be seen before it. */
    bool says_so = no_broker(&s->front);
    uint64_t end = main_now_ms() + (says_so ? BROKER_NEWS_MS : 0);
    do
        pump(s, end);
    while (s->stops == 0 && !broker_lost(s) && main_now_ms() < end);
    if (s->stops > 0)
        return true;
    if (broker_lost(s)) { /* there is more to do than that, and the death isn't the front's own */
        forgive(&s->front);
        return true;
    }
    tell_death(&s->front);
    if (!back_off(s, &s->front))
        return false;
    if (s->stops > 0 || broker_lost(s))
        return true;
    if (start_front(s) != 0 || begin_front(s) != 0 || !await_up(s, &s->front)) {
        if (s->front.pid > 0 && s->stops == 0)
            end_child(s, &s->front); /* its death is seen in the next turn */
        return true;
    }
    sp_log(SP_LOG_WARN, "a new front is up");
    return true;
}

/* Not all came up. Without the broker nothing can; each of the others is replaced by itself in the
 * next turns. A front that is there has to be told to begin here: nobody else will. */
static void make_do(struct super *s)
{
    if (!s->broker.up) {
        end_child(s, &s->broker);
        return;
    }
    if (s->registry.pid > 0 && !s->registry.up)
        end_child(s, &s->registry);
    if (s->front.pid == 0)
        return;
    const bool well = begin_front(s) == 0 && await_up(s, &s->front);
    if (!well && s->stops == 0)
        end_child(s, &s->front);
}

/* The front ends by itself without a broker, after it told its clients; commands that the broker
 * and its cell left are ours now. */
static bool replace_all(struct super *s)
{
    (void)await_end(s, &s->broker, main_now_ms() + BROKER_END_MS, 0);
    end_child(s, &s->broker);
    tell_death(&s->broker);
    if (no_broker(&s->front)) /* both were seen at once */
        forgive(&s->front);
    unsigned own_deaths = s->front.ndeaths;
    (void)await_end(s, &s->front, main_now_ms() + FRONT_LAST_WORDS_MS, 0);
    end_child(s, &s->front);
    s->front.ndeaths = own_deaths; /* this one is the broker's doing */
    own_deaths = s->registry.ndeaths;
    end_child(s, &s->registry); /* it has ended, or has no more use */
    s->registry.ndeaths = own_deaths;
    sweep_all(s);
    if (!back_off(s, &s->broker))
        return false;
    if (s->stops > 0)
        return true;
    if (start_all(s))
        sp_log(SP_LOG_WARN, "a new broker and front are up");
    else if (s->stops == 0 && s->broker.pid > 0)
        make_do(s);
    return true;
}

/* Requests of identities that have a cell go on meanwhile; the others wait in the broker. */
static bool replace_registry(struct super *s)
{
    uint64_t end = main_now_ms() + BROKER_NEWS_MS; /* it ends with the broker */
    while (s->stops == 0 && !broker_lost(s) && main_now_ms() < end)
        pump(s, end);
    if (s->stops > 0 || broker_lost(s)) {
        s->registry.ndeaths--;
        return true;
    }
    tell_death(&s->registry);
    if (!back_off(s, &s->registry))
        return false;
    if (s->stops > 0 || broker_lost(s))
        return true;
    if (start_registry(s) == 0 && await_up(s, &s->registry))
        sp_log(SP_LOG_WARN, "a new registry is up");
    else if (s->registry.pid > 0 && s->stops == 0)
        end_child(s, &s->registry);
    return true;
}

static bool box_without_registry(const struct super *s)
{
    return s->cfg.mode == SP_MODE_BOX && s->registry.pid == 0;
}

int supervise(struct super *s)
{
    if (!start_all(s)) {
        bool asked = s->stops > 0;
        if (!asked)
            sp_log(SP_LOG_ERROR, "the daemon can't start");
        const int status = start_failed(s);
        end_all(s);
        return asked ? 0 : status;
    }
    for (int i = 0; i < s->listeners.n; i++)
        sp_log(SP_LOG_INFO, "listening on %s", s->listeners.name[i]);
    for (;;) {
        bool go_on = true;
        if (s->stops > 0)
            return shut_down(s);
        if (broker_lost(s))
            go_on = replace_all(s);
        else if (s->front.pid == 0)
            go_on = replace_front(s);
        else if (box_without_registry(s))
            go_on = replace_registry(s);
        else
            pump(s, main_now_ms() + 60000);
        if (!go_on) {
            end_all(s);
            return 1;
        }
    }
}
