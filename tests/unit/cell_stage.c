/* cell_stage.c: see cell_stage.h. The cell is forked, not executed, from the test: descriptors are
 * where the broker would put them. */
#include "cell_stage.h"
#include "private_ns.h"
#include "sallyport/confine.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOUND_MS 60000

void stage_settings(struct stage *s)
{
    static const char base[] = "PATH=/usr/bin:/bin\0LANG=C.UTF-8\0PASSED=yes";
    struct sp_config *c = &s->config;
    memset(s, 0, sizeof *s);
    s->ws = private_folder(s->path);
    c->magic = SP_CONFIG_MAGIC;
    c->size = sizeof *c;
    strcpy(c->workspace, s->path);
    strcpy(c->shell, "/bin/sh");
    c->command_uid = private_uid();
    c->command_gid = private_uid();
    c->switch_uid = geteuid() == 0;
    c->landlock_abi = sp_landlock_abi();
    c->have_landlock = c->landlock_abi > 0;
    c->signal_scope = c->landlock_abi >= 6;
    c->use_openat2 = true;
    c->log_level = 2;
    c->env_len = sizeof base;
    memcpy(c->env, base, sizeof base);
}

/* Check talks to its parent through descriptor 3: no assertion after this. */
static void put_at(int fd, int to)
{
    if (dup2(fd, to) != to)
        _exit(99);
}

static void start(struct stage *s)
{
    int pair[2];
    struct sp_policy_error e = {0};
    int filters = sp_filters_build(NULL, NULL, 0, &e);
    ck_assert_msg(filters >= 0, "line %d: %s", e.line, e.text);
    int config = sp_sealed_memfd("config", &s->config, sizeof s->config);
    ck_assert_int_ge(config, 0);
    ck_assert_int_eq(sp_frame_pair(pair), 0);
    s->pid = fork();
    ck_assert_int_ge(s->pid, 0);
    if (s->pid == 0) {
        int from[4] = {pair[1], config, s->ws, filters};
        for (int i = 0; i < 4; i++)
            from[i] = fcntl(from[i], F_DUPFD, 64);
        for (int i = 0; i < 4; i++)
            put_at(from[i], SP_FD_MAIN + i);
        closefrom(SP_FD_FILTERS + 1);
        _exit(sp_cell_main());
    }
    close(pair[1]);
    close(config);
    close(filters);
    sp_chan_init(&s->chan, pair[0]);
}

void stage_raise(struct stage *s)
{
    start(s);
    (void)stage_expect(s, SP_OP_UP, 0);
}

static int status_of(struct stage *s)
{
    int st = 0;
    ck_assert_int_eq(waitpid(s->pid, &st, 0), s->pid);
    return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}

int stage_raise_in_vain(struct stage *s)
{
    start(s);
    int st = status_of(s);
    sp_chan_close(&s->chan);
    return st;
}

int stage_end(struct stage *s)
{
    sp_chan_close(&s->chan);
    return status_of(s);
}

void stage_send(struct stage *s, const struct sp_msg *m)
{
    ck_assert_int_eq(sp_msg_send(&s->chan, m, NULL, 0), 0);
}

void stage_exec(struct stage *s, uint32_t id, const char *command, const char *cwd, uint8_t flags)
{
    struct sp_msg m = {.op = SP_OP_EXEC, .id = id, .flags = flags | SP_EXEC_LIVE};
    m.command = (struct sp_slice){command, strlen(command)};
    m.cwd = (struct sp_slice){cwd, strlen(cwd)};
    stage_send(s, &m);
}

void stage_path(struct stage *s, uint8_t op, uint32_t id, const char *path, uint8_t flags)
{
    struct sp_msg m = {.op = op, .id = id, .flags = flags};
    m.path = (struct sp_slice){path, strlen(path)};
    stage_send(s, &m);
}

bool stage_next(struct stage *s, int ms)
{
    struct pollfd p = {.fd = s->chan.fd, .events = POLLIN};
    if (poll(&p, 1, ms) <= 0)
        return false;
    int got = sp_chan_recv(&s->chan, &s->frame);
    int st = -1;
    if (got != 1)
        (void)waitpid(s->pid, &st, 0);
    ck_assert_msg(got == 1, "the cell is gone: %d, status %#x", got, (unsigned)st);
    bool ok = sp_msg_decode(&s->msg, s->frame.data, s->frame.len, s->frame.nfds);
    ck_assert_msg(ok, "no message: %zu bytes, op %u", s->frame.len, s->frame.data[0]);
    return true;
}

const struct sp_msg *stage_expect(struct stage *s, uint8_t op, uint32_t id)
{
    ck_assert_msg(stage_next(s, BOUND_MS), "no answer");
    ck_assert_msg(s->msg.op == op && s->msg.id == id, "op %u id %u (error %s), not op %u id %u",
                  s->msg.op, s->msg.id, sp_err_name((enum sp_err)s->msg.err), op, id);
    return &s->msg;
}

void stage_expect_fail(struct stage *s, uint32_t id, enum sp_err e)
{
    const struct sp_msg *m = stage_expect(s, SP_OP_FAIL, id);
    ck_assert_str_eq(sp_err_name((enum sp_err)m->err), sp_err_name(e));
}

int stage_fd(struct stage *s, int i)
{
    int fd = sp_frame_take_fd(&s->frame, i);
    ck_assert_int_ge(fd, 0);
    return fd;
}

const char *stage_read(int fd)
{
    static char buf[1 << 20];
    size_t n = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ck_assert_int_eq(poll(&p, 1, BOUND_MS), 1);
        ssize_t k = read(fd, buf + n, sizeof buf - 1 - n);
        if (k < 0 && errno == EAGAIN)
            continue;
        ck_assert_int_ge(k, 0);
        if (k == 0)
            break;
        n += (size_t)k;
    }
    close(fd);
    buf[n] = '\0';
    return buf;
}

const char *stage_run(struct stage *s, const char *command, struct sp_msg *exited)
{
    static char both[1 << 20];
    stage_exec(s, 77, command, "", 0);
    (void)stage_expect(s, SP_OP_STARTED, 77);
    int out = stage_fd(s, 0), err = stage_fd(s, 1);
    strcpy(both, stage_read(out));
    strcat(both, stage_read(err));
    *exited = *stage_expect(s, SP_OP_EXITED, 77);
    return both;
}
