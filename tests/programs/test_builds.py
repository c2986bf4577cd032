"""Compilers and what they make: C, C++, make, cmake, Java, Go, Rust: inside and bare, with known results."""

PROJECT = {
    "Makefile": r"""
CFLAGS = -O2 -g -Wall -Werror -fPIC
OBJS = $(patsubst src/%.c,obj/%.o,$(wildcard src/*.c))
all: app libsum.so plug.so
obj/%.o: src/%.c src/sum.h | obj
	$(CC) $(CFLAGS) -MMD -c -o $@ $<
obj: ; mkdir obj
libsum.a: obj/sum.o ; $(AR) rcs $@ $^
libsum.so: obj/sum.o ; $(CC) -shared -o $@ $^
plug.so: plug.c ; $(CC) -shared -fPIC -o $@ $<
app: obj/main.o libsum.a ; $(CC) -o $@ $^ -lpthread -ldl -lrt
test: all ; ./app
-include $(OBJS:.o=.d)
.PHONY: all test
""",
    "src/sum.h": "long sum(const long *v, long n);\n",
    "src/sum.c": '#include "sum.h"\nlong sum(const long *v, long n) { long s = 0; while (n--) s += *v++; return s; }\n',
    "plug.c": 'const char *plug(void) { return "plugged"; }\n',
    "src/main.c": r"""
#define _GNU_SOURCE
#include "sum.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long out[4];
static void *work(void *p) { long n = (long)p, v[1000]; for (long i = 0; i < 1000; i++) v[i] = i * n; out[n] = sum(v, 1000); return 0; }
static sigjmp_buf back;
static void fault(int s) { (void)s; siglongjmp(back, 1); }
extern char **environ;
int main(void)
{
    pthread_t t[4];
    for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    printf("threads %ld\n", sum(out, 4));
    void *h = dlopen("./plug.so", RTLD_NOW); const char *(*f)(void) = (const char *(*)(void))dlsym(h, "plug"); puts(f());
    signal(SIGSEGV, fault); if (!sigsetjmp(back, 1)) *(volatile int *)0 = 1; else puts("caught");
    int *s = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fork() == 0) { *s = 42; _exit(0); }
    wait(0); printf("shared %d\n", *s);
    pid_t pid; char *argv[] = {"sh", "-c", "exit 7", 0}; int st;
    printf("spawn %d", posix_spawnp(&pid, "sh", 0, 0, argv, environ)); waitpid(pid, &st, 0); printf(" %d\n", WEXITSTATUS(st));
    printf("system %d\n", WEXITSTATUS(system("exit 8"))); FILE *p = popen("echo popen", "r"); char b[20]; fputs(fgets(b, 20, p), stdout); pclose(p);
    sem_t *sem = sem_open("/of-a-test", O_CREAT, 0600, 0); sem_unlink("/of-a-test"); sem_post(sem); puts(sem_wait(sem) == 0 ? "sem" : "no sem");
    int fd = shm_open("/of-a-test", O_CREAT | O_RDWR, 0600); shm_unlink("/of-a-test"); puts(ftruncate(fd, 4096) == 0 ? "shm" : "no shm");
    int id = shmget(IPC_PRIVATE, 4096, 0600); char *m = shmat(id, 0, 0); shmctl(id, IPC_RMID, 0); strcpy(m, "sysv"); puts(m);
    struct mq_attr a = {.mq_maxmsg = 2, .mq_msgsize = 8}; mqd_t q = mq_open("/of-a-test", O_CREAT | O_RDWR, 0600, &a); mq_unlink("/of-a-test");
    mq_send(q, "queue", 6, 0); puts(mq_receive(q, b, 20, 0) == 6 ? b : strerror(errno));
    timer_t timer; struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN}; sigset_t set; sigemptyset(&set); sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, 0); timer_create(CLOCK_MONOTONIC, &e, &timer); timer_settime(timer, 0, &(struct itimerspec){.it_value.tv_nsec = 1}, 0);
    printf("timer %d\n", sigwaitinfo(&set, 0) == SIGRTMIN); pthread_setname_np(pthread_self(), "named"); pthread_getname_np(pthread_self(), b, 20); puts(b);
    return 0;
}
""",
}
RUN = ("threads 2997000\nplugged\ncaught\nshared 42\nspawn 0 7\nsystem 8\npopen\nsem\nshm\nsysv\nqueue\ntimer 1\nnamed\n")


def test_make_builds_and_runs(twin):
    out, inside, bare = twin.run(r"""
        make -s -j2 && ./app && make -s -q && touch src/sum.h && ! make -s -q && make -s test >/dev/null && nm -C libsum.so | grep -c ' T sum'
        ar t libsum.a; strip app && ./app | tail -1; size app >/dev/null && objdump -d obj/sum.o | grep -c '<sum>:'; LD_LIBRARY_PATH=. ldd app >/dev/null && echo ldd
        """, PROJECT)
    assert out == RUN + "1\nsum.o\nnamed\n1\nldd\n"
    assert (inside / "libsum.so").read_bytes() == (bare / "libsum.so").read_bytes()


def test_cmake_with_ninja(twin):
    out, *_ = twin.run(r"""
        cmake -G Ninja -B b -DCMAKE_BUILD_TYPE=Release . >log 2>&1 || { cat log; exit 1; }
        cmake --build b >log 2>&1 || { cat log; exit 1; }; (cd b && ctest 2>&1 | grep -c 'tests passed'); ./b/app; cmake --install b --prefix inst >/dev/null && inst/bin/app
        """, {"CMakeLists.txt": "cmake_minimum_required(VERSION 3.20)\nproject(p CXX)\nfind_package(Threads REQUIRED)\nadd_library(l SHARED l.cpp)\n"
              "set(CMAKE_INSTALL_RPATH \"$ORIGIN/../lib\")\nadd_executable(app m.cpp)\ntarget_link_libraries(app l Threads::Threads)\nenable_testing()\nadd_test(NAME t COMMAND app)\ninstall(TARGETS app l)\n",
              "l.cpp": "#include <stdexcept>\nvoid raise_it() { throw std::runtime_error(\"thrown\"); }\n",
              "m.cpp": "#include <future>\n#include <iostream>\n#include <stdexcept>\nvoid raise_it();\nint main() { auto f = std::async(std::launch::async, [] { raise_it(); return 1; });\n"
              "  try { f.get(); } catch (const std::exception &e) { std::cout << e.what() << '\\n'; } }\n"})
    assert out == "1\nthrown\nthrown\n"


def test_sanitizers_and_profiles(twin):
    """AddressSanitizer and UBSan find what they should (LeakSanitizer needs ptrace: docs/programs.md); gcov counts."""
    out, *_ = twin.run(r"""
        gcc -g -fsanitize=address,undefined -o a bad.c && ASAN_OPTIONS=detect_leaks=0 ./a 3 2>&1 | grep -o 'heap-buffer-overflow' | head -1
        ASAN_OPTIONS=detect_leaks=0 ./a 1 && echo clean
        gcc --coverage -o c bad.c && ./c 1 && gcov -n c-bad.gcda 2>/dev/null | grep -A 1 bad.c | grep -o '[0-9.]*%'; gcc -pg -o p bad.c && ./p 1 && ls gmon.out; gcc -static -o s bad.c && ./s 1 && echo static
        gcc -flto=2 -O2 -o l bad.c && ./l 1 && echo lto; gcc -x c -S -o - - <bad.c | grep -c main: ; as --version | head -1 | cut -c1-3
        """, {"bad.c": "#include <stdlib.h>\nint main(int c, char **v) { char *p = malloc(2); int n = atoi(v[c - 1]); p[n > 2 ? 2 : 0] = 1; int r = p[0] == 9; free(p); return r; }\n"})
    assert out.splitlines() == ["heap-buffer-overflow", "clean", "100.00%", "gmon.out", "static", "lto", "1", "GNU"]


JAVA = r"""
import java.io.*; import java.net.*; import java.nio.*; import java.nio.channels.*; import java.nio.file.*; import java.util.*; import java.util.concurrent.*; import java.util.stream.*;
public class Main {
  public static void main(String[] a) throws Exception {
    ExecutorService ex = Executors.newFixedThreadPool(8); List<Future<Long>> fs = new ArrayList<>();
    for (int i = 1; i <= 8; i++) { final int n = i; fs.add(ex.submit(() -> LongStream.range(0, 100000).map(x -> x * n).sum())); }
    long s = 0; for (Future<Long> f : fs) s += f.get(); ex.shutdown(); System.out.println("threads " + s);
    System.out.println("parallel " + IntStream.range(0, 1000).parallel().sum());
    Process p = new ProcessBuilder("sh", "-c", "read x; echo got $x; exit 3").redirectErrorStream(true).start();
    p.getOutputStream().write("it\n".getBytes()); p.getOutputStream().close(); System.out.println(new String(p.getInputStream().readAllBytes()).trim() + " " + p.waitFor());
    try (FileChannel c = FileChannel.open(Path.of("m"), StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE)) { MappedByteBuffer b = c.map(FileChannel.MapMode.READ_WRITE, 0, 4096); b.put(0, (byte) 65); b.force(); c.lock().release(); }
    System.out.println("mapped " + Files.readAllBytes(Path.of("m"))[0]);
    ServerSocketChannel ss = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0)); Thread t = new Thread(() -> { try (SocketChannel c = ss.accept()) { c.write(ByteBuffer.wrap("net".getBytes())); } catch (IOException e) { System.out.println(e); } }, "server"); t.start();
    try (Socket c = new Socket("127.0.0.1", ss.socket().getLocalPort())) { System.out.println(new String(c.getInputStream().readAllBytes())); } t.join();
    byte[][] keep = new byte[64][]; for (int i = 0; i < 2000; i++) keep[i % 64] = new byte[100000]; System.gc(); System.out.println("gc " + keep.length);
    try { int[] x = null; System.out.println(x[0]); } catch (NullPointerException e) { System.out.println("npe"); }
    try (WatchService w = FileSystems.getDefault().newWatchService()) { Path.of(".").register(w, StandardWatchEventKinds.ENTRY_CREATE); Files.writeString(Path.of("seen"), ""); System.out.println(w.poll(30, TimeUnit.SECONDS).pollEvents().get(0).context()); }
    System.out.println(Main.class.getResource("Main.class").getProtocol() + " " + Runtime.version().feature() / 10 + " " + (Runtime.getRuntime().availableProcessors() > 0) + " " + System.getProperty("user.home").equals(System.getenv("HOME")));
    System.exit(5);
  }
}
"""


def test_java(twin):
    out, *_ = twin.run(r"""
        java -version 2>&1 | grep -c -i openjdk; javac -d o Main.java && jar cfe app.jar Main -C o . && java -jar app.jar
        """, {"Main.java": JAVA}, expect=5)
    home = out.splitlines().pop()
    assert out.splitlines()[1:-1] == ["threads 179998200000", "parallel 499500", "got it 3", "mapped 65", "net", "gc 64", "npe", "seen"], out
    assert home.startswith("jar 1 true"), home


def test_go(twin):
    out, *_ = twin.run(r"""
        set -e; export GOTOOLCHAIN=local GOFLAGS=-mod=mod CGO_ENABLED=0; go build -o app . && ./app; go vet . && go test . 2>&1 | cut -f1; go env GOOS
        """, {"go.mod": "module x\n\ngo 1.19\n", "m_test.go": "package main\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif sum(3) != 3 {\n\t\tt.Fatal()\n\t}\n}\n",
              "m.go": r"""package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func sum(n int) (s int) {
	for i := 0; i < n; i++ {
		s += i
	}
	return
}

func main() {
	var wg sync.WaitGroup
	c := make(chan int, 1000)
	for i := 0; i < 1000; i++ {
		wg.Add(1)
		go func(n int) { defer wg.Done(); time.Sleep(time.Millisecond); c <- sum(n) }(i)
	}
	wg.Wait()
	close(c)
	t := 0
	for v := range c {
		t += v
	}
	fmt.Println("goroutines", t)
	out, err := exec.Command("sh", "-c", "echo child; exit 4").Output()
	fmt.Printf("%s %v\n", out[:5], err)
	l, _ := net.Listen("tcp", "127.0.0.1:0")
	go func() { k, _ := l.Accept(); k.Write([]byte("net")); k.Close() }()
	k, _ := net.Dial("tcp", l.Addr().String())
	b, _ := io.ReadAll(k)
	fmt.Println(string(b))
	s := make(chan os.Signal, 1)
	signal.Notify(s, syscall.SIGUSR1)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	fmt.Println(<-s)
	x := make([][]byte, 0)
	for i := 0; i < 100; i++ {
		x = append(x, make([]byte, 1<<20))
	}
	runtime.GC()
	fmt.Println(len(x))
	a, err := net.LookupHost("localhost")
	fmt.Println(len(a) > 0, err)
}
"""})
    assert out.splitlines() == ["goroutines 166167000", "child exit status 4", "net", "user defined signal 1", "100", "true <nil>", "ok  ", "linux"]


def test_rust(twin):
    out, *_ = twin.run("rustc -O -C codegen-units=4 m.rs && ./m && rustc --test m.rs -o t && ./t -q 2>&1 | grep -o '1 passed'", {"m.rs": r"""
use std::{collections::HashMap, io::{Read, Write}, net::{TcpListener, TcpStream}, process::Command, sync::{Arc, Mutex}, thread};
fn twice(n: u64) -> u64 { n * 2 }
#[test]
fn doubles() { assert_eq!(twice(2), 4); }
fn main() {
    let m = Arc::new(Mutex::new(HashMap::new()));
    let ts: Vec<_> = (0..8).map(|n| { let m = m.clone(); thread::Builder::new().name(format!("t{n}")).spawn(move || { m.lock().unwrap().insert(n, twice(n)); }).unwrap() }).collect();
    for t in ts { t.join().unwrap(); }
    println!("{}", m.lock().unwrap().values().sum::<u64>());
    let o = Command::new("sh").args(["-c", "echo child; exit 3"]).output().unwrap();
    print!("{} {}", o.status.code().unwrap(), String::from_utf8(o.stdout).unwrap());
    let l = TcpListener::bind("127.0.0.1:0").unwrap(); let a = l.local_addr().unwrap();
    let t = thread::spawn(move || l.accept().unwrap().0.write_all(b"net").unwrap());
    let mut s = String::new(); TcpStream::connect(a).unwrap().read_to_string(&mut s).unwrap(); t.join().unwrap(); println!("{s}");
    println!("{}", std::panic::catch_unwind(|| panic!("p")).is_err());
}
"""}, clean=lambda t: t)
    assert out.splitlines() == ["56", "3 child", "net", "true", "1 passed"]
