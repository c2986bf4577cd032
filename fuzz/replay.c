/* replay.c: runs a target over files, and over all files of folders, without libFuzzer, so that
 * `./dev test` replays each corpus. Trusts its arguments. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

static int done;

static int replay(const char *path)
{
    static uint8_t buf[1 << 20];
    FILE *f = fopen(path, "rbe");
    if (f == NULL) {
        perror(path);
        return 1;
    }
    size_t n = fread(buf, 1, sizeof buf, f);
    fclose(f);
    uint8_t *exact = malloc(n > 0 ? n : 1); /* so that ASan sees an overrun by one */
    if (exact == NULL)
        return 1;
    memcpy(exact, buf, n);
    (void)LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    done++;
    return 0;
}

static int replay_all(const char *path)
{
    char one[4096];
    struct stat st;
    struct dirent **e;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return replay(path);
    int n = scandir(path, &e, NULL, alphasort), bad = n < 0;
    for (int i = 0; i < n; i++) {
        int len = snprintf(one, sizeof one, "%s/%s", path, e[i]->d_name);
        if (e[i]->d_name[0] != '.')
            bad |= len < 0 || (size_t)len >= sizeof one || replay(one);
        free(e[i]);
    }
    if (n >= 0)
        free(e);
    return bad;
}

int main(int argc, char **argv)
{
    if (LLVMFuzzerInitialize != NULL)
        (void)LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++)
        if (replay_all(argv[i]) != 0)
            return 1;
    printf("%d inputs\n", done);
    return done == 0;
}
