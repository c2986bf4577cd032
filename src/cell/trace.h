/* trace.h: stops a shell at its entry point, and lets it go with another command than it was
 * started with. x86-64 alone; elsewhere the first call says so. Only the thread that seized may
 * call the rest. */
#ifndef SALLYPORT_CELL_TRACE_H
#define SALLYPORT_CELL_TRACE_H

#include "cell/code.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#ifdef __x86_64__
#include <sys/user.h>
#endif

struct sp_trace {
    pid_t pid;
    bool armed; /* the breakpoint is set */
    bool ended; /* and was reaped here */
    unsigned long entry_at, place, map_at;
#ifdef __x86_64__
    struct user_regs_struct entry, call; /* at its entry point; before the last call */
#endif
};

/* A child of ours that is to stop itself after exec. 0 or -errno. */
int sp_trace_seize(struct sp_trace *t, pid_t pid);

enum sp_trace_state {
    SP_TRACE_ON_ITS_WAY,
    SP_TRACE_AT_ENTRY,
    SP_TRACE_LOST /* it stopped where it shouldn't, or refuses: *why says it */
};
/* What waitpid said of a stop. proc: /proc, for its auxiliary vector. */
enum sp_trace_state sp_trace_stopped(struct sp_trace *t, int proc, int status, const char **why);

/* At its entry point: makes sure that it was started with exactly argv0, "-c" and placeholder,
 * finds the way that it goes when it is released, with token in the call's sixth argument, goes it
 * once, and takes the breakpoint away. NULL, or why it can't be held. */
const char *sp_trace_prepare(struct sp_trace *t, struct sp_code *known, int proc, const char *argv0,
                             const char *placeholder, uint64_t token);

/* Puts command (n bytes, no longer than the placeholder) in the placeholder's stead and lets the
 * shell run, untraced. False: it didn't work, and the shell has to be killed. */
bool sp_trace_release(struct sp_trace *t, const char *command, size_t n);

#endif
