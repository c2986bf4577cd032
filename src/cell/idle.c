/* idle.c: a cell that is started before anyone needs it. It does all that depends on no identity,
 * its view without a workspace among it, then waits for the broker's one message, ADOPT, which
 * brings the workspace, its name and its user. From there on it is that identity's cell like any
 * other, to its end: there is no way back to waiting.
 *
 * While it waits it has the broker's rights, so nothing untrusted may reach it: it has heard of no
 * workspace, reads nothing but the broker's socket, is shut to ptrace and signals by its user id,
 * and is alone in its PID namespace, where the host gives one. */
#include "cell/cell.h"
#include "sallyport/affinity.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"
#include "sallyport/view.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static struct sp_cell cell;

/* The workspace's number is taken until there is one, so that nothing else gets it. */
static int hold_place(void)
{
    int fd = open("/dev/null", O_PATH | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fd == SP_FD_EXTRA)
        return 0;
    int r = dup3(fd, SP_FD_EXTRA, O_CLOEXEC) < 0 ? -errno : 0;
    close(fd);
    return r;
}

static int begin(struct sp_cell *c, int *root, const char **what)
{
    struct sp_view_error e = {0};
    *what = "preparing";
    int err = sp_affinity_spread(c->config); /* an idle cell is the box's */
    if (err == 0)
        err = hold_place();
    if (err == 0)
        err = sp_confine_basics(true); /* shut to others, and gone with the broker, from now on */
    if (err == 0 && c->config->net_none) {
        *what = "bringing up the loopback device";
        err = sp_net_loopback();
    }
    if (err == 0) {
        err = sp_view_begin(c->config, root, &e);
        *what = sp_cell_view_failed(&e);
    }
    if (err == 0)
        err = sp_cell_ready(c, what);
    if (err == 0 && c->config->have_landlock) {
        *what = "Landlock";
        err = sp_landlock_cell_begin(c->config->landlock_abi, c->config->shell,
                                     c->config->command_paths, true);
    }
    return err;
}

/* 1: adopted; 0: the broker is gone; -errno. */
static int await(struct sp_cell *c, struct sp_msg *m)
{
    struct pollfd p = {.fd = c->chan.fd, .events = POLLIN};
    int got;
    while ((got = sp_chan_recv(&c->chan, &c->frame)) == 0)
        (void)poll(&p, 1, -1);
    if (got == -EPIPE)
        return 0;
    if (got < 0)
        return got;
    bool ok = sp_msg_decode(m, c->frame.data, c->frame.len, c->frame.nfds) && m->op == SP_OP_ADOPT;
    return ok ? 1 : -EPROTO;
}

static int adopt(struct sp_cell *c, struct sp_config *own, const struct sp_msg *m, int root,
                 const char **what)
{
    struct sp_view_error e = {0};
    int tree = sp_frame_take_fd(&c->frame, 0), folder = sp_frame_take_fd(&c->frame, 1);
    *what = "becoming an identity's";
    if (m->uid < own->uid_min || m->uid > own->uid_max)
        return -EPERM;
    int err = dup3(folder, SP_FD_EXTRA, O_CLOEXEC) < 0 ? -errno : 0;
    close(folder);
    if (err == 0)
        err = sp_config_own(own, (const uint8_t *)m->key.p, m->uid);
    if (err == 0)
        err = sp_config_settle(own);
    if (err != 0)
        return err;
    err = sp_view_end(own, root, tree, SP_FD_EXTRA, &e);
    *what = sp_cell_view_failed(&e);
    return err == 0 ? sp_cell_settle(c, what) : err;
}

int sp_idle_main(char *name)
{
    const char *what = "";
    struct sp_cell *c = &cell;
    struct sp_config *own = sp_config_load_idle();
    struct sp_msg m;
    int root = -1;
    c->config = own;
    sp_log_init("cell", (enum sp_log_level)own->log_level);
    sp_cell_standing();
    int err = begin(c, &root, &what);
    if (err == 0) {
        what = "waiting for an identity";
        err = await(c, &m);
        if (err == 0)
            return 0;
        err = err > 0 ? adopt(c, own, &m, root, &what) : err;
    }
    if (err != 0) {
        sp_log(SP_LOG_ERROR, "%s: %s", what, strerror(-err));
        return 1;
    }
    (void)prctl(PR_SET_NAME, "sp-cell"); /* which the filter allows */
    memcpy(name, "cell", 4);             /* as long as "idle": ps tells which are at work */
    return sp_cell_serve(c);
}
