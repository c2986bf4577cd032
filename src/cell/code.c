/* code.c: see code.h. Reads the held shell's memory; nothing hostile has run in it. What is found
 * is compared byte for byte each time before it is used. */
#include "cell/code.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHUNK 65536u

/* syscall; ret (getpid and its like end so). mov $15, %rax; syscall (libc's end of a handler). */
static const struct {
    const char *bytes;
    size_t n;
} wanted[SP_CODES] = {{"\x0f\x05\xc3", 3}, {"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", 9}};

struct mapping {
    unsigned long from, to, offset, inode;
    bool code;
    char name[64];
};

/* The next line; NULL at the end. */
static const char *next(const char *text, struct mapping *m)
{
    char rights[8];
    m->name[0] = '\0';
    int n = sscanf(text, "%lx-%lx %7s %lx %*s %lu %63[^\n]", &m->from, &m->to, rights, &m->offset,
                   &m->inode, m->name);
    if (n < 5)
        return NULL;
    m->code = strcmp(rights, "r-xp") == 0 && m->inode != 0;
    const char *end = strchr(text, '\n');
    return end == NULL ? text + strlen(text) : end + 1;
}

unsigned long sp_code_heap_end(const char *maps, unsigned long start)
{
    struct mapping m;
    while ((maps = next(maps, &m)) != NULL)
        if (strstr(m.name, "[heap]") != NULL && m.from <= start && start <= m.to)
            return m.to;
    return start;
}

static bool fetch(pid_t pid, unsigned long addr, void *buf, size_t n)
{
    struct iovec ours = {buf, n}, theirs = {.iov_len = n};
    memcpy(&theirs.iov_base, &addr, sizeof addr);
    return syscall(SYS_process_vm_readv, pid, &ours, 1, &theirs, 1, 0) == (long)n;
}

static bool is_there(const struct sp_code *known, size_t which, pid_t pid, const struct mapping *m,
                     unsigned long *at)
{
    char bytes[16];
    unsigned long offset = known->at[which].offset;
    if (known->at[which].inode != m->inode || offset < m->offset ||
        offset - m->offset >= m->to - m->from)
        return false;
    *at = m->from + (offset - m->offset);
    return fetch(pid, *at, bytes, wanted[which].n) &&
           memcmp(bytes, wanted[which].bytes, wanted[which].n) == 0;
}

static void search(struct sp_code *known, pid_t pid, const struct mapping *m)
{
    char *chunk = malloc(CHUNK);
    for (unsigned long at = m->from; chunk != NULL && at < m->to; at += CHUNK - 16) {
        size_t n = m->to - at < CHUNK ? m->to - at : CHUNK;
        if (!fetch(pid, at, chunk, n))
            break;
        for (size_t i = 0; i < SP_CODES; i++) {
            const char *p =
                known->at[i].inode != 0 ? NULL : memmem(chunk, n, wanted[i].bytes, wanted[i].n);
            if (p == NULL)
                continue;
            known->at[i].inode = m->inode;
            known->at[i].offset = m->offset + (at - m->from) + (unsigned long)(p - chunk);
        }
    }
    free(chunk);
}

static bool look(const struct sp_code *known, pid_t pid, const char *maps,
                 unsigned long at[SP_CODES])
{
    struct mapping m;
    bool found[SP_CODES] = {false, false};
    while ((maps = next(maps, &m)) != NULL)
        for (size_t i = 0; m.code && i < SP_CODES; i++)
            found[i] = found[i] || is_there(known, i, pid, &m, &at[i]);
    return found[0] && found[1];
}

bool sp_code_find(struct sp_code *known, pid_t pid, const char *maps, unsigned long at[SP_CODES])
{
    struct mapping m;
    if (look(known, pid, maps, at))
        return true;
    *known = (struct sp_code){0};
    for (const char *p = next(maps, &m); p != NULL; p = next(p, &m))
        if (m.code)
            search(known, pid, &m);
    return look(known, pid, maps, at);
}
