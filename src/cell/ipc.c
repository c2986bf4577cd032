/* ipc.c: removes what a command left in its IPC namespace: System V objects live on without a
 * process, and their memory is counted by nobody's limits. Asks the kernel alone; the commands are
 * dead. */
#include "cell/ipc.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/ipc.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By raw calls with the kernel's numbers: libc knows the commands that need no right to read, which
 * a hostile mode takes away, only since lately. */
static const struct kind {
    long call;
    int info, stat_any;
    size_t used; /* where in what `info` fills stands how many there are */
    bool semaphores;
} kinds[] = {
    {SYS_shmctl, 14, 15, 0, false}, {SYS_semctl, 19, 20, 7, true}, {SYS_msgctl, 12, 13, 0, false}};

static long control(const struct kind *k, long id, int command, void *buf)
{
    return k->semaphores ? syscall(k->call, id, 0, command, buf)
                         : syscall(k->call, id, command, buf);
}

void sp_ipc_clear(void)
{
    union {
        int info[64];
        char object[512];
    } buf;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct kind *k = &kinds[i];
        long highest = control(k, 0, k->info, &buf);
        if (highest < 0 || buf.info[k->used] == 0)
            continue;
        for (long n = 0; n <= highest; n++) {
            long id = control(k, n, k->stat_any, &buf);
            if (id >= 0)
                (void)control(k, id, IPC_RMID, NULL);
        }
    }
}
