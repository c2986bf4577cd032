/* held.h: the shell that waits at its entry point for the next command. held.c's calls are in
 * cell.h, as they need all of the cell. */
#ifndef SALLYPORT_CELL_HELD_H
#define SALLYPORT_CELL_HELD_H

#include "cell/spawn.h"
#include "cell/trace.h"

#include <sys/stat.h>

enum sp_held_state {
    SP_HELD_NONE,
    SP_HELD_SPAWNING, /* at the spawner */
    SP_HELD_LOADING,  /* ld.so is at work */
    SP_HELD_READY
};

#define SP_HELD_FILES 3
#define SP_HELD_ROOM 4096u

struct sp_held {
    enum sp_held_state state;
    bool off;          /* it can't be had here */
    bool wanted;       /* the last command could have used one, and came soon after another */
    bool awaited;      /* while it is on its way: by a command that has come */
    unsigned failures; /* since one was ready */
    unsigned late;     /* how often it wasn't ready in time, less how often it was */
    uint64_t asked_ns; /* when the last command came */
    uint64_t not_before_ns;
    uint64_t due_ns; /* when to make one, or to let it go; 0 never */
    size_t room;     /* the longest command that it can take */
    int out[2], err[2];
    struct sp_spawn spawn;
    struct sp_trace trace;
    struct sp_code code;
    struct stat file[SP_HELD_FILES]; /* what it was started from */
    char placeholder[SP_HELD_ROOM + 1];
    char *argv[4], **envp; /* its own, as the environ serves who comes meanwhile */
};

enum sp_held_answer {
    SP_HELD_NO,     /* none is held any more */
    SP_HELD_COMING, /* sp_exec_held will be called */
    SP_HELD_GIVEN   /* it runs the command; the exec's spawn and pipes are its */
};

#endif
