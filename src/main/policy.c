/* policy.c: `sallyport policy`: the lint of policy files, and the built-in ones to read. Starts
 * nothing and needs no right; a file that it is given is a stranger's. */
#include "main/settings.h"

#include "sallyport/confine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int usage(void)
{
    fputs("usage: sallyport policy check FILE...\n"
          "       sallyport policy show front|broker|cell|command|registry|paths\n"
          "Status: 0 fine, 1 a file is wrong, 2 a file can't be read, or this text.\n",
          stderr);
    return 2;
}

/* What kind of text it is shows in its first word: a whole filter begins with its default, paths
 * with what they grant, and rules that an operator adds with an action. */
enum kind { WHOLE, ADDED, PATHS };

static enum kind kind_of(const char *text)
{
    static const char *const grants[] = {"read", "exec", "write", "device", "workspace"};
    const char *p = text;
    for (;;) {
        p += strspn(p, " \t\n");
        if (*p != '#')
            break;
        p += strcspn(p, "\n");
    }
    size_t n = strcspn(p, " \t\n#");
    for (size_t i = 0; i < sizeof grants / sizeof grants[0]; i++)
        if (n == strlen(grants[i]) && strncmp(p, grants[i], n) == 0)
            return PATHS;
    return n == 7 && strncmp(p, "default", 7) == 0 ? WHOLE : ADDED;
}

static int any_path(void *arg, enum sp_path_word word, const char *path)
{
    (void)arg;
    (void)word;
    (void)path;
    return 0; /* whether it exists is another host's business */
}

static int check_text(const char *text, size_t len, struct sp_policy_error *e)
{
    const char *nul = memchr(text, '\0', len);
    if (nul != NULL) {
        e->line = 1;
        for (const char *p = text; p < nul; p++)
            e->line += *p == '\n';
        (void)snprintf(e->text, sizeof e->text, "a NUL in the text");
        return -EINVAL;
    }
    switch (kind_of(text)) {
    case WHOLE:
        return sp_policy_check(text, len, e);
    case PATHS:
        return sp_landlock_check(text, len, e, any_path, NULL);
    case ADDED:
        break;
    }
    return sp_policy_check_added(text, len, e);
}

/* A file's own words may stand in the sentence: nothing of them is for the terminal. */
static void tell(const char *file, const struct sp_policy_error *e)
{
    char line[sizeof e->text];
    size_t n = 0;
    for (; e->text[n] != '\0'; n++)
        line[n] = (unsigned char)e->text[n] < ' ' || e->text[n] == 0x7f ? '?' : e->text[n];
    line[n] = '\0';
    fprintf(stderr, "%s:%d: %s\n", file, e->line > 0 ? e->line : 1, line);
}

static int check_file(const char *file)
{
    struct sp_policy_error e = {0};
    size_t len;
    char *text = added_file(file, &len);
    if (text == NULL && errno == EFBIG) {
        fprintf(stderr, "%s:1: longer than 64 KiB\n", file);
        return 1;
    }
    if (text == NULL) {
        fprintf(stderr, "%s: %s\n", file, errno == EISDIR ? "not a file" : strerror(errno));
        return 2;
    }
    int r = check_text(text, len, &e);
    free(text);
    if (r == 0)
        return 0;
    if (e.text[0] == '\0')
        (void)snprintf(e.text, sizeof e.text, "%s", strerror(-r));
    tell(file, &e);
    return 1;
}

static int show(const char *name)
{
    static const char *const filters[SP_FILTER_COUNT] = {[SP_FILTER_FRONT] = "front",
                                                         [SP_FILTER_BROKER] = "broker",
                                                         [SP_FILTER_CELL] = "cell",
                                                         [SP_FILTER_COMMAND] = "command",
                                                         [SP_FILTER_REGISTRY] = "registry"};
    size_t len = 0;
    const char *text = strcmp(name, "paths") == 0 ? sp_landlock_text(&len) : NULL;
    for (int i = 0; i < SP_FILTER_COUNT; i++)
        if (filters[i] != NULL && strcmp(name, filters[i]) == 0)
            text = sp_policy_text((enum sp_filter)i, &len);
    if (text == NULL)
        return usage();
    return fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0 ? 0 : 1;
}

int policy_command(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[0], "show") == 0)
        return show(argv[1]);
    if (argc < 2 || strcmp(argv[0], "check") != 0)
        return usage();
    int worst = 0;
    for (int i = 1; i < argc; i++) {
        int r = check_file(argv[i]);
        worst = r > worst ? r : worst;
    }
    return worst;
}
