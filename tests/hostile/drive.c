/* drive.c: runs one part of the attacks on a broker and a cell of its own. Exit status 0: nothing
 * was granted, nothing hung, grew or was lost. */
#include "hostile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool noise(int argc, char **argv)
{
    return argc == 3 &&
           try_noise((unsigned)strtoul(argv[1], NULL, 10), (unsigned)strtoul(argv[2], NULL, 10));
}

int hostile_drive(int argc, char **argv)
{
    static const struct {
        const char *name;
        bool (*run)(void);
    } parts[] = {{"orders", try_orders},
                 {"lengths", try_lengths},
                 {"descriptors", try_descriptors},
                 {"floods", try_floods}};
    bool box = strcmp(argv[0], "box-noise") == 0, known = box || strcmp(argv[0], "noise") == 0;
    bool ok = false;
    if (!stage_start(box ? SP_MODE_BOX : SP_MODE_SEAT)) {
        complain("no broker, or no cell");
        return 1;
    }
    if (known)
        ok = noise(argc, argv);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strcmp(argv[0], parts[i].name) == 0) {
            known = true;
            ok = parts[i].run();
        }
    }
    printf("hostile: %s: %s, %u breaches\n", argv[0],
           !known ? "no such part"
           : ok   ? "held"
                  : "FAILED",
           stage.breaches);
    stage_end();
    return ok ? 0 : 1;
}
