"""Compilers and what they make: C, C++, make, cmake, Java, Go, Rust: inside and bare, with known results."""

import data_files as data

RUN = ("threads 2997000\nplugged\ncaught\nshared 42\nspawn 0 7\nsystem 8\npopen\nsem\nshm\nsysv\nqueue\ntimer 1\nnamed\n")


def test_make_builds_and_runs(twin):
    out, inside, bare = twin.run(r"""
        make -s -j2 && ./app && make -s -q && touch src/sum.h && ! make -s -q && make -s test >/dev/null &&
        nm -C libsum.so | grep -c ' T sum'
        ar t libsum.a; strip app && ./app | tail -1; size app >/dev/null && objdump -d obj/sum.o |
        grep -c '<sum>:'; LD_LIBRARY_PATH=. ldd app >/dev/null && echo ldd
        """, data.tree("c"), again=True)
    assert out == RUN + "1\nsum.o\nnamed\n1\nldd\n"
    assert (inside / "libsum.so").read_bytes() == (bare / "libsum.so").read_bytes()


def test_cmake_with_ninja(twin):
    out, *_ = twin.run(r"""
        cmake -G Ninja -B b -DCMAKE_BUILD_TYPE=Release . >log 2>&1 || { cat log; exit 1; }
        cmake --build b >log 2>&1 || { cat log; exit 1; }; (cd b && ctest 2>&1 | grep -c 'tests passed')
        ./b/app; cmake --install b --prefix inst >/dev/null && inst/bin/app
        """, data.tree("cmake"))
    assert out == "1\nthrown\nthrown\n"


def test_sanitizers_and_profiles(twin):
    """AddressSanitizer and UBSan find what they should (LeakSanitizer needs ptrace: docs/programs.md); gcov counts."""
    out, *_ = twin.run(r"""
        gcc -g -fsanitize=address,undefined -o a bad.c && ASAN_OPTIONS=detect_leaks=0 ./a 3 2>&1 |
        grep -o 'heap-buffer-overflow' | head -1
        ASAN_OPTIONS=detect_leaks=0 ./a 1 && echo clean
        gcc --coverage -o c bad.c && ./c 1 && gcov -n c-bad.gcda 2>/dev/null | grep -A 1 bad.c |
        grep -o '[0-9.]*%'; gcc -pg -o p bad.c && ./p 1 && ls gmon.out; gcc -static -o s bad.c && ./s 1 &&
        echo static
        gcc -flto=2 -O2 -o l bad.c && ./l 1 && echo lto; gcc -x c -S -o - - <bad.c | grep -c main:
        as --version | head -1 | cut -c1-3
        """, data.tree("sanitize"))
    assert out.splitlines() == ["heap-buffer-overflow", "clean", "100.00%", "gmon.out", "static", "lto", "1",
        "GNU"]


def test_java(twin):
    out, *_ = twin.run(r"""
        java -version 2>&1 | grep -c -i openjdk; javac -d o Main.java && jar cfe app.jar Main -C o . &&
        java -jar app.jar
        """, data.tree("java"), expect=5)
    home = out.splitlines().pop()
    assert out.splitlines()[1:-1] == ["threads 179998200000", "parallel 499500", "got it 3", "mapped 65", "net",
        "gc 64", "npe", "seen"], out
    assert home.startswith("jar 1 true"), home


def test_go(twin):
    out, *_ = twin.run(r"""
        set -e; export GOTOOLCHAIN=local GOFLAGS=-mod=mod CGO_ENABLED=0; go build -o app . && ./app; go vet . &&
        go test . 2>&1 | cut -f1; go env GOOS
        """, data.tree("go"))
    assert out.splitlines() == ["goroutines 166167000", "child exit status 4", "net", "user defined signal 1",
        "100", "true <nil>", "ok  ", "linux"]


def test_rust(twin):
    out, *_ = twin.run("rustc -O -C codegen-units=4 m.rs && ./m && rustc --test m.rs -o t && ./t -q 2>&1 | grep -o '1 passed'", data.tree("rust"))
    assert out.splitlines() == ["56", "3 child", "net", "true", "1 passed"]
