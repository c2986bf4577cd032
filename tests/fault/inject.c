/* inject.c: calls that fail when a test says so. The linker (--wrap) puts this between the daemon's
 * own objects and the C library, in the build of `./dev build --faults` alone: no source knows of
 * it.
 *
 * Which call fails stands in NAME.fault beside the daemon's file NAME, which each role maps before
 * its main begins: so one daemon serves for many faults, its roles need no environment, and what is
 * called is counted even behind a role's filters. Without the file nothing fails. Trusts that file.
 */
#include "inject.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ERRNO 1
/* As many as any of them has; what a call doesn't know of it doesn't look at. */
#define PARAMS long a, long b, long c, long d, long e, long f, long g
#define ARGS a, b, c, d, e, f, g

long __real_open64(PARAMS);
long __real_mmap64(PARAMS);

static struct fault_table *table;
static unsigned role;

static unsigned role_of(int argc, char **argv)
{
    static const char *const names[] = {"main", "front", "broker", "cell", "registry"};
    for (unsigned i = 1; i < FAULT_ROLES; i++)
        if (argc == 2 && strncmp(argv[1], "--role=", 7) == 0 && strcmp(argv[1] + 7, names[i]) == 0)
            return i;
    return argc == 2 && strcmp(argv[1], "--role=idle") == 0 ? 3 : 0;
}

/* OpenSSL is a shared library, whose calls the linker doesn't turn: but it lets its memory be ours.
 */
long __wrap_malloc(PARAMS);
long __wrap_realloc(PARAMS);

static void *ssl_malloc(size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    return (void *)__wrap_malloc((long)n, 0, 0, 0, 0, 0, 0);
}

static void *ssl_realloc(void *p, size_t n, const char *file, int line)
{
    (void)file;
    (void)line;
    return (void *)__wrap_realloc((long)p, (long)n, 0, 0, 0, 0, 0);
}

static void ssl_free(void *p, const char *file, int line)
{
    (void)file;
    (void)line;
    free(p);
}

__attribute__((constructor)) static void find_table(int argc, char **argv)
{
    char path[4096 + sizeof ".fault"];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - sizeof ".fault");
    if (n <= 0)
        return;
    memcpy(path + n, ".fault", sizeof ".fault");
    int fd = (int)__real_open64((long)path, O_RDWR | O_CLOEXEC, 0, 0, 0, 0, 0);
    if (fd < 0)
        return;
    long p = __real_mmap64(0, sizeof *table, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0, 0);
    close(fd);
    role = role_of(argc, argv);
    if (p != -1)
        table = (struct fault_table *)p;
    if (CRYPTO_set_mem_functions(ssl_malloc, ssl_realloc, ssl_free) != 1)
        abort(); /* it has some already */
}

/* How deep in sqlite3_exec, whose statements ask sqlite3_finalize how they went. */
static _Thread_local int in_exec;

static bool due(enum fault_call call)
{
    if (table == NULL || (call == FAULT_sqlite3_step && in_exec > 0))
        return false;
    uint32_t n = __atomic_add_fetch(&table->made[role][call], 1, __ATOMIC_SEQ_CST);
    uint32_t nth = __atomic_load_n(&table->nth, __ATOMIC_SEQ_CST);
    if (nth == 0 || table->role != role || table->call != call || n < nth ||
        n - nth >= table->times)
        return false;
    __atomic_add_fetch(&table->hits, 1, __ATOMIC_SEQ_CST);
    errno = (int)table->err;
    return true;
}

#define X(name, result)                                                                            \
    long __real_##name(PARAMS);                                                                    \
    long __wrap_##name(PARAMS);                                                                    \
    long __wrap_##name(PARAMS)                                                                     \
    {                                                                                              \
        if (due(FAULT_##name))                                                                     \
            return (result) == ERRNO ? errno : (result);                                           \
        if (FAULT_##name != FAULT_sqlite3_exec)                                                    \
            return __real_##name(ARGS);                                                            \
        in_exec++;                                                                                 \
        long r = __real_##name(ARGS);                                                              \
        in_exec--;                                                                                 \
        return r;                                                                                  \
    }
#include "calls.inc"
