/* purge.c: the end of a workspace in the box, by a cell that does nothing else, as its owner and
 * confined as every cell. Trusts the settings; trusts nothing about the tree. */
#include "cell/purge.h"
#include "cell/files.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#define PASSES 8 /* of removal: something may still be dying that makes files */

/* Removes the entries of a folder, of which foreign ones (keep_foreign) stay. How many of ours are
 * left, or -errno. */
static int empty(const struct sp_config *c, int dir, bool keep_foreign)
{
    const struct sp_workspace w = {.root = dir, .use_openat2 = c->use_openat2};
    int left = 0, fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL) {
        int err = -errno;
        if (fd >= 0)
            close(fd);
        return err;
    }
    const struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (keep_foreign &&
            (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || st.st_uid != c->command_uid))
            continue;
        left +=
            sp_file_delete(&w, e->d_name, strlen(e->d_name), SP_DELETE_RECURSIVE, NULL) != SP_OK;
    }
    closedir(d);
    return left;
}

static int empty_all(const struct sp_config *c, int dir, bool keep_foreign)
{
    int left = 0;
    for (int i = 0; i < PASSES; i++) {
        left = empty(c, dir, keep_foreign);
        if (left <= 0)
            return left;
    }
    return -ENOTEMPTY;
}

/* Where every user may make files. What isn't there, or closed to us, holds nothing of ours. */
static int empty_shared(const struct sp_config *c)
{
    static const char *const places[] = {"/tmp", "/var/tmp", "/dev/shm"};
    int err = 0;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && err == 0; i++) {
        int fd = open(places[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            continue;
        err = empty_all(c, fd, true);
        close(fd);
    }
    return err;
}

/* The tables of /proc/sysvipc: key, id, ..., and the owner in a column of its own each. */
static void remove_ipc(uid_t uid)
{
    static const struct {
        const char *path, *form;
    } tables[] = {{"/proc/sysvipc/shm", "%*d %d %*s %*s %*s %*s %*s %u"},
                  {"/proc/sysvipc/sem", "%*d %d %*s %*s %u"},
                  {"/proc/sysvipc/msg", "%*d %d %*s %*s %*s %*s %*s %u"}};
    for (int i = 0; i < 3; i++) {
        char line[400];
        FILE *f = fopen(tables[i].path, "re");
        if (f == NULL)
            continue;
        while (fgets(line, sizeof line, f) != NULL) {
            int id = -1;
            unsigned owner = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            if (sscanf(line, tables[i].form, &id, &owner) != 2 || owner != uid)
                continue;
#pragma GCC diagnostic pop
            if (i == 0)
                (void)shmctl(id, IPC_RMID, NULL);
            else if (i == 1)
                (void)semctl(id, 0, IPC_RMID);
            else
                (void)msgctl(id, IPC_RMID, NULL);
        }
        fclose(f);
    }
}

int sp_purge(const struct sp_config *c, int root)
{
    remove_ipc(c->command_uid);
    int err = sp_filters_install(SP_FILTER_CELL);
    if (err == 0)
        err = empty_shared(c);
    if (err == 0)
        err = empty_all(c, root, false);
    return err;
}
