/* pipes.c: the pipes of a command: made in advance where there is time for it, since they are had
 * before anyone waits; and the standard input of those without one. Trusts its callers. */
#include "cell/cell.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#define PIPE_SIZE (256 << 10)

void sp_exec_close(int fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* A pipe whose end `ours` doesn't block; the command's end does, as programs expect. */
static int make_pipe(int fds[2], int ours)
{
    if (pipe2(fds, O_CLOEXEC) != 0) {
        fds[0] = fds[1] = -1;
        return -errno;
    }
    (void)fcntl(fds[0], F_SETPIPE_SZ, PIPE_SIZE); /* only faster */
    int way = ours == 0 ? O_RDONLY : O_WRONLY;
    return fcntl(fds[ours], F_SETFL, way | O_NONBLOCK) == 0 ? 0 : -errno;
}

int sp_exec_pipes(int out[2], int err[2])
{
    int r = make_pipe(out, 0);
    return r == 0 ? make_pipe(err, 0) : r;
}

int sp_exec_make_pipes(struct sp_exec *x, bool with_stdin)
{
    int err = x->next_err[1] >= 0 ? 0 : sp_exec_pipes(x->next_out, x->next_err);
    for (int i = 0; i < 2; i++) {
        x->out[i] = x->next_out[i];
        x->err[i] = x->next_err[i];
        x->next_out[i] = x->next_err[i] = -1;
    }
    return err == 0 && with_stdin ? make_pipe(x->in, 1) : err;
}

void sp_exec_renew_null(const struct sp_exec *x)
{
    (void)fcntl(x->dev_null, F_SETFL, 0);
    (void)flock(x->dev_null, LOCK_UN);
}
