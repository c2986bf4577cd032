/* sound.c: whether all is as it was, after whatever a front did: what the kernel tells of the
 * broker and the cell, and a front that behaves. Trusts nothing that the broker says. */
#include "hostile.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RSS_KIB_MAX 65536 /* two full queues of answers and requests, and room */

/* ---- what the kernel tells of the others ---- */

int stage_files(pid_t pid)
{
    char path[64];
    int n = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *d = opendir(path);
    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        closedir(d);
    return n;
}

static long status_of(pid_t pid, const char *key)
{
    char path[64], line[256];
    long v = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "re");
    while (f != NULL && v < 0 && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            v = atol(line + strlen(key));
    if (f != NULL)
        fclose(f);
    return v;
}

/* The broker's child that is a cell. */
pid_t stage_cell(void)
{
    DIR *d = opendir("/proc");
    const struct dirent *e;
    pid_t found = 0;
    while (d != NULL && found == 0 && (e = readdir(d)) != NULL) {
        pid_t pid = (pid_t)atoi(e->d_name);
        char path[300], line[128] = "";
        (void)snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        int fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (fd >= 0 && read(fd, line, sizeof line - 1) > 10 &&
            strcmp(line + 10, "--role=cell") == 0 && status_of(pid, "PPid:") == stage.broker)
            found = pid;
        if (fd >= 0)
            close(fd);
    }
    if (d != NULL)
        closedir(d);
    return found;
}

/* ---- a front that behaves ---- */

static bool command_works(void)
{
    char out[16] = "";
    struct sp_msg m = make(SP_OP_EXEC, 100);
    m.command = (struct sp_slice){"echo ok", 7};
    uint64_t end = main_now_ms() + PATIENCE_MS;
    for (;;) {
        if (!say_msg(&m) || hear(PATIENCE_MS) != 1 || hostile_got.id != 100)
            return false;
        if (hostile_got.op == SP_OP_STARTED || hostile_got.op == SP_OP_EXITED)
            break; /* a short one has its pipes with its end */
        bool later = hostile_got.err == SP_E_BUSY || hostile_got.err == SP_E_OVERLOADED;
        if (hostile_got.op != SP_OP_FAIL || !later || main_now_ms() > end) {
            complain("message %u, %s", hostile_got.op, sp_err_name((enum sp_err)hostile_got.err));
            return false;
        }
        (void)poll(NULL, 0, 5); /* what the last front had begun is still being ended */
    }
    bool ended = hostile_got.op == SP_OP_EXITED;
    int fd = sp_frame_take_fd(&hostile_frame, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n = poll(&p, 1, PATIENCE_MS) == 1 ? read(fd, out, sizeof out - 1) : -1;
    close(fd);
    return n == 3 && strcmp(out, "ok\n") == 0 &&
           (ended || hear_op(SP_OP_EXITED, 100, PATIENCE_MS)) && hostile_got.exit_code == 0;
}

static bool file_works(void)
{
    char in[8] = "";
    struct sp_msg m = make(SP_OP_PUT, 101);
    uint64_t end = main_now_ms() + PATIENCE_MS;
    for (;;) {
        if (!say_msg(&m) || hear(PATIENCE_MS) != 1 || hostile_got.id != 101)
            return false;
        if (hostile_got.op == SP_OP_READY)
            break;
        if (hostile_got.op != SP_OP_FAIL || hostile_got.err != SP_E_OVERLOADED ||
            main_now_ms() > end) {
            complain("message %u, %s", hostile_got.op, sp_err_name((enum sp_err)hostile_got.err));
            return false;
        }
        (void)poll(NULL, 0, 5); /* descriptors for the last front are still on their way */
    }
    int fd = sp_frame_take_fd(&hostile_frame, 0);
    bool ok = write(fd, "bytes", 5) == 5;
    close(fd);
    m = make(SP_OP_COMMIT, 101);
    m.size = 5;
    ok = ok && say_msg(&m) && hear_op(SP_OP_DONE, 101, PATIENCE_MS) && hostile_got.size == 5;
    ok = ok && say(SP_OP_OPEN, 102) && hear_op(SP_OP_FILE, 102, PATIENCE_MS);
    if (!ok)
        return false;
    fd = sp_frame_take_fd(&hostile_frame, 0);
    ok = read(fd, in, sizeof in) == 5 && memcmp(in, "bytes", 5) == 0;
    close(fd);
    return ok;
}

/* Closing takes the others a moment. */
static bool no_more_files(pid_t pid, int than)
{
    for (int i = 0; i < PATIENCE_MS / 10; i++) {
        if (than == 0 || stage_files(pid) <= than)
            return true;
        (void)poll(NULL, 0, 10);
    }
    return false;
}

bool healthy(const char *after)
{
    bool ok = front_new();
    ok = ok && command_works();
    if (!ok)
        complain("after %s: no command runs", after);
    if (ok && !(ok = file_works()))
        complain("after %s: no file goes in and out", after);
    hear_main();
    (void)main_now_ms();
    if (ok && status_of(stage.broker, "PPid:") != getpid()) {
        complain("after %s: the broker is gone", after);
        ok = false;
    }
    if (ok && !stage.box && stage_cell() != stage.cell) {
        complain("after %s: the cell was lost", after);
        ok = false;
    }
    if (ok && !(no_more_files(stage.broker, stage.broker_files) &&
                (stage.box || no_more_files(stage.cell, stage.cell_files)))) {
        complain("after %s: descriptors were left: the broker has %d (%d), the cell %d (%d)", after,
                 stage_files(stage.broker), stage.broker_files, stage_files(stage.cell),
                 stage.cell_files);
        ok = false;
    }
    if (ok && status_of(stage.broker, "VmRSS:") > RSS_KIB_MAX) {
        complain("after %s: the broker grew to %ld KiB", after, status_of(stage.broker, "VmRSS:"));
        ok = false;
    }
    return ok;
}
