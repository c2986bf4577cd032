/* exec.c: the life of one command, on the main thread: pipes and folder, the spawner, the shell's
 * end, the end of all it started, and only then EXITED. Trusts the broker's order of messages but
 * checks it; trusts nothing of the command. */
#include "cell/cell.h"
#include "cell/ipc.h"
#include "cell/resolve.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMED_OUT_CODE 124
#define REST_NS 1000000000u /* without a command: a child that waits is let go */
/* Most commands are over by then, and need one message instead of two. It depends on the machine:
 * at least so much, and twice what the quickest of late took. */
#define TELL_MIN_NS 2000000u
#define TELL_MAX_NS 10000000u
#define PIPE_HALF                                                                                  \
    (32 << 10) /* of the smallest that may be had: the command waits for a reader soon */

static void close_pipes(struct sp_exec *x)
{
    sp_exec_close(x->out);
    sp_exec_close(x->err);
    sp_exec_close(x->in);
    if (x->cwd >= 0)
        close(x->cwd);
    x->cwd = -1;
}

int sp_exec_init(struct sp_cell *c)
{
    struct sp_exec *x = &c->exec;
    x->state = SP_EXEC_IDLE;
    for (int i = 0; i < 2; i++)
        x->out[i] = x->err[i] = x->in[i] = x->next_out[i] = x->next_err[i] = -1;
    x->cwd = -1;
    int err = sp_environ_init(&x->environ, c->config);
    if (err != 0)
        return err;
    x->dev_null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (x->dev_null < 0)
        return -errno;
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct sp_config *cfg = c->config;
    sp_tree_init(&x->tree, proc, cfg->pid_ns || (cfg->have_landlock && cfg->signal_scope),
                 cfg->own_uid);
    if (cfg->cgroup)
        sp_tree_use_cgroup(&x->tree, SP_FD_CGROUP_FREEZE, SP_FD_CGROUP_PROCS,
                           cfg->cgroup_cpu ? SP_FD_CGROUP_CPU : -1, cfg);
    if (cfg->cgroup_memory)
        x->oom_kills = sp_cgroup_oom_kills(SP_FD_CGROUP_EVENTS);
    if (x->tree.method == SP_TREE_WALK && x->tree.proc < 0)
        sp_log(SP_LOG_WARN, "no usable /proc: processes that leave a command's session escape");
    return 0;
}

static void begin_kill(struct sp_exec *x)
{
    x->state = SP_EXEC_KILLING;
    sp_tree_begin(&x->tree, x->spawn.pid);
    x->next_ms = sp_tree_kill(&x->tree);
}

/* What the broker is to get with STARTED: 2 or 3. */
static int take_pipes(struct sp_exec *x, int fds[3])
{
    int n = x->in[1] >= 0 ? 3 : 2;
    fds[0] = x->out[0];
    fds[1] = x->err[0];
    fds[2] = x->in[1];
    x->out[0] = x->err[0] = x->in[1] = -1; /* the send takes them */
    x->told = true;
    return n;
}

/* It lasts: tells the broker, and hands its pipes over. */
static bool tell(struct sp_cell *c)
{
    struct sp_exec *x = &c->exec;
    struct sp_msg m = {.op = SP_OP_STARTED, .id = x->id};
    int fds[3], n = take_pipes(x, fds);
    bool sent = true;
    bool ok = sp_cell_send_fds(c, &m, fds, n, &sent);
    close_pipes(x); /* the command's ends */
    if (!ok)
        return false;
    x->unheard = !sent;
    if (x->unheard && x->state == SP_EXEC_RUNNING)
        begin_kill(x);
    return true;
}

static bool runs(struct sp_cell *c)
{
    struct sp_exec *x = &c->exec;
    x->state = SP_EXEC_RUNNING;
    /* Before a command can use up the processes that its user may have. */
    (void)sp_pool_ready(&c->pool);
    if (x->exit_flags != 0)
        begin_kill(x);
    return sp_exec_children(c); /* SIGCHLDs until now were left alone */
}

static bool run_plain(struct sp_cell *c)
{
    struct sp_exec *x = &c->exec;
    int err = sp_exec_make_pipes(x, x->with_stdin);
    if (err != 0) {
        sp_log(SP_LOG_ERROR, "pipes for a command: %s", strerror(-err));
        close_pipes(x);
        x->state = SP_EXEC_IDLE;
        sp_watch_ended(c);
        return sp_cell_fail(c, x->id, SP_E_OVERLOADED);
    }
    x->spawn = (struct sp_spawn){
        .argv = x->environ.argv,
        .envp = x->environ.envp,
        .cwd = x->cwd >= 0 ? x->cwd : c->root,
        .std = {x->in[0] >= 0 ? x->in[0] : x->dev_null, x->out[1], x->err[1]},
        .tell = x->eager,
    };
    return !sp_spawner_ask(&c->spawner, &x->spawn) || runs(c);
}

bool sp_exec_held(struct sp_cell *c, bool given)
{
    c->exec.answered = given;
    return given ? runs(c) : run_plain(c);
}

static uint64_t patience(const struct sp_exec *x)
{
    uint64_t ns = 2 * x->quickest_ns;
    return ns < TELL_MIN_NS ? TELL_MIN_NS : ns > TELL_MAX_NS ? TELL_MAX_NS : ns;
}

/* A quicker one counts at once, slower ones little by little. */
static void note_duration(struct sp_exec *x)
{
    uint64_t ns = x->end_ns - x->spawn.start_ns, more = x->quickest_ns + x->quickest_ns / 16 + 1000;
    x->quickest_ns = ns < more ? ns : more;
}

bool sp_exec_start(struct sp_cell *c, const struct sp_msg *m)
{
    struct sp_exec *x = &c->exec;
    char rest[4096];
    if (x->state != SP_EXEC_IDLE)
        return sp_cell_fail(c, m->id, SP_E_BUSY);
    sp_exec_unshut(c);
    enum sp_err e = sp_quota_doubled(&c->quota) ? SP_E_QUOTA : sp_exec_cwd(c, m->cwd, rest);
    if (e == SP_OK && !sp_environ_set(&x->environ, m, rest))
        e = SP_E_BAD_FIELD;
    if (e != SP_OK) {
        close_pipes(x);
        return sp_cell_fail(c, m->id, e);
    }
    x->id = m->id;
    x->exit_flags = 0;
    x->shell_ended = x->unheard = x->answered = x->told = false;
    x->with_stdin = (m->flags & SP_EXEC_STDIN) != 0;
    x->eager = (m->flags & (SP_EXEC_STDIN | SP_EXEC_LIVE)) != 0;
    x->tell_ns = x->eager ? 0 : sp_now_ns() + TELL_MIN_NS;
    x->last_ns = sp_now_ns() + patience(x);
    x->state = SP_EXEC_SPAWNING;
    sp_watch_started(c);
    switch (sp_held_take(c, m)) {
    case SP_HELD_GIVEN:
        return sp_exec_held(c, true);
    case SP_HELD_COMING:
        return true;
    default:
        return run_plain(c);
    }
}

void sp_exec_cancel(struct sp_cell *c, uint32_t id, uint8_t flags)
{
    struct sp_exec *x = &c->exec;
    /* One that ended by itself while this was under way keeps its own end. */
    if ((x->state != SP_EXEC_SPAWNING && x->state != SP_EXEC_RUNNING) || x->id != id ||
        x->exit_flags != 0)
        return;
    x->exit_flags = flags == SP_CANCEL_TIMEOUT ? SP_EXIT_TIMED_OUT : SP_EXIT_CANCELLED;
    if (x->state == SP_EXEC_RUNNING)
        begin_kill(x);
    if (!c->held.awaited)
        return;
    /* It may load for long; one of its own is killed as soon as it is there. */
    sp_held_drop(c);
    (void)run_plain(c);
}

void sp_exec_over_quota(struct sp_cell *c)
{
    struct sp_exec *x = &c->exec;
    if (x->state != SP_EXEC_RUNNING || x->exit_flags != 0)
        return;
    x->exit_flags = SP_EXIT_QUOTA;
    begin_kill(x);
}

static bool spawn_failed(struct sp_cell *c)
{
    static const char *const steps[] = {"starting a process", "entering the folder",
                                        "setting limits", "executing the shell"};
    struct sp_exec *x = &c->exec;
    const struct sp_spawn *s = &x->spawn;
    while (s->pid > 0 && waitpid(s->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    close_pipes(x);
    x->state = SP_EXEC_IDLE;
    sp_watch_ended(c);
    sp_exec_rest(c);
    if (s->step == SP_SPAWN_CHDIR && (s->error == EACCES || s->error == EPERM))
        return sp_cell_fail(c, x->id, SP_E_FORBIDDEN);
    sp_log(SP_LOG_ERROR, "a command: %s: %s", steps[s->step], strerror(s->error));
    /* All processes or memory that there may be are taken, by others, as nothing of this identity's
     * runs: it may be tried again. An exec without memory rather wants a higher limit. */
    bool later = s->error == EAGAIN || (s->error == ENOMEM && s->step == SP_SPAWN_CLONE);
    return sp_cell_fail(c, x->id, later ? SP_E_OVERLOADED : SP_E_SPAWN_FAILED);
}

/* The spawner has said that it runs, or doesn't. */
static bool answered(struct sp_cell *c)
{
    struct sp_exec *x = &c->exec;
    x->answered = true;
    if (x->spawn.error != 0 && x->state != SP_EXEC_KILLING) /* else its end says so */
        return spawn_failed(c);
    if (x->state == SP_EXEC_SPAWNING)
        return runs(c);
    return sp_exec_children(c);
}

bool sp_exec_spawned(struct sp_cell *c)
{
    struct sp_exec *x = &c->exec;
    bool held = false;
    if (!sp_held_spawned(c, &held))
        return false;
    if (held || x->state == SP_EXEC_IDLE || x->answered || sp_spawner_take(&c->spawner) == NULL)
        return true;
    return answered(c) && sp_exec_tick(c);
}

/* True: the broker is to have the pipes now. Before the last moment one that is half full says so.
 */
static bool due(struct sp_exec *x)
{
    const uint64_t now = sp_now_ns();
    int out = 0, err = 0;
    if (now < x->tell_ns)
        return false;
    if (now >= x->last_ns || ioctl(x->out[0], FIONREAD, &out) != 0 || out > PIPE_HALF ||
        ioctl(x->err[0], FIONREAD, &err) != 0 || err > PIPE_HALF)
        return true;
    x->tell_ns = now + TELL_MIN_NS;
    return false;
}

bool sp_exec_tick(struct sp_cell *c)
{
    struct sp_exec *x = &c->exec;
    if (x->state == SP_EXEC_IDLE && x->rest_ns != 0 && sp_now_ns() >= x->rest_ns) {
        sp_spawner_dismiss(&c->spawner);
        x->rest_ns = 0;
    }
    if (x->state != SP_EXEC_RUNNING || x->told || (x->tell_ns != 0 && !due(x)))
        return true;
    x->tell_ns = 0;
    if (x->answered)
        return tell(c);
    if (!sp_spawner_tell(&c->spawner))
        return true; /* we are told when it runs */
    (void)sp_spawner_take(&c->spawner);
    return answered(c) && (x->state != SP_EXEC_RUNNING || x->told || tell(c));
}

void sp_exec_rest(struct sp_cell *c)
{
    struct sp_exec *x = &c->exec;
    if (x->state != SP_EXEC_IDLE)
        return;
    sp_exec_renew_null(x);
    sp_spawner_park(&c->spawner);
    x->rest_ns = sp_now_ns() + REST_NS;
    if (x->next_err[1] >= 0 || sp_exec_pipes(x->next_out, x->next_err) == 0)
        return;
    sp_exec_close(x->next_out);
    sp_exec_close(x->next_err);
}

/* True if the kernel ended some of this command's processes for want of memory. */
static bool ran_out(struct sp_cell *c)
{
    if (!c->config->cgroup_memory)
        return false;
    uint64_t before = c->exec.oom_kills;
    c->exec.oom_kills = sp_cgroup_oom_kills(SP_FD_CGROUP_EVENTS);
    return c->exec.oom_kills > before;
}

static struct sp_msg result(const struct sp_exec *x)
{
    struct sp_msg m = {.op = SP_OP_EXITED, .id = x->id, .flags = x->exit_flags};
    if ((x->exit_flags & SP_EXIT_TIMED_OUT) != 0) {
        m.exit_code = TIMED_OUT_CODE;
    } else if (WIFSIGNALED(x->status)) {
        m.signal = (uint8_t)WTERMSIG(x->status);
        m.exit_code = 128 + WTERMSIG(x->status);
    } else {
        m.exit_code = WEXITSTATUS(x->status);
    }
    m.duration_us = (x->end_ns - x->spawn.start_ns) / 1000u;
    return m;
}

/* With its pipes, where the broker doesn't have them yet. */
static bool tell_end(struct sp_cell *c)
{
    struct sp_exec *x = &c->exec;
    struct sp_msg m = result(x);
    if (x->eager && !x->told && !tell(c))
        return false;
    bool sent = !x->unheard;
    if (sent && x->told)
        return sp_cell_send(c, &m, NULL, 0);
    if (sent) {
        int fds[3], n = take_pipes(x, fds);
        if (!sp_cell_send_fds(c, &m, fds, n, &sent))
            return false;
    }
    return sent || sp_cell_fail(c, x->id, SP_E_OVERLOADED);
}

static bool exited(struct sp_cell *c)
{
    struct sp_exec *x = &c->exec;
    sp_tree_end(&x->tree);
    if (ran_out(c))
        x->exit_flags |= SP_EXIT_OOM;
    if (!x->answered) /* it has the answer ready: the child is dead */
        (void)sp_spawner_wait(&c->spawner);
    if (x->spawn.error != 0)
        return spawn_failed(c);
    x->state = SP_EXEC_IDLE;
    sp_watch_ended(c);
    note_duration(x);
    bool sent = tell_end(c);
    close_pipes(x); /* while the answer is on its way, as all that follows */
    sp_held_quiet(c);
    sp_exec_rest(c);
    if ((c->config->cell_ns & CLONE_NEWIPC) != 0)
        sp_ipc_clear();
    return sent;
}

bool sp_exec_children(struct sp_cell *c)
{
    struct sp_exec *x = &c->exec;
    if (c->held.state != SP_HELD_NONE)
        return sp_held_children(c);
    /* Between commands there is no other child; one that is being started has no number yet. */
    if (x->state != SP_EXEC_RUNNING && x->state != SP_EXEC_KILLING)
        return true;
    bool ended = false;
    bool none_left = sp_tree_reap(x->spawn.pid, &x->status, &ended);
    if (ended) {
        x->end_ns = sp_now_ns();
        x->shell_ended = true;
    }
    if (none_left && !x->shell_ended) {
        sp_log(SP_LOG_ERROR, "the shell's end was lost"); /* can't be: nobody else reaps */
        x->end_ns = sp_now_ns();
        x->status = 0xff00;
    }
    if (none_left && sp_tree_gone(&x->tree))
        return exited(c);
    if (x->state == SP_EXEC_KILLING)
        x->next_ms = sp_tree_kill(&x->tree);
    else if (x->shell_ended)
        begin_kill(x);
    return true;
}

int sp_exec_wait_ms(const struct sp_cell *c)
{
    const struct sp_exec *x = &c->exec;
    if (x->state == SP_EXEC_KILLING)
        return x->next_ms;
    uint64_t due = x->state == SP_EXEC_IDLE                  ? x->rest_ns
                   : x->state == SP_EXEC_RUNNING && !x->told ? x->tell_ns
                                                             : 0;
    uint64_t now = due == 0 ? 0 : sp_now_ns();
    return due == 0 ? -1 : due <= now ? 0 : (int)((due - now) / 1000000u) + 1;
}

void sp_exec_abort(struct sp_cell *c, unsigned ms)
{
    struct sp_exec *x = &c->exec;
    const struct timespec pause = {0, 1000000};
    uint64_t until = sp_now_ns() + (uint64_t)ms * 1000000u;
    bool ended = false;
    if (c->held.awaited)
        x->state = SP_EXEC_IDLE;
    sp_held_drop(c);
    while (x->state == SP_EXEC_SPAWNING && sp_now_ns() < until) {
        if (sp_spawner_take(&c->spawner) != NULL)
            x->state = SP_EXEC_RUNNING;
        else
            nanosleep(&pause, NULL);
    }
    if (x->state == SP_EXEC_IDLE) /* a child that waits dies with us */
        return;
    sp_tree_begin(&x->tree, x->spawn.pid);
    while (!sp_tree_reap(x->spawn.pid, &x->status, &ended) || !sp_tree_gone(&x->tree)) {
        if (sp_now_ns() > until) {
            sp_log(SP_LOG_ERROR, "a command's processes outlive the cell");
            return;
        }
        (void)sp_tree_kill(&x->tree);
        nanosleep(&pause, NULL);
    }
    sp_tree_end(&x->tree);
    x->state = SP_EXEC_IDLE;
}
