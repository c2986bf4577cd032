/* standing.c: what a service manager gave the daemon, and commands would inherit: to be spared when
 * memory runs out (OOMScoreAdjust=), to come before others (Nice=). A command of a stranger's would
 * be the last that the kernel ends. Trusts the kernel alone. */
#include "cell/cell.h"
#include "sallyport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Before the view, whose /proc can't be written. No /proc: nothing is known, and nothing to be
 * done. */
static void be_killable(void)
{
    char text[16];
    int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n > 0) {
        text[n] = '\0';
        if (strtol(text, NULL, 10) < 0 && pwrite(fd, "0", 1, 0) != 1)
            sp_log(SP_LOG_WARN, "commands are spared when memory runs out: %s", strerror(errno));
    }
    if (fd >= 0)
        close(fd);
}

void sp_cell_standing(void)
{
    be_killable();
    errno = 0;
    if (getpriority(PRIO_PROCESS, 0) < 0 && errno == 0 && setpriority(PRIO_PROCESS, 0, 0) != 0)
        sp_log(SP_LOG_WARN, "commands come before others: %s", strerror(errno));
}
