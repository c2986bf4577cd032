/* ids.c: who runs as whom, and whether commands can use the workspace and the shell at all. Reads
 * /etc/passwd and /etc/group alone: the name service switch loads the host's libraries, which the
 * static file must not, and both builds should answer alike. Trusts the operator. What can be found
 * wrong here is refused here, in a sentence, rather than in each command's failure. */
#include "main/settings.h"

#include "sallyport/confine.h"
#include "sallyport/units.h"

#include <cap-ng.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ID_MAX 0xfffffffdu /* the last two mean "none" to some calls */

static bool number(const char *s, uint32_t *out)
{
    uint64_t n;
    if (!sp_parse_u64(s, &n) || n > ID_MAX)
        return false;
    *out = (uint32_t)n;
    return true;
}

/* By name, or by id where name is NULL. NULL if there is none, or no such file. */
static const struct passwd *find_user(const char *name, uid_t uid)
{
    const struct passwd *pw = NULL;
    FILE *f = fopen("/etc/passwd", "re");
    if (f == NULL)
        return NULL;
    while ((pw = fgetpwent(f)) != NULL)
        if (name != NULL ? strcmp(pw->pw_name, name) == 0 : pw->pw_uid == uid)
            break;
    fclose(f);
    return pw;
}

static const struct group *find_group(const char *name)
{
    const struct group *gr = NULL;
    FILE *f = fopen("/etc/group", "re");
    if (f == NULL)
        return NULL;
    while ((gr = fgetgrent(f)) != NULL)
        if (strcmp(gr->gr_name, name) == 0)
            break;
    fclose(f);
    return gr;
}

/* "user[:group]", each a number or a name. Without a group: the user's own, else its number. */
int ids_parse_user(const char *name, const char *text, uid_t *uid, gid_t *gid, char *err,
                   size_t errlen)
{
    char user[256];
    const char *colon = strchr(text, ':');
    size_t n = colon != NULL ? (size_t)(colon - text) : strlen(text);
    if (n == 0 || n >= sizeof user || (colon != NULL && colon[1] == '\0')) {
        (void)snprintf(err, errlen, "%s=%.100s isn't user or user:group.", name, text);
        return -1;
    }
    memcpy(user, text, n);
    user[n] = '\0';
    const struct passwd *pw = NULL;
    if (number(user, uid)) {
        pw = find_user(NULL, *uid);
    } else if ((pw = find_user(user, 0)) != NULL) {
        *uid = pw->pw_uid;
    } else {
        (void)snprintf(err, errlen, "%s: /etc/passwd has no user %.100s.", name, user);
        return -1;
    }
    *gid = pw != NULL ? pw->pw_gid : *uid;
    if (colon == NULL || number(colon + 1, gid))
        return 0;
    const struct group *gr = find_group(colon + 1);
    if (gr == NULL) {
        (void)snprintf(err, errlen, "%s: /etc/group has no group %.100s.", name, colon + 1);
        return -1;
    }
    *gid = gr->gr_gid;
    return 0;
}

static bool can_switch(void)
{
    return geteuid() == 0 && capng_get_caps_process() == 0 &&
           capng_have_capability(CAPNG_EFFECTIVE, CAP_SETUID) == 1 &&
           capng_have_capability(CAPNG_EFFECTIVE, CAP_SETGID) == 1 &&
           capng_have_capability(CAPNG_EFFECTIVE, CAP_KILL) == 1;
}

int ids_choose(const struct settings *s, struct sp_config *c, char *warn, size_t warnlen, char *err,
               size_t errlen)
{
    struct stat st;
    warn[0] = '\0';
    c->switch_uid = can_switch();
    if (!c->switch_uid) {
        c->front_uid = c->command_uid = geteuid();
        c->front_gid = c->command_gid = getegid();
        if (s->user != NULL) {
            (void)snprintf(err, errlen,
                           "SALLYPORT_USER needs a start as root, with the "
                           "capabilities SETUID, SETGID and KILL.");
            return -1;
        }
        if (geteuid() == 0)
            (void)snprintf(warn, warnlen,
                           "root without the capabilities SETUID, SETGID and KILL: "
                           "everything, commands too, runs as uid 0 without capabilities");
        return 0;
    }
    if (ids_parse_user("SALLYPORT_FRONT_USER", s->front_user, &c->front_uid, &c->front_gid, err,
                       errlen) != 0)
        return -1;
    if (s->user != NULL) {
        if (ids_parse_user("SALLYPORT_USER", s->user, &c->command_uid, &c->command_gid, err,
                           errlen) != 0)
            return -1;
    } else if (stat(c->workspace, &st) == 0) {
        c->command_uid = st.st_uid;
        c->command_gid = st.st_gid;
    } else {
        (void)snprintf(err, errlen, "SANDBOX_WORKSPACE: %s.", strerror(errno));
        return -1;
    }
    if (c->front_uid == 0 || c->front_uid == c->command_uid) {
        (void)snprintf(err, errlen,
                       "SALLYPORT_FRONT_USER must be neither root nor the user of "
                       "commands (uid %u).",
                       c->command_uid);
        return -1;
    }
    if (c->command_uid == 0)
        (void)snprintf(warn, warnlen,
                       "commands run as uid 0 without capabilities, as %s; name a user of their "
                       "own in SALLYPORT_USER",
                       s->user != NULL ? "SALLYPORT_USER says" : "root owns the workspace");
    return 0;
}

/* Any of the four ids on the "Uid:" line of a process's status. */
static bool process_has(const char *pid, uid_t uid)
{
    char path[64], line[256];
    unsigned id[4];
    bool has = false;
    (void)snprintf(path, sizeof path, "/proc/%.20s/status", pid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false; /* it ended */
    while (!has && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "Uid: %u %u %u %u", &id[0], &id[1], &id[2], &id[3]) == 4)
            has = id[0] == uid || id[1] == uid || id[2] == uid || id[3] == uid;
    fclose(f);
    return has;
}

bool ids_in_use(uid_t uid)
{
    DIR *d = opendir("/proc");
    if (d == NULL)
        return true; /* can't tell: the careful answer */
    const struct dirent *e;
    bool used = false;
    while (!used && (e = readdir(d)) != NULL)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            used = process_has(e->d_name, uid);
    closedir(d);
    return used;
}

enum { USABLE = 0, NO_IDS = 1, NO_WORKSPACE = 2, NO_SHELL = 3 };

/* As a command will see it: with its ids and no capability. */
static int try_access(const struct sp_config *c)
{
    if (c->switch_uid && (setgroups(0, NULL) != 0 ||
                          setresgid(c->command_gid, c->command_gid, c->command_gid) != 0 ||
                          setresuid(c->command_uid, c->command_uid, c->command_uid) != 0))
        return NO_IDS;
    capng_clear(CAPNG_SELECT_CAPS);
    if (capng_apply(CAPNG_SELECT_CAPS) != 0)
        return NO_IDS;
    /* The box's folder of workspaces is to go through only. */
    int want = c->mode == SP_MODE_BOX ? X_OK : R_OK | W_OK | X_OK;
    if (faccessat(AT_FDCWD, c->workspace, want, AT_EACCESS) != 0)
        return NO_WORKSPACE;
    if (faccessat(AT_FDCWD, c->shell, X_OK, AT_EACCESS) != 0)
        return NO_SHELL;
    return USABLE;
}

int ids_check_access(const struct sp_config *c, char *err, size_t errlen)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(try_access(c));
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    int r = pid < 0 || !WIFEXITED(status) ? NO_IDS : WEXITSTATUS(status);
    if (r == NO_WORKSPACE && c->mode == SP_MODE_BOX)
        (void)snprintf(err, errlen,
                       "RUNBOX_ROOT: other users can't go through to %.200s, as identities must.",
                       c->workspace);
    else if (r == NO_WORKSPACE)
        (void)snprintf(err, errlen,
                       "SANDBOX_WORKSPACE: %.200s can't be read and written by uid %u, which "
                       "commands run as.",
                       c->workspace, c->command_uid);
    else if (r == NO_SHELL)
        (void)snprintf(err, errlen, "%s_SHELL: %.200s can't be run by uid %u.",
                       c->mode == SP_MODE_BOX ? "RUNBOX" : "SANDBOX", c->shell, c->command_uid);
    else if (r != USABLE)
        (void)snprintf(err, errlen, "can't take uid %u and gid %u, which commands run as.",
                       c->command_uid, c->command_gid);
    return r == USABLE ? 0 : -1;
}
