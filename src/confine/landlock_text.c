/* landlock_text.c: reads the path lines of docs/policy.md, the built-in ones and the operator's,
 * for all who make something of them: Landlock's rule sets and the private view. The text may come
 * from a lint's caller: nothing of it is trusted. */
#include "landlock.h"
#include "policy.h"

#include <errno.h>
#include <string.h>

static const struct {
    const char *word;
    uint64_t rights;
} words[] = {[SP_PATH_READ] = {"read", SP_LL_READ},
             [SP_PATH_EXEC] = {"exec", SP_LL_EXEC},
             [SP_PATH_WRITE] = {"write", SP_LL_WRITE},
             [SP_PATH_DEVICE] = {"device", SP_LL_DEVICE},
             [SP_PATH_WORKSPACE] = {"workspace", SP_LL_WRITE | SP_LL_EXEC}};
#define WORDS (sizeof words / sizeof words[0])

uint64_t sp_landlock_rights(enum sp_path_word word)
{
    return (unsigned)word < WORDS ? words[word].rights : 0;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

/* ".." would name another folder in the private view than it does outside; the rest are spellings
 * of which there is one too many. */
static bool plain_path(const char *p)
{
    if (p[1] == '\0')
        return true;
    while (*p == '/') {
        p++;
        size_t n = strcspn(p, "/");
        if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && memcmp(p, "..", 2) == 0))
            return false;
        p += n;
    }
    return true;
}

static int bad(struct sp_policy_error *e, const char *why)
{
    return sp_policy_fail(e, e == NULL ? 0 : e->line, "%s", why);
}

int sp_landlock_line(const char *line, size_t len, int *word, char path[4096],
                     struct sp_policy_error *e)
{
    const char *end = memchr(line, '#', len);
    if (end == NULL)
        end = line + len;
    *word = -1;
    path[0] = '\0';
    for (const char *c = line; c < end; c++)
        if ((unsigned char)*c < ' ' && *c != '\t')
            return bad(e, "a control character");
    while (line < end && blank(*line))
        line++;
    while (end > line && blank(end[-1]))
        end--;
    if (line == end)
        return 0;
    const char *w = line;
    while (line < end && !blank(*line))
        line++;
    size_t wn = (size_t)(line - w);
    for (size_t i = 0; i < WORDS; i++)
        if (strlen(words[i].word) == wn && memcmp(words[i].word, w, wn) == 0)
            *word = (int)i;
    if (*word < 0)
        return sp_policy_fail(e, e == NULL ? 0 : e->line,
                              "\"%.*s\" is none of read, exec, write, device and workspace",
                              wn > 60 ? 60 : (int)wn, w);
    while (line < end && blank(*line))
        line++;
    size_t n = (size_t)(end - line);
    if (*word == SP_PATH_WORKSPACE)
        return n == 0 ? 0 : bad(e, "workspace stands alone");
    if (n == 0)
        return bad(e, "a path is missing");
    if (line[0] != '/')
        return bad(e, "the path isn't absolute");
    if (n >= 4096)
        return bad(e, "the path is longer than 4095 bytes");
    memcpy(path, line, n);
    path[n] = '\0';
    return plain_path(path) ? 0 : bad(e, "the path has an empty, \".\" or \"..\" component");
}

static int each_line(const char *text, size_t len, struct sp_policy_error *e, sp_path_fn fn,
                     void *arg)
{
    char path[4096];
    for (size_t at = 0; at < len;) {
        const char *nl = memchr(text + at, '\n', len - at);
        size_t n = nl == NULL ? len - at : (size_t)(nl - text) - at;
        int word;
        if (e != NULL)
            e->line++;
        int r = sp_landlock_line(text + at, n, &word, path, e);
        if (r == 0 && word >= 0)
            r = fn(arg, (enum sp_path_word)word, path[0] != '\0' ? path : NULL);
        if (r != 0)
            return r;
        at += n + 1;
    }
    return 0;
}

const char *sp_landlock_text(size_t *len)
{
    const struct sp_policy_embedded *t = sp_policy_embedded_find("command.landlock");
    *len = t == NULL ? 0 : t->len;
    return t == NULL ? NULL : t->text;
}

int sp_landlock_each(const char *added, sp_path_fn fn, void *arg)
{
    size_t len;
    const char *text = sp_landlock_text(&len);
    int r = text == NULL ? -ENOENT : each_line(text, len, NULL, fn, arg);
    return r != 0 || added == NULL ? r : each_line(added, strlen(added), NULL, fn, arg);
}

int sp_landlock_check(const char *text, size_t len, struct sp_policy_error *e, sp_path_fn fn,
                      void *arg)
{
    memset(e, 0, sizeof *e);
    if (len > SP_POLICY_TEXT_MAX)
        return sp_policy_fail(e, 0, "longer than %u bytes", SP_POLICY_TEXT_MAX);
    return each_line(text, len, e, fn, arg);
}
