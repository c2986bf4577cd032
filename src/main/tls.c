/* tls.c: the certificate and key of the settings, read at the start and at each SIGHUP, checked,
 * and handed to the front, which can open nothing. The files are the operator's; a pair that can't
 * be served is refused at the start, and later leaves the old one in use. */
#include "main/supervise.h"

#include "sallyport/log.h"
#include "sallyport/proto.h"
#include "sallyport/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads a file whole; malloc'ed, or NULL with a sentence. */
static char *read_file(const char *name, const char *path, size_t *n, char *err, size_t errlen)
{
    char *text = malloc(SP_TLS_FILE_MAX + 1);
    int fd = path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
    if (path[0] != '/')
        (void)snprintf(err, errlen, "%s: %.200s isn't an absolute path.", name, path);
    else if (fd < 0)
        (void)snprintf(err, errlen, "%s: %.200s: %s.", name, path, strerror(errno));
    ssize_t got = -1;
    *n = 0;
    while (
        text != NULL && fd >= 0 && *n <= SP_TLS_FILE_MAX &&
        ((got = read(fd, text + *n, SP_TLS_FILE_MAX + 1 - *n)) > 0 || (got < 0 && errno == EINTR)))
        *n += got > 0 ? (size_t)got : 0;
    if (fd >= 0 && got < 0)
        (void)snprintf(err, errlen, "%s: %.200s: %s.", name, path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (got == 0 && *n <= SP_TLS_FILE_MAX)
        return text;
    if (got >= 0)
        (void)snprintf(err, errlen, "%s: %.200s is over %u KiB.", name, path,
                       SP_TLS_FILE_MAX >> 10);
    free(text);
    return NULL;
}

/* Both files as a memfd that the front can serve with, or -1 with a sentence. */
static int load(const struct tls_files *t, char *err, size_t errlen)
{
    char name[2][32], why[200];
    size_t n[2];
    (void)snprintf(name[0], sizeof name[0], "%s_TLS_CERT", t->prefix);
    (void)snprintf(name[1], sizeof name[1], "%s_TLS_KEY", t->prefix);
    char *cert = read_file(name[0], t->cert, &n[0], err, errlen);
    char *key = cert != NULL ? read_file(name[1], t->key, &n[1], err, errlen) : NULL;
    int fd = -1;
    if (key != NULL) {
        fd = sp_tls_bundle(cert, n[0], key, n[1]);
        explicit_bzero(key, n[1]);
        if (fd < 0)
            (void)snprintf(err, errlen, "can't keep %s in memory: %s.", name[1], strerror(-fd));
    }
    free(cert);
    free(key);
    if (fd >= 0 && !sp_tls_check(fd, why, sizeof why)) {
        (void)snprintf(err, errlen, "%s and %s: %s.", name[0], name[1], why);
        close(fd);
        fd = -1;
    }
    return fd < 0 ? -1 : fd;
}

int tls_read(struct super *s, const struct settings *set, char *err, size_t errlen)
{
    const char *prefix = set->mode == SP_MODE_BOX ? "RUNBOX" : "SALLYPORT";
    s->tls = (struct tls_files){prefix, set->tls_cert, set->tls_key, -1};
    if (set->tls_cert == NULL && set->tls_key == NULL)
        return 0;
    if (set->tls_cert == NULL || set->tls_key == NULL) {
        (void)snprintf(err, errlen, "%s_TLS_CERT and %s_TLS_KEY go together, and only one is set.",
                       prefix, prefix);
        return -1;
    }
    s->tls.fd = load(&s->tls, err, errlen);
    s->cfg.tls = true;
    return s->tls.fd < 0 ? -1 : 0;
}

int tls_name(struct super *s, char *err, size_t errlen)
{
    bool any = false;
    for (int i = 0; i < s->listeners.n && s->cfg.tls; i++) {
        char *name = s->listeners.name[i];
        size_t n = strlen(name);
        if (strncmp(name, "http:", 5) != 0 || n + 2 > sizeof s->listeners.name[0])
            continue;
        memmove(name + 5, name + 4, n - 3);
        name[4] = 's';
        any = true;
    }
    if (any || !s->cfg.tls)
        return 0;
    (void)snprintf(err, errlen, "%s_TLS_CERT is set, but no TCP port is served.", s->tls.prefix);
    return -1;
}

void tls_again(struct super *s)
{
    char err[REFUSAL_MAX];
    if (!s->cfg.tls) {
        sp_log(SP_LOG_INFO, "SIGHUP changes nothing: settings are read at the start");
        return;
    }
    int fd = load(&s->tls, err, sizeof err);
    if (fd < 0) {
        sp_log(SP_LOG_ERROR, "SIGHUP: %s The old certificate stays", err);
        return;
    }
    close(s->tls.fd);
    s->tls.fd = fd;
    const struct sp_msg m = {.op = SP_OP_TLS};
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    int r = copy < 0 ? -errno : 0;
    if (copy >= 0 && s->front.chan.fd >= 0)
        r = sp_msg_send(&s->front.chan, &m, &copy, 1);
    else if (copy >= 0)
        close(copy); /* a new front starts with it */
    if (r != 0 && r != -EPIPE)
        sp_log(SP_LOG_ERROR, "SIGHUP: the front keeps the old certificate until the next: %s",
               strerror(-r));
}
