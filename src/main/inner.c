/* inner.c: the command line of the inner binary: the broker and the cell, and nothing else. It is
 * the same code as in the daemon's file, without libh2o, OpenSSL, SQLite and the dynamic linker,
 * whose start and whose relocated tables would be the larger part of a cell. inner_image.c carries
 * it in the daemon's file. Trusts main and the broker, which start it. */
#include "sallyport/log.h"
#include "sallyport/role.h"

#include <string.h>
#include <sys/prctl.h>

int main(int argc, char **argv)
{
    const char *role = argc == 2 && strncmp(argv[1], "--role=", 7) == 0 ? argv[1] + 7 : "";
    bool cell = strcmp(role, "cell") == 0;
    if (!cell && strcmp(role, "broker") != 0)
        return 2;
    (void)prctl(PR_SET_NAME, cell ? "sp-cell" : "sp-broker");
    sp_log_init(role, SP_LOG_INFO);
    return cell ? sp_cell_main() : sp_broker_main();
}
