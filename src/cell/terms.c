/* terms.c: whether the conditions of a PUT or a DELETE hold (RFC 9110 13.1). They were read by the
 * front, from a stranger; what they are compared with is what GET would show. Trusts nothing about
 * the tree, which a command may change meanwhile. */
#include "cell/terms.h"

#include "cell/resolve.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

void sp_turn_take(void)
{
    pthread_mutex_lock(&turn);
}

void sp_turn_end(void)
{
    pthread_mutex_unlock(&turn);
}

static void keep(char *to, struct sp_slice s)
{
    if (s.n > 0)
        memcpy(to, s.p, s.n);
    to[s.n] = '\0';
}

void sp_terms_set(struct sp_terms *t, const struct sp_msg *m)
{
    t->flags = m->flags & SP_IF_ANY;
    t->latest_ns = m->mtime_ns;
    keep(t->tags, m->etag);
    keep(t->none, m->none);
}

static bool listed(const char *tags, const struct stat *st)
{
    char etag[SP_ETAG_MAX];
    if (strcmp(tags, "*") == 0)
        return true;
    if (!S_ISREG(st->st_mode)) /* it has no tag */
        return false;
    sp_file_etag(etag, st);
    size_t n = strlen(etag);
    for (const char *p = tags; *p != '\0';) {
        size_t len = strcspn(p, ",");
        if (len == n && memcmp(p, etag, n) == 0)
            return true;
        p += len + (p[len] == ',');
    }
    return false;
}

/* The tag that GET would show for a link: of the file it leads to. */
static bool followed(const struct sp_workspace *w, const char *path, size_t n, struct stat *st)
{
    int fd = sp_resolve_open(w->root, path, n, O_PATH, 0, w->use_openat2);
    if (fd < 0)
        return false;
    bool ok = fstat(fd, st) == 0;
    close(fd);
    return ok;
}

enum sp_err sp_terms_check(const struct sp_terms *t, const struct sp_workspace *w, const char *path,
                           size_t n, bool there, const struct stat *st)
{
    struct stat seen = *st;
    struct sp_result r = {.mtime_ns = 0};
    if (t->flags == 0)
        return SP_OK;
    if (there && S_ISLNK(seen.st_mode))
        there = followed(w, path, n, &seen);
    if (there)
        sp_file_stat(&r, &seen);
    bool holds = true;
    if ((t->flags & SP_IF_MATCH) != 0)
        holds = there && listed(t->tags, &seen);
    else if ((t->flags & SP_IF_UNMODIFIED) != 0) /* of what isn't there nothing is known */
        holds = !there || r.mtime_ns <= t->latest_ns;
    if ((t->flags & SP_IF_NONE_MATCH) != 0)
        holds = holds && !(there && listed(t->none, &seen));
    return holds ? SP_OK : SP_E_PRECONDITION_FAILED;
}
