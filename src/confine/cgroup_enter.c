/* cgroup_enter.c: keeps to the cell what starts a command in its cgroup (base/clone_into.c). clone3
 * has its flags in memory, where no filter can look, and among them are namespaces: so commands
 * must not have it, though they inherit the filters of the thread that uses it. The filter here
 * lets it pass by a number that the thread makes up and puts in registers which clone3 doesn't use.
 * Commands can't know it: exec clears registers and memory, and the cell's can't be read. */
#include "sallyport/confine.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARG(i) ((uint32_t)offsetof(struct seccomp_data, args) + 8u * (i))

int sp_cgroup_seal(uint64_t token[2])
{
    if (getrandom(token, 2 * sizeof *token, 0) != (ssize_t)(2 * sizeof *token))
        return -EIO;
    const uint32_t part[4] = {(uint32_t)(token[0] & UINT32_MAX), (uint32_t)(token[0] >> 32),
                              (uint32_t)(token[1] & UINT32_MAX), (uint32_t)(token[1] >> 32)};
    struct sock_filter ins[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 8),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(2)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, part[0], 0, 7),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(2) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, part[1], 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(3)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, part[2], 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ARG(3) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, part[3], 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    };
    struct sock_fprog prog = {sizeof ins / sizeof ins[0], ins};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) == 0 ? 0 : -errno;
}
