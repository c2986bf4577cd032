/* put.c: receives an upload: from the front's pipe into a file that has no name yet, so that
 * nothing is left of it if we die. Trusts neither the tree nor how much or how fast the client
 * sends. */
#include "cell/put.h"
#include "cell/quota.h"

#include "sallyport/role.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIPE_SIZE (256 << 10) /* 64 uploads stay well below pipe-user-pages-soft */
#define STEP (1u << 20)
#define FOLDER_TRIES 8

static void close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void sp_put_init(struct sp_put *p)
{
    p->path_len = 0;
    p->name[0] = p->temp[0] = '\0';
    p->flags = p->terms.flags = 0;
    p->parent = p->file = p->pipe = p->replaced = -1;
    p->by_hand = false;
    p->received = p->taken = 0;
    p->quota = NULL;
}

void sp_put_unname(struct sp_put *p)
{
    if (p->temp[0] != '\0')
        (void)unlinkat(p->parent, p->temp, 0); /* a command may have taken it away */
    p->temp[0] = '\0';
}

void sp_put_drop(struct sp_put *p)
{
    sp_put_unname(p);
    sp_quota_give(p->quota, p->taken);
    p->taken = 0;
    close_one(&p->pipe);
    close_one(&p->file);
    close_one(&p->parent);
}

int sp_put_temp_name(char out[40])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char bits[8];
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        return errno != 0 ? -errno : -EIO;
    char *end = stpcpy(out, ".sallyport-put-");
    for (size_t i = 0; i < sizeof bits; i++) {
        *end++ = hex[bits[i] >> 4];
        *end++ = hex[bits[i] & 15];
    }
    *end = '\0';
    return 0;
}

/* Not readable by others until it is committed. */
static int make_file(struct sp_put *p)
{
    p->file = openat(p->parent, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (p->file >= 0)
        return 0;
    /* EISDIR and ENOENT: kernels and file systems that take the flag for something else */
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL)
        return -errno;
    for (int i = 0; i < 16; i++) {
        char temp[sizeof p->temp];
        int err = sp_put_temp_name(temp);
        if (err != 0)
            return err;
        p->file = openat(p->parent, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (p->file >= 0) {
            memcpy(p->temp, temp, sizeof temp);
            return 0;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

static enum sp_err code(int err)
{
    switch (-err) {
    case EFBIG:
        return SP_E_NO_SPACE;
    case ENOTDIR:
    case EEXIST:
        return SP_E_NOT_A_DIRECTORY_CONFLICT;
    case EINVAL:
        return SP_E_BAD_PATH;
    default:
        return sp_err_from_errno(-err);
    }
}

static bool removed(int folder)
{
    struct stat st;
    return fstat(folder, &st) == 0 && st.st_nlink == 0;
}

/* Opens the folder, makes it where it's missing, and looks at what is there. *err: 0 where p->file
 * was made, else -errno. A folder that is removed between the two is made anew; that it is gone
 * comes as EPERM from some file systems (tmpfs), so who is refused asks. */
static enum sp_err make_in_folder(const struct sp_workspace *w, struct sp_put *p, int *err)
{
    for (int i = 0; i < FOLDER_TRIES; i++) {
        mode_t mode = 0;
        close_one(&p->parent);
        p->parent = sp_resolve_parent(w->root, p->path, p->path_len, true, w->use_openat2, p->name);
        if (p->parent < 0) {
            *err = p->parent;
            p->parent = -1;
            return SP_OK;
        }
        enum sp_err e = sp_put_check(w, p, &mode);
        if (e != SP_OK)
            return e;
        *err = make_file(p);
        if (*err == 0 || !removed(p->parent))
            return SP_OK;
        *err = -ENOENT;
    }
    return SP_OK;
}

/* The file, still without a name, or everything undone. */
static enum sp_err open_file(const struct sp_workspace *w, struct sp_put *p)
{
    int err = 0;
    p->quota = w->quota;
    enum sp_err e = sp_quota_room(w->quota, w);
    if (e != SP_OK)
        return e;
    e = make_in_folder(w, p, &err);
    if (e == SP_OK && err != 0)
        e = err == -EEXIST && p->parent >= 0 ? SP_E_INTERNAL : code(err);
    if (e != SP_OK)
        sp_put_drop(p);
    return e;
}

enum sp_err sp_put_begin(const struct sp_workspace *w, struct sp_put *p, int *write_end)
{
    int ends[2];
    enum sp_err e = open_file(w, p);
    if (e != SP_OK)
        return e;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        e = code(-errno);
        sp_put_drop(p);
        return e;
    }
    p->pipe = ends[0];
    *write_end = ends[1];
    (void)fcntl(ends[0], F_SETPIPE_SZ, PIPE_SIZE); /* only faster */
    return SP_OK;
}

enum sp_err sp_put_whole(const struct sp_workspace *w, struct sp_put *p, const char *data, size_t n,
                         struct sp_result *r)
{
    enum sp_err e = open_file(w, p);
    if (e != SP_OK)
        return e;
    p->received = p->taken = n;
    if (w->max_upload != 0 && n > w->max_upload) {
        p->taken = 0;
        e = SP_E_BODY_TOO_LARGE;
    } else if (!sp_quota_take(w->quota, w, n)) {
        e = SP_E_QUOTA;
    } else {
        int err = sp_write_all(p->file, data, n);
        e = err == 0 ? SP_OK : code(err);
    }
    if (e == SP_OK)
        return sp_put_commit(w, p, n, r);
    sp_put_drop(p);
    return e;
}

static ssize_t move_by_hand(struct sp_put *p)
{
    char buf[64 << 10] __attribute__((uninitialized)); /* zeroing it would cost each call */
    ssize_t n = read(p->pipe, buf, sizeof buf);
    int err = n > 0 ? sp_write_all(p->file, buf, (size_t)n) : 0;
    if (err == 0)
        return n;
    errno = -err;
    return -1;
}

static ssize_t move_some(struct sp_put *p)
{
    if (!p->by_hand) {
        ssize_t n = splice(p->pipe, NULL, p->file, NULL, STEP, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
        if (n == 0) /* the end; in gVisor, an empty pipe too: read can tell */
            return move_by_hand(p);
        if (n > 0 || (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP))
            return n;
        p->by_hand = true;
    }
    return move_by_hand(p);
}

enum sp_put_turn sp_put_receive(const struct sp_workspace *w, struct sp_put *p, enum sp_err *err)
{
    for (uint64_t turn = 0; turn < SP_PUT_TURN;) {
        ssize_t n = move_some(p);
        if (n == 0) {
            close_one(&p->pipe);
            return SP_PUT_EOF;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0)
            *err = code(-errno);
        if (n > 0) {
            turn += (uint64_t)n;
            p->received += (uint64_t)n;
        }
        if (n > 0 && w->max_upload != 0 && p->received > w->max_upload) {
            *err = SP_E_BODY_TOO_LARGE;
            n = -1;
        }
        if (n > 0) {
            p->taken += (uint64_t)n;
            if (!sp_quota_take(w->quota, w, (uint64_t)n)) {
                *err = SP_E_QUOTA;
                n = -1;
            }
        }
        if (n < 0) {
            sp_put_drop(p);
            return SP_PUT_BROKEN;
        }
    }
    return SP_PUT_MORE;
}
