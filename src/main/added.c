/* added.c: what the operator adds to the built-in policies: paths and system calls of commands. The
 * operator is trusted, but mistypes; and what would take the boundary away by one careless word is
 * refused, since nobody would see it afterwards. */
#include "main/settings.h"

#include "sallyport/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_MAX 65536

char *added_file(const char *path, size_t *len)
{
    struct stat st;
    int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* a FIFO is no reason to wait */
    if (fd < 0)
        return NULL;
    char *text = NULL;
    size_t n = 0;
    int error = fstat(fd, &st) != 0 ? errno : S_ISREG(st.st_mode) ? 0 : EISDIR;
    if (error == 0 && (text = malloc(TEXT_MAX + 2)) == NULL)
        error = ENOMEM;
    while (error == 0 && n <= TEXT_MAX) {
        ssize_t got = read(fd, text + n, TEXT_MAX + 1 - n);
        if (got < 0 && errno != EINTR)
            error = errno;
        if (got == 0)
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    if (error == 0 && n > TEXT_MAX)
        error = EFBIG;
    close(fd);
    if (error != 0) {
        free(text);
        errno = error;
        return NULL;
    }
    text[n] = '\0';
    *len = n;
    return text;
}

static int unreadable(const char *setting, const char *path, char *err, size_t errlen)
{
    const char *why = errno == EFBIG    ? "it is longer than 64 KiB"
                      : errno == EISDIR ? "it is no file"
                                        : strerror(errno);
    (void)snprintf(err, errlen, "%s: can't read %.200s: %s.", setting, path, why);
    return -1;
}

/* ---- paths ---- */

static bool below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

struct judged {
    char why[160]; /* "" while all is well */
};

__attribute__((format(printf, 2, 3))) static int refuse(struct judged *j, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(j->why, sizeof j->why, fmt, ap);
    va_end(ap);
    return -EINVAL;
}

/* A built-in path may be missing, as it is for every host. The operator means this one. */
static int judge(void *arg, enum sp_path_word word, const char *path)
{
    struct judged *j = arg;
    char real[PATH_MAX];
    struct stat st;
    if (path == NULL)
        return refuse(j, "the workspace is there already");
    if (realpath(path, real) == NULL || stat(real, &st) != 0)
        return refuse(j, "%.100s: %s", path, strerror(errno));
    if (strcmp(real, "/") == 0)
        return refuse(j, "that is the whole file system");
    if (S_ISBLK(st.st_mode))
        return refuse(j, "%.100s is a block device", path);
    if (word == SP_PATH_DEVICE)
        return S_ISCHR(st.st_mode) ? 0 : refuse(j, "%.100s is no character device", path);
    if (word == SP_PATH_WRITE &&
        (below(real, "/proc") || below(real, "/sys") || below(real, "/dev")))
        return refuse(j, "%.100s is the kernel's: what can be written there isn't files", path);
    return 0;
}

/* "exec /app, read /data" as lines. */
static int from_list(const char *list, char *out, size_t cap)
{
    size_t n = strlen(list);
    if (n + 2 > cap)
        return -1;
    for (size_t i = 0; i < n; i++)
        out[i] = list[i] == ',' ? '\n' : list[i];
    out[n] = '\n';
    out[n + 1] = '\0';
    return 0;
}

static int read_paths(const char *value, struct sp_config *c, char *err, size_t errlen)
{
    const char *name = "SALLYPORT_COMMAND_PATHS";
    bool file = value[0] == '/';
    size_t len = 0, cap = sizeof c->command_paths;
    bool fits = true, nul = false;
    if (file) {
        char *text = added_file(value, &len);
        if (text == NULL)
            return unreadable(name, value, err, errlen);
        nul = memchr(text, '\0', len) != NULL;
        fits = len < cap;
        if (fits)
            memcpy(c->command_paths, text, len + 1);
        free(text);
    } else {
        fits = from_list(value, c->command_paths, cap) == 0;
    }
    if (!fits || nul) {
        (void)snprintf(err, errlen, "%s: %s.", name, nul ? "a NUL in it" : "longer than 16 KiB");
        return -1;
    }
    struct sp_policy_error e;
    struct judged j = {""};
    int r = sp_landlock_check(c->command_paths, strlen(c->command_paths), &e, judge, &j);
    if (r == 0)
        return 0;
    const char *why = j.why[0] != '\0' ? j.why : e.text;
    if (file)
        (void)snprintf(err, errlen, "%s: %.100s:%d: %s.", name, value, e.line, why);
    else
        (void)snprintf(err, errlen, "%s: entry %d: %s.", name, e.line, why);
    return -1;
}

/* ---- system calls ---- */

static int wrong_policy(const char *file, int r, const struct sp_policy_error *e, char *err,
                        size_t errlen)
{
    const char *name = "SALLYPORT_COMMAND_POLICY",
               *why = e->text[0] != '\0' ? e->text : strerror(-r);
    if (e->line > 0)
        (void)snprintf(err, errlen, "%s: %.100s:%d: %s.", name, file, e->line, why);
    else
        (void)snprintf(err, errlen, "%s: %.100s: %s.", name, file, why);
    return -1;
}

static int read_policy(const char *file, char **policy, size_t *len, char *err, size_t errlen)
{
    struct sp_policy_error e = {0};
    char *text = added_file(file, len);
    if (text == NULL)
        return unreadable("SALLYPORT_COMMAND_POLICY", file, err, errlen);
    int r = sp_policy_check_added(text, *len, &e);
    if (r == 0) {
        *policy = text;
        return 0;
    }
    free(text);
    return wrong_policy(file, r, &e, err, errlen);
}

int added_try(const struct settings *s, const struct sp_config *c, const char *policy, size_t len,
              char *err, size_t errlen)
{
    struct sp_policy_error e = {0};
    int r = sp_policy_try_added(c, policy, len, &e);
    return r == 0 ? 0 : wrong_policy(s->command_policy, r, &e, err, errlen);
}

int added_read(const struct settings *s, struct sp_config *c, char **policy, size_t *len, char *err,
               size_t errlen)
{
    *policy = NULL;
    *len = 0;
    if (s->command_paths != NULL && read_paths(s->command_paths, c, err, errlen) != 0)
        return -1;
    if (s->command_policy != NULL)
        return read_policy(s->command_policy, policy, len, err, errlen);
    return 0;
}
