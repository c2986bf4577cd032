/* role.c: what a role is told: the settings, in a sealed memfd, and which binary it is. Starting
 * one is launch.c. sp_config_load trusts only a sealed memfd, which nobody can change after main
 * wrote it.
 */
#include "sallyport/role.h"
#include "sallyport/log.h"
#include "sallyport/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define SEALS (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int self_fd = -1, inner_fd = -1;

static bool terminated(const char *s, size_t cap)
{
    return memchr(s, '\0', cap) != NULL;
}

static bool config_sane(const struct sp_config *c)
{
    return c->magic == SP_CONFIG_MAGIC && c->size == sizeof *c &&
           terminated(c->workspace, sizeof c->workspace) && terminated(c->shell, sizeof c->shell) &&
           terminated(c->command_paths, sizeof c->command_paths) &&
           terminated(c->binary, sizeof c->binary) && c->workspace[0] == '/' &&
           c->shell[0] == '/' && c->nlisten <= SP_LISTEN_MAX && c->env_len <= sizeof c->env &&
           c->nkeys <= SP_API_KEYS_MAX && terminated(c->state, sizeof c->state) &&
           terminated(c->cell_name, sizeof c->cell_name) &&
           (c->env_len == 0 || c->env[c->env_len - 1] == '\0');
}

static void *config_map(int prot)
{
    struct stat st;
    int seals = fcntl(SP_FD_CONFIG, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(SP_FD_CONFIG, &st) != 0 ||
        st.st_size != (off_t)sizeof(struct sp_config)) {
        sp_log(SP_LOG_ERROR, "no settings at descriptor %d: a role is started by main alone",
               SP_FD_CONFIG);
        _exit(2);
    }
    void *p = mmap(NULL, sizeof(struct sp_config), prot, MAP_PRIVATE, SP_FD_CONFIG, 0);
    if (p == MAP_FAILED || !config_sane(p)) {
        sp_log(SP_LOG_ERROR, "the settings handed down are not of this version");
        _exit(2);
    }
    sp_log_as_json(((const struct sp_config *)p)->log_json);
    return p;
}

const struct sp_config *sp_config_load(void)
{
    return config_map(PROT_READ);
}

struct sp_config *sp_config_load_idle(void)
{
    return config_map(PROT_READ | PROT_WRITE);
}

struct sp_config *sp_config_copy(void)
{
    void *p =
        mmap(NULL, sizeof(struct sp_config), PROT_READ | PROT_WRITE, MAP_PRIVATE, SP_FD_CONFIG, 0);
    return p == MAP_FAILED ? NULL : p;
}

void sp_config_unload(struct sp_config *c)
{
    (void)munmap(c, sizeof *c);
}

int sp_config_settle(struct sp_config *c)
{
    return mprotect(c, sizeof *c, PROT_READ) == 0 ? 0 : -errno;
}

int sp_config_own(struct sp_config *c, const uint8_t key[32], uid_t uid)
{
    size_t n = strlen(c->workspace);
    sp_hex(key, 32, c->cell_name);
    if (n + 1 + sizeof c->cell_name > sizeof c->workspace)
        return -ENAMETOOLONG;
    c->workspace[n] = '/';
    memcpy(c->workspace + n + 1, c->cell_name, sizeof c->cell_name);
    c->command_uid = c->command_gid = uid;
    c->own_uid = true;
    return 0;
}

int sp_write_all(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = write(fd, p, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

int sp_sealed_memfd(const char *name, const void *data, size_t len)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    int err = sp_write_all(fd, data, len);
    if (err == 0 && lseek(fd, 0, SEEK_SET) != 0)
        err = -errno;
    if (err == 0 && fcntl(fd, F_ADD_SEALS, SEALS) != 0)
        err = -errno;
    if (err != 0) {
        close(fd);
        return err;
    }
    return fd;
}

static int open_self(void)
{
#ifdef SP_VALGRIND /* whose own file that link leads to, unless it is read */
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0)
        return -1;
    path[n] = '\0';
    return open(path, O_PATH | O_CLOEXEC);
#else
    return open("/proc/self/exe", O_PATH | O_CLOEXEC);
#endif
}

int sp_role_init_self(bool inherited)
{
    if (inherited) {
        struct stat st;
        if (fstat(SP_FD_SELF, &st) != 0)
            return -errno;
        if (!S_ISREG(st.st_mode))
            return -EBADF;
        self_fd = SP_FD_SELF;
        if (fcntl(SP_FD_SELF, F_SETFD, FD_CLOEXEC) != 0)
            return -errno;
        return self_fd;
    }
    if (self_fd < 0)
        self_fd = open_self();
    return self_fd < 0 ? -errno : self_fd;
}

void sp_role_use_inner(int fd)
{
    if (inner_fd >= 0)
        close(inner_fd);
    inner_fd = fd;
}

int sp_role_binary(const char *role)
{
    bool inner =
        strcmp(role, "broker") == 0 || strcmp(role, "cell") == 0 || strcmp(role, "idle") == 0;
    return inner && inner_fd >= 0 ? inner_fd : self_fd;
}
