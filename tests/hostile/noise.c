/* noise.c: random fronts, thousands of them, from one seed: sound requests, broken bytes, others'
 * messages, stray descriptors, answers read or not, ends of all kinds. Whatever the broker sends is
 * held against what was asked: an answer to an id that isn't this front's, a second command at the
 * same time, or a file from outside the workspace would be a grant. */
#include "hostile.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define IDS 12u
#define HEALTH_EVERY 100u

static uint64_t dice;

static uint32_t roll(uint32_t n)
{
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(dice >> 33) % n;
}

/* What this front has asked under an id, oldest first: an id is free for the broker as soon as it
 * has sent the end, which may still lie unread here. */
#define DEEP 64u
static struct {
    uint8_t kind[DEEP], key[DEEP];
    unsigned n;
    bool started; /* the oldest */
} asked[IDS + 1];
static unsigned commands[STAGE_KEYS]; /* that were started and didn't end, of this front */
static uid_t owner[STAGE_KEYS];       /* the box: whose files a key's are */

static const char *const paths[] = {
    "f",     "",           "d",           "d/none", "none", "../outside/secret",
    "out",   "out/secret", "/etc/passwd", "d/..",   "a//b", "file-out",
    "d/put", "."};
static const char *const texts[] = {"true",   "sleep 1000",         "echo x",     "yes",
                                    "exit 3", "setsid sleep 900 &", "kill -9 $$", "cat"};

/* ---- what comes back ---- */

/* In the box each key's files have a user of their own, another one after a removal. */
static bool owner_fits(unsigned key, uid_t uid)
{
    owner[key] = uid;
    for (unsigned i = 0; i < STAGE_KEYS; i++)
        if (i != key && owner[i] == uid)
            return false;
    return true;
}

static bool file_is_ours(int fd, unsigned key)
{
    char link[64], path[4400];
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    if (pread(fd, link, 6, 0) == 6 && memcmp(link, "secret", 6) == 0)
        return false; /* that is the file outside */
    if (stage.box)
        return owner_fits(key, st.st_uid);
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return false;
    path[n] = '\0';
    size_t ws = strlen(stage.s.cfg.workspace);
    return strncmp(path, "/memfd:", 7) == 0 ||
           (strncmp(path, stage.s.cfg.workspace, ws) == 0 && path[ws] == '/') ||
           strncmp(path, "/f", 2) == 0 || strncmp(path, "/d/", 3) == 0; /* as seen from elsewhere */
}

static bool ends(uint8_t op)
{
    return op == SP_OP_EXITED || op == SP_OP_FAIL || op == SP_OP_FILE || op == SP_OP_DONE;
}

static bool answer_fits(const struct sp_msg *m)
{
    uint8_t kind = m->id >= 1 && m->id <= IDS && asked[m->id].n > 0 ? asked[m->id].kind[0] : 0;
    switch (m->op) {
    case SP_OP_STARTED:
        return kind == SP_OP_EXEC && !asked[m->id].started;
    case SP_OP_EXITED:
        return kind == SP_OP_EXEC && hostile_frame.nfds == (asked[m->id].started ? 0 : 2);
    case SP_OP_READY:
        return kind == SP_OP_PUT && !asked[m->id].started;
    case SP_OP_FILE:
        return kind == SP_OP_OPEN && file_is_ours(hostile_frame.fds[0], asked[m->id].key[0]);
    case SP_OP_DONE:
        return kind == SP_OP_PUT || kind == SP_OP_DELETE || kind == SP_OP_USAGE ||
               kind == SP_OP_REMOVE;
    case SP_OP_FAIL:
        return kind != 0;
    default:
        return false;
    }
}

/* 1 taken, 0 nothing there, -1 it is over, -2 a grant. */
static int take_answer(void)
{
    int r = hear(0);
    if (r <= 0)
        return r;
    const struct sp_msg *m = &hostile_got;
    if (!answer_fits(m)) {
        complain("message %u for id %u wasn't asked for", m->op, m->id);
        return -2;
    }
    uint8_t key = asked[m->id].key[0];
    bool short_one = m->op == SP_OP_EXITED && !asked[m->id].started;
    if ((m->op == SP_OP_STARTED && ++commands[key] > 1) || (short_one && commands[key] > 0)) {
        complain("a second command runs");
        return -2;
    }
    if (ends(m->op) && asked[m->id].started && asked[m->id].kind[0] == SP_OP_EXEC)
        commands[key]--;
    if (ends(m->op)) {
        memmove(asked[m->id].kind, asked[m->id].kind + 1, --asked[m->id].n);
        memmove(asked[m->id].key, asked[m->id].key + 1, asked[m->id].n);
    }
    asked[m->id].started = m->op == SP_OP_STARTED || m->op == SP_OP_READY;
    if (m->op == SP_OP_READY && roll(2) != 0)
        (void)!write(hostile_frame.fds[0], "noise", 5);
    return 1;
}

/* ---- what goes out ---- */

static struct sp_msg random_request(void)
{
    static const uint8_t ops[] = {SP_OP_EXEC,   SP_OP_CANCEL, SP_OP_OPEN, SP_OP_PUT,
                                  SP_OP_COMMIT, SP_OP_DELETE, SP_OP_USAGE};
    struct sp_msg m = make(ops[roll(sizeof ops)], roll(IDS) + 1);
    if (stage.box && roll(40) == 0) /* a whole workspace */
        m = make(SP_OP_REMOVE, m.id);
    if (m.key.n > 0)
        m.key = stage_key(roll(STAGE_KEYS));
    const char *path = paths[roll(sizeof paths / sizeof paths[0])];
    const char *text = texts[roll(sizeof texts / sizeof texts[0])];
    m.path = (struct sp_slice){path, strlen(path)};
    m.command = (struct sp_slice){text, strlen(text)};
    if (sp_path_check(path, strlen(path)) != SP_OK)
        m.path = roll(2) ? (struct sp_slice){"out/secret", 10} : (struct sp_slice){"file-out", 8};
    m.timeout_ms = roll(3) == 0 ? roll(50) + 1 : 0;
    m.size = roll(8);
    if (m.op == SP_OP_EXEC)
        m.flags = (uint8_t)roll(4);
    if (m.op == SP_OP_DELETE)
        m.flags = (uint8_t)roll(4);
    return m;
}

/* A path that the encoder refuses goes in by hand. */
static size_t random_bytes(uint8_t *buf, size_t cap, const struct sp_msg *m)
{
    size_t n = sp_msg_encode(m, buf, cap);
    const char *bad = paths[roll(sizeof paths / sizeof paths[0])];
    if (roll(3) == 0 && m->op == SP_OP_OPEN) {
        uint32_t len = (uint32_t)strlen(bad);
        memcpy(buf + 6, &len, 4);
        memcpy(buf + 10, bad, len);
        return 10 + len;
    }
    for (uint32_t flips = roll(4) + 1; flips > 0 && n > 0; flips--)
        buf[roll((uint32_t)n)] ^= (uint8_t)(1u << roll(8));
    if (roll(3) == 0 && n > 1)
        n -= roll((uint32_t)n - 1);
    else if (roll(4) == 0)
        n += roll(64) + 1;
    return n;
}

static void note(const struct sp_msg *m)
{
    bool request = m->op < SP_OP_STARTED && m->op != SP_OP_CANCEL && m->op != SP_OP_COMMIT;
    if (!request || asked[m->id].n == DEEP)
        return;
    for (unsigned i = 0; i < STAGE_KEYS; i++)
        if (m->key.n == SP_KEY_LEN && memcmp(m->key.p, stage_key(i).p, SP_KEY_LEN) == 0)
            asked[m->id].key[asked[m->id].n] = (uint8_t)i;
    asked[m->id].kind[asked[m->id].n++] = m->op;
}

static bool say_others_word(void)
{
    uint8_t op;
    do
        op = hostile_ops[roll((uint32_t)hostile_nops)];
    while (op < SP_OP_STARTED);
    return say(op, roll(IDS) + 1);
}

/* False: the socket is closed. */
static bool step(void)
{
    static uint8_t buf[SP_FRAME_MAX];
    struct sp_msg m = random_request();
    uint32_t what = roll(100);
    if (what < 86) {
        note(&m);
        return say_msg(&m);
    }
    if (what < 92) { /* bits and lengths: it may have become another sound request */
        size_t n = random_bytes(buf, sizeof buf, &m);
        struct sp_msg is;
        if (sp_msg_decode(&is, buf, n, 0) && (is.id > IDS || stage.box))
            return true; /* sound, but not to be told from a grant below */
        if (sp_msg_decode(&is, buf, n, 0))
            note(&is);
        return n == 0 || say_raw(buf, n, NULL, 0);
    }
    if (what < 95) {
        int n = (int)roll(5) + 1, fds[8];
        size_t len = sp_msg_encode(&m, buf, sizeof buf);
        for (int i = 0; i < n; i++)
            fds[i] = stray((int)roll(STRAY_KINDS));
        bool ok = say_raw(buf, len, fds, n);
        for (int i = 0; i < n; i++)
            close(fds[i]);
        return ok;
    }
    if (what < 98)
        return say_others_word();
    (void)poll(NULL, 0, (int)roll(3));
    return true;
}

static bool sequence(void)
{
    memset(asked, 0, sizeof asked);
    memset(commands, 0, sizeof commands);
    if (!front_new())
        return false;
    uint32_t steps = roll(40) + 1, reads = roll(4);
    for (uint32_t i = 0; i < steps; i++) {
        int r = 1;
        bool open = step();
        for (uint32_t k = 0; k < reads && r == 1; k++)
            r = take_answer();
        if (r == -2)
            return false;
        if (!open || r < 0)
            break;
    }
    int r;
    while ((r = take_answer()) == 1)
        ;
    if (r == -2)
        return false;
    if (roll(3) == 0) /* an end of its own choice; else the next front pushes it out */
        (void)shutdown(stage.front.fd, roll(2) ? SHUT_WR : SHUT_RD);
    return true;
}

bool try_noise(unsigned seed, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        dice = ((uint64_t)seed << 32 | i) * 2862933555777941757u + 3037000493u;
        if (!sequence()) {
            complain("seed %u, sequence %u", seed, i);
            return false;
        }
        if (i % HEALTH_EVERY == HEALTH_EVERY - 1 && !healthy("noise")) {
            complain("seed %u, sequences up to %u", seed, i);
            return false;
        }
    }
    return healthy("all noise");
}
