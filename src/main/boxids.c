/* boxids.c: the box's user ids. Each identity has one of a pool that is the box's alone: a range
 * that holds a user of the system, or in which somebody else's process runs, is refused. Reads the
 * passwd file and /proc; trusts the operator. */
#include "main/box.h"

#include "sallyport/log.h"
#include "sallyport/uids.h"

#include <cap-ng.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CLEAR_ROUNDS 200
#define CLEAR_NAP_MS 50

/* Root, or another user whom the service manager gave these alone. */
static int need_caps(char *err, size_t errlen)
{
    static const struct {
        unsigned cap;
        const char *name;
    } need[] = {
        {CAP_SETUID, "SETUID"}, {CAP_SETGID, "SETGID"}, {CAP_KILL, "KILL"}, {CAP_CHOWN, "CHOWN"}};
    bool any = capng_get_caps_process() == 0;
    for (size_t i = 0; i < sizeof need / sizeof need[0]; i++) {
        if (any && capng_have_capability(CAPNG_EFFECTIVE, need[i].cap) == 1)
            continue;
        if (i == 0 && geteuid() != 0) {
            (void)snprintf(err, errlen,
                           "sallyport box must be started as root, or with root's capabilities "
                           "SETUID, SETGID, KILL and CHOWN: each identity gets a user id.");
            return -1;
        }
        (void)snprintf(err, errlen, "sallyport box needs the capability %s.", need[i].name);
        return -1;
    }
    return 0;
}

/* No user of the passwd file may be in the pool. */
static int check_passwd(const struct sp_config *c, char *err, size_t errlen)
{
    const struct passwd *pw;
    int r = 0;
    FILE *f = fopen("/etc/passwd", "re"); /* that file alone: see ids.c */
    if (f == NULL)
        return 0; /* no such file, no such user */
    while (r == 0 && (pw = fgetpwent(f)) != NULL) {
        if (pw->pw_uid < c->uid_min || pw->pw_uid > c->uid_max)
            continue;
        (void)snprintf(err, errlen,
                       "RUNBOX_UID_MIN to RUNBOX_UID_MAX holds the user %.60s (uid %u) of this "
                       "system.",
                       pw->pw_name, pw->pw_uid);
        r = -1;
    }
    fclose(f);
    return r;
}

int box_choose_ids(const struct settings *s, struct sp_config *c, char *err, size_t errlen)
{
    if (need_caps(err, errlen) != 0 ||
        ids_parse_user("SALLYPORT_FRONT_USER", s->front_user, &c->front_uid, &c->front_gid, err,
                       errlen) != 0 ||
        ids_parse_user("SALLYPORT_REGISTRY_USER", s->registry_user, &c->registry_uid,
                       &c->registry_gid, err, errlen) != 0)
        return -1;
    c->switch_uid = true;
    c->uid_min = (uid_t)s->uid_min; /* the table bounds both */
    c->uid_max = (uid_t)s->uid_max;
    if (c->uid_min > c->uid_max) {
        (void)snprintf(err, errlen, "RUNBOX_UID_MIN is over RUNBOX_UID_MAX.");
        return -1;
    }
    const uid_t own[] = {c->front_uid, c->registry_uid};
    static const char *const names[] = {"SALLYPORT_FRONT_USER", "SALLYPORT_REGISTRY_USER"};
    for (int i = 0; i < 2; i++)
        if (own[i] == 0 || own[i] == geteuid() || (own[i] >= c->uid_min && own[i] <= c->uid_max)) {
            (void)snprintf(err, errlen,
                           "%s must be a user of its own: not root, not the one that starts the "
                           "box, not of the pool; uid %u is.",
                           names[i], own[i]);
            return -1;
        }
    if (c->front_uid == c->registry_uid) {
        (void)snprintf(err, errlen,
                       "SALLYPORT_FRONT_USER and SALLYPORT_REGISTRY_USER must be two users: both "
                       "are uid %u.",
                       c->front_uid);
        return -1;
    }
    if (geteuid() >= c->uid_min && geteuid() <= c->uid_max) {
        (void)snprintf(err, errlen, "RUNBOX_UID_MIN to RUNBOX_UID_MAX holds our own uid %u.",
                       geteuid());
        return -1;
    }
    /* For the probes, which try what an identity's cell will do. */
    c->command_uid = c->command_gid = c->uid_min;
    return check_passwd(c, err, errlen);
}

/* ---- what an earlier daemon left ---- */

struct owners {
    uid_t *uid;
    size_t n, cap;
    uid_t stranger; /* runs in the pool and owns no workspace */
    pid_t stranger_pid;
    size_t found;
    bool look; /* and end nobody */
};

static int by_uid(const void *a, const void *b)
{
    uid_t x = *(const uid_t *)a, y = *(const uid_t *)b;
    return (x > y) - (x < y);
}

static int read_owners(struct owners *o, int workspaces)
{
    int fd = openat(workspaces, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL)
        return -errno;
    const struct dirent *e;
    int r = 0;
    while (r == 0 && (e = readdir(d)) != NULL) {
        struct stat st;
        if (e->d_name[0] == '.' || fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (o->n == o->cap) {
            size_t cap = o->cap == 0 ? 256 : 2 * o->cap;
            uid_t *more = reallocarray(o->uid, cap, sizeof *more);
            if (more == NULL) {
                r = -ENOMEM;
                continue;
            }
            o->uid = more;
            o->cap = cap;
        }
        o->uid[o->n++] = st.st_uid;
    }
    closedir(d);
    if (o->n > 0)
        qsort(o->uid, o->n, sizeof *o->uid, by_uid);
    return r;
}

static bool judge(void *arg, pid_t pid, uid_t uid)
{
    struct owners *o = arg;
    if (o->n == 0 || bsearch(&uid, o->uid, o->n, sizeof uid, by_uid) == NULL) {
        o->stranger = uid;
        o->stranger_pid = pid;
        return false;
    }
    o->found++;
    if (!o->look)
        sp_uid_kill(uid);
    return true;
}

int box_clear_pool(struct sp_config *c, int workspaces, bool look, char *err, size_t errlen)
{
    struct owners o = {.look = look};
    int r = read_owners(&o, workspaces);
    if (r != 0)
        (void)snprintf(err, errlen, "RUNBOX_ROOT: can't read the workspaces: %s.", strerror(-r));
    for (size_t i = 0; i < o.n; i++) /* in order of size */
        if (o.uid[i] >= c->uid_min && o.uid[i] <= c->uid_max)
            c->highest_owner = o.uid[i];
    for (int i = 0; r == 0; i++) {
        o.found = 0;
        if (!sp_uids_each(c->uid_min, c->uid_max, judge, &o)) {
            (void)snprintf(err, errlen, "/proc can't be read: %s.", strerror(errno));
            r = -1;
        } else if (o.stranger_pid != 0) {
            (void)snprintf(err, errlen,
                           "RUNBOX_UID_MIN to RUNBOX_UID_MAX holds uid %u, which process %d runs "
                           "as.",
                           o.stranger, (int)o.stranger_pid);
            r = -1;
        } else if (o.found == 0 || look) {
            break;
        } else if (i == CLEAR_ROUNDS) {
            (void)snprintf(err, errlen, "%zu processes of an earlier start don't end.", o.found);
            r = -1;
        } else {
            if (i == 0)
                sp_log(SP_LOG_WARN, "ending %zu processes that an earlier start left", o.found);
            (void)poll(NULL, 0, CLEAR_NAP_MS);
        }
    }
    free(o.uid);
    return r == 0 ? 0 : -1;
}
