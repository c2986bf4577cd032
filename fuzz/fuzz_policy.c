/* fuzz_policy.c: the parsers of policy texts: any text is accepted or refused with a sentence, as a
 * whole filter, as the operator's rules and as paths.
 * (The rest of policy_added.c tries rules with a shell.)
 * Covers: src/confine/policy_parse.c src/confine/policy_build.c src/confine/policy_try.c
 * src/confine/landlock_text.c */
#include "sallyport/confine.h"

#include <stdlib.h>
#include <string.h>

/* A path that is passed on is absolute, and what it says is one path. */
static int take(void *arg, enum sp_path_word word, const char *path)
{
    (void)arg;
    if ((path == NULL) != (word == SP_PATH_WORKSPACE) || (path != NULL && path[0] != '/') ||
        (path != NULL && strstr(path, "/../") != NULL))
        abort();
    return 0;
}

/* A text that is accepted becomes a filter that says the same, which policy_try.c looks at. */
static void compile(const char *text, size_t size)
{
    struct sp_policy_error e = {0};
    size_t n;
    void *bpf;
    int r = sp_policy_compile(text, size, &bpf, &n, &e);
    if (r != 0 && e.text[0] == '\0')
        abort();
    free(bpf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_policy_error e = {0};
    if (sp_policy_check((const char *)data, size, &e) != 0 && e.text[0] == '\0')
        abort();
    else if (size < 4096)
        compile((const char *)data, size);
    e = (struct sp_policy_error){0};
    if (sp_policy_check_added((const char *)data, size, &e) != 0 && e.text[0] == '\0')
        abort();
    int r = sp_landlock_check((const char *)data, size, &e, take, NULL);
    if (r != 0 && e.text[0] == '\0')
        abort();
    /* Text without a NUL is read the same where it is part of the settings. */
    char *text = memchr(data, 0, size) == NULL ? malloc(size + 1) : NULL;
    if (text != NULL) {
        memcpy(text, data, size);
        text[size] = '\0';
        if ((sp_landlock_each(text, take, NULL) == 0) != (r == 0) && size < 65536)
            abort();
        free(text);
    }
    return 0;
}
