/* clone_into.c: how a process is born in a cgroup, at no cost of its own: clone3 does it in the
 * same step that makes the process. (To move one that exists takes milliseconds.) libc has no
 * function for that call. Trusts its caller. */
#include "sallyport/role.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The child begins on its own stack, behind the call, with our registers. */
#if defined __x86_64__
static long clone_token(const struct clone_args *a, const uint64_t token[2], int (*fn)(void *),
                        void *arg)
{
    long r;
    register uint64_t low __asm__("rdx") = token[0];
    register uint64_t high __asm__("r10") = token[1];
    register int (*call)(void *) __asm__("r8") = fn;
    register void *with __asm__("r9") = arg;
    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xorl %%ebp, %%ebp\n\t"
                     "movq %%r9, %%rdi\n\t"
                     "call *%%r8\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(r)
                     : "0"(SYS_clone3), "D"(a), "S"(sizeof *a), "r"(low), "r"(high), "r"(call),
                       "r"(with)
                     : "rcx", "r11", "memory", "cc");
    return r;
}
#elif defined __aarch64__
static long clone_token(const struct clone_args *a, const uint64_t token[2], int (*fn)(void *),
                        void *arg)
{
    register long r __asm__("x0") = (long)(uintptr_t)a;
    register size_t size __asm__("x1") = sizeof *a;
    register uint64_t low __asm__("x2") = token[0];
    register uint64_t high __asm__("x3") = token[1];
    register int (*call)(void *) __asm__("x4") = fn;
    register void *with __asm__("x5") = arg;
    register long number __asm__("x8") = SYS_clone3;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, x5\n\t"
                     "blr x4\n\t"
                     "brk #1\n"
                     "1:"
                     : "+r"(r)
                     : "r"(number), "r"(size), "r"(low), "r"(high), "r"(call), "r"(with)
                     : "x30", "memory", "cc");
    return r;
}
#else
/* Nobody has tried it on another processor: the layer is off there. */
static long clone_token(const struct clone_args *a, const uint64_t token[2], int (*fn)(void *),
                        void *arg)
{
    (void)a;
    (void)token;
    (void)fn;
    (void)arg;
    return -ENOSYS;
}
#endif

pid_t sp_cgroup_clone(int dir, uint64_t flags, int (*fn)(void *), char *stack, size_t size,
                      void *arg, const uint64_t token[2])
{
    const struct clone_args a = {.flags = flags | CLONE_INTO_CGROUP,
                                 .exit_signal = SIGCHLD,
                                 .stack = (uint64_t)(uintptr_t)stack,
                                 .stack_size = size,
                                 .cgroup = (unsigned)dir};
    return (pid_t)clone_token(&a, token, fn, arg);
}
