/* link_small.c: a link test. The broker and the cell must link without libh2o and jansson: neither
 * may come to depend on code that parses what clients send. It is run too, to see that nothing of
 * them starts by itself: without main they must refuse. */
#include "sallyport/role.h"

#include <string.h>

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "broker") == 0)
        return sp_broker_main();
    if (argc == 2 && strcmp(argv[1], "cell") == 0)
        return sp_cell_main();
    return 0;
}
