/* folder.c: the entries of one folder, in order, as JSON. Names are bytes that commands chose.
 *
 * Most of a long list's time is one stat an entry, then reading the folder. Two threads share it:
 * while the first reads and sorts, the other looks at what was read; then both look at the rest; at
 * last both write, in chunks that they take as they come and hand in in their order. */
#include "cell/folder.h"
#include "cell/files.h"
#include "cell/names.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DENTS (64u << 10)
#define CHUNK 512u      /* entries */
#define ALONE 4096u     /* up to so many a second thread isn't worth its start */
#define GONE UINT32_MAX /* for a mode */
#ifdef SP_SANITIZE
#define HELPER_STACK (2u << 20)
#else
#define HELPER_STACK (64u << 10)
#endif

struct chunk {
    uint32_t at;            /* where its names are in the text, as they were read */
    struct sp_brief *brief; /* CHUNK of them, once somebody looked */
};

struct listing {
    struct sp_names names;
    int dir, err;
    size_t max;
    bool truncated;
    bool helped;           /* there is a second thread */
    bool read, sorted;     /* all of it */
    struct chunk *chunk;   /* for max entries; only where there is a second thread */
    size_t taken, looked;  /* chunks that somebody looks at, and that are done */
    struct sp_out *o;      /* of who writes, see `written` */
    bool first;            /* nothing was written yet */
    bool full;             /* SP_LIST_BYTES would be exceeded */
    size_t begun, written; /* chunks */
    pthread_mutex_t lock;
    pthread_cond_t turn;
    pthread_t other;
};

static size_t chunks(const struct listing *l)
{
    return (l->names.count + CHUNK - 1) / CHUNK;
}

/* ---- looking at what was read ---- */

/* Takes the names of a chunk along, as the text may move while there is more to read. */
static size_t copy_names(const struct listing *l, size_t chunk, char **names, size_t *room)
{
    size_t from = l->chunk[chunk].at;
    size_t end = (chunk + 1) * CHUNK < l->names.count ? l->chunk[chunk + 1].at : l->names.used;
    if (*names == NULL || end - from > *room) {
        char *more = realloc(*names, end - from);
        if (more == NULL)
            return 0;
        *names = more;
        *room = end - from;
    }
    memcpy(*names, l->names.text + from, end - from);
    return end - from;
}

static struct sp_brief *look(int dir, const char *names, size_t n)
{
    struct sp_brief *b = calloc(CHUNK, sizeof *b);
    size_t nr = 0;
    for (size_t i = 0; b != NULL && i < n; nr++) {
        unsigned char type = (unsigned char)names[i];
        if (!sp_brief_get(dir, names + i + 1, type, &b[nr]))
            b[nr].mode = GONE;
        i += strlen(names + i + 1) + 2;
    }
    return b;
}

/* The lock is held, but for the looking. Until there is nothing more to look at. */
static void look_at_all(struct listing *l)
{
    char *names = NULL;
    size_t room = 0;
    while (l->err == 0) {
        size_t next = l->taken;
        if (next * CHUNK >= l->names.count && l->read)
            break;
        if ((next + 1) * CHUNK > l->names.count && !l->read) {
            pthread_cond_wait(&l->turn, &l->lock);
            continue;
        }
        l->taken++;
        size_t n = copy_names(l, next, &names, &room);
        pthread_mutex_unlock(&l->lock);
        struct sp_brief *b = n > 0 ? look(l->dir, names, n) : NULL;
        pthread_mutex_lock(&l->lock);
        l->chunk[next].brief = b;
        if (b == NULL)
            l->err = -ENOMEM;
        l->looked++;
    }
    free(names);
    pthread_cond_broadcast(&l->turn);
}

/* ---- writing ---- */

/* Each entry with a comma before it. */
static void format_chunk(const struct listing *l, size_t from, struct sp_out *to)
{
    size_t end = from + CHUNK < l->names.count ? from + CHUNK : l->names.count;
    for (size_t i = from; i < end; i++) {
        struct sp_brief now;
        const struct sp_brief *b = &now;
        unsigned char type;
        const char *name = sp_names_get(&l->names, i, &type);
        const size_t nr = l->names.name[i].nr;
        if (l->helped)
            b = &l->chunk[nr / CHUNK].brief[nr % CHUNK];
        else if (!sp_brief_get(l->dir, name, type, &now))
            now.mode = GONE;
        if (b->mode == GONE) /* since we read the folder */
            continue;
        sp_out_bytes(to, ",", 1);
        sp_out_entry(to, name, b);
    }
}

/* The lock is held, but for the formatting. */
static void write_all(struct listing *l)
{
    struct sp_out mine = {.fd = -1, .cap = CHUNK * SP_ENTRY_MAX};
    mine.buf = malloc(mine.cap); /* few of its pages are ever touched */
    while (mine.buf != NULL && l->err == 0 && l->o->err == 0 && !l->full && l->begun < chunks(l)) {
        size_t chunk = l->begun++;
        pthread_mutex_unlock(&l->lock);
        mine.n = 0;
        format_chunk(l, chunk * CHUNK, &mine);
        pthread_mutex_lock(&l->lock);
        while (l->written != chunk)
            pthread_cond_wait(&l->turn, &l->lock);
        if (l->full || l->o->total + l->o->n + mine.n > SP_LIST_BYTES) {
            l->full = true; /* the later chunks, too: what is listed has no holes */
            mine.n = 0;
        }
        size_t comma = l->first && mine.n > 0 ? 1 : 0;
        l->first = l->first && mine.n == 0;
        sp_out_bytes(l->o, mine.buf + comma, mine.n - comma);
        l->written++;
        pthread_cond_broadcast(&l->turn);
    }
    if (mine.buf == NULL && l->begun < chunks(l) && l->begun == l->written)
        l->err = -ENOMEM; /* no other thread is at it */
    free(mine.buf);
}

/* ---- the second thread ---- */

static void *help(void *arg)
{
    struct listing *l = arg;
    pthread_mutex_lock(&l->lock);
    look_at_all(l);
    while (l->err == 0 && (!l->sorted || l->looked < l->taken))
        pthread_cond_wait(&l->turn, &l->lock);
    write_all(l);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* It inherits all of our confinement. Without it the list takes longer. The lock is held. */
static void start_helper(struct listing *l)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return;
    (void)pthread_attr_setstacksize(&attr, HELPER_STACK);
    l->chunk = calloc(l->max / CHUNK + 1, sizeof *l->chunk);
    if (l->chunk != NULL) {
        for (size_t i = 0; i < l->names.count; i += CHUNK)
            l->chunk[i / CHUNK].at = l->names.name[i].at;
        /* All signals are blocked in it, as in us. */
        l->helped = pthread_create(&l->other, &attr, help, l) == 0;
    }
    pthread_attr_destroy(&attr);
}

/* ---- reading ---- */

static int add_names(struct listing *l, const char *buf, long got)
{
    int err = 0;
    for (long i = 0; i < got && err == 0;) {
        const struct dirent64 *e = (const void *)(buf + i);
        i += e->d_reclen;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (l->names.count == l->max) {
            l->truncated = true;
            break;
        }
        if (l->helped && l->names.count % CHUNK == 0)
            l->chunk[l->names.count / CHUNK].at = (uint32_t)l->names.used;
        err = sp_names_add(&l->names, e->d_type, e->d_name);
    }
    return err;
}

/* The lock is held, but for the reading. 0 or -errno. */
static int read_names(struct listing *l)
{
    char *buf = malloc(DENTS);
    int err = buf == NULL ? -ENOMEM : 0;
    while (err == 0 && !l->truncated && l->err == 0) {
        pthread_mutex_unlock(&l->lock);
        long got = syscall(SYS_getdents64, l->dir, buf, DENTS);
        err = got < 0 ? -errno : 0;
        pthread_mutex_lock(&l->lock);
        if (got <= 0)
            break;
        err = add_names(l, buf, got);
        if (!l->helped && l->chunk == NULL && l->names.count > ALONE)
            start_helper(l);
        pthread_cond_broadcast(&l->turn);
    }
    free(buf);
    return err;
}

static void run(struct listing *l)
{
    int err = read_names(l);
    l->read = true;
    l->err = l->err != 0 ? l->err : err;
    pthread_cond_broadcast(&l->turn);
    if (l->err == 0) {
        pthread_mutex_unlock(&l->lock); /* the other one has to do with the text alone */
        sp_names_sort(&l->names);
        pthread_mutex_lock(&l->lock);
    }
    l->sorted = true;
    if (l->helped)
        look_at_all(l);
    while (l->err == 0 && l->looked < l->taken)
        pthread_cond_wait(&l->turn, &l->lock);
    pthread_cond_broadcast(&l->turn);
    write_all(l);
    pthread_mutex_unlock(&l->lock);
    if (l->helped)
        pthread_join(l->other, NULL);
}

int sp_folder_list(int dir, size_t max, struct sp_out *o, bool *truncated)
{
    struct listing l = {.dir = dir, .max = max, .o = o, .first = true};
    pthread_mutex_init(&l.lock, NULL);
    pthread_cond_init(&l.turn, NULL);
    pthread_mutex_lock(&l.lock);
    run(&l);
    pthread_cond_destroy(&l.turn);
    pthread_mutex_destroy(&l.lock);
    for (size_t i = 0; l.chunk != NULL && i < l.taken; i++)
        free(l.chunk[i].brief);
    free(l.chunk);
    sp_names_free(&l.names);
    *truncated = l.truncated || l.full;
    return l.err;
}
