/* cgroup_find.c: reads what the kernel says of cgroups: where ours is, which controllers it has,
 * what was counted. Trusts the kernel's texts, but a mount point may have any name. */
#include "cgroup.h"

#include <stdlib.h>
#include <string.h>

/* The path on the line "0::PATH" of /proc/self/cgroup, which is version 2's. */
static bool own_path(const char *self, char *out, size_t cap)
{
    for (const char *line = self; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        size_t n = end != NULL ? (size_t)(end - line) : strlen(line);
        if (n > 3 && memcmp(line, "0::", 3) == 0 && line[3] == '/') {
            if (n - 3 >= cap)
                return false;
            memcpy(out, line + 3, n - 3);
            out[n - 3] = '\0';
            /* "/.." is outside of our cgroup namespace; a deleted one can't be used. */
            return strncmp(out, "/..", 3) != 0 && strstr(out, " (deleted)") == NULL;
        }
        line = end != NULL ? end + 1 : NULL;
    }
    return false;
}

/* Field i (from 0) of a mountinfo line, with its octal escapes undone. */
static bool field(const char *line, size_t len, unsigned i, char *out, size_t cap)
{
    const char *p = line, *end = line + len;
    size_t n = 0;
    for (; i > 0 && p < end; p++)
        i -= *p == ' ';
    while (p < end && *p != ' ') {
        char c = *p++;
        if (c == '\\' && end - p >= 3) {
            c = (char)((p[0] - '0') * 64 + (p[1] - '0') * 8 + (p[2] - '0'));
            p += 3;
        }
        if (n + 1 >= cap)
            return false;
        out[n++] = c;
    }
    out[n] = '\0';
    return n > 0;
}

static bool is_cgroup2(const char *line, size_t len)
{
    static const char mark[] = " - cgroup2 ";
    return memmem(line, len, mark, sizeof mark - 1) != NULL;
}

bool sp_cgroup_locate(const char *self, const char *mountinfo, unsigned nth, char *out, size_t cap)
{
    char path[4096], root[4096], point[4096];
    if (!own_path(self, path, sizeof path))
        return false;
    for (const char *line = mountinfo; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        size_t len = end != NULL ? (size_t)(end - line) : strlen(line);
        if (is_cgroup2(line, len) && field(line, len, 3, root, sizeof root) &&
            field(line, len, 4, point, sizeof point)) {
            size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
            const char *rest = strcmp(path, "/") == 0 ? "" : path;
            bool below = strncmp(rest, root, n) == 0 && (rest[n] == '/' || rest[n] == '\0');
            if (below && nth-- == 0) {
                size_t np = strlen(point), nr = strlen(rest + n);
                if (np + nr >= cap)
                    return false;
                memcpy(out, point, np);
                memcpy(out + np, rest + n, nr + 1);
                return true;
            }
        }
        line = end != NULL ? end + 1 : NULL;
    }
    return false;
}

bool sp_cgroup_word(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; *p != '\0';) {
        p += strspn(p, " \t\n");
        size_t w = strcspn(p, " \t\n");
        if (w == n && memcmp(p, word, n) == 0)
            return true;
        p += w;
    }
    return false;
}

uint64_t sp_cgroup_value(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, key, n) == 0 && line[n] == ' ')
            return strtoull(line + n + 1, NULL, 10);
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return 0;
}
