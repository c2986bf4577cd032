/* test_landlock.c: each rule set in a child (Check forks one for each test), tried against real
 * folders, sockets and signals, where the kernel has Landlock and we are root. */
#include "confine/landlock.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Outside every path of command.landlock; a file system of the test's own is mounted there. */
#define ROOT "/srv"
static char ws[300], out[300], secret[300], shell[300];
static int ws_fd;

static void file(const char *path, mode_t mode, const char *text)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    ck_assert_int_eq((int)write(fd, text, strlen(text)), (int)strlen(text));
    ck_assert_int_eq(fchmod(fd, mode), 0);
    close(fd);
}

static void setup(void)
{
    ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
    ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    ck_assert_int_eq(mount("none", ROOT, "tmpfs", 0, "mode=0755"), 0);
    (void)snprintf(ws, sizeof ws, "%s/ws", ROOT);
    (void)snprintf(out, sizeof out, "%s/out", ROOT);
    (void)snprintf(secret, sizeof secret, "%s/out/secret", ROOT);
    (void)snprintf(shell, sizeof shell, "%s/out/shell", ROOT);
    ck_assert_int_eq(mkdir(ws, 0755), 0);
    ck_assert_int_eq(mkdir(out, 0755), 0);
    file(secret, 0644, "x");
    file(shell, 0755, "#!/bin/sh\nexit 7\n");
    ws_fd = open(ws, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(ws_fd, 0);
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
}

static int try_open(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0644);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int run_program(const char *path)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        execl(path, path, (char *)NULL);
        _exit(errno == EACCES ? 99 : 98);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int tcp(bool connect_it)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    a.sin_port = connect_it ? htons(1) : 0;
    int r = connect_it ? connect(fd, (struct sockaddr *)&a, sizeof a)
                       : bind(fd, (struct sockaddr *)&a, sizeof a);
    int err = r == 0 ? 0 : errno;
    close(fd);
    return err;
}

static void inside(const char *name, char path[600])
{
    (void)snprintf(path, 600, "%s/%s", ws, name);
}

START_TEST(no_kernel)
{
    ck_assert_int_eq(sp_landlock_front(0), -EOPNOTSUPP);
    ck_assert_int_eq(sp_landlock_cell(0, ws, ws_fd, NULL, NULL, false), -EOPNOTSUPP);
    ck_assert_int_eq(sp_landlock_files(-1, ws_fd), -EOPNOTSUPP);
}
END_TEST

START_TEST(front_has_no_path)
{
    ck_assert_int_eq(sp_landlock_front(sp_landlock_abi()), 0);
    ck_assert_int_eq(try_open("/", O_RDONLY), EACCES);
    ck_assert_int_eq(try_open("/etc/passwd", O_RDONLY), EACCES);
    ck_assert_int_eq(try_open("/dev/null", O_WRONLY), EACCES);
    ck_assert_int_eq(try_open("/tmp/not-for-us", O_WRONLY | O_CREAT), EACCES);
    ck_assert_int_eq(run_program("/bin/true"), 99);
    if (sp_landlock_abi() >= 4) {
        ck_assert_int_eq(tcp(false), EACCES);
        ck_assert_int_eq(tcp(true), EACCES);
    }
    if (sp_landlock_abi() >= 6)
        ck_assert(kill(getppid(), 0) == -1 && errno == EPERM);
}
END_TEST

START_TEST(command_paths)
{
    char p[600], q[600];
    ck_assert_int_eq(sp_landlock_command(sp_landlock_abi(), ws, ws_fd, shell, NULL, false), 0);
    ck_assert_int_eq(try_open("/etc/passwd", O_RDONLY), 0);
    ck_assert_int_eq(try_open("/etc/passwd", O_WRONLY), EACCES);
    ck_assert_int_eq(try_open("/usr/x", O_WRONLY | O_CREAT), EACCES);
    ck_assert_int_eq(try_open("/dev/null", O_RDWR), 0);
    ck_assert_int_eq(try_open("/proc/self/stat", O_RDONLY), 0);
    ck_assert_int_eq(try_open("/proc/self/comm", O_WRONLY), EACCES);
    ck_assert_int_eq(try_open(secret, O_RDONLY), EACCES);
    ck_assert_int_eq(try_open(out, O_RDONLY), EACCES);
    ck_assert_int_eq(try_open("/root", O_RDONLY), EACCES);
    ck_assert_int_eq(run_program("/bin/true"), 0);
    /* By its absolute path, though the folders above aren't listed. */
    inside("a", p);
    ck_assert_int_eq(try_open(p, O_RDWR | O_CREAT | O_TRUNC), 0);
    ck_assert_int_eq(mkdir(strcat(strcpy(q, p), "d"), 0755), 0);
    strcat(q, "/b");
    ck_assert_int_eq(rename(p, q), 0);
    ck_assert_int_eq(try_open(q, O_RDONLY), 0);
    inside("node", p);
    ck_assert(mknod(p, S_IFCHR | 0600, 0x103) == -1 && errno == EACCES);
    inside("fifo", p);
    ck_assert_int_eq(mkfifo(p, 0600), 0);
    inside("script", p);
    file(p, 0755, "#!/bin/sh\nexit 5\n");
    ck_assert_int_eq(run_program(p), 5);
    /* The network is the command's. */
    ck_assert_int_eq(tcp(false), 0);
}
END_TEST

START_TEST(shell_outside)
{
    ck_assert_int_eq(sp_landlock_command(sp_landlock_abi(), ws, -1, shell, NULL, false), 0);
    ck_assert_int_eq(run_program(shell), 7);
    ck_assert_int_eq(try_open(secret, O_RDONLY), EACCES);
    ck_assert_int_eq(try_open(shell, O_WRONLY), EACCES);
}
END_TEST

START_TEST(shell_not_named)
{
    ck_assert_int_eq(sp_landlock_command(sp_landlock_abi(), ws, ws_fd, NULL, NULL, false), 0);
    ck_assert_int_eq(run_program(shell), 99);
}
END_TEST

START_TEST(device_ioctl)
{
    ck_assert_int_eq(sp_landlock_command(sp_landlock_abi(), ws, ws_fd, NULL, NULL, false), 0);
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return; /* no terminals in this container */
    ck_assert_int_eq(unlockpt(fd), 0);
    close(fd);
}
END_TEST

/* The way that a PUT goes: an unnamed file, then its name, within the file thread's rules. */
START_TEST(file_thread)
{
    char p[600];
    ck_assert_int_eq(sp_landlock_cell(sp_landlock_abi(), ws, ws_fd, NULL, NULL, false), 0);
    ck_assert_int_eq(sp_landlock_files(sp_landlock_abi(), ws_fd), 0);
    ck_assert_int_eq(try_open("/etc/passwd", O_RDONLY), EACCES);
    ck_assert_int_eq(try_open("/tmp/not-for-us", O_RDWR | O_CREAT), EACCES);
    ck_assert_int_eq(try_open(secret, O_RDONLY), EACCES);
    ck_assert_int_eq(mkdirat(ws_fd, "sub", 0755), 0);
    int dir = openat(ws_fd, "sub", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(dir, 0);
    int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
    ck_assert_msg(fd >= 0 || errno == EOPNOTSUPP, "%s", strerror(errno));
    if (fd >= 0) {
        (void)snprintf(p, sizeof p, "/proc/self/fd/%d", fd);
        ck_assert_msg(linkat(AT_FDCWD, p, dir, "new", AT_SYMLINK_FOLLOW) == 0, "%s",
                      strerror(errno));
        ck_assert_int_eq(renameat(dir, "new", ws_fd, "moved"), 0);
        ck_assert_int_eq(ftruncate(fd, 3), 0);
        close(fd);
        ck_assert_int_eq(unlinkat(ws_fd, "moved", 0), 0);
    }
    ck_assert_int_eq(unlinkat(ws_fd, "sub", AT_REMOVEDIR), 0);
    inside("link", p);
    ck_assert(symlink("x", p) == -1 && errno == EACCES);
    ck_assert(mkfifo(p, 0600) == -1 && errno == EACCES);
    ck_assert_int_eq(run_program("/bin/true"), 99);
    if (sp_landlock_abi() >= 4)
        ck_assert_int_eq(tcp(true), EACCES);
}
END_TEST

/* A command can't signal the cell or read its memory; the cell can end the command. */
START_TEST(signals)
{
    if (sp_landlock_abi() < 6)
        return;
    int abi = sp_landlock_abi(), status, up[2];
    pid_t runner = getppid(), cell = getpid();
    char c;
    ck_assert_int_eq(sp_landlock_cell(abi, ws, ws_fd, NULL, NULL, false), 0);
    ck_assert(kill(runner, 0) == -1 && errno == EPERM);
    ck_assert_int_eq(pipe(up), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = sp_landlock_command(abi, ws, ws_fd, NULL, NULL, false) == 0 &&
                  kill(cell, 0) == -1 && errno == EPERM && kill(getpid(), 0) == 0;
        char path[64];
        (void)snprintf(path, sizeof path, "/proc/%d/mem", (int)cell);
        ok = ok && open(path, O_RDONLY | O_CLOEXEC) < 0;
        ok = write(up[1], ok ? "y" : "n", 1) == 1 && ok;
        for (;;)
            pause();
    }
    ck_assert_int_eq((int)read(up[0], &c, 1), 1);
    ck_assert_int_eq(c, 'y');
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}
END_TEST

static pid_t sleeper(int restrict_to_abi)
{
    int up[2];
    char c = 'n';
    if (pipe(up) != 0)
        return -1;
    pid_t pid = fork();
    if (pid == 0) {
        if (restrict_to_abi == 0 ||
            sp_landlock_command(restrict_to_abi, ws, ws_fd, NULL, NULL, false) == 0)
            c = 'y';
        if (write(up[1], &c, 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    bool ok = pid > 0 && read(up[0], &c, 1) == 1 && c == 'y';
    close(up[0]);
    close(up[1]);
    return ok ? pid : -1;
}

/* The cell, in a process namespace of the test's own. */
static int cell_kills_all(void)
{
    int abi = sp_landlock_abi(), status;
    if (sp_landlock_cell(abi, ws, ws_fd, NULL, NULL, false) != 0)
        return 2;
    pid_t one = sleeper(abi), two = sleeper(abi);
    if (one < 0 || two < 0 || getpid() > 10)
        return 3; /* low numbers: this is the new namespace */
    if (kill(-1, SIGKILL) != 0)
        return 4;
    for (int i = 0; i < 2; i++) {
        pid_t pid = wait(&status);
        if ((pid != one && pid != two) || !WIFSIGNALED(status))
            return 5;
    }
    return 0;
}

static int namespace_init(void)
{
    int status;
    if (getpid() != 1)
        return 6;
    pid_t bystander = sleeper(0), cell = fork();
    if (cell == 0)
        _exit(cell_kills_all());
    if (bystander < 0 || waitpid(cell, &status, 0) != cell || !WIFEXITED(status))
        return 7;
    if (WEXITSTATUS(status) != 0)
        return WEXITSTATUS(status);
    return waitpid(bystander, &status, WNOHANG) == 0 ? 0 : 8;
}

static int in_namespace(void)
{
    int status;
    if (unshare(CLONE_NEWPID) != 0)
        return 0;
    pid_t pid = fork();
    if (pid == 0)
        _exit(namespace_init());
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return 9;
    return WEXITSTATUS(status);
}

/* kill(-1) of the cell ends its commands and nothing beside them. In a process namespace, so that
 * a failure doesn't reach the host; where there is none to be had, not at all. */
START_TEST(kill_all)
{
    int status;
    if (sp_landlock_abi() < 6)
        return;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(in_namespace());
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(status == 0, "status %#x", (unsigned)status);
}
END_TEST

START_TEST(abstract_sockets)
{
    if (sp_landlock_abi() < 6)
        return;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "sallyport-test-%d", (int)getpid());
    socklen_t len =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a.sun_path + 1));
    int l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(l, (struct sockaddr *)&a, len), 0);
    ck_assert_int_eq(listen(l, 1), 0);
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        int r = sp_landlock_cell(sp_landlock_abi(), ws, ws_fd, NULL, NULL, false);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool denied = connect(fd, (struct sockaddr *)&a, len) != 0 && errno == EPERM;
        _exit(r == 0 && denied ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* Older kernels, as far as this one can play them. */
START_TEST(lower_abi)
{
    int abi = _i;
    char p[600];
    if (abi > sp_landlock_abi())
        return;
    ck_assert_int_eq(sp_landlock_cell(abi, ws, ws_fd, shell, NULL, false), 0);
    ck_assert_int_eq(sp_landlock_command(abi, ws, ws_fd, shell, NULL, false), 0);
    ck_assert_int_eq(run_program("/bin/true"), 0);
    ck_assert_int_eq(try_open(secret, O_RDONLY), EACCES);
    ck_assert_int_eq(sp_landlock_files(abi, ws_fd), 0);
    inside("low", p);
    ck_assert_int_eq(try_open(p, O_RDWR | O_CREAT), 0);
    ck_assert_int_eq(unlink(p), 0);
    ck_assert_int_eq(kill(getppid(), 0) == 0, abi < 6);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("landlock");
    TCase *t = tcase_create("rules");
    tcase_set_timeout(t, 50);
    tcase_add_test(t, no_kernel);
    suite_add_tcase(s, t);
    if (sp_landlock_abi() > 0 && geteuid() == 0 && access(ROOT, F_OK) == 0) {
        t = tcase_create("live");
        tcase_set_timeout(t, 50);
        tcase_add_checked_fixture(t, setup, NULL);
        tcase_add_test(t, front_has_no_path);
        tcase_add_test(t, command_paths);
        tcase_add_test(t, shell_outside);
        tcase_add_test(t, shell_not_named);
        tcase_add_test(t, device_ioctl);
        tcase_add_test(t, file_thread);
        tcase_add_test(t, signals);
        tcase_add_test(t, kill_all);
        tcase_add_test(t, abstract_sockets);
        tcase_add_loop_test(t, lower_abi, 1, SP_LL_ABI_MAX + 1);
        suite_add_tcase(s, t);
    }
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
