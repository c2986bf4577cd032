/* held.c: a shell held ready for the next command: started as every command's, with the same
 * confinement, limits, folder and environment, and stopped at its entry point (trace.c) with all
 * that exec and ld.so do behind it. One at most, only while no command runs, made after a quiet
 * moment so that a client without pauses never pays for it, and let go after a while without
 * commands. Used for one command, like any shell. A command that differs from what it was started
 * with in more than the command's text takes the plain path, as does every command when something
 * here fails.
 *
 * On the main thread. Trusts the spawner; the held shell hasn't run anything yet. */
#include "cell/held.h"
#include "cell/cell.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000ull
#define QUIET_NS (2 * MS)    /* after a command, before one is made */
#define SOON_NS (10000 * MS) /* between commands that make one worth while */
#define KEEP_NS (10000 * MS) /* unused */
#define REST_NS (1000 * MS)  /* after one that wasn't ready in time: then twice as long, ... */
#define REST_DOUBLED 3u      /* so often at most */
#define FAILURES 3u          /* in a row: it will never work */
#define PAGE 4096u
#define ROOM_MIN 256u

static const char words[] = ": held by sallyport for the next command "; /* does nothing, if run */

static void turn_off(struct sp_cell *c, const char *why)
{
    c->held.off = true;
    /* Each identity's cell finds out for itself: once is enough for a log at its usual level. */
    sp_log(c->config->mode == SP_MODE_BOX ? SP_LOG_DEBUG : SP_LOG_INFO, "held shells: off: %s",
           why);
}

/* ---- what it is started with ---- */

/* As every command's, but for the command itself. The strings of the environ that stay are shared.
 */
static bool copy_environ(struct sp_cell *c)
{
    static char dash_c[] = "-c", any[] = ":";
    struct sp_held *h = &c->held;
    struct sp_environ *e = &c->exec.environ;
    const struct sp_msg m = {.op = SP_OP_EXEC, .command = {any, 1}};
    size_t n = 0;
    if (!sp_environ_set(e, &m, ""))
        return false;
    while (e->envp[n] != NULL)
        n++;
    h->envp = calloc(n + 1, sizeof *h->envp);
    if (h->envp == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        h->envp[i] = e->envp[i] == e->pwd ? strdup(e->pwd) : e->envp[i];
        if (h->envp[i] == NULL)
            return false;
    }
    h->argv[0] = e->argv[0];
    h->argv[1] = dash_c;
    h->argv[2] = h->placeholder;
    return true;
}

/* The kernel puts the strings at the top of the stack, and sizes the stack by their pages. So that
 * nobody sees a difference, the placeholder fills the page in which the shortest command ends. */
static void size_placeholder(struct sp_cell *c)
{
    struct sp_held *h = &c->held;
    size_t used =
        sizeof(void *) + strlen(c->config->shell) + 1 + strlen(h->argv[0]) + 1 + sizeof "-c";
    for (char **var = h->envp; *var != NULL; var++) {
        used += strlen(*var) + 1;
        /* Files that some shells read at their start: what that does is done once. */
        if (strncmp(*var, "ENV=", 4) == 0 || strncmp(*var, "BASH_ENV=", 9) == 0)
            return;
    }
    size_t room = PAGE - (used + 1) % PAGE;
    h->room = room < ROOM_MIN ? 0 : room - 1;
    memset(h->placeholder, 'x', h->room);
    if (h->room > 0)
        memcpy(h->placeholder, words, sizeof words - 1);
    h->placeholder[h->room] = '\0';
}

void sp_held_init(struct sp_cell *c)
{
    struct sp_held *h = &c->held;
    *h = (struct sp_held){.out = {-1, -1}, .err = {-1, -1}};
    h->off = c->config->held == 0;
    if (h->off)
        return;
    if (copy_environ(c))
        size_placeholder(c);
    if (h->room == 0)
        turn_off(c, "the environment of commands leaves no room for it, or names a file to read");
    else if (c->exec.tree.proc < 0)
        turn_off(c, "there is no usable /proc");
}

/* A new shell, or another set of libraries, is for the next command, not for the one after it. */
static void look_at_files(const struct sp_cell *c, struct stat file[SP_HELD_FILES])
{
    const char *const path[SP_HELD_FILES] = {c->config->shell, "/etc/ld.so.preload",
                                             "/etc/ld.so.cache"};
    for (int i = 0; i < SP_HELD_FILES; i++)
        if (stat(path[i], &file[i]) != 0)
            memset(&file[i], 0, sizeof file[i]);
}

static bool same_files(const struct sp_cell *c)
{
    struct stat now[SP_HELD_FILES];
    look_at_files(c, now);
    for (int i = 0; i < SP_HELD_FILES; i++) {
        const struct stat *a = &now[i], *b = &c->held.file[i];
        if (a->st_dev != b->st_dev || a->st_ino != b->st_ino ||
            a->st_ctim.tv_sec != b->st_ctim.tv_sec || a->st_ctim.tv_nsec != b->st_ctim.tv_nsec)
            return false;
    }
    return true;
}

/* ---- its end ---- */

/* It is dead and reaped. */
static void forget(struct sp_held *h)
{
    sp_exec_close(h->out);
    sp_exec_close(h->err);
    h->state = SP_HELD_NONE;
    h->awaited = false;
    h->due_ns = 0;
}

static void kill_it(struct sp_held *h)
{
    int status = 0;
    pid_t got;
    if (!h->trace.ended) {
        (void)kill(h->spawn.pid, SIGKILL);
        do { /* stops that it made before are told first */
            got = waitpid(h->spawn.pid, &status, __WALL);
        } while ((got < 0 && errno == EINTR) || (got > 0 && WIFSTOPPED(status)));
    }
    forget(h);
}

void sp_held_drop(struct sp_cell *c)
{
    struct sp_held *h = &c->held;
    if (h->state == SP_HELD_SPAWNING) {
        (void)sp_spawner_wait(&c->spawner);
        if (h->spawn.pid <= 0) {
            forget(h);
            return;
        }
    }
    if (h->state != SP_HELD_NONE) {
        kill_it(h);
        sp_log(SP_LOG_DEBUG, "the held shell is let go");
    }
    h->awaited = false;
}

/* It is none to use: who waits for it goes the plain way. False: as sp_cell_send. */
static bool fail(struct sp_cell *c, const char *why, bool for_good)
{
    struct sp_held *h = &c->held;
    bool awaited = h->awaited;
    sp_held_drop(c);
    if (for_good || ++h->failures >= FAILURES)
        turn_off(c, why);
    else
        sp_log(SP_LOG_DEBUG, "a held shell was lost: %s", why);
    return !awaited || sp_exec_held(c, false);
}

/* Somebody ended it. If that was the kernel for want of memory, it isn't the next command's. */
static bool lost(struct sp_cell *c, const char *why)
{
    bool awaited = c->held.awaited;
    forget(&c->held);
    c->held.awaited = awaited;
    if (c->config->cgroup_memory)
        c->exec.oom_kills = sp_cgroup_oom_kills(SP_FD_CGROUP_EVENTS);
    return fail(c, why, false);
}

/* ---- making one ---- */

static void begin(struct sp_cell *c)
{
    struct sp_held *h = &c->held;
    h->due_ns = 0;
    look_at_files(c, h->file);
    if (sp_exec_pipes(h->out, h->err) != 0) {
        forget(h);
        return;
    }
    h->spawn = (struct sp_spawn){
        .argv = h->argv,
        .envp = h->envp,
        .cwd = c->root,
        .std = {c->exec.dev_null, h->out[1], h->err[1]},
        .hold = true,
        .tell = true,
    };
    h->trace = (struct sp_trace){0};
    h->state = SP_HELD_SPAWNING;
    (void)sp_spawner_ask(&c->spawner, &h->spawn);
}

bool sp_held_spawned(struct sp_cell *c, bool *ours)
{
    struct sp_held *h = &c->held;
    *ours = h->state == SP_HELD_SPAWNING;
    if (!*ours || sp_spawner_take(&c->spawner) == NULL)
        return true;
    if (h->spawn.pid <= 0)
        return lost(c, strerror(h->spawn.error));
    h->state = SP_HELD_LOADING;
    h->due_ns = sp_now_ns() + KEEP_NS;
    int err = h->spawn.error != 0 ? -h->spawn.error : sp_trace_seize(&h->trace, h->spawn.pid);
    if (err == 0)
        return sp_held_children(c);
    return fail(c, strerror(-err), err != -ESRCH && h->spawn.error == 0);
}

static bool give(struct sp_cell *c)
{
    struct sp_held *h = &c->held;
    struct sp_exec *x = &c->exec;
    h->awaited = false;
    if (!sp_trace_release(&h->trace, x->environ.command, strlen(x->environ.command)))
        return false;
    memcpy(x->out, h->out, sizeof x->out);
    memcpy(x->err, h->err, sizeof x->err);
    for (int i = 0; i < 2; i++)
        h->out[i] = h->err[i] = -1;
    x->spawn = h->spawn;
    x->spawn.start_ns = h->asked_ns;
    forget(h);
    sp_log(SP_LOG_DEBUG, "the held shell has the command");
    return true;
}

static bool at_entry(struct sp_cell *c)
{
    struct sp_held *h = &c->held;
    const char *why = sp_trace_prepare(&h->trace, &h->code, c->exec.tree.proc, h->argv[0],
                                       h->placeholder, c->config->held);
    if (why != NULL)
        return fail(c, why, true);
    h->state = SP_HELD_READY;
    h->failures = 0;
    h->due_ns = sp_now_ns() + KEEP_NS;
    sp_log(SP_LOG_DEBUG, "a shell is held");
    if (!h->awaited)
        return true;
    if (give(c))
        return sp_exec_held(c, true);
    h->awaited = true;
    return fail(c, "it doesn't take a command", false);
}

bool sp_held_children(struct sp_cell *c)
{
    struct sp_held *h = &c->held;
    const char *why = "a signal came";
    while (h->state == SP_HELD_LOADING || h->state == SP_HELD_READY) {
        int status;
        pid_t got = waitpid(h->spawn.pid, &status, WNOHANG | __WALL);
        if (got == 0 || (got < 0 && errno == EINTR))
            return true;
        if (got < 0 || !WIFSTOPPED(status))
            return lost(c, "it ended before its time");
        if (h->state == SP_HELD_READY)
            return fail(c, why, false);
        switch (sp_trace_stopped(&h->trace, c->exec.tree.proc, status, &why)) {
        case SP_TRACE_LOST:
            return fail(c, why, false);
        case SP_TRACE_AT_ENTRY:
            return at_entry(c);
        default:
            break;
        }
    }
    return true;
}

/* ---- using it ---- */

static bool fits(const struct sp_cell *c, const struct sp_msg *m)
{
    return m->cwd.n == 0 && m->env.n == 0 && (m->flags & SP_EXEC_STDIN) == 0 && m->command.n > 0 &&
           m->command.n <= c->held.room && m->command.p[0] != '-' && m->command.p[0] != '+';
}

enum sp_held_answer sp_held_take(struct sp_cell *c, const struct sp_msg *m)
{
    struct sp_held *h = &c->held;
    const struct sp_exec *x = &c->exec;
    if (h->off)
        return SP_HELD_NO;
    bool could = fits(c, m);
    h->asked_ns = sp_now_ns();
    uint64_t pause = h->asked_ns - x->end_ns;
    h->wanted = could && x->end_ns != 0 && pause >= QUIET_NS && pause < SOON_NS;
    h->due_ns = 0;
    if (could && (h->state == SP_HELD_SPAWNING || h->state == SP_HELD_LOADING)) {
        h->awaited = true; /* sooner than another one would be */
        h->not_before_ns = h->asked_ns + (REST_NS << h->late);
        h->late += h->late < REST_DOUBLED; /* the machine has no time for it */
        return SP_HELD_COMING;
    }
    if (could && h->state == SP_HELD_READY && same_files(c) && give(c)) {
        h->late -= h->late > 0;
        return SP_HELD_GIVEN;
    }
    sp_held_drop(c);
    return SP_HELD_NO;
}

void sp_held_quiet(struct sp_cell *c)
{
    struct sp_held *h = &c->held;
    uint64_t now = h->wanted && !h->off ? sp_now_ns() : 0;
    h->due_ns = now != 0 && now >= h->not_before_ns ? now + QUIET_NS : 0;
}

/* ---- time ---- */

int sp_held_wait_ms(const struct sp_cell *c)
{
    const struct sp_held *h = &c->held;
    if (h->due_ns == 0 || c->exec.state != SP_EXEC_IDLE)
        return -1;
    uint64_t now = sp_now_ns();
    return h->due_ns <= now ? 0 : (int)((h->due_ns - now) / MS) + 1;
}

void sp_held_tick(struct sp_cell *c)
{
    struct sp_held *h = &c->held;
    if (h->due_ns == 0 || c->exec.state != SP_EXEC_IDLE || sp_now_ns() < h->due_ns)
        return;
    if (h->state == SP_HELD_NONE)
        begin(c);
    else
        sp_held_drop(c);
}
