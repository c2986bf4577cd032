/* replay.c: runs a target over files without libFuzzer, so that `./dev test` replays each corpus.
 * Trusts its arguments. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (f == NULL) {
            perror(argv[i]);
            return 1;
        }
        static uint8_t buf[1 << 20];
        size_t n = fread(buf, 1, sizeof buf, f);
        fclose(f);
        uint8_t *exact = malloc(n > 0 ? n : 1); /* so that ASan sees an overrun by one */
        if (exact == NULL)
            return 1;
        for (size_t k = 0; k < n; k++)
            exact[k] = buf[k];
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
    }
    printf("%d inputs\n", argc - 1);
    return argc > 1 ? 0 : 1;
}
