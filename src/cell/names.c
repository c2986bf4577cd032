/* names.c: a folder's names in two blocks of memory, sorted by their bytes, so that a listing and
 * an archive of one tree are always the same. Trusts nothing about the names. */
#include "cell/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MANY 64u

int sp_names_add(struct sp_names *s, unsigned char type, const char *name)
{
    size_t len = strlen(name) + 2;
    if (s->used > UINT32_MAX - len)
        return -E2BIG;
    if (s->cap - s->used < len) {
        size_t cap = (s->cap == 0 ? 128 : s->cap * 2) + len;
        char *text = realloc(s->text, cap);
        if (text == NULL)
            return -ENOMEM;
        s->text = text;
        s->cap = cap;
    }
    if (s->count == s->room) {
        size_t room = s->room == 0 ? 8 : s->room * 2;
        uint32_t *at = reallocarray(s->at, room, sizeof *at);
        if (at == NULL)
            return -ENOMEM;
        s->at = at;
        s->room = room;
    }
    s->at[s->count++] = (uint32_t)s->used;
    s->text[s->used] = (char)type;
    memcpy(s->text + s->used + 1, name, len - 1);
    s->used += len;
    return 0;
}

static int by_bytes(const void *a, const void *b, void *text)
{
    const char *t = text;
    return strcmp(t + *(const uint32_t *)a + 1, t + *(const uint32_t *)b + 1);
}

/* A name's first bytes beside its place, so that most comparisons don't leave the array. */
struct key {
    uint64_t first; /* eight bytes, the first one highest; NULs behind the end */
    uint32_t at;
};

static int by_key(const void *a, const void *b, void *text)
{
    const struct key *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return by_bytes(&x->at, &y->at, text);
}

void sp_names_sort(struct sp_names *s)
{
    struct key *keys = s->count >= MANY ? calloc(s->count, sizeof *keys) : NULL;
    if (keys == NULL) { /* few, or no memory for them */
        if (s->count > 0)
            qsort_r(s->at, s->count, sizeof *s->at, by_bytes, s->text);
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        const char *name = s->text + s->at[i] + 1;
        keys[i].at = s->at[i];
        for (size_t k = 0, end = strnlen(name, 8); k < 8; k++)
            keys[i].first = keys[i].first << 8 | (k < end ? (uint8_t)name[k] : 0);
    }
    qsort_r(keys, s->count, sizeof *keys, by_key, s->text);
    for (size_t i = 0; i < s->count; i++)
        s->at[i] = keys[i].at;
    free(keys);
}

const char *sp_names_get(const struct sp_names *s, size_t i, unsigned char *type)
{
    const char *entry = s->text + s->at[i];
    *type = (unsigned char)entry[0];
    return entry + 1;
}

size_t sp_names_memory(const struct sp_names *s)
{
    return s->cap + s->room * sizeof *s->at;
}

void sp_names_free(struct sp_names *s)
{
    free(s->text);
    free(s->at);
    *s = (struct sp_names){0};
}
