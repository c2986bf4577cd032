/* trace.c: ptrace on a shell of ours that hasn't run an instruction of its own yet. It came from
 * the spawner and has all of a command's confinement; nothing hostile ran in it. What is read from
 * it is checked all the same, as it goes into its registers alone.
 *
 * The shell is stopped by a breakpoint of the processor, so no byte of its text changes. Its
 * command is a placeholder in the argument strings at the top of its stack. The command that comes
 * is written over it, and the end of the arguments is set to the command's end, which only the
 * process itself can do. So it is left before a call of prctl, with a stack on which that call
 * returns to rt_sigreturn, and that to the entry point: both are pieces of its own libraries' code.
 * Afterwards nothing is left of us: it isn't traced, has no breakpoint, and its registers are those
 * that ld.so left. */
#include "cell/trace.h"

#ifdef __x86_64__
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEBUG_REG(i) (offsetof(struct user, u_debugreg) + (i) * sizeof(long))
#define BELOW 2048u             /* the stack pointer, past the red zone: nobody's */
#define STEP_OR_RESUME 0x10100u /* flags TF and RF */
#define ARGS_MAX 8192u          /* bytes of argument strings */
#define MAPS_MAX 16384u
#define GOING_BACK 0x6u /* ucontext: SS is in it, and as it stands there */
#define TRAPPED ((SIGTRAP << 8) | 0x7f)

static long request(int what, pid_t pid, unsigned long addr, unsigned long data)
{
    return syscall(SYS_ptrace, what, pid, addr, data);
}

static unsigned long at(void *p)
{
    return (unsigned long)(uintptr_t)p;
}

static bool copy(pid_t pid, unsigned long addr, void *buf, size_t n, bool in)
{
    struct iovec ours = {buf, n};
    struct iovec theirs;
    memcpy(&theirs.iov_base, &addr, sizeof addr);
    theirs.iov_len = n;
    ssize_t k =
        syscall(in ? SYS_process_vm_writev : SYS_process_vm_readv, pid, &ours, 1, &theirs, 1, 0);
    return k == (ssize_t)n;
}

static ssize_t read_proc(int proc, pid_t pid, const char *file, void *buf, size_t cap)
{
    char path[40];
    (void)snprintf(path, sizeof path, "%d/%s", (int)pid, file);
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, buf, cap);
    close(fd);
    return n;
}

/* ---- up to the entry point ---- */

int sp_trace_seize(struct sp_trace *t, pid_t pid)
{
    *t = (struct sp_trace){.pid = pid};
    return request(PTRACE_SEIZE, pid, 0, PTRACE_O_EXITKILL) == 0 ? 0 : -errno;
}

static bool arm(struct sp_trace *t, int proc)
{
    Elf64_auxv_t aux[64];
    ssize_t n = read_proc(proc, t->pid, "auxv", aux, sizeof aux);
    for (size_t i = 0; n > 0 && i < (size_t)n / sizeof aux[0]; i++) {
        if (aux[i].a_type == AT_ENTRY)
            t->entry_at = aux[i].a_un.a_val;
    }
    t->armed = t->entry_at != 0 &&
               request(PTRACE_POKEUSER, t->pid, DEBUG_REG(0), t->entry_at) == 0 &&
               request(PTRACE_POKEUSER, t->pid, DEBUG_REG(7), 1) == 0;
    return t->armed;
}

enum sp_trace_state sp_trace_stopped(struct sp_trace *t, int proc, int status, const char **why)
{
    int sig = WSTOPSIG(status);
    unsigned event = (unsigned)status >> 16;
    struct user_regs_struct now;
    if (event == 0 && sig == SIGTRAP && t->armed) {
        if (request(PTRACE_GETREGS, t->pid, 0, at(&now)) == 0 && now.rip == t->entry_at)
            return SP_TRACE_AT_ENTRY;
        *why = "it stops elsewhere";
        return SP_TRACE_LOST;
    }
    /* Its own SIGSTOP is seen before it acts, and dropped, or it had stopped when we came. Then
     * SIGCONT ends that, and is dropped in its turn. */
    bool stop = sig == SIGSTOP && !t->armed, group = event == PTRACE_EVENT_STOP;
    if (!stop && !group && !(event == 0 && sig == SIGCONT)) {
        *why = "a signal came";
        return SP_TRACE_LOST;
    }
    if (!t->armed && !arm(t, proc)) {
        *why = "no breakpoint can be set";
        return SP_TRACE_LOST;
    }
    if (stop && group)
        (void)kill(t->pid, SIGCONT);
    if (request(PTRACE_CONT, t->pid, 0, 0) != 0) {
        *why = "it can't be continued";
        return SP_TRACE_LOST;
    }
    return SP_TRACE_ON_ITS_WAY;
}

/* ---- at the entry point ---- */

/* What the kernel tells of its memory; field numbers as in proc(5). */
static bool read_map(const struct sp_trace *t, int proc, struct prctl_mm_map *m)
{
    char text[1024];
    unsigned long long v[52] = {0};
    ssize_t n = read_proc(proc, t->pid, "stat", text, sizeof text - 1);
    if (n <= 0)
        return false;
    text[n] = '\0';
    char *p = strrchr(text, ')'), *end;
    if (p == NULL || strlen(p) < 5)
        return false;
    p += 3; /* ") S" */
    for (int i = 4; i < 52; i++, p = end) {
        v[i] = strtoull(p, &end, 10);
        if (end == p)
            return false;
    }
    *m = (struct prctl_mm_map){
        .start_code = v[26],
        .end_code = v[27],
        .start_stack = v[28],
        .start_data = v[45],
        .end_data = v[46],
        .start_brk = v[47],
        .arg_start = v[48],
        .arg_end = v[49],
        .env_start = v[50],
        .env_end = v[51],
        .exe_fd = UINT32_MAX,
    };
    return v[48] != 0 && v[48] < v[49];
}

/* argc, argv and the strings are exactly what we gave it: no interpreter came in between. */
static bool as_started(struct sp_trace *t, const struct prctl_mm_map *m, const char *argv0,
                       const char *placeholder)
{
    unsigned long block[5];
    char *text = malloc(ARGS_MAX);
    size_t n0 = strlen(argv0) + 1, n2 = strlen(placeholder) + 1, n = m->arg_end - m->arg_start;
    t->place = m->arg_start + n0 + 3;
    bool ok = text != NULL && n == n0 + 3 + n2 && n <= ARGS_MAX &&
              copy(t->pid, m->arg_start, text, n, false) && memcmp(text, argv0, n0) == 0 &&
              memcmp(text + n0, "-c", 3) == 0 && memcmp(text + n0 + 3, placeholder, n2) == 0 &&
              copy(t->pid, t->entry.rsp, block, sizeof block, false) && block[0] == 3 &&
              block[1] == m->arg_start && block[2] == m->arg_start + n0 && block[3] == t->place &&
              block[4] == 0;
    if (ok) { /* what the command leaves free is empty */
        memset(text, 0, n2);
        ok = copy(t->pid, t->place, text, n2, true);
    }
    free(text);
    return ok;
}

/* The stack on which a call at code[0] returns to rt_sigreturn, and that to the entry point with
 * the registers that are there now. */
struct way_back {
    unsigned long restorer;
    struct {
        unsigned long flags, link;
        unsigned long stack, stack_flags, stack_size; /* no alternative one */
        struct sigcontext at;
        unsigned long mask;
    } context;
};

static bool lay_out(struct sp_trace *t, struct prctl_mm_map *m, const unsigned long code[2],
                    uint64_t token)
{
    const struct user_regs_struct *e = &t->entry;
    unsigned long frame_at = ((e->rsp - BELOW) & ~15ul) + 8;
    t->map_at = frame_at + ((sizeof(struct way_back) + 15) & ~15ul);
    struct way_back w = {.restorer = code[1], .context = {.flags = GOING_BACK}};
    w.context.stack_flags = SS_DISABLE;
    w.context.at = (struct sigcontext){
        .r8 = e->r8,
        .r9 = e->r9,
        .r10 = e->r10,
        .r11 = e->r11,
        .r12 = e->r12,
        .r13 = e->r13,
        .r14 = e->r14,
        .r15 = e->r15,
        .rdi = e->rdi,
        .rsi = e->rsi,
        .rbp = e->rbp,
        .rbx = e->rbx,
        .rdx = e->rdx,
        .rax = e->rax,
        .rcx = e->rcx,
        .rsp = e->rsp,
        .rip = e->rip,
        .eflags = e->eflags,
        .cs = (unsigned short)e->cs,
        .__pad0 = (unsigned short)e->ss,
    };
    t->call = *e;
    t->call.rip = code[0];
    t->call.rsp = frame_at;
    t->call.rax = SYS_prctl;
    t->call.rdi = PR_SET_MM;
    t->call.rsi = PR_SET_MM_MAP;
    t->call.rdx = t->map_at;
    t->call.r10 = sizeof *m;
    t->call.r8 = 0;
    t->call.r9 = token;
    return copy(t->pid, frame_at, &w, sizeof w, true) &&
           copy(t->pid, t->map_at, m, sizeof *m, true);
}

/* Goes the whole way once, up to the breakpoint that is still at its end. */
static const char *go_once(struct sp_trace *t)
{
    struct user_regs_struct now = t->call;
    int status;
    pid_t got;
    if (request(PTRACE_SETREGS, t->pid, 0, at(&now)) != 0 ||
        request(PTRACE_CONT, t->pid, 0, 0) != 0)
        return "its registers can't be set";
    do { /* a stop, or an end, comes as soon as it runs */
        got = waitpid(t->pid, &status, __WALL);
    } while (got < 0 && errno == EINTR);
    t->ended = got == t->pid && !WIFSTOPPED(status);
    if (got != t->pid || status != TRAPPED || request(PTRACE_GETREGS, t->pid, 0, at(&now)) != 0)
        return "it doesn't come back from a call";
    now.orig_rax = t->entry.orig_rax;
    now.eflags &= ~(unsigned long)STEP_OR_RESUME;
    return memcmp(&now, &t->entry, sizeof now) == 0 ? NULL : "it comes back from a call changed";
}

static const char *prove(struct sp_trace *t, int proc, struct prctl_mm_map *m,
                         const unsigned long code[2], uint64_t token)
{
    struct prctl_mm_map seen;
    m->arg_end = t->place + 1; /* an empty command, until one comes */
    if (!lay_out(t, m, code, token))
        return "its stack can't be written";
    const char *why = go_once(t);
    if (why == NULL && (!read_map(t, proc, &seen) || seen.arg_end != m->arg_end))
        why = "PR_SET_MM_MAP is refused";
    if (why == NULL && (request(PTRACE_POKEUSER, t->pid, DEBUG_REG(7), 0) != 0 ||
                        request(PTRACE_POKEUSER, t->pid, DEBUG_REG(0), 0) != 0 ||
                        request(PTRACE_SETREGS, t->pid, 0, at(&t->call)) != 0))
        why = "its registers can't be set";
    return why;
}

const char *sp_trace_prepare(struct sp_trace *t, struct sp_code *known, int proc, const char *argv0,
                             const char *placeholder, uint64_t token)
{
    struct prctl_mm_map m;
    unsigned long code[2];
    char *text = malloc(MAPS_MAX);
    ssize_t n = text == NULL ? -1 : read_proc(proc, t->pid, "status", text, MAPS_MAX - 1);
    const char *why = n > 0 ? NULL : "/proc doesn't tell how it is";
    if (why == NULL) {
        text[n] = '\0';
        /* A shadow stack would take the way back for an attack. */
        why = strstr(text, "shstk") != NULL ? "it has a shadow stack" : NULL;
    }
    if (why == NULL && request(PTRACE_GETREGS, t->pid, 0, at(&t->entry)) != 0)
        why = "its registers can't be read";
    t->entry.orig_rax = (unsigned long)-1;
    t->entry.eflags &= ~(unsigned long)STEP_OR_RESUME;
    if (why == NULL && !read_map(t, proc, &m))
        why = "/proc doesn't tell where its arguments are";
    if (why == NULL && !as_started(t, &m, argv0, placeholder))
        why = "it isn't started as it stands there: is it a script?";
    n = why != NULL ? -1 : read_proc(proc, t->pid, "maps", text, MAPS_MAX - 1);
    if (why == NULL && n <= 0)
        why = "/proc doesn't tell what is mapped";
    if (why == NULL) {
        text[n] = '\0';
        m.brk = sp_code_heap_end(text, m.start_brk);
        if (!sp_code_find(known, t->pid, text, code))
            why = "its libraries lack the code to come back by";
    }
    if (why == NULL)
        why = prove(t, proc, &m, code, token);
    free(text);
    return why;
}

bool sp_trace_release(struct sp_trace *t, const char *command, size_t n)
{
    static char text[ARGS_MAX];
    unsigned long end = t->place + n + 1;
    unsigned long end_at = t->map_at + offsetof(struct prctl_mm_map, arg_end);
    struct iovec ours[2] = {{text, n + 1}, {&end, sizeof end}}, theirs[2];
    if (n >= sizeof text)
        return false;
    /* What someone sent to it isn't for the command. */
    for (unsigned shared = 0; shared < 2; shared++) {
        struct __ptrace_peeksiginfo_args args = {0, shared, 1};
        siginfo_t pending;
        if (syscall(SYS_ptrace, PTRACE_PEEKSIGINFO, t->pid, &args, &pending) != 0)
            return false;
    }
    memcpy(text, command, n);
    text[n] = '\0';
    theirs[0].iov_len = n + 1;
    theirs[1].iov_len = sizeof end;
    memcpy(&theirs[0].iov_base, &t->place, sizeof t->place);
    memcpy(&theirs[1].iov_base, &end_at, sizeof end_at);
    ssize_t put = syscall(SYS_process_vm_writev, t->pid, ours, 2, theirs, 2, 0);
    return put == (ssize_t)(n + 1 + sizeof end) && request(PTRACE_DETACH, t->pid, 0, 0) == 0;
}

#else
#include <errno.h>

/* Nobody has tried it on another processor. */
int sp_trace_seize(struct sp_trace *t, pid_t pid)
{
    (void)t;
    (void)pid;
    return -ENOSYS;
}

enum sp_trace_state sp_trace_stopped(struct sp_trace *t, int proc, int status, const char **why)
{
    (void)t;
    (void)proc;
    (void)status;
    *why = "";
    return SP_TRACE_LOST;
}

const char *sp_trace_prepare(struct sp_trace *t, struct sp_code *known, int proc, const char *argv0,
                             const char *placeholder, uint64_t token)
{
    (void)t;
    (void)known;
    (void)proc;
    (void)argv0;
    (void)placeholder;
    (void)token;
    return "";
}

bool sp_trace_release(struct sp_trace *t, const char *command, size_t n)
{
    (void)t;
    (void)command;
    (void)n;
    return false;
}
#endif
