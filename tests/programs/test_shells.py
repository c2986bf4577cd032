"""Shells and the small tools below them: each script runs inside and bare, and its result is known."""
import hashlib

import pytest

SHELLS = ("bash", "dash", "busybox sh")
COMMON = r"""
set -u
f() { printf '%s-' "$@"; echo; }
f a "b c" d | tr a-z A-Z
i=0; while [ $i -lt 5 ]; do i=$((i + 1)); printf '%d ' $((i * i)); done; echo
cat <<END
here $(echo inner | sed 's/in/out/') $((7 % 4))
END
trap 'echo usr1' USR1; kill -USR1 $$
( exit 3 ) || echo "status $?"
sh -c 'kill -TERM $$' || echo "status $?"
sleep 100 & p=$!; kill $p; wait $p; echo "waited $?"
mkfifo pipe; ( cat pipe | wc -c ) & printf 12345 >pipe; wait; rm pipe
for n in 3 1 2; do echo $n; done | sort | { read a; read b; echo "$a$b"; }
umask 027; : >made; ls -l made | cut -c1-10
exec 4>four; echo to-four >&4; exec 4>&-; cat four
cd /usr && cd "$OLDPWD" && [ -e four ] && echo back
case abc in a*) echo glob;; esac
exit 9
"""
WANT = """A-B C-D-
1 4 9 16 25 
here outner 3
usr1
status 3
status 143
waited 143
5
12
-rw-r-----
to-four
back
glob
"""


@pytest.mark.parametrize("shell", SHELLS)
def test_shell(twin, shell):
    # dash says "Terminated" only where it notices the death in time
    out, *_ = twin.run(f"{shell} script.sh", {"script.sh": COMMON}, expect=9,
                       clean=lambda t: t.replace("Terminated\n", ""))
    # wc may pad its number
    assert [line.strip() for line in out.splitlines()] == [line.strip() for line in WANT.splitlines()]


def test_bash_of_its_own(twin):
    out, *_ = twin.run(r"""
        declare -A m=([x]=1 [y]=2); echo "${m[y]}" "${#m[@]}"
        diff <(seq 3) <(seq 4) | tail -1
        coproc cat; echo through >&"${COPROC[1]}"; read -r line <&"${COPROC[0]}"; echo "$line"
        exec {COPROC[1]}>&-; wait
        a=(one two three); echo "${a[@]: -2}" "${a[0]^^}"
        set -o pipefail; false | true; echo "pipe $?"
        [[ foo42 =~ ([0-9]+) ]] && echo "${BASH_REMATCH[1]}"
        printf -v when '%(%Y)T' 0; echo "$when"
        mapfile -t lines < <(seq 100); echo "${#lines[@]}"
        set -m; sleep 0.01 & fg >/dev/null 2>&1; echo "job $?"
        (ulimit -n 64; ulimit -n); ulimit -t 100; ulimit -t
        compgen -c | grep -cx compgen
        exec 3<>/dev/null; echo x >&3 && echo rw
        echo "${PWD##*/box}" | grep -qx '[0-9]*' && echo in-a-box
        """)
    assert out.split("\n")[:14] == ["2 2", "> 4", "through", "two three ONE", "pipe 1", "42", "1970", "100",
        "job 0",
                                    "64", "100", "1", "rw", "in-a-box"]


def test_job_control_and_terminals(twin):
    """A pseudo terminal of one's own, job control on it, and a window size."""
    out, *_ = twin.run(
        "script -qec 'stty size; tty | cut -c1-9; stty rows 40 cols 90; stty size; set -m; (exit 3) & fg %1; "
        "echo status $?; sleep 100 & kill -STOP $!; kill -CONT $!; kill $!; wait 2>/dev/null; echo done' /dev/null "
        "</dev/null | tr -d '\\r' | grep -v -e Done -e Terminated -e Stopped -e exit")
    lines = out.splitlines()
    assert lines[1:3] == ["/dev/pts/", "40 90"] and lines[-2:] == ["status 3", "done"], out


def test_texts(twin):
    """grep, sed, awk, sort, join, comm, paste, cut, tr, uniq, fold, nl, pr, tac, rev, column, diff, patch."""
    out, *_ = twin.run(r"""
        seq 1000 | awk '{s += $1 * $1} END {print s}'
        seq 20 | sed -n '3~5p' | paste -sd,
        seq 5 | sort -rn | join - <(seq 5 -1 1) 2>&1 | wc -l
        printf 'b\na\nb\n' | sort | uniq -c | tr -s ' '
        comm -12 <(seq 1 10) <(seq 5 15) 2>/dev/null | tr '\n' ' '; echo
        printf 'one two three' | fold -w 4 | nl | tail -1
        seq 3 | tac | rev | paste -d: - - -
        printf 'a:1\nbb:22\n' | column -t -s:
        seq 10 >a; sed 's/^5$/five/' a >b; diff -u --label a --label b a b >p; patch -s a <p; cmp a b &&
        echo patched
        grep -rn --include='[ab]' five . | sort
        printf '%s\n' 10 9 2 33 1 | sort -n | head -2 | paste -sd+ | bc
        printf 'x%.0s' $(seq 100) | wc -c
        yes | head -1000 | sha256sum | cut -c1-16
        iconv -f latin1 -t utf8 <<<$'caf\xe9'
        seq 100 | shuf --random-source=<(yes) -n 3 | wc -l
        seq 7 | split -l 2 - part.; ls part.* | wc -l; cat part.* | md5sum | cut -c1-8
        expr 6 \* 7; factor 97 91; numfmt --to=iec 1048576; basename /x/y.z .z; dirname /x/y.z
        echo aGVsbG8= | base64 -d; echo; printf 'abc' | od -An -tx1; printf 'abc' | xxd -p
        """)
    digest = hashlib.sha256(b"y\n" * 1000).hexdigest()[:16]
    for line in ("333833500", "3,8,13,18", "patched", "./a:5:five", "./b:5:five", digest, "café", "42",
        "97: 97",
                 "91: 7 13", "1.0M", "hello", " 61 62 63", "616263", "100"):
        assert line in out.splitlines(), line


def test_files(twin):
    """ls, cp, mv, ln, rm, mkdir, install, touch, stat, chmod, truncate, dd, find, xargs, du, realpath, mktemp, sync."""
    out, inside, bare = twin.run(r"""
        mkdir -p a/b/c; seq 1000 >a/b/n; cp -a a z; cmp a/b/n z/b/n && echo same
        ln -s ../b/n a/c1; ln a/b/n a/hard; stat -c '%h %s %F' a/hard
        mv z/b z/moved; ls -A z; install -m 0751 a/b/n i; stat -c %a i
        touch -d '2001-02-03 04:05:06 UTC' i; TZ=UTC stat -c %y i
        chmod u+s,g-r i; stat -c %A i
        truncate -s 1M sparse; dd if=/dev/zero of=sparse bs=1 seek=1048576 count=1 conv=notrunc status=none
        stat -c %s sparse; fallocate -l 8192 fall; stat -c %s fall; cp --sparse=always sparse s2; cmp sparse s2 &&
        echo cmp
        find . -type f -size +1k | sort | xargs -n1 basename | sort
        find . -name n -exec sha1sum {} + | cut -c1-8 | sort -u
        realpath --relative-to=. a/../a/b; readlink a/c1; d=$(mktemp -d); [ -d "$d" ] && rmdir "$d" && echo temp
        f=$(mktemp -p .); rm "$f"; sync -f .; df . >/dev/null && echo df; du -s --apparent-size -b i | cut -f1
        flock lock -c 'echo locked'; timeout 0.05 sleep 5; echo $?
        mkdir t; chmod 1777 t; rm -r z t; ls | paste -sd' '
        chown "$(id -u):$(id -g)" i && chgrp "$(id -g)" i && echo owned; mknod p p && stat -c %F p
        setfattr -n user.k -v v i 2>/dev/null; getfattr --only-values -n user.k i 2>/dev/null; echo
        cp --reflink=auto i r && shred -u r && [ ! -e r ] && echo shredded
        tee t1 t2 <i >/dev/null; cksum i t1 t2 | cut -d' ' -f1 | uniq | wc -l
        nice -n 5 nice; nohup true 2>/dev/null && echo hup; stdbuf -oL echo buf; setsid -w echo sid
        ionice -c3 true && echo io
        chrt -b 0 true && echo batch; taskset 1 true && echo cpu; [ "$(nproc)" -gt 0 ] && echo cpus
        prlimit --nofile | wc -l
        """, again=True)
    lines = out.splitlines()
    for line in ("same", "2 3893 regular file", "moved", "751", "2001-02-03 04:05:06.000000000 +0000",
        "-rws--x--x", "1048577",
                 "cmp", "temp", "locked", "124", "owned", "fifo", "shredded", "5", "io", "batch", "sid"):
        assert line in lines, (line, out)
    for ws in (inside, bare):
        assert (ws / "sparse").stat().st_size == 1048577 and not (ws / "z").exists()


def test_system(twin):
    """What asks the kernel and the name service: id, uname, getent, date, locale, ps, free, uptime, ls of /proc."""
    out, *_ = twin.run(r"""
        id -u; id -un; uname -sm; getent passwd 0 | cut -d: -f1; getent hosts localhost | awk '{print $2}'
        getent services ssh
        TZ=Europe/Paris date -d @0 +%H:%M; LC_ALL=C.UTF-8 locale charmap
        ps -o comm= -p $$; ps -e -o comm= | grep -cx ps; cat /proc/$$/comm; ls /proc/self/fd | wc -l
        [ -r /proc/meminfo ] && free -b | grep -c Mem; nproc | grep -cx '[0-9]*'; uptime -p | grep -c up
        head -c 16 /dev/urandom | wc -c; echo x >/dev/full; echo $?; readlink /proc/self/exe
        kill -l 15; sleep 30 & until pkill -P $$ -x sleep; do sleep 0.01; done; wait $!; echo "killed $?"
        lsns 2>/dev/null | wc -l >/dev/null; cat /sys/kernel/mm/transparent_hugepage/enabled | wc -l
        ls / >/dev/null 2>&1; true
        ip -o addr show lo | awk '{print $4}' | head -1; logger -s hi 2>&1 >/dev/null | cut -c1-1 |
        wc -l >/dev/null
        """)
    lines = out.splitlines()
    assert lines[0] == str(twin.seat.owner) and lines[2] == "Linux x86_64" and lines[3] == "root"
    for line in ("01:00", "UTF-8", "bash", "16", "1", "killed 143", "TERM"):
        assert line in lines, (line, out)


def test_busybox_applets(twin):
    out, *_ = twin.run(r"""
        mkdir bin; for a in ls cat sed awk grep tar gzip gunzip find xargs sort wc tr vi true; do busybox --list | grep -qx $a && ln -s /bin/busybox bin/$a; done
        B=/bin/busybox; PATH=$PWD/bin; seq() { i=1; while [ $i -le $1 ]; do echo $i; i=$((i+1)); done; }
        seq 50 | awk '{s+=$1} END {print s}'; seq 3 | sed 's/2/two/' | tr '\n' ,; echo
        seq 9 >n; tar cf - n | gzip | gunzip | tar tf -; find . -name n | xargs wc -l; grep -c 1 n
        $B sha256sum n | $B cut -c1-6
        echo 'print $((2**8))' | $B sh -c 'read l; eval "echo ${l#print }"'
        $B stat -c %s n; $B dd if=n bs=4 count=1 2>/dev/null
        ls n | $B cpio -o -H newc 2>/dev/null | $B cpio -t 2>/dev/null; $B timeout 1 $B sleep 0
        $B httpd -h . -p 127.0.0.1:0 && echo httpd
        """)
    assert out.splitlines()[:3] == ["1275", "1,two,3,", "n"] and "256" in out.splitlines()
