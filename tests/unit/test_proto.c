/* test_proto.c: every op goes and comes back as it was, and nothing that breaks a limit does
 * either. */
#include "sallyport/proto.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static uint8_t buf[SP_FRAME_MAX];
static const char zeros[SP_WHOLE_MAX + 1];
static const char env2[] = "A=1\0_b2=x=y"; /* with the literal's own NUL: two strings */
#define KEY ((struct sp_slice){"\0 any 32 bytes at all, NULs too.", SP_KEY_LEN})
#define ENV2 ((struct sp_slice){env2, sizeof env2})

static const struct {
    struct sp_msg m;
    int min_fds, max_fds;
    uint8_t flags; /* those defined */
} ops[] = {
    {{.op = SP_OP_EXEC,
      .id = 1,
      .command = {"ls", 2},
      .cwd = {"a/b", 3},
      .env = ENV2,
      .nenv = 2,
      .timeout_ms = UINT64_MAX},
     0,
     0,
     3},
    {{.op = SP_OP_EXEC, .id = 1, .command = {"ls", 2}}, 0, 0, 3},
    {{.op = SP_OP_CANCEL, .id = 2}, 0, 0, 1},
    {{.op = SP_OP_OPEN, .id = 3, .path = {"x", 1}}, 0, 0, 7},
    {{.op = SP_OP_PUT, .id = UINT32_MAX, .flags = 1, .path = {"x/y", 3}},
     0,
     0,
     1 | 2 | 4 | SP_IF_ANY},
    {{.op = SP_OP_PUT,
      .id = 4,
      .flags = SP_IF_ANY,
      .path = {"x/y", 3},
      .etag = {"1-2", 3},
      .none = {"3,*", 3},
      .mtime_ns = INT64_MIN},
     0,
     0,
     1 | 2 | 4 | SP_IF_ANY},
    {{.op = SP_OP_DELETE, .id = 4, .flags = SP_IF_NONE_MATCH, .path = {"x", 1}, .none = {"*", 1}},
     0,
     0,
     3 | SP_IF_ANY},
    {{.op = SP_OP_COMMIT, .id = 5, .size = INT64_MAX}, 0, 0, 0},
    {{.op = SP_OP_DELETE, .id = 6, .path = {"x", 1}}, 0, 0, 3 | SP_IF_ANY},
    {{.op = SP_OP_USAGE, .id = 7}, 0, 0, 0},
    {{.op = SP_OP_ARCHIVE, .id = 14, .path = {"a/b", 3}}, 0, 0, 0},
    {{.op = SP_OP_STREAM, .id = 15}, 1, 1, 0},
    {{.op = SP_OP_STAGED, .id = 16, .size = 7}, 0, 0, 0},
    {{.op = SP_OP_STARTED, .id = 8}, 2, 3, 0},
    {{.op = SP_OP_EXITED, .id = 9, .exit_code = 255, .signal = 64, .duration_us = UINT64_MAX},
     0,
     2,
     15},
    {{.op = SP_OP_FILE, .id = 10, .etag = {"abc", 3}, .size = 5, .mtime_ns = INT64_MIN}, 1, 1, 1},
    {{.op = SP_OP_READY, .id = 11}, 1, 1, 0},
    {{.op = SP_OP_DONE, .id = 12, .etag = {"abc", 3}, .size = 9, .mtime_ns = -1, .ino = UINT64_MAX},
     0,
     0,
     3},
    {{.op = SP_OP_FAIL, .id = 13, .err = SP_E_NO_SPACE}, 0, 0, 0},
    {{.op = SP_OP_DRAIN}, 0, 0, 0},
    {{.op = SP_OP_KILL_ALL}, 0, 0, 0},
    {{.op = SP_OP_BEGIN, .size = 3, .ino = UINT64_MAX}, 0, 0, 0},
    {{.op = SP_OP_TLS}, 1, 1, 0},
    {{.op = SP_OP_FRONT}, 1, 1, 0},
    {{.op = SP_OP_UP}, 0, 0, 0},
    {{.op = SP_OP_BREACH}, 0, 0, 0},
    {{.op = SP_OP_OPEN, .id = 3, .path = {"x", 1}, .key = KEY}, 0, 0, 7},
    {{.op = SP_OP_PUT, .id = 4, .flags = SP_PUT_WHOLE, .path = {"x", 1}, .data = {"a\0b", 3}},
     0,
     0,
     1 | 2 | SP_IF_ANY},
    {{.op = SP_OP_FILE, .id = 10, .flags = SP_FILE_WHOLE, .size = 3, .data = {"a\0b", 3}}, 0, 0, 3},
    {{.op = SP_OP_REMOVE, .id = 14, .key = KEY}, 0, 0, 0},
    {{.op = SP_OP_REGISTRY}, 1, 1, 0},
    {{.op = SP_OP_NAME, .id = 15, .key = KEY}, 0, 0, 0},
    {{.op = SP_OP_TOUCH, .key = KEY}, 0, 0, 0},
    {{.op = SP_OP_RETIRE, .id = 16, .key = KEY}, 0, 0, 0},
    {{.op = SP_OP_FREED, .id = 17, .key = KEY}, 0, 0, 0},
    {{.op = SP_OP_DUE, .id = 18, .size = 1800000000}, 0, 0, 0},
    {{.op = SP_OP_NAMED, .id = 19, .key = KEY, .uid = UINT32_MAX}, 0, 0, 0},
    {{.op = SP_OP_ADOPT, .key = KEY, .uid = 200000}, 2, 2, 0},
    {{.op = SP_OP_PORT}, 1, 1, 0},
};

static void same(struct sp_slice x, struct sp_slice y)
{
    ck_assert_uint_eq(x.n, y.n);
    ck_assert(x.n == 0 || memcmp(x.p, y.p, x.n) == 0);
}

START_TEST(round_trip)
{
    for (size_t i = 0; i < COUNT(ops); i++) {
        const struct sp_msg *m = &ops[i].m;
        struct sp_msg d;
        size_t n = sp_msg_encode(m, buf, sizeof buf);
        ck_assert_uint_gt(n, 0);
        for (int fds = -1; fds <= 4; fds++)
            ck_assert_int_eq(sp_msg_decode(&d, buf, n, fds),
                             fds >= ops[i].min_fds && fds <= ops[i].max_fds);
        ck_assert(sp_msg_decode(&d, buf, n, ops[i].min_fds));
        ck_assert_uint_eq(d.op, m->op);
        ck_assert_uint_eq(d.flags, m->flags);
        ck_assert_uint_eq(d.id, m->id);
        same(d.command, m->command);
        same(d.cwd, m->cwd);
        same(d.env, m->env);
        same(d.path, m->path);
        same(d.etag, m->etag);
        same(d.none, m->none);
        same(d.data, m->data);
        same(d.key, m->key);
        ck_assert_uint_eq(d.uid, m->uid);
        ck_assert_uint_eq(d.nenv, m->nenv);
        ck_assert(d.timeout_ms == m->timeout_ms && d.size == m->size && d.ino == m->ino);
        ck_assert(d.mtime_ns == m->mtime_ns && d.duration_us == m->duration_us);
        ck_assert_int_eq(d.exit_code, m->exit_code);
        ck_assert_uint_eq(d.signal, m->signal);
        ck_assert_uint_eq(d.err, m->err);
    }
}
END_TEST

/* Each op cut anywhere, with a byte too many, with each undefined flag, with the wrong kind of id.
 */
START_TEST(mutilated)
{
    for (size_t i = 0; i < COUNT(ops); i++) {
        struct sp_msg d, m = ops[i].m;
        size_t n = sp_msg_encode(&m, buf, sizeof buf);
        for (size_t cut = 0; cut < n; cut++) {
            ck_assert(!sp_msg_decode(&d, buf, cut, ops[i].min_fds));
            uint8_t small[256];
            ck_assert_uint_eq(sp_msg_encode(&m, small, cut), 0);
        }
        buf[n] = 0;
        ck_assert(!sp_msg_decode(&d, buf, n + 1, ops[i].min_fds));
        uint8_t flags = buf[1];
        for (int bit = 0; bit < 8; bit++)
            if (!(ops[i].flags & 1 << bit)) {
                buf[1] = (uint8_t)(flags | 1 << bit);
                ck_assert(!sp_msg_decode(&d, buf, n, ops[i].min_fds));
                m.flags = buf[1];
                ck_assert_uint_eq(sp_msg_encode(&m, buf + n, sizeof buf - n), 0);
            }
        buf[1] = flags;
        uint32_t other = m.id ? 0 : 1;
        memcpy(buf + 2, &other, 4);
        ck_assert(!sp_msg_decode(&d, buf, n, ops[i].min_fds));
    }
}
END_TEST

START_TEST(unknown_ops)
{
    for (unsigned op = 0; op < 256; op++) {
        bool known = false;
        for (size_t i = 0; i < COUNT(ops); i++)
            known |= ops[i].m.op == op;
        if (known)
            continue;
        struct sp_msg d, m = {.op = (uint8_t)op};
        for (m.id = 0; m.id < 2; m.id++) {
            uint8_t raw[6] = {(uint8_t)op, 0, (uint8_t)m.id};
            ck_assert(!sp_msg_decode(&d, raw, sizeof raw, 0));
            ck_assert_uint_eq(sp_msg_encode(&m, buf, sizeof buf), 0);
        }
    }
}
END_TEST

/* Encodes without the checks, as a bad peer would; both directions must refuse. */
static void refuse_exec(struct sp_slice command, struct sp_slice cwd, struct sp_slice env,
                        uint32_t nenv, bool ok, const char *what)
{
    struct sp_msg d,
        m = {.op = SP_OP_EXEC, .id = 1, .command = command, .cwd = cwd, .env = env, .nenv = nenv};
    struct sp_wr w;
    sp_wr_init(&w, buf, sizeof buf);
    sp_wr_u8(&w, SP_OP_EXEC);
    sp_wr_u8(&w, 0);
    sp_wr_u32(&w, 1);
    sp_wr_bytes(&w, command.p, command.n);
    sp_wr_bytes(&w, cwd.p, cwd.n);
    sp_wr_u32(&w, nenv);
    sp_wr_bytes(&w, env.p, env.n);
    sp_wr_u64(&w, 0);
    sp_wr_bytes(&w, "", 0);
    if (!w.bad)
        ck_assert_msg(sp_msg_decode(&d, buf, w.len, 0) == ok, "%s", what);
    ck_assert_msg((sp_msg_encode(&m, buf, sizeof buf) > 0) == ok, "%s", what);
}

START_TEST(exec_limits)
{
    static const struct {
        struct sp_slice env;
        uint32_t n;
        bool ok;
    } envs[] = {{{"", 0}, 0, true},
                {{"A=", 3}, 1, true},
                {{"A=1", 4}, 1, true},
                {{"a_Z9==", 7}, 1, true},
                {{"A=\xff\n", 5}, 1, true},
                {{"A=1", 3}, 1, false},
                {{"A", 2}, 1, false},
                {{"=1", 3}, 1, false},
                {{"1A=1", 5}, 1, false},
                {{"A-B=1", 6}, 1, false},
                {{"A B=1", 6}, 1, false},
                {{" A=1", 5}, 1, false},
                {{"\xc3\xa9=1", 5}, 1, false},
                {{"", 1}, 1, false},
                {{"", 0}, 1, false},
                {{"", 1}, 0, false},
                {{"A=1", 4}, 0, false},
                {{"A=1", 4}, 2, false},
                {{"A=1\0B=2", 8}, 2, true},
                {{"A=1\0B=2", 8}, 1, false},
                {{"A=1\0", 5}, 1, false},
                {{"A=1\0", 5}, 2, false},
                {{"A=1\0B=2", 7}, 2, false},
                {{"A=1", 4}, UINT32_MAX, false}};
    struct sp_slice ls = {"ls", 2}, none = {"", 0};
    for (size_t i = 0; i < COUNT(envs); i++)
        refuse_exec(ls, none, envs[i].env, envs[i].n, envs[i].ok, envs[i].env.p);

    static char big[SP_COMMAND_MAX + 1];
    memset(big, 'x', sizeof big);
    refuse_exec((struct sp_slice){big, SP_COMMAND_MAX}, none, none, 0, true,
                "command at its limit");
    refuse_exec((struct sp_slice){big, SP_COMMAND_MAX + 1}, none, none, 0, false, "command over");
    refuse_exec(none, none, none, 0, false, "no command");
    refuse_exec((struct sp_slice){"a\0b", 3}, none, none, 0, false, "NUL in command");
    refuse_exec(ls, (struct sp_slice){"..", 2}, none, 0, false, "cwd ..");
    refuse_exec(ls, (struct sp_slice){"/a", 2}, none, 0, false, "cwd absolute");
    refuse_exec(ls, (struct sp_slice){big, 256}, none, 0, false, "cwd component");

    static char env[SP_ENV_BYTES_MAX + 2];
    memset(env, 'v', sizeof env);
    env[1] = '=';
    env[SP_ENV_BYTES_MAX - 1] = 0;
    refuse_exec(ls, none, (struct sp_slice){env, SP_ENV_BYTES_MAX}, 1, true, "env at its limit");
    env[SP_ENV_BYTES_MAX - 1] = 'v';
    env[SP_ENV_BYTES_MAX] = 0;
    refuse_exec(ls, none, (struct sp_slice){env, SP_ENV_BYTES_MAX + 1}, 1, false, "env over");
    for (size_t i = 0; i <= SP_ENV_COUNT_MAX; i++)
        memcpy(env + 3 * i, "A=", 3);
    refuse_exec(ls, none, (struct sp_slice){env, 3 * 256}, 256, true, "256 variables");
    refuse_exec(ls, none, (struct sp_slice){env, 3 * 257}, 257, false, "257 variables");
}
END_TEST

/* All at their limits at once still fit one frame. */
START_TEST(largest)
{
    static char command[SP_COMMAND_MAX], cwd[SP_PATH_BYTES_MAX], env[SP_ENV_BYTES_MAX];
    memset(command, 'x', sizeof command);
    memset(cwd, 'd', sizeof cwd);
    for (size_t i = 200; i < sizeof cwd; i += 200)
        cwd[i - 1] = '/';
    memset(env, 'v', sizeof env);
    env[1] = '=';
    env[sizeof env - 1] = 0;
    struct sp_msg d, m = {.op = SP_OP_EXEC, .id = 1, .flags = 1, .nenv = 1};
    m.command = (struct sp_slice){command, sizeof command};
    m.cwd = (struct sp_slice){cwd, sizeof cwd};
    m.env = (struct sp_slice){env, sizeof env};
    size_t n = sp_msg_encode(&m, buf, sizeof buf);
    ck_assert_uint_gt(n, 200000);
    ck_assert(sp_msg_decode(&d, buf, n, 0));

    static struct sp_frame f;
    struct sp_chan a, b;
    int fds[2];
    ck_assert_int_eq(sp_frame_pair(fds), 0);
    sp_chan_init(&a, fds[0]);
    sp_chan_init(&b, fds[1]);
    ck_assert_int_eq(sp_msg_send(&a, &m, NULL, 0), 0);
    ck_assert_int_eq(sp_chan_recv(&b, &f), 1);
    ck_assert(sp_msg_decode(&d, f.data, f.len, f.nfds));
    same(d.command, m.command);
    same(d.env, m.env);
    sp_chan_close(&a);
    sp_chan_close(&b);
}
END_TEST

START_TEST(values)
{
    static const struct {
        struct sp_msg m;
        bool ok;
    } t[] = {
        {{.op = SP_OP_COMMIT, .id = 1, .size = (uint64_t)INT64_MAX + 1}, false},
        {{.op = SP_OP_FAIL, .id = 1, .err = 0}, false},
        {{.op = SP_OP_FAIL, .id = 1, .err = SP_E_COUNT}, false},
        {{.op = SP_OP_FAIL, .id = 1, .err = UINT16_MAX}, false},
        {{.op = SP_OP_EXITED, .id = 1, .exit_code = 256}, false},
        {{.op = SP_OP_EXITED, .id = 1, .exit_code = -1}, false},
        {{.op = SP_OP_EXITED, .id = 1, .signal = 65}, false},
        {{.op = SP_OP_PUT, .id = 1, .path = {"a/../b", 6}}, false},
        {{.op = SP_OP_PUT, .id = 1, .path = {"a", 1}, .etag = {"x", 1}}, false}, /* no IF_MATCH */
        {{.op = SP_OP_PUT, .id = 1, .flags = SP_IF_MATCH, .path = {"a", 1}}, true},
        {{.op = SP_OP_PUT, .id = 1, .flags = SP_IF_MATCH, .path = {"a", 1}, .none = {"x", 1}},
         false},
        {{.op = SP_OP_DELETE, .id = 1, .path = {"a", 1}, .mtime_ns = 1}, false},
        {{.op = SP_OP_PUT, .id = 1, .flags = SP_PUT_WHOLE | SP_PUT_STAGED, .path = {"a", 1}},
         false},
        {{.op = SP_OP_PUT, .id = 1, .flags = SP_PUT_WHOLE, .data = {zeros, SP_WHOLE_MAX}}, true},
        {{.op = SP_OP_PUT, .id = 1, .flags = SP_PUT_WHOLE, .data = {zeros, SP_WHOLE_MAX + 1}},
         false},
        {{.op = SP_OP_FILE, .id = 1, .flags = SP_FILE_WHOLE, .size = 2, .data = {"a", 1}}, false},
        {{.op = SP_OP_DELETE, .id = 1, .flags = 8, .path = {"a", 1}}, false},
        {{.op = SP_OP_OPEN, .id = 1, .path = {"a/", 2}}, false},
        {{.op = SP_OP_DELETE, .id = 1, .path = {"a\0b", 3}}, false},
        {{.op = SP_OP_DONE, .id = 1, .etag = {"a\"b", 3}}, false},
        {{.op = SP_OP_DONE, .id = 1, .etag = {"a b", 3}}, false},
        {{.op = SP_OP_DONE, .id = 1, .etag = {"a\r\n", 3}}, false},
        {{.op = SP_OP_DONE, .id = 1, .etag = {"\x7f", 1}}, false},
        {{.op = SP_OP_DONE, .id = 1, .etag = {"\xc3\xa9", 2}}, false},
        {{.op = SP_OP_DONE, .id = 1, .etag = {"\0", 1}}, false},
        {{.op = SP_OP_DONE, .id = 1}, true},
    };
    for (size_t i = 0; i < COUNT(t); i++)
        ck_assert_msg((sp_msg_encode(&t[i].m, buf, sizeof buf) > 0) == t[i].ok, "row %zu", i);

    char tag[SP_ETAG_MAX + 1];
    memset(tag, '-', sizeof tag);
    struct sp_msg d, m = {.op = SP_OP_DONE, .id = 1, .etag = {tag, SP_ETAG_MAX}};
    size_t n = sp_msg_encode(&m, buf, sizeof buf);
    ck_assert(sp_msg_decode(&d, buf, n, 0));
    buf[10] = '"'; /* the first byte of the tag, on its way */
    ck_assert(!sp_msg_decode(&d, buf, n, 0));
    m.etag.n++;
    ck_assert_uint_eq(sp_msg_encode(&m, buf, sizeof buf), 0);

    m = (struct sp_msg){.op = SP_OP_EXITED, .id = 1};
    n = sp_msg_encode(&m, buf, sizeof buf);
    for (int i = 1; i < 4; i++) { /* an exit code over 255 in any of its bytes */
        buf[6 + i] = 0x80;
        ck_assert(!sp_msg_decode(&d, buf, n, 0));
        buf[6 + i] = 0;
    }
    ck_assert(sp_msg_decode(&d, buf, n, 0));
}
END_TEST

START_TEST(send)
{
    static struct sp_frame f;
    struct sp_chan a, b;
    struct sp_msg d, started = {.op = SP_OP_STARTED, .id = 4};
    int fds[2], pass[3];
    ck_assert_int_eq(sp_frame_pair(fds), 0);
    sp_chan_init(&a, fds[0]);
    sp_chan_init(&b, fds[1]);
    for (int n = 0; n <= 3; n++) {
        for (int i = 0; i < n; i++)
            pass[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        ck_assert_int_eq(sp_msg_send(&a, &started, pass, n), n < 2 ? -EINVAL : 0);
        for (int i = 0; i < n; i++) /* taken, sent or not */
            ck_assert(fcntl(pass[i], F_GETFD) < 0 && errno == EBADF);
        ck_assert_int_eq(sp_chan_recv(&b, &f), n >= 2);
        if (n < 2)
            continue;
        ck_assert(sp_msg_decode(&d, f.data, f.len, f.nfds));
        sp_frame_close_fds(&f);
    }
    ck_assert_int_eq(sp_msg_fail(&a, 7, SP_E_BUSY), 0);
    ck_assert_int_eq(sp_chan_recv(&b, &f), 1);
    ck_assert(sp_msg_decode(&d, f.data, f.len, f.nfds));
    ck_assert_uint_eq(d.err, SP_E_BUSY);
    ck_assert_uint_eq(d.id, 7);
    ck_assert_int_eq(sp_msg_fail(&a, 7, SP_OK), 0); /* becomes internal */
    ck_assert_int_eq(sp_chan_recv(&b, &f), 1);
    ck_assert(sp_msg_decode(&d, f.data, f.len, f.nfds));
    ck_assert_uint_eq(d.err, SP_E_INTERNAL);
    ck_assert_int_eq(sp_msg_fail(&a, 0, SP_E_BUSY), -EINVAL);
    sp_chan_close(&b);
    ck_assert_int_eq(sp_msg_fail(&a, 7, SP_E_BUSY), -EPIPE);
    sp_chan_close(&a);
}
END_TEST

/* Any bytes: a verdict, and no read outside (sanitizers watch). */
START_TEST(random_bytes)
{
    uint32_t seed = 1;
    for (int round = 0; round < 200000; round++) {
        uint8_t raw[48];
        for (size_t i = 0; i < sizeof raw; i++) {
            seed = (uint32_t)(seed * 1664525ull + 1013904223ull);
            raw[i] = (uint8_t)(seed >> 24 & (i > 5 && seed & 0x10000 ? 3 : 0xff));
        }
        raw[1] &= 3;
        raw[0] = ops[raw[0] % COUNT(ops)].m.op;
        struct sp_msg d;
        size_t n = seed >> 16 & 31;
        if (sp_msg_decode(&d, raw, n, (int)(seed >> 8 & 3))) /* what is read can be written again */
            ck_assert_uint_eq(sp_msg_encode(&d, buf, sizeof buf), n);
    }
}
END_TEST

UNIT_MAIN("proto", round_trip, mutilated, unknown_ops, exec_limits, largest, values, send,
          random_bytes)
