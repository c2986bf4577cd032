/* hostile_main.c: the twin's command line: `drive PART [SEED COUNT]` plays main and the front
 * itself; anything else is the real daemon with the hostile front. Trusts the test that starts it.
 */
int sallyport_main(int argc, char **argv);

#define main sallyport_main
#include "main/main.c"
#undef main

#include "hostile.h"

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "drive") == 0)
        return open_standard_streams() ? hostile_drive(argc - 2, argv + 2) : USAGE_STATUS;
    return sallyport_main(argc, argv);
}
