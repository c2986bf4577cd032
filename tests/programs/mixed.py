"""mixed.py: small programs with drawn arguments, whose output doesn't depend on when or where they run.
make(rng) gives one script; the same seed gives the same scripts for ever."""
import string


def word(rng, low=1, high=12):
    return "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(low, high)))


def numbers(rng, count, top=1000):
    return " ".join(str(rng.randint(0, top)) for _ in range(count))


def arithmetic(rng):
    a, b, c = (rng.randint(1, 9999) for _ in range(3))
    return f"echo $(({a} * {b} % {c})) $(expr {a} + {b}); [ {a} -lt {b} ] && echo less || echo more"


def sorting(rng):
    how = rng.choice(("-n", "-r", "-u", "-nr", "-R --random-source=/dev/zero"))
    return (f"printf '%s\\n' {numbers(rng, rng.randint(1, 200))} | sort {how} | uniq -c | "
            f"head -{rng.randint(1, 50)}")


def awk(rng):
    return (f"seq {rng.randint(1, 5000)} | awk '{{ s += $1 % {rng.randint(2, 9)}; "
            f"if ($1 % {rng.randint(100, 999)} == 0) print $1, s }} END {{ print NR, s }}'")


def sed(rng):
    return (f"seq {rng.randint(1, 300)} | sed -E 's/([0-9])\\1/<&>/g; {rng.randint(1, 20)}d; y/123/abc/' | "
            f"tail -{rng.randint(1, 9)} | tr a-c x-z")


def pipes(rng):
    tools = ("cat", "tac", "rev", "sort", "nl", "tr 0-4 5-9", "cut -c1-3", "uniq", "head -50", "grep -v 7",
             "fold -w 2", "wc")
    stages = [rng.choice(tools) for _ in range(rng.randint(2, 8))]
    return f"seq {rng.randint(1, 2000)} | " + " | ".join(stages)


def digest(rng):
    tool = rng.choice(("md5", "sha1", "sha256", "sha512", "b2"))
    return f"head -c {rng.randint(0, 300000)} /dev/zero | tr '\\0' {rng.choice('abc')} | {tool}sum"


def archive(rng):
    how = rng.choice(("", "-z", "-j", "-J", "--zstd"))
    return (f"mkdir -p a/{word(rng)}; seq {rng.randint(1, 9000)} >a/{word(rng)}; ln -s x a/l; "
            f"tar -c {how} -f t a && mkdir o && tar -x {how} -f t -C o "
            "&& diff -r --no-dereference a o/a && (cd o && find . | sort)")


def files(rng):
    names = [word(rng, 1, 30) for _ in range(rng.randint(1, 12))]
    mode = rng.choice(("600", "755", "4711", "1777"))
    return (f"for n in {' '.join(names)}; do mkdir -p d/$n && echo $n >d/$n/f && chmod {mode} d/$n/f; done; "
            "find d -type f -exec stat -c '%n %a %s' {} + | sort; "
            f"cp -r d e && mv d/{names[0]} g && rm -r d && ls -R e g | md5sum; rm -r d 2>&1; rmdir e 2>&1")


def denied(rng):
    """What is refused to every user must be refused in the same words inside."""
    return rng.choice((
        "cat /etc/shadow", "echo x >/etc/sp-mixed", "rm /usr/bin/env", "mkdir /usr/sp-mixed", "touch /etc/passwd",
        "kill -9 1", "chmod 777 /etc/passwd", "chown 0 /etc/passwd", "cat /nonexistent", "cd /nonexistent", "dmesg",
        "mount -t tmpfs x /mnt", "hostname x", "nice -n -5 true", "ln /etc/shadow s", "ulimit -Hn 999999",
        "date -s @0 >/dev/null", "chroot / true", "swapoff -a", "sysctl -w kernel.hostname=x", "rmmod x",
        "rmdir /usr", "mv /bin/sh .", "truncate -s 0 /etc/passwd")) + " 2>&1; echo $?"


def signals(rng):
    number = rng.choice(("TERM", "KILL", "HUP", "INT", "USR1", "PIPE", "ABRT", "SEGV", "ALRM", "XCPU"))
    caught = f"trap 'echo got {number}; exit 3' {number}; kill -{number} $$; echo after"
    return rng.choice((
        f"sh -c 'kill -{number} $$'; echo $?", caught if number != "KILL" else "exit 1",
        # A shell's background command ignores INT and QUIT, but only from some moment after its start on.
        f"sleep 50 & kill -{'TERM' if number in ('INT', 'QUIT') else number} $!; wait $! 2>/dev/null; echo $?",
        f"timeout -s {number} 0.02 sleep 50; echo $?")) + f"; exit {rng.randint(0, 9)}"


def background(rng):
    n = rng.randint(1, 20)
    return (f"for i in $(seq {n}); do (echo $i >o$i; exit $((i % 3))) & p=$p' '$!; done; r=0; "
            "for j in $p; do wait $j; r=$((r + $?)); done; cat o* | sort -n | paste -sd, ; echo $r")


def xargs(rng):
    return (f"seq {rng.randint(1, 60)} | xargs -n {rng.randint(1, 5)} -P {rng.randint(1, 4)} "
            "sh -c 'echo $(($# * 7 + $1))' x | sort -n | paste -sd+")


def nested(rng):
    depth = rng.randint(1, 12)
    return f"f() {{ [ $1 = 0 ] && exit {rng.randint(0, 200)}; (f $(($1 - 1))); r=$?; echo $1 $r; exit $r; }}; f {depth}"


def busybox(rng):
    n = rng.randint(1, 500)
    return "busybox " + rng.choice((
        f"seq {n} | busybox sort -n | busybox md5sum", f"expr {n} % 7", "uname -s", f"factor {n}",
        f"seq {n} | busybox gzip | busybox zcat | busybox wc", "id -u", f"printf %05d {n}", "basename /a/b",
        "env -i A=1 busybox env"))


def dash(rng):
    letter = rng.choice(string.ascii_lowercase)
    return (f"dash -c 'set -e; x={word(rng)}; for i in {numbers(rng, 5)}; do x=\"$i$x\"; done; "
            f"echo ${{#x}} ${{x%{letter}*}}; test {rng.randint(0, 1)} = 1; echo end'")


def python(rng):
    n, few = rng.randint(1, 99), rng.randint(1, 9)
    body = rng.choice((
        f"print(sum(i * i for i in range({n * 999})))", f"import random; random.seed({n}); print(random.random())",
        f"import subprocess as s; print(s.run(['sh', '-c', 'exit {n}']).returncode)",
        "import json, sys; print(json.dumps({'a': [1, None, 2.5]}))",
        f"import threading as h; t = [h.Thread(target=print, args=({n},)) for _ in range({few})]; "
        "[x.start() or x.join() for x in t]",
        f"import os; r, w = os.pipe(); p = os.fork() or os._exit(os.write(w, b'x' * {n})); "
        "print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]), len(os.read(r, 999)))",
        "import socket; a, b = socket.socketpair(); a.send(b'hi'); print(b.recv(9))",
        "import tempfile as t; f = t.NamedTemporaryFile(); print(f.write(b'abc'))", "1 / 0",
        f"import zlib, hashlib; print(hashlib.sha256(zlib.compress(b'{word(rng)}' * 1000)).hexdigest())",
        "import os; os.abort()", "import multiprocessing as m; print(m.Lock().acquire())"))
    return f'python3 -IS -c "{body}"'


def perl(rng):
    return (f"perl -e 'my %h; $h{{$_ % {rng.randint(2, 20)}}} .= chr(97 + $_ % 26) for 1..{rng.randint(1, 500)}; "
            "print map { \"$_ $h{$_}\\n\" } sort { $a <=> $b } keys %h; "
            f"exit {rng.randint(0, 9)}'")


def node(rng):
    return (f'node -e "let h = {rng.randint(0, 99)}; for (let i = 0; i < {rng.randint(1, 200000)}; i++) '
            f'h = (h * 33 + i) % 65521; console.log(h); process.exitCode = {rng.randint(0, 9)}"')


def sqlite(rng):
    return (f"sqlite3 {rng.choice((':memory:', 'db'))} 'create table t(a, b); "
            "with recursive c(n) as (values(1) union all select n + 1 from c "
            f"where n < {rng.randint(1, 2000)}) insert into t select n, n % {rng.randint(2, 9)} from c; "
            "create index i on t(b); select b, count(*), sum(a) from t group by b;'")


def git(rng):
    steps = "; ".join(f"echo {word(rng)} >>f{rng.randint(0, 3)}; git add .; git commit -qm {word(rng)}"
                      for _ in range(rng.randint(1, 4)))
    last = rng.choice(("status --short", "gc -q", "ls-tree -r HEAD", "clone -q . ../c", "branch x", "stash list",
                       "fsck", "show --stat"))
    return ("export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a "
            "GIT_AUTHOR_DATE='1 +0000' GIT_COMMITTER_DATE='1 +0000'; "
            f"git init -q -b m r && cd r; {steps}; git log --format=%h%s; git {last}")


def compile_c(rng):
    n = rng.randint(1, 1000)
    return ("printf '#include <stdio.h>\\nint main(void) { long s = 0; "
            f"for (int i = 0; i < {n}; i++) s += i ^ {n}; printf(\"%%ld\\\\n\", s); return {n % 7}; }}\\n' >m.c; "
            f"gcc -O{rng.randint(0, 3)} -o m m.c && ./m")


def make(rng):
    names = [f"t{i}" for i in range(rng.randint(1, 8))]
    rules = "\\n".join(f"{n}: ; @echo {n} >$@" for n in names)
    return (f"printf 'all: {' '.join(names)}\\n\\t@cat $^\\n{rules}\\n' >Makefile; "
            f"make -j{rng.randint(1, 4)}; make; touch t0; make -q; echo $?")


def sockets(rng):
    return ("python3 -IS -c \"import socket; s = socket.create_server(('127.0.0.1', 0)); "
            "c = socket.create_connection(s.getsockname()); k = s.accept()[0]; "
            f"k.send(b'{word(rng, 1, 200)}'); k.close(); print(c.recv(999))\"; exec 3<>/dev/tcp/127.0.0.1/1; echo $?")


def fifos(rng):
    reader = rng.choice(("wc", "tail -1", "md5sum", "head -2"))
    return (f"mkfifo p; seq {rng.randint(1, 9999)} >p & {reader} <p; wait; "
            "exec 5<>p; echo x >&5; read -r y <&5; echo $y; flock p echo locked")


def dd(rng):
    size = rng.choice((1, 512, 4096, 65536))
    return (f"dd if=/dev/zero bs={size} count={rng.randint(1, 60)} status=none | tee a b >/dev/null; cmp a b; "
            f"stat -c %s a; truncate -s {rng.randint(0, 9999)} a; cksum a b; "
            "split -n 3 b; cat xa? | cmp - b && echo whole")


def environment(rng):
    name = word(rng, 3, 9).upper()
    return (f"export {name}={word(rng)}; env -u HOME sh -c 'echo ${name} $HOME.'; "
            f"printenv {name} HOME PATH SHELL TMPDIR | sort; unset {name}; echo ${{{name}-none}}; "
            f"umask {rng.choice(('022', '077', '002'))}; umask; ulimit -n 99; ulimit -n; "
            "cd ..; cd - | sed 's/.*box/box/'")


def missing(rng):
    return rng.choice((
        f"sp-{word(rng)}-nothing", f"./{word(rng)}", "cat nothing", ": >x; ./x", ": >x; chmod +x x; ./x; echo $?",
        "printf '#!/nothing\\n' >x; chmod +x x; ./x", "exit 300", "exec sp-nothing", "if then", "echo 'open",
        "cd nothing", "exec 9</nothing", "/usr/bin", "kill -0 999999", "false",
        "printf '\\177ELF' >x; chmod +x x; ./x")) + "\necho status $?"


# How often each is drawn.
KINDS = ((arithmetic, 6), (sorting, 6), (awk, 5), (sed, 5), (pipes, 8), (digest, 5), (archive, 4), (files, 6),
         (denied, 8), (signals, 8), (background, 5), (xargs, 4), (nested, 3), (busybox, 6), (dash, 5),
         (python, 9), (perl, 4), (node, 2), (sqlite, 4), (git, 3), (compile_c, 2), (make, 3), (sockets, 3),
         (fifos, 4), (dd, 4), (environment, 4), (missing, 6))


def make_script(rng):
    kind = rng.choices([k for k, _ in KINDS], [n for _, n in KINDS])[0]
    return kind.__name__, kind(rng)
