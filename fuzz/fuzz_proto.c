/* fuzz_proto.c: every message between processes, as its receiver reads it, whether that is the
 * front, the broker, a cell or the registry: what decodes is within its limits, encodes to the same
 * bytes and not to a buffer that is one too small, and goes over a channel as it is.
 * Covers: src/base/proto.c */
#include "input.h"
#include "sallyport/proto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sp_chan a, b;
static struct sp_frame frame;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    int pair[2];
    (void)argc;
    (void)argv;
    if (sp_frame_pair(pair) != 0)
        return 1;
    sp_chan_init(&a, pair[0]);
    sp_chan_init(&b, pair[1]);
    return 0;
}

static int some_fds(int *fds, int n)
{
    for (int i = 0; i < n; i++)
        fds[i] = fcntl(a.fd, F_DUPFD_CLOEXEC, 3);
    return n;
}

/* The limits that receivers rely on without looking again. */
static void check_limits(const struct sp_msg *m)
{
    const char *nul = m->env.p;
    if (m->command.n > SP_COMMAND_MAX || m->path.n > SP_PATH_BYTES_MAX || m->nenv > 256 ||
        m->env.n > SP_ENV_BYTES_MAX || m->none.n > SP_TAGS_MAX ||
        m->etag.n > (m->flags & SP_IF_MATCH ? SP_TAGS_MAX : SP_ETAG_MAX) || m->size > INT64_MAX ||
        m->exit_code < 0 || m->exit_code > 255 || (m->key.n != 0 && m->key.n != SP_KEY_LEN) ||
        sp_path_check(m->path.p, m->path.n) != SP_OK || sp_path_check(m->cwd.p, m->cwd.n) != SP_OK)
        abort();
    for (uint32_t i = 0; i < m->nenv; i++, nul++)
        if ((nul = memchr(nul, 0, (size_t)(m->env.p + m->env.n - nul))) == NULL)
            abort();
    if (nul != m->env.p + m->env.n)
        abort();
}

static void check_sent(const struct sp_msg *m, const uint8_t *data, size_t size, int nfds)
{
    int fds[SP_FRAME_FDS];
    if (sp_msg_send(&a, m, fds, some_fds(fds, nfds)) != 0 || sp_chan_recv(&b, &frame) != 1 ||
        frame.nfds != nfds || frame.len != size || memcmp(frame.data, data, size) != 0)
        abort();
    sp_frame_close_fds(&frame);
}

/* What isn't a message is none to send either, and its descriptors are closed. */
static void check_refused(struct sp_msg m, int nfds)
{
    int fds[SP_FRAME_FDS], before = open_fds();
    m.size |= 1ull << 63;
    m.flags |= 0x80;
    if (sp_msg_send(&a, &m, fds, some_fds(fds, nfds)) != -EINVAL || open_fds() != before)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t buf[SP_FRAME_MAX];
    for (int nfds = 0; nfds <= SP_FRAME_FDS; nfds++) {
        struct sp_msg m;
        if (!sp_msg_decode(&m, data, size, nfds))
            continue;
        size_t n = sp_msg_encode(&m, buf, sizeof buf);
        if (n != size || memcmp(buf, data, n) != 0 || sp_msg_encode(&m, buf, n - 1) != 0)
            abort();
        check_limits(&m);
        check_sent(&m, data, size, nfds);
        check_refused(m, nfds);
    }
    uint32_t v =
        size < 4 ? 0 : (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[3] << 24;
    struct sp_msg m;
    if (sp_msg_fail(&a, v | 1, (enum sp_err)(v & 0xff)) != 0 || sp_chan_recv(&b, &frame) != 1 ||
        !sp_msg_decode(&m, frame.data, frame.len, 0) || m.op != SP_OP_FAIL || m.id != (v | 1) ||
        !sp_err_valid(m.err))
        abort();
    return 0;
}
