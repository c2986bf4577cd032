/* guest.c: the first process of a virtual machine that has nothing but this file, a shell and a
 * kernel: mounts what the daemon needs, loads what is in /modules, brings the network up, starts
 * the daemon as its child and ends the machine when that ends. It does no more than that: it
 * listens to nobody, and commands, in a PID namespace of their own, can't reach it. The daemon is
 * the same that runs anywhere. Trusts the kernel's command line and the machine's files. */
#include "main/guest.h"

#include "sallyport/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MODULES "/modules"
#define ENV_FILE "/etc/sallyport.env"
#define CGROUP "/sys/fs/cgroup"
#define WORKSPACE_OWNER 1000 /* of a workspace that isn't there yet, as in the image */
#define DISK_TRIES 100       /* of 50 ms */
#define OPEN_FILES 65536
#define REFUSED 2

extern char **environ;

static const char *disk_at; /* where a disk is mounted, or NULL */

bool guest_is_init(const char *name)
{
    const char *slash = strrchr(name, '/');
    return getpid() == 1 && strcmp(slash == NULL ? name : slash + 1, "init") == 0 &&
           access("/proc/self/exe", F_OK) != 0;
}

static bool failed(const char *what, const char *name)
{
    sp_log(SP_LOG_ERROR, "%s %s: %s", what, name, strerror(errno));
    return false;
}

static void mount_one(const char *type, const char *at, unsigned long flags, const char *options)
{
    (void)mkdir(at, 0755);
    /* EBUSY: it is there already. */
    if (mount(type, at, type, flags, options) != 0 && errno != EBUSY)
        (void)failed("can't mount", at);
}

/* The kernel's first mount, which an initramfs is unpacked to, can't be left with pivot_root, as
 * the commands' own root wants to. A second mount of the same, on top of it, can. */
static void leave_rootfs(void)
{
    struct statfs st;
    if (statfs("/", &st) != 0 || (st.f_type != RAMFS_MAGIC && st.f_type != TMPFS_MAGIC))
        return;
    (void)mkdir("/run", 0755);
    if (mount("/", "/run", NULL, MS_BIND, NULL) != 0 || chdir("/run") != 0 ||
        mount(".", "/", NULL, MS_MOVE, NULL) != 0 || chroot(".") != 0 || chdir("/") != 0)
        (void)failed("can't leave", "the initramfs");
}

/* What is missing afterwards the daemon's own plan finds, and says whether it can do without. */
static void mount_all(void)
{
    const unsigned long data = MS_NOSUID | MS_NODEV, none = data | MS_NOEXEC;
    mount_one("devtmpfs", "/dev", MS_NOSUID | MS_NOEXEC, "mode=0755");
    for (int fd = 0; fd <= STDERR_FILENO; fd++) /* the kernel found no console in the initramfs */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/console", O_RDWR | O_NOCTTY) != fd)
            (void)open("/dev/null", O_RDWR);
    mount_one("proc", "/proc", none, NULL);
    mount_one("sysfs", "/sys", none, NULL);
    mount_one("cgroup2", CGROUP, none, NULL);
    mount_one("tmpfs", "/run", none, "mode=0755");
    mount_one("tmpfs", "/tmp", data, "mode=1777");
    mount_one("tmpfs", "/dev/shm", none, "mode=1777");
}

static int modules_only(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 3 && strcmp(d->d_name + n - 3, ".ko") == 0;
}

/* In the order of their names: nobody here knows what needs what. */
static void load_modules(void)
{
    struct dirent **found;
    int n = scandir(MODULES, &found, modules_only, alphasort);
    if (n < 0 && errno != ENOENT)
        (void)failed("can't read", MODULES);
    for (int i = 0; i < n; i++) {
        char path[sizeof MODULES "/" + sizeof found[i]->d_name];
        (void)snprintf(path, sizeof path, MODULES "/%s", found[i]->d_name);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) != 0 && errno != EEXIST))
            (void)failed("can't load", path);
        if (fd >= 0)
            close(fd);
        free(found[i]);
    }
    if (n >= 0)
        free(found);
}

/* Settings that nobody else may read, as the kernel's command line can be read by all. The file is
 * gone before the first command. */
static bool read_env_file(void)
{
    struct stat st;
    FILE *f = fopen(ENV_FILE, "re");
    if (f == NULL)
        return errno == ENOENT || failed("can't read", ENV_FILE);
    bool ok = fstat(fileno(f), &st) == 0 && st.st_uid == 0 && (st.st_mode & 077) == 0;
    if (!ok)
        sp_log(SP_LOG_ERROR, ENV_FILE " must be root's, and open to nobody else");
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    while (ok && (n = getline(&line, &cap, f)) > 0) {
        line[n - 1] = line[n - 1] == '\n' ? '\0' : line[n - 1];
        if (line[0] == '\0' || line[0] == '#')
            continue;
        char *equals = strchr(line, '=');
        if (equals != NULL)
            *equals = '\0';
        ok = equals != NULL && setenv(line, equals + 1, 1) == 0; /* which wants a name */
        if (!ok)
            sp_log(SP_LOG_ERROR, ENV_FILE " has a line that isn't NAME=VALUE");
    }
    free(line);
    (void)fclose(f);
    if (ok && unlink(ENV_FILE) != 0 && errno != EROFS)
        ok = failed("can't remove", ENV_FILE);
    return ok;
}

static bool write_to(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : write(fd, text, strlen(text));
    bool ok = n == (ssize_t)strlen(text) || failed("can't write to", path);
    if (fd >= 0)
        close(fd);
    return ok;
}

/* A folder for the daemon alone, with controllers: else nothing in it could have limits. */
static void make_cgroup(void)
{
    if (access(CGROUP "/cgroup.controllers", F_OK) != 0)
        return;
    static const char *const give[] = {"+memory", "+pids", "+cpu"};
    for (int i = 0; i < 3; i++)
        (void)write_to(CGROUP "/cgroup.subtree_control", give[i]);
    if (mkdir(CGROUP "/sallyport", 0755) != 0 && errno != EEXIST)
        (void)failed("can't make", CGROUP "/sallyport");
}

/* A disk for the workspace, which without one is in memory. */
static bool mount_disk(const char *disk, const char *at)
{
    if (disk[0] == '\0')
        return true;
    for (int i = 0; i < DISK_TRIES && access(disk, F_OK) != 0; i++) { /* its driver looks for it */
        const struct timespec t = {.tv_nsec = 50000000};
        (void)nanosleep(&t, NULL);
    }
    if (mount(disk, at, "ext4", MS_NOSUID | MS_NODEV, NULL) != 0)
        return failed("can't mount the disk", disk);
    disk_at = at;
    return true;
}

/* The folder that the daemon serves. One that is there has its owner already. */
static bool make_workspace(bool box, const char *disk)
{
    const uid_t owner = box ? 0 : WORKSPACE_OWNER;
    const char *path = getenv(box ? "RUNBOX_ROOT" : "SANDBOX_WORKSPACE");
    if (path == NULL || path[0] == '\0')
        path = box ? "/data" : "/workspace";
    if (mkdir(path, 0755) == 0) {
        if (chown(path, owner, owner) != 0)
            return failed("can't give away", path);
    } else if (errno != EEXIST) {
        return failed("can't make", path);
    }
    return mount_disk(disk, path);
}

static pid_t start(const char *mode, const sigset_t *waited_for)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    char name[] = "sallyport", how[16];
    (void)snprintf(how, sizeof how, "%s", mode);
    char *argv[] = {name, how, NULL};
    (void)setsid();
    (void)sigprocmask(SIG_UNBLOCK, waited_for, NULL);
    const struct rlimit files = {OPEN_FILES, OPEN_FILES}; /* the kernel's own are of 1992 */
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        (void)failed("can't raise", "the limit of open files");
    if (access(CGROUP "/sallyport", F_OK) == 0)
        (void)write_to(CGROUP "/sallyport/cgroup.procs", "0");
    execve("/proc/self/exe", argv, environ);
    (void)failed("can't start", "/proc/self/exe");
    _exit(REFUSED);
}

/* Until it has ended: its status, as a shell would tell it. */
static int watch(pid_t daemon, const sigset_t *set)
{
    for (;;) {
        int status, sig = sigwaitinfo(set, NULL);
        if (sig != SIGCHLD && sig > 0) {
            sp_log(SP_LOG_INFO, "the machine is asked to end");
            (void)kill(daemon, SIGTERM);
        }
        for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
            if (pid == daemon)
                return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

static int run(const char *mode)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT); /* Ctrl-Alt-Del, by the keyboard or the machine's host */
    sigaddset(&set, SIGPWR);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    if (reboot(RB_DISABLE_CAD) != 0)
        (void)failed("can't take", "Ctrl-Alt-Del");
    pid_t daemon = start(mode, &set);
    if (daemon < 0) {
        (void)failed("can't start", "the daemon");
        return REFUSED;
    }
    return watch(daemon, &set);
}

static int end_machine(int status, bool restart)
{
    sp_log(SP_LOG_INFO, "the daemon ended with status %d: the machine %s", status,
           restart ? "restarts" : "is switched off");
    (void)kill(-1, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        ;
    sync();
    if (disk_at != NULL) /* nobody is left to keep it busy */
        (void)umount2(disk_at, 0);
    (void)mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL); /* memory's doesn't mind */
    if (reboot(restart ? RB_AUTOBOOT : RB_POWER_OFF) != 0)
        (void)failed("can't end", "the machine");
    return status;
}

static bool read_line(char *line, size_t cap)
{
    int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line, cap - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return failed("can't read", "/proc/cmdline");
    line[n] = '\0';
    return true;
}

static bool prepare(bool box, bool *restart)
{
    char line[4096], disk[256], end[16];
    if (!read_line(line, sizeof line) || !guest_word(line, "sallyport.disk=", disk, sizeof disk) ||
        !guest_word(line, "sallyport.end=", end, sizeof end))
        return false;
    *restart = strcmp(end, "reboot") == 0;
    if (!*restart && end[0] != '\0' && strcmp(end, "poweroff") != 0) {
        sp_log(SP_LOG_ERROR, "sallyport.end= is poweroff or reboot");
        return false;
    }
    (void)unsetenv("ip"); /* a kernel that doesn't know the word hands it on */
    load_modules();
    make_cgroup();
    return guest_net(line) && read_env_file() && make_workspace(box, disk);
}

int guest(int nwords, char **words)
{
    sp_log_init("guest", SP_LOG_INFO);
    if (getpid() != 1) {
        fputs("sallyport: guest is for the first process of a machine.\n", stderr);
        return REFUSED;
    }
    leave_rootfs();
    mount_all();
    const char *mode = "seat";
    for (int i = 0; i < nwords; i++) { /* the kernel hands on what it doesn't know */
        if (strcmp(words[i], "box") == 0 || strcmp(words[i], "seat") == 0)
            mode = words[i];
        else
            sp_log(SP_LOG_WARN, "the kernel's command line has a word for nobody: %s", words[i]);
    }
    bool restart = false;
    int status = prepare(strcmp(mode, "box") == 0, &restart) ? run(mode) : REFUSED;
    return end_machine(status, restart);
}
