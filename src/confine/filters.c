/* filters.c: the filters as main hands them to the roles: compiled once, in one sealed memfd.
 * A role checks the seals and every bound before it gives the bytes to the kernel, which checks the
 * program itself. */
#include "policy.h"
#include "sanitize.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAGIC 0x53504631u
#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct header {
    uint32_t magic, size;
    struct {
        uint32_t off, n; /* n 0: the plan does without seccomp */
    } f[SP_FILTER_COUNT];
};
#define FILE_MAX                                                                                   \
    (sizeof(struct header) + SP_FILTER_COUNT * BPF_MAXINSNS * sizeof(struct sock_filter))

static const struct header *loaded;

const struct sp_policy_embedded *sp_policy_embedded_find(const char *name)
{
    for (size_t i = 0; i < sp_policy_embedded_n; i++)
        if (strcmp(sp_policy_embedded[i].name, name) == 0)
            return &sp_policy_embedded[i];
    return NULL;
}

const char *sp_policy_text(enum sp_filter f, size_t *len)
{
    static const char *const names[SP_FILTER_COUNT] = {
        [SP_FILTER_FRONT] = "front.seccomp",       [SP_FILTER_BROKER] = "broker.seccomp",
        [SP_FILTER_CELL] = "cell.seccomp",         [SP_FILTER_COMMAND] = "command.seccomp",
        [SP_FILTER_REGISTRY] = "registry.seccomp",
    };
    const struct sp_policy_embedded *p =
        (unsigned)f < SP_FILTER_COUNT ? sp_policy_embedded_find(names[f]) : NULL;
    *len = p == NULL ? 0 : p->len;
    return p == NULL ? NULL : p->text;
}

static int compile_all(struct header *h, void *bpf[SP_FILTER_COUNT], const char *added,
                       size_t added_len, struct sp_policy_error *e)
{
    uint32_t off = sizeof *h;
    for (int i = 0; i < SP_FILTER_COUNT; i++) {
        size_t len, n;
        const char *text = sp_policy_text((enum sp_filter)i, &len);
        bool broker = i == SP_FILTER_BROKER, ours = broker || i == SP_FILTER_COMMAND;
        int r = text == NULL ? -ENOENT
                             : sp_policy_compile_added(ours ? added : NULL, added_len, broker, text,
                                                       len, &bpf[i], &n, e);
        if (r != 0)
            return r;
        h->f[i].off = off;
        h->f[i].n = (uint32_t)n;
        off += (uint32_t)(n * sizeof(struct sock_filter));
    }
    h->size = off;
    return 0;
}

static int store(const struct header *h, void *const bpf[SP_FILTER_COUNT])
{
    char *all = malloc(h->size);
    if (all == NULL)
        return -ENOMEM;
    memcpy(all, h, sizeof *h);
    for (int i = 0; i < SP_FILTER_COUNT; i++)
        if (h->f[i].n > 0)
            memcpy(all + h->f[i].off, bpf[i], h->f[i].n * sizeof(struct sock_filter));
    int fd = sp_sealed_memfd("sallyport-filters", all, h->size);
    free(all);
    return fd;
}

/* Ahead of the operator's, where commands are started by clone3: see sp_cgroup_seal. */
static const char by_clone3[] = "allow clone3\n";

static char *with_clone3(const char *added, size_t *len)
{
    size_t n = sizeof by_clone3 - 1, more = added == NULL ? 0 : *len;
    char *all = malloc(n + more + 1);
    if (all == NULL)
        return NULL;
    memcpy(all, by_clone3, n);
    if (more > 0)
        memcpy(all + n, added, more);
    *len = n + more;
    return all;
}

int sp_filters_build(const struct sp_plan *plan, const char *added, size_t len,
                     struct sp_policy_error *e)
{
    struct header h = {.magic = MAGIC, .size = sizeof h};
    void *bpf[SP_FILTER_COUNT] = {0};
    int r = 0;
    if (e != NULL)
        memset(e, 0, sizeof *e);
    char *all = NULL;
    if (plan != NULL && plan->layer[SP_LAYER_CGROUP].active) {
        all = with_clone3(added, &len);
        added = all;
        r = all == NULL ? -ENOMEM : 0;
    }
    if (r == 0 && (plan == NULL || plan->layer[SP_LAYER_SECCOMP].active))
        r = compile_all(&h, bpf, added, len, e);
    if (r == -EINVAL && all != NULL && e != NULL && e->added)
        e->line--;
    free(all);
    if (r == 0)
        r = store(&h, bpf);
    for (int i = 0; i < SP_FILTER_COUNT; i++)
        free(bpf[i]);
    return r;
}

static bool well_formed(const struct header *h, size_t size)
{
    if (h->magic != MAGIC || h->size != size)
        return false;
    for (int i = 0; i < SP_FILTER_COUNT; i++) {
        uint32_t off = h->f[i].off, n = h->f[i].n;
        if (n == 0)
            continue;
        if (n > BPF_MAXINSNS || off < sizeof *h || off % sizeof(struct sock_filter) != 0 ||
            off > size || n > (size - off) / sizeof(struct sock_filter))
            return false;
    }
    return true;
}

int sp_filters_load(void)
{
    if (loaded != NULL)
        return 0;
    struct stat st;
    int seals = fcntl(SP_FD_FILTERS, F_GET_SEALS);
    if (seals < 0 || fstat(SP_FD_FILTERS, &st) != 0)
        return -errno;
    if ((seals & SEALS) != SEALS || st.st_size < (off_t)sizeof(struct header) ||
        st.st_size > (off_t)FILE_MAX)
        return -EBADMSG;
    size_t size = (size_t)st.st_size;
    void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, SP_FD_FILTERS, 0);
    if (p == MAP_FAILED)
        return -errno;
    if (!well_formed(p, size)) {
        munmap(p, size);
        return -EBADMSG;
    }
    loaded = p;
    return 0;
}

int sp_filters_install(enum sp_filter f)
{
    if ((unsigned)f >= SP_FILTER_COUNT)
        return -EINVAL;
    if (loaded == NULL)
        return -ENODATA;
    if (loaded->f[f].n == 0)
        return 0; /* the plan accepted to do without */
    /* The kernel only reads the program; struct sock_fprog has no const. */
    union {
        const void *in;
        struct sock_filter *out;
    } at = {(const char *)loaded + loaded->f[f].off};
    struct sock_fprog prog = {(unsigned short)loaded->f[f].n, at.out};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) != 0)
        return -errno;
    sp_sanitizer_confined();
    return 0;
}
