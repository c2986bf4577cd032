/* inner.c: the command line of the inner binary: the broker and the cell, and nothing else. It is
 * the same code as in the daemon's file, without libh2o, OpenSSL, SQLite and the dynamic linker,
 * whose start and whose relocated tables would be the larger part of a cell. inner_image.c carries
 * it in the daemon's file. Trusts main and the broker, which start it. */
#include "sallyport/log.h"
#include "sallyport/role.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>

/* Of libcap-ng's capng_change_id, which nobody here calls: libc's own would bring its name services
 * along, with their files and sockets: 100 KB. */
struct passwd *getpwuid(uid_t uid)
{
    (void)uid;
    errno = ENOSYS;
    return NULL;
}

int initgroups(const char *user, gid_t group)
{
    (void)user;
    (void)group;
    errno = ENOSYS;
    return -1;
}

int main(int argc, char **argv)
{
    char *role = argc == 2 && strncmp(argv[1], "--role=", 7) == 0 ? argv[1] + 7 : argv[0];
    bool broker = strcmp(role, "broker") == 0, idle = strcmp(role, "idle") == 0;
    if (!broker && !idle && strcmp(role, "cell") != 0)
        return 2;
    (void)prctl(PR_SET_NAME, broker ? "sp-broker" : idle ? "sp-idle" : "sp-cell");
    sp_log_init(broker ? "broker" : "cell", SP_LOG_INFO);
    return broker ? sp_broker_main() : idle ? sp_idle_main(role) : sp_cell_main();
}
