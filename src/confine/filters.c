/* filters.c: the filters as main hands them to the roles: compiled once, in one sealed memfd.
 * A role checks the seals and every bound before it gives the bytes to the kernel, which checks the
 * program itself. */
#include "policy.h"
#include "sanitize.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
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

/* What a plan needs, ahead of a filter's own text and of the operator's rules; *lines: how many. */
static int rules_ahead(enum sp_filter f, const struct sp_plan *plan, char *out, size_t cap,
                       int *lines)
{
    /* Started by clone3, commands are in their cgroup from birth: see sp_cgroup_seal. */
    static const char by_clone3[] = "allow clone3\n";
    /* The cell traces the shell that it holds. The requests: PEEK and POKE of registers, SEIZE with
     * nothing but the option that the tracee dies with its tracer, and on with no signal. */
    static const char trace[] = "allow ptrace if arg0 == 0x4206 and arg3 == 0x100000\n"
                                "allow ptrace if arg0 == 7 and arg3 == 0\n"
                                "allow ptrace if arg0 == 17 and arg3 == 0\n"
                                "allow ptrace if arg0 == 6\n"
                                "allow ptrace if arg0 == 12\n"
                                "allow ptrace if arg0 == 13\n"
                                "allow ptrace if arg0 == 0x4209\n"
                                "allow process_vm_readv process_vm_writev\n";
    bool broker = f == SP_FILTER_BROKER, command = f == SP_FILTER_COMMAND;
    size_t n = 0;
    out[0] = '\0';
    *lines = 0;
    if (plan == NULL)
        return 0;
    if ((broker || command) && plan->layer[SP_LAYER_CGROUP].active)
        n += (size_t)snprintf(out + n, cap - n, "%s", by_clone3);
    if ((broker || command) && plan->held != 0)
        n += (size_t)snprintf(out + n, cap - n,
                              "allow prctl if arg0.lo == 35 and arg1 == 14 and arg5 == 0x%llx\n",
                              (unsigned long long)plan->held);
    if ((broker || f == SP_FILTER_CELL) && plan->held != 0)
        n += (size_t)snprintf(out + n, cap - n, "%s", trace);
    if (n >= cap)
        return -E2BIG;
    for (size_t i = 0; i < n; i++)
        *lines += out[i] == '\n';
    return 0;
}

static int compile_one(enum sp_filter f, const struct sp_plan *plan, const char *added,
                       size_t added_len, void **bpf, size_t *n, struct sp_policy_error *e)
{
    char ahead[1024];
    int lines;
    size_t len, own;
    const char *text = sp_policy_text(f, &len);
    bool broker = f == SP_FILTER_BROKER;
    if (text == NULL)
        return -ENOENT;
    int r = rules_ahead(f, plan, ahead, sizeof ahead, &lines);
    if (r != 0)
        return r;
    own = strlen(ahead);
    if (added == NULL || (!broker && f != SP_FILTER_COMMAND))
        added_len = 0;
    char *all = own + added_len == 0 ? NULL : malloc(own + added_len + 1);
    if (all == NULL && own + added_len > 0)
        return -ENOMEM;
    if (all != NULL)
        memcpy(all, ahead, own);
    if (all != NULL && added != NULL && added_len > 0)
        memcpy(all + own, added, added_len);
    r = sp_policy_compile_added(all, own + added_len, broker, text, len, bpf, n, e);
    if (r == -EINVAL && e != NULL && e->added)
        e->line -= lines;
    free(all);
    return r;
}

static int compile_all(struct header *h, void *bpf[SP_FILTER_COUNT], const struct sp_plan *plan,
                       const char *added, size_t added_len, struct sp_policy_error *e)
{
    uint32_t off = sizeof *h;
    for (int i = 0; i < SP_FILTER_COUNT; i++) {
        size_t n;
        int r = compile_one((enum sp_filter)i, plan, added, added_len, &bpf[i], &n, e);
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

int sp_filters_build(const struct sp_plan *plan, const char *added, size_t len,
                     struct sp_policy_error *e)
{
    struct header h = {.magic = MAGIC, .size = sizeof h};
    void *bpf[SP_FILTER_COUNT] = {0};
    int r = 0;
    if (e != NULL)
        memset(e, 0, sizeof *e);
    if (plan == NULL || plan->layer[SP_LAYER_SECCOMP].active)
        r = compile_all(&h, bpf, plan, added, len, e);
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
