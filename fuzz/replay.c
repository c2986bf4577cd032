/* replay.c: runs a target over files without libFuzzer, so that `./dev test` replays each corpus.
 * Trusts its arguments. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

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
    return 0;
}

int main(int argc, char **argv)
{
    int done = 0;
    if (argc < 2)
        return 1;
    if (LLVMFuzzerInitialize != NULL)
        (void)LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++, done++)
        if (replay(argv[i]) != 0)
            return 1;
    printf("%d inputs\n", done);
    return 0;
}
