/* test_cell_archive.c: folders as tar, through a whole cell confined as in earnest. What comes out
 * is read by GNU tar and compared with the tree, and its headers are looked at here. */
#include "cell/archiver.h"
#include "cell_stage.h"
#include "private_ns.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define TAR "/tmp/out.tar"
/* As many as the memory for them would show; with a sanitizer, whose own would hide it, fewer. */
#ifdef SP_SANITIZE
#define MANY 10000
#else
#define MANY 100000
#endif

static struct stage s;
static struct sp_msg end;

static void up(void)
{
    stage_settings(&s);
    stage_raise(&s);
}

static void shell(const char *command)
{
    (void)stage_run(&s, command, &end);
    ck_assert_msg(end.exit_code == 0, "%s: %d", command, end.exit_code);
}

static int begin(uint32_t id, const char *path)
{
    stage_path(&s, SP_OP_ARCHIVE, id, path, 0);
    (void)stage_expect(&s, SP_OP_STREAM, id);
    int fd = stage_fd(&s, 0);
    ck_assert_int_ne(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    return fd;
}

/* Takes the stream to its end, into a file (NULL: nowhere). Bytes. */
static uint64_t take(int fd, const char *path)
{
    static char buf[1 << 16];
    uint64_t sum = 0;
    int to = path != NULL ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ck_assert_int_eq(poll(&p, 1, 60000), 1);
        ssize_t k = read(fd, buf, sizeof buf);
        if (k < 0 && errno == EAGAIN)
            continue;
        ck_assert_int_ge(k, 0);
        if (k == 0)
            break;
        ck_assert(to < 0 || write(to, buf, (size_t)k) == k);
        sum += (uint64_t)k;
    }
    close(fd);
    if (to >= 0)
        close(to);
    return sum;
}

static const struct sp_msg *archive(uint32_t id, const char *path, const char *file)
{
    uint64_t n = take(begin(id, path), file);
    const struct sp_msg *m = stage_expect(&s, SP_OP_DONE, id);
    ck_assert_uint_eq(m->size, n);
    ck_assert_uint_eq(n % 10240, 0);
    return m;
}

/* On the host's side: the output, to be compared with. */
static const char *sh(const char *command)
{
    static char out[1 << 16];
    FILE *f = popen(command, "re");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(out, 1, sizeof out - 1, f);
    out[n] = '\0';
    int st = pclose(f);
    ck_assert_msg(st == 0, "%s: %d\n%s", command, st, out);
    return out;
}

START_TEST(the_same_tree)
{
    char cmd[800];
    up();
    shell("umask 022; mkdir -p a/b/c empty 'with space' && echo one >a/1 && : >a/b/none &&"
          "head -c 200000 /dev/urandom >a/b/c/big && ln -s ../1 a/b/rel && ln -s /etc/passwd abs &&"
          "ln -s nowhere dangling && ln -s a dirlink && ln a/1 a/hard && chmod 750 a/b &&"
          "printf x >\"$(printf 'raw\\377name')\" && printf y >\"$(printf '\\303\\244.txt')\" &&"
          "n=$(printf '%0200d' 7) && mkdir -p $n/$n && echo deep >$n/$n/$n && ln -s $n/$n/$n "
          "to-long && ln -s \"$(printf 'raw\\376target')\" \"$(printf 'raw\\376link')\" &&"
          "touch -d '1969-01-01 UTC' old && touch -d '2300-01-01 UTC' new && printf '#!' >run &&"
          "chmod 755 run && chmod 644 old new");
    ck_assert_uint_eq(archive(1, "", TAR)->flags, 0);
    snprintf(
        cmd, sizeof cmd,
        "set -e; rm -rf /tmp/x; mkdir /tmp/x; tar -xf %s -C /tmp/x 2>/dev/null; "
        "diff -r --no-dereference %s /tmp/x; cd %s; "
        "find . -mindepth 1 -printf '%%P %%y %%m %%Ts %%l\\n' | LC_ALL=C sort >/tmp/1; cd /tmp/x; "
        "find . -mindepth 1 -printf '%%P %%y %%m %%Ts %%l\\n' | LC_ALL=C sort >/tmp/2; "
        "diff /tmp/1 /tmp/2",
        TAR, s.path, s.path);
    (void)sh(cmd);
    /* Again, it is the same bytes. */
    (void)archive(2, "", "/tmp/again.tar");
    (void)sh("cmp " TAR " /tmp/again.tar");
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

START_TEST(headers)
{
    up();
    shell("mkdir d && echo x >d/b && echo y >d/a && mkdir d/a.d && echo z >d/a.d/f && chmod 6755 "
          "d/b &&"
          "chmod 1777 d/a.d && ln -s b d/l");
    ck_assert_uint_eq(archive(1, "d", TAR)->ino, 5);
    ck_assert_str_eq(
        sh("tar --numeric-owner --full-time -tvf " TAR " | awk '{print $1,$2,$3,$6,$7,$8}'"),
        "-rw-r--r-- 0/0 2 a  \ndrwxrwxrwx 0/0 0 a.d/  \n-rw-r--r-- 0/0 2 a.d/f  \n"
        "-rwxr-xr-x 0/0 2 b  \nlrwxrwxrwx 0/0 0 l -> b\n");
    /* The first block as it stands: no names of owners, a plain header. */
    char block[512];
    int fd = open(TAR, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(read(fd, block, sizeof block), sizeof block);
    close(fd);
    ck_assert_str_eq(block, "a");
    ck_assert_mem_eq(block + 257, "ustar\00000", 8);
    ck_assert(block[156] == '0' && block[265] == 0 && block[297] == 0);
    /* An empty folder is an archive all the same. */
    shell("mkdir none");
    ck_assert_uint_eq(archive(2, "none", TAR)->ino, 0);
    ck_assert_str_eq(sh("tar -tf " TAR), "");
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

START_TEST(what_is_left_out)
{
    up();
    shell("mkdir d d/m d/shut d/list && mkfifo d/fifo && echo s >d/secret && echo k >d/kept &&"
          "echo in >d/shut/in && echo in >d/list/in && chmod 000 d/secret d/shut && chmod 444 "
          "d/list");
    ck_assert_int_eq(mknodat(s.ws, "d/null", S_IFCHR | 0666, makedev(1, 3)), 0);
    ck_assert_int_eq(mknodat(s.ws, "d/sock", S_IFSOCK | 0666, 0), 0);
    ck_assert_int_eq(stage_end(&s), 0);
    char mount_point[100];
    snprintf(mount_point, sizeof mount_point, "%s/d/m", s.path);
    ck_assert_int_eq(mount("tmpfs", mount_point, "tmpfs", 0, NULL), 0);
    int m = open(mount_point, O_PATH | O_CLOEXEC);
    private_write(m, "inside", "x", 1);
    close(m);
    int ws = s.ws; /* the same folder, a new cell */
    char path[64];
    strcpy(path, s.path);
    stage_settings(&s);
    close(s.ws);
    s.ws = ws;
    strcpy(s.path, path);
    strcpy(s.config.workspace, path);
    stage_raise(&s);
    const struct sp_msg *done = archive(1, "d", TAR);
    ck_assert_uint_eq(done->flags, SP_DONE_PARTIAL);
    ck_assert_uint_eq(done->ino, 4);
    ck_assert_str_eq(sh("tar -tf " TAR), "kept\nlist/\nm/\nshut/\n");
    ck_assert_int_eq(stage_end(&s), 0);
    ck_assert_int_eq(umount2(mount_point, MNT_DETACH), 0);
}
END_TEST

START_TEST(refusals)
{
    up();
    shell("mkdir d shut && echo x >f && ln -s d in && ln -s /etc out && ln -s loop loop && chmod 0 "
          "shut");
    static const struct {
        const char *path;
        enum sp_err e;
    } t[] = {{"none", SP_E_NOT_FOUND}, {"f", SP_E_NOT_A_DIRECTORY},
             {"f/x", SP_E_NOT_FOUND},  {"out", SP_E_OUTSIDE_WORKSPACE},
             {"loop", SP_E_LINK_LOOP}, {"shut", SP_E_FORBIDDEN}};
    for (uint32_t i = 0; i < sizeof t / sizeof *t; i++) {
        stage_path(&s, SP_OP_ARCHIVE, 10 + i, t[i].path, 0);
        stage_expect_fail(&s, 10 + i, t[i].e);
    }
    ck_assert_uint_eq(archive(1, "in", NULL)->ino, 0);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

/* Readers that don't read: others are served meanwhile; those that leave make room. */
START_TEST(slow_readers)
{
    int fd[SP_ARCHIVES_MAX];
    up();
    shell("head -c 1000000 /dev/zero >zero");
    for (uint32_t i = 0; i < SP_ARCHIVES_MAX; i++)
        fd[i] = begin(10 + i, "");
    stage_path(&s, SP_OP_ARCHIVE, 20, "", 0);
    stage_expect_fail(&s, 20, SP_E_OVERLOADED);
    stage_path(&s, SP_OP_OPEN, 21, "zero", 0);
    (void)stage_expect(&s, SP_OP_FILE, 21);
    sp_frame_close_fds(&s.frame);
    shell("true");
    close(fd[1]);
    stage_expect_fail(&s, 11, SP_E_BAD_REQUEST);
    ck_assert_uint_eq(archive(22, "", NULL)->ino, 1);
    ck_assert_uint_gt(take(fd[0], NULL), 1000000);
    (void)stage_expect(&s, SP_OP_DONE, 10);
    /* The cell's end doesn't wait for those that are left. */
    ck_assert_int_eq(stage_end(&s), 0);
    close(fd[2]);
    close(fd[3]);
}
END_TEST

START_TEST(changing_sizes)
{
    up();
    shell("mkdir d && head -c 1000000 /dev/zero | tr '\\0' a >d/1-shrinks &&"
          "head -c 3000 /dev/zero | tr '\\0' b >d/2-grows");
    int fd = begin(1, "d");
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, 60000), 1); /* the first header is out, the pipe fills */
    shell("truncate -s 400000 d/1-shrinks && echo more >>d/2-grows");
    (void)take(fd, TAR);
    ck_assert_uint_eq(stage_expect(&s, SP_OP_DONE, 1)->ino, 2);
    /* 1: the size of its header, a's and then zeros. 2: opened after, so whole. */
    ck_assert_str_eq(
        sh("rm -rf /tmp/x; mkdir /tmp/x; tar -xf " TAR " -C /tmp/x; cd /tmp/x; stat -c %s 1* 2*;"
           "tr -d 'a\\0' <1-shrinks | wc -c; tr -d a <1-shrinks | wc -c; tail -c 5 2*"),
        "1000000\n3005\n0\n600000\nmore\n");
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

/* A folder that was not yet visited becomes a link that leads out. */
START_TEST(swapped_folder)
{
    up();
    shell("mkdir 1 2 && head -c 1000000 /dev/zero >1/zero && echo mine >2/passwd");
    int fd = begin(1, "");
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ck_assert_int_eq(poll(&p, 1, 60000), 1);
    shell("mv 2 3 && ln -s /etc 2");
    (void)take(fd, TAR);
    (void)stage_expect(&s, SP_OP_DONE, 1);
    ck_assert_str_eq(sh("tar -tvf " TAR " | awk '{print substr($1,1,1),$6,$7,$8}'"),
                     "d 1/  \n- 1/zero  \nl 2 -> /etc\n");
    /* And one that is moved while it is open ends the archive. */
    shell("rm 2 && mkdir -p 1/a && head -c 1000000 /dev/zero >1/a/zero && mkdir other");
    fd = begin(2, "1");
    ck_assert_int_eq(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 60000), 1);
    shell("mv 1/a other/");
    (void)take(fd, TAR);
    ck_assert(stage_next(&s, 60000) && s.msg.id == 2 &&
              (s.msg.op == SP_OP_FAIL || s.msg.op == SP_OP_DONE));
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

static long peak_kib(pid_t pid)
{
    char path[64], line[200];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    fclose(f);
    return kib;
}

START_TEST(many_and_deep)
{
    up();
    char text[100];
    snprintf(text, sizeof text,
             "mkdir many && cd many && seq -f 'a-name-of-some-length-%%.0f' %d | xargs touch",
             MANY);
    shell(text);
    long before = peak_kib(s.pid);
    ck_assert_uint_eq(archive(1, "many", TAR)->ino, MANY);
    long more = peak_kib(s.pid) - before;
#ifndef SP_SANITIZE
    ck_assert_msg(more < 24 * 1024, "%ld KiB", more);
#else
    (void)more;
#endif
    snprintf(text, sizeof text, "%d\nsorted\n", MANY);
    ck_assert_str_eq(
        sh("tar -tf " TAR " | wc -l; tar -tf " TAR " | LC_ALL=C sort -c && echo sorted"), text);
    shell("rm -r many; p=d; mkdir top; cd top; i=0; while [ $i -lt 1500 ]; do mkdir $p && cd ./$p; "
          "i=$((i+1)); done; echo x >f");
    const struct sp_msg *m = archive(2, "top", TAR);
    ck_assert_uint_eq(m->flags, 0);
    ck_assert_uint_eq(m->ino, 1501);
    /* Paths over the bound are left out, and that is told. */
    char name[256];
    memset(name, 'n', 255);
    name[255] = '\0';
    shell("mkdir long");
    int at = openat(s.ws, "long", O_PATH | O_CLOEXEC);
    for (int i = 0; i < 300; i++) { /* 76,800 bytes */
        ck_assert_int_eq(mkdirat(at, name, 0755), 0);
        int next = openat(at, name, O_PATH | O_CLOEXEC);
        close(at);
        at = next;
    }
    close(at);
    m = archive(3, "long", NULL);
    ck_assert_uint_eq(m->flags, SP_DONE_PARTIAL);
    ck_assert_uint_eq(m->ino, 256); /* to the byte: 256 times a name and its slash */
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

static int tests(void)
{
    Suite *suite = suite_create("cell_archive");
    TCase *t = tcase_create("all");
    signal(SIGPIPE, SIG_IGN);
    tcase_set_timeout(t, 150);
    tcase_add_test(t, the_same_tree);
    tcase_add_test(t, headers);
    tcase_add_test(t, what_is_left_out);
    tcase_add_test(t, refusals);
    tcase_add_test(t, slow_readers);
    tcase_add_test(t, changing_sizes);
    tcase_add_test(t, swapped_folder);
    tcase_add_test(t, many_and_deep);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}

int main(void)
{
    return private_ns_run(tests);
}
