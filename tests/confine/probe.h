/* probe.h: one attack on a boundary, by raw system calls, with an answer that a table can hold.
 * Each runs in a process of its own, so that it may be killed, and may leave what it likes behind.
 */
#ifndef SALLYPORT_TESTS_PROBE_H
#define SALLYPORT_TESTS_PROBE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PROBE_PIDS 8
#define PROBE_BROKEN 255 /* the stage isn't what the probe needs: no verdict at all */

/* What the test prepared. The folder outside holds files that the user of commands owns. */
struct probe_stage {
    const char *ws, *out; /* the workspace, and a folder that isn't in it */
    int pids[PROBE_PIDS]; /* the daemon's processes, the cell last */
    int npids;
    bool control;     /* without the daemon: take what rights are to be had */
    bool front;       /* those of probe_front.c, too */
    int key;          /* of System V objects outside */
    const char *name; /* of an abstract socket and a message queue outside */
    int port;         /* the daemon's */
};

struct probe {
    const char *name;
    int (*run)(const struct probe_stage *s, const struct probe *p); /* 0: it worked; or an errno */
    const char *path;
    long x, y, z;
};

/* Ends with an entry without name. */
extern const struct probe probes_files[], probes_names[], probes_procs[], probes_spaces[],
    probes_kernel[], probes_tables[], probes_sockets[], probes_ipc[], probes_places[],
    probes_surface[], probes_front[];

/* Where each probe's own process begins: in new namespaces, and then what enter does to it. */
struct probe_place {
    int flags;          /* CLONE_NEW* */
    int (*enter)(void); /* not 0: no verdict */
};
/* Runs those whose name begins with `only` (NULL: all), prints "name verdict" lines to fd. */
int probe_all(const struct probe_stage *s, const char *only, const struct probe_place *in, int fd);
/* Fills s from argv: see probe.c. False: usage. */
bool probe_stage_parse(struct probe_stage *s, const char **only, int argc, char **argv);

static inline int outcome(long r)
{
    return r < 0 ? errno : 0;
}
#define CALL(...) outcome(syscall(__VA_ARGS__))

/* The kernel's own code answered, after it had looked at who asks. */
static inline int reached(int r, int sign)
{
    return r == sign ? 0 : r;
}

/* out/name, in one of four buffers. */
const char *outside(const struct probe_stage *s, const char *name);
const char *inside(const struct probe_stage *s, const char *name);
/* In a control run: all capabilities over new namespaces, as any user may take where nobody
 * forbids. */
void take_namespaces(const struct probe_stage *s, int flags);
int try_open(const char *path, int flags);
/* Opens and reads a byte. */
int try_read(const char *path);
/* f on every process of the daemon: 0 if one worked, else the last one's errno. */
int on_each(const struct probe_stage *s, const struct probe *p,
            int (*f)(int pid, const struct probe *p));

#endif
