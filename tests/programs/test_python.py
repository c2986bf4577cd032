"""Python: threads, processes, event loops, numpy, virtual environments: inside and bare, with known results."""

LIBRARY = r"""
import array, concurrent.futures, ctypes, decimal, fcntl, hashlib, mmap, multiprocessing, os, pathlib, pty, queue, resource
import select, signal, socket, sqlite3, subprocess, sys, tempfile, threading, time, zlib
"""


def python(twin, code, files=None, **kw):
    return twin.run("python3 prog.py", {"prog.py": LIBRARY + code, **(files or {})}, **kw)[0].splitlines()


def test_threads_and_locks(twin):
    assert python(twin, r"""
total, lock, q = 0, threading.Lock(), queue.Queue()
def work(n):
    global total
    for _ in range(1000):
        with lock: total += n
    q.put(n)
threading.stack_size(256 * 1024)
ts = [threading.Thread(target=work, args=(n,), name=f"t{n}") for n in range(1, 21)]
[t.start() for t in ts]; [t.join() for t in ts]; print(total, q.qsize(), threading.active_count())
with concurrent.futures.ThreadPoolExecutor(16) as ex: print(sum(ex.map(lambda n: zlib.crc32(b"%d" % n) & 1, range(200))))
e = threading.Event(); threading.Timer(0.01, e.set).start(); print(e.wait(30))
""") == ["210000 20 1", str(sum(__import__("zlib").crc32(b"%d" % n) & 1 for n in range(200))), "True"]


def test_subprocesses_and_signals(twin):
    assert python(twin, r"""
print(subprocess.check_output("echo $((6*7))", shell=True, text=True).strip())
p = subprocess.Popen(["sleep", "100"]); p.terminate(); print(p.wait())
print(subprocess.run(["cat"], input=b"piped", capture_output=True).stdout.decode())
print(subprocess.run("exit 4", shell=True, start_new_session=True, close_fds=True, cwd="/usr", umask=0o27).returncode)
try: subprocess.run(["sleep", "100"], timeout=0.05)
except subprocess.TimeoutExpired: print("timeout")
got = []; signal.signal(signal.SIGALRM, lambda *a: got.append("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.01)
signal.pause(); print(got[0])
pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 5"], os.environ)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
pid = os.fork()
if pid == 0: os._exit(6)
fd = os.pidfd_open(pid); select.select([fd], [], []); print(os.waitid(os.P_PIDFD, fd, os.WEXITED).si_status)
pid, fd = pty.fork()
if pid == 0: os.execvp("sh", ["sh", "-c", "[ -t 0 ] && echo terminal"])
print(os.read(fd, 100).decode().strip()); os.waitpid(pid, 0)
os.nice(1); print(os.getpriority(os.PRIO_PROCESS, 0)); print(len(os.sched_getaffinity(0)) > 0)
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100)); print(resource.getrlimit(resource.RLIMIT_NOFILE))
""") == ["42", "-15", "piped", "4", "timeout", "alarm", "5", "6", "terminal", "1", "True", "(100, 100)"]


def test_multiprocessing(twin):
    """Semaphores and shared memory are files of /dev/shm; every start method is tried."""
    assert python(twin, r"""
from multiprocessing import shared_memory
def square(n): return n * n
def add(v, lock, s):
    for _ in range(100):
        with lock: v.value += 1
    s.buf[os.getpid() % 1] = 7
def main():
    for how in ("fork", "spawn", "forkserver"):
        c = multiprocessing.get_context(how)
        with c.Pool(3) as p: print(how, sum(p.map(square, range(50))))
        v, lock, s = c.Value("i", 0, lock=False), c.Lock(), shared_memory.SharedMemory(create=True, size=64)
        ps = [c.Process(target=add, args=(v, lock, s)) for _ in range(4)]
        [p.start() for p in ps]; [p.join() for p in ps]; print(v.value, s.buf[0], [p.exitcode for p in ps])
        s.close(); s.unlink()
    with multiprocessing.Manager() as m: d = m.dict(); d["k"] = 1; print(dict(d))
    with concurrent.futures.ProcessPoolExecutor(2) as ex: print(list(ex.map(square, [1, 2, 3])))
if __name__ == "__main__": main()
""") == [x for how in ("fork", "spawn", "forkserver") for x in (f"{how} 40425", "400 7 [0, 0, 0, 0]")] + ["{'k': 1}", "[1, 4, 9]"]


def test_asyncio(twin):
    assert python(twin, r"""
import asyncio
async def serve(r, w): w.write((await r.readline()).upper()); await w.drain(); w.close()
async def main():
    for kind in ("tcp", "unix"):
        s = await (asyncio.start_server(serve, "localhost", 0) if kind == "tcp" else asyncio.start_unix_server(serve, "sock"))
        async def ask(n):
            r, w = await (asyncio.open_connection(*s.sockets[0].getsockname()[:2]) if kind == "tcp" else asyncio.open_unix_connection("sock"))
            w.write(b"line%d\n" % n); got = await r.readline(); w.close(); return got
        print(kind, sorted(await asyncio.gather(*map(ask, range(20))))[19]); s.close(); await s.wait_closed()
    p = await asyncio.create_subprocess_shell("read x; echo got $x; exit 3", stdin=-1, stdout=-1)
    print(await p.communicate(b"it\n"), p.returncode)
    loop = asyncio.get_running_loop(); f = loop.create_future()
    loop.add_signal_handler(signal.SIGUSR1, f.set_result, "usr1")
    os.kill(os.getpid(), signal.SIGUSR1); print(await f, await loop.run_in_executor(None, square, 9))
    t = asyncio.create_task(asyncio.sleep(100)); t.cancel()
    print((await asyncio.gather(t, return_exceptions=True))[0].__class__.__name__)
def square(n): return n * n
asyncio.run(main())
""") == ["tcp b'LINE9\\n'", "unix b'LINE9\\n'", "(b'got it\\n', None) 3", "usr1 81", "CancelledError"]


def test_kernel_interfaces_of_the_library(twin):
    """Files, maps, locks, epoll, eventfd, inotify, sendfile, memfd, descriptors over sockets, raw ctypes calls."""
    assert python(twin, r"""
with open("m", "w+b") as f:
    f.truncate(8192); m = mmap.mmap(f.fileno(), 8192); m[0:5] = b"hello"; m.flush()
    print(open("m", "rb").read(5)); fcntl.lockf(f, fcntl.LOCK_EX)
x = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
x[0:6] = b"\xb8\x2a\0\0\0\xc3"  # mov eax, 42; ret
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(x)))())
a, b = socket.socketpair(); r, w = os.pipe(); socket.send_fds(a, [b"x"], [r])
fd = socket.recv_fds(b, 1, 1)[1][0]; os.write(w, b"passed"); print(os.read(fd, 9))
e = select.epoll(); e.register(fd, select.EPOLLIN); os.write(w, b"1")
print(len(e.poll(5)), os.eventfd_read(os.eventfd(3)))
fd = os.memfd_create("n"); os.write(fd, b"mem"); out = open("s", "wb")
print(os.sendfile(out.fileno(), fd, 0, 3)); print(os.copy_file_range(os.open("m", 0), out.fileno(), 5, 0))
libc = ctypes.CDLL(None); i = libc.inotify_init(); print(libc.inotify_add_watch(i, b".", 0x100) > 0)
open("made", "w").close(); print(b"made" in os.read(i, 1000))
os.setxattr("m", "user.a", b"v"); print(os.getxattr("m", "user.a"), os.listxattr("m"))
os.utime("m", ns=(1, 1)); print(os.stat("m").st_mtime_ns)
with tempfile.TemporaryDirectory() as d: pathlib.Path(d, "x").write_text("y"); os.symlink("x", d + "/l"); print(sorted(os.listdir(d)))
with tempfile.TemporaryFile() as f: f.write(b"z"); print(f.tell())
u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); u.bind(("::1", 0)); u.sendto(b"v6", u.getsockname())
print(u.recv(9))
s = socket.socket(socket.AF_UNIX); s.bind("\0of-a-command"); s.listen(); c = socket.socket(socket.AF_UNIX)
c.connect("\0of-a-command"); print("abstract")
print(sqlite3.connect("d").execute("select 6").fetchone())
print(hashlib.sha256(os.urandom(0)).hexdigest()[:8], time.clock_gettime(time.CLOCK_BOOTTIME) > 0, os.getloadavg()[0] >= 0, os.sysconf("SC_NPROCESSORS_ONLN") > 0)
""")[:13] == ["b'hello'", "42", "b'passed'", "1 3", "3", "5", "True", "True", "b'v' ['user.a']", "1", "['l', 'x']", "1", "b'v6'"]


def test_numpy(twin):
    assert python(twin, r"""
import numpy as np
a = np.arange(10000, dtype=float).reshape(100, 100) + np.eye(100) * 1e4
print(round(float(np.trace(np.linalg.inv(a) @ a)), 6)); r = np.random.default_rng(7)
print(round(float(r.normal(size=100000).mean()), 6))
m = np.memmap("mm", dtype="int32", mode="w+", shape=(1000,)); m[:] = range(1000); m.flush()
print(np.fromfile("mm", dtype="int32").sum())
with concurrent.futures.ThreadPoolExecutor(4) as ex: print(sum(ex.map(lambda n: float(np.fft.fft(np.ones(4096)).real.max()), range(8))))
np.savez_compressed("z", a=a); print(np.load("z.npz")["a"].shape)
""")[0] == "100.0"


def test_venv_and_pip(twin):
    """An environment with pip, and a package from a local folder with an extension module and a script."""
    out, inside, _ = twin.run(r"""
        set -e; python3 -m venv env; . env/bin/activate; pip --version | cut -d' ' -f1
        pip install -q --no-index --no-build-isolation ./pkg 2>pip.log || { cat pip.log; exit 1; }
        python -c 'import ext; print(ext.answer())'; say-hello; pip list --format=freeze 2>/dev/null |
        grep greet
        python -m compileall -q pkg; python -m unittest -q pkg/test_it.py 2>&1 | tail -1
        python -m zipfile -c a.zip pkg/hello.py; python -m zipfile -l a.zip | wc -l
        """, {"pkg/setup.py": """
from setuptools import Extension, setup
setup(name="greet", version="1.0", py_modules=["hello"], ext_modules=[Extension("ext", ["ext.c"])],
      entry_points={"console_scripts": ["say-hello = hello:main"]})
""", "pkg/hello.py": "def main(): print('hello from a script')\n", "pkg/ext.c": r"""
#include <Python.h>
static PyObject *answer(PyObject *s, PyObject *a) { (void)s; (void)a; return PyLong_FromLong(42); }
static PyMethodDef m[] = {{"answer", answer, METH_NOARGS, ""}, {0, 0, 0, 0}};
static struct PyModuleDef d = {PyModuleDef_HEAD_INIT, "ext", 0, -1, m, 0, 0, 0, 0};
PyMODINIT_FUNC PyInit_ext(void) { return PyModule_Create(&d); }
""", "pkg/test_it.py": "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(1, 1)\n"})
    assert out.splitlines() == ["pip", "42", "hello from a script", "greet==1.0", "OK", "2"]
    assert (inside / "env" / "bin" / "say-hello").exists()
