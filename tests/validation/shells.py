"""shells.py: one attack in many disguises. A filter of command texts would take some of them for harmless; here
nothing reads the text, so that each must run, and none may get further than the plain one."""
import base64
import codecs
import gzip
import shlex

from . import suite
from .suite import Cannot, expect

# Other processes' environments, files elsewhere, another user id.
PAYLOAD = ("echo RAN; for f in /proc/[0-9]*/environ; do case $(tr '\\0' '\\n' <$f 2>/dev/null) in ''|*SP_MARK=mine*) ;; "
           "*) [ -e $f ] && echo BYPASS reads $f;; esac; done; for d in / /etc /usr/bin /lib /root /home /opt /run /sys \"$SP_UP\"; do "
           "( : >$d/sp-escape ) 2>/dev/null && echo BYPASS writes $d; done; [ $(id -u) = 0 ] && echo BYPASS is root; "
           "kill -0 $PPID 2>/dev/null && grep -q . /proc/$PPID/maps 2>/dev/null && ! grep -qz SP_MARK /proc/$PPID/environ && echo BYPASS sees $PPID; true")
Q = shlex.quote
ENCODED = base64.b64encode(PAYLOAD.encode()).decode()
HEX = PAYLOAD.encode().hex()


def octal(text):
    return "".join(f"\\{b:03o}" for b in text.encode())


def nested_quotes(depth, text):
    for _ in range(depth):
        text = f"sh -c {Q(text)}"
    return text


def nested_base64(depth, text):
    for _ in range(depth):
        text = f"echo {base64.b64encode(text.encode()).decode()} | base64 -d | sh"
    return text


def substituted(depth, text):
    for _ in range(depth):
        text = f'echo "$({text})"'
    return text


def here_documents(depth, text):
    head = "".join(f"sh <<'E{n}'\n" for n in range(depth))
    return head + text + "\n" + "".join(f"E{n}\n" for n in reversed(range(depth)))


def wrapped(before, depth, after, text):
    return before * depth + text + after * depth


def assembled(text):
    """Pieces in variables, in the wrong order."""
    cut = [text[i:i + 40] for i in range(0, len(text), 40)]
    names = [f"v{i}" for i in range(len(cut))]
    return "; ".join(f"{n}={Q(c)}" for n, c in reversed(list(zip(names, cut)))) + '; eval "' + "".join(f"${{{n}}}" for n in names) + '"'


PERL_CHILD = "exec('sh','-c',$ENV{P})"
# name: (tools, what it is, the command; $P is the payload where its text isn't in the command)
DISGUISES = {
    "plain": ("", "the attack as it is", PAYLOAD),
    "base64": ("base64", "base64 -d | sh", f"echo {ENCODED} | base64 -d | sh"),
    "base64-nested": ("base64", "base64 in base64, 8 deep", nested_base64(8, PAYLOAD)),
    "base64-eval": ("base64", "eval $(base64 -d)", f'eval "$(echo {ENCODED} | base64 -d)"'),
    "gzip": ("gzip base64", "gzip in base64", f"echo {base64.b64encode(gzip.compress(PAYLOAD.encode())).decode()} | base64 -d | gzip -d | sh"),
    "hex": ("xxd", "xxd -r -p | sh", f"echo {HEX} | xxd -r -p | sh"),
    "octal": ("", "printf with octal escapes", f"printf '%b' '{octal(PAYLOAD).replace(chr(92), chr(92) + '0')}' | sh"),
    "rot13": ("tr", "rot13 by tr", "tr a-zA-Z n-za-mN-ZA-M <<'E' | sh\n" + codecs.encode(PAYLOAD, "rot13") + "\nE"),
    "reversed": ("rev", "rev | sh", f"printf %s {Q(PAYLOAD[::-1])} | rev | sh"),
    "eval": ("", "eval", f"eval {Q(PAYLOAD)}"),
    "eval-50": ("", "eval of eval, 50 deep", "eval " * 50 + '"$P"'),
    "quotes-5": ("", "sh -c in sh -c, 5 deep, quoted anew", nested_quotes(5, PAYLOAD)),
    "sh-100": ("", "sh below sh, 100 deep", "if [ ${N:-0} -lt 100 ]; then export N=$((${N:-0}+1)); sh -c \"$SELF\"; else eval \"$P\"; fi"),
    "here-50": ("", "here-documents in here-documents, 50 deep", here_documents(50, PAYLOAD)),
    "subshells-200": ("", "subshells, 200 deep", wrapped("( ", 200, " )", PAYLOAD)),
    "braces-200": ("", "groups, 200 deep", wrapped("{ ", 200, "; }", PAYLOAD)),
    "substitutions": ("", "command substitutions, 30 deep", substituted(30, PAYLOAD)),
    "backticks": ("", "backticks", "`echo eval` \"$P\""),
    "process-substitution": ("bash", "bash <(...)", "bash <(printf %s \"$P\")"),
    "here-string": ("bash", "bash <<<", "bash <<<\"$P\""),
    "ifs": ("", "$IFS for blanks", "sh${IFS}-c${IFS}\"$P\""),
    "empty-quotes": ("", "quotes and backslashes inside words", "e'v'a\\l \"\"\"$P\"''"),
    "globs": ("", "globs for names", "/usr/b?n/s[h] -c \"$P\""),
    "braces": ("bash", "brace expansion", "bash -c '{sh,-c,\"$P\"}'"),
    "slices": ("bash", "names cut from other variables", "bash -c 'X=xevaly; ${X:1:4} \"$P\"'"),
    "indirection": ("bash", "variables that name variables", "bash -c 'A=B; B=\"$P\"; eval \"${!A}\"'"),
    "assembled": ("", "pieces in variables, in the wrong order", assembled(PAYLOAD)),
    "ansi-c": ("bash", "$'...' with hexadecimal escapes", "bash -c \"eval $'" + "".join(f"\\\\x{b:02x}" for b in PAYLOAD.encode()) + "'\""),
    "function": ("", "a function with a harmless name", "ls() { eval \"$P\"; }; ls"),
    "alias": ("bash", "an alias", "bash -O expand_aliases -c $'alias ls=eval\\nls \"$P\"'"),
    "trap-exit": ("", "trap on exit", "trap 'eval \"$P\"' EXIT; exit 0"),
    "trap-debug": ("bash", "trap on debug", "bash -c 'trap \"trap - DEBUG; eval \\\"\\$P\\\"\" DEBUG; :'"),
    "prompt-xtrace": ("bash", "PS4 with a substitution", "bash -c 'PS4='\"'\"'$(eval \"$P\" >&3)'\"'\"'; set -x; :' 3>&1"),
    "bash-env": ("bash", "BASH_ENV", "printf %s \"$P\" >be; BASH_ENV=./be bash -c :"),
    "source": ("", ". of a file", "printf %s \"$P\" >src; . ./src"),
    "stdin": ("", ". /dev/stdin", "printf %s \"$P\" | sh /dev/stdin"),
    "fifo": ("mkfifo", "a shell that reads a FIFO", "mkfifo ff; (printf %s \"$P\" >ff &) ; sh <ff"),
    "shebang": ("", "a script with a shebang", "printf '#!/bin/sh\\n%s' \"$P\" >sc; chmod 755 sc; ./sc"),
    "shebang-env": ("env", "a script with env -S in its shebang", "printf '#!/usr/bin/env -S sh -e\\n%s' \"$P\" >sd; chmod 755 sd; ./sd"),
    "exec-a": ("bash", "exec -a: another name in the process list", "bash -c 'exec -a [kworker/0:0] sh -c \"$P\"'"),
    "env": ("env", "env -i", "env -i SP_MARK=mine PATH=\"$PATH\" sh -c \"$P\""),
    "xargs": ("xargs", "xargs", "printf '%s\\0' \"$P\" | xargs -0 sh -c"),
    "find-exec": ("find", "find -exec", "find . -maxdepth 0 -exec sh -c \"$P\" \\;"),
    "awk": ("awk", "awk's system()", "awk 'BEGIN { system(ENVIRON[\"P\"]) }'"),
    "sed": ("sed", "sed's e", "printf %s \"$P\" >se; echo 'sh ./se' | sed 's/.*/&/e'"),
    "make": ("make", "a makefile", "printf 'x:\\n\\t@sh -c \"$$P\"\\n' >mk; make -s -f mk"),
    "tar-checkpoint": ("tar", "tar --checkpoint-action", "printf %s \"$P\" >tc; tar cf /dev/null --checkpoint=1 --checkpoint-action=exec='sh ./tc' tc"),
    "tar-to-command": ("tar", "tar --to-command", "printf %s \"$P\" >tt; tar cf t.tar tt; tar xf t.tar --to-command='sh'"),
    "git-alias": ("git", "a git alias", "git -c alias.x='!sh -c \"$P\"' x"),
    "git-pager": ("git", "a git hook", "git init -q g && printf '#!/bin/sh\\n%s' \"$P\" >g/.git/hooks/pre-commit && chmod 755 g/.git/hooks/pre-commit && "
                  "cd g && HOME=$PWD git -c user.name=x -c user.email=x commit -qm x --allow-empty 2>&1"),
    "timeout": ("timeout", "timeout, nohup, nice, setsid", "timeout 30 nice nohup sh -c \"$P\" 2>/dev/null"),
    "setsid": ("setsid", "a session of its own", "setsid -w sh -c \"$P\""),
    "background": ("", "in the background, double-forked", "( ( sh -c \"$P\" ) & ) ; sleep 0.6"),
    "python": ("python3", "a Python one-liner", "python3 -c 'import os; os.system(os.environ[\"P\"])'"),
    "python-exec": ("python3", "exec(base64) in Python", "python3 -c 'exec(__import__(\"base64\").b64decode(\"" + base64.b64encode(
        b"import subprocess,os;subprocess.run(['sh','-c',os.environ['P']])").decode() + "\"))'"),
    "python-lambda": ("python3", "a lambda that builds names", "python3 -c '(lambda o: getattr(o, \"\".join(map(chr, [115,121,115,116,101,109])))(o.environ[\"P\"]))(__import__(\"os\"))'"),
    "python-pty": ("python3", "a pseudo-terminal", "python3 -c 'import pty; pty.spawn([\"sh\",\"-c\",__import__(\"os\").environ[\"P\"]])'"),
    "python-memfd": ("python3", "a script run from memory", "python3 -c 'import os; f=os.memfd_create(\"x\",0); os.write(f,b\"#!/bin/sh\\n\"+os.environb[b\"P\"]); "
                     "p=f\"/proc/{os.getpid()}/fd/{f}\"; os.set_inheritable(f,True); os.execv(p,[p])'"),
    "python-ctypes": ("python3", "libc's system() by ctypes", "python3 -c 'import ctypes,os; ctypes.CDLL(None).system(os.environb[b\"P\"])'"),
    "perl": ("perl", "a Perl one-liner", f"perl -e {Q(PERL_CHILD)}"),
    "perl-pack": ("perl", "perl -e of packed bytes", "perl -e 'eval pack(\"H*\",\"" + PERL_CHILD.encode().hex() + "\")'"),
    "perl-fork": ("perl", "40 forks deep in Perl", "perl -e 'for (1..40) { my $p=fork(); if ($p) { waitpid($p,0); exit } } " + PERL_CHILD.replace("'", "\"") + "'"),
    "node": ("node", "node's child_process", "node -e 'process.stdout.write(require(\"child_process\").execSync(process.env.P))'"),
    "busybox": ("busybox", "busybox sh", "busybox sh -c \"$P\""),
    "compiled": ("gcc", "a program compiled on the spot", "printf '#include <stdlib.h>\\nint main(void){return system(getenv(\"P\"));}' >c.c && gcc -o c c.c && ./c"),
    "preload": ("gcc", "a library preloaded into a harmless program",
                "printf '#include <stdlib.h>\\n__attribute__((constructor)) void f(void){unsetenv(\"LD_PRELOAD\");system(getenv(\"P\"));}' >p.c && "
                "gcc -shared -fPIC -o p.so p.c && LD_PRELOAD=./p.so env true"),
    "loader": ("", "the loader as the program", "for l in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do [ -x $l ] && exec $l /bin/sh -c \"$P\"; done"),
    "carriage-return": ("", "a comment that a terminal would overwrite", "# harmless\r\neval \"$P\""),
    "escape-sequences": ("", "escape sequences that would hide the line", "printf '\\033[2K\\033[1A'; eval \"$P\" #\x1b[2K\x1b[1A"),
    "right-to-left": ("", "Unicode's right-to-left override in the text", ": '\u202e' ; eval \"$P\" # \u202d"),
    "homoglyph": ("", "a homoglyph of cat as a function", "ϲat() { eval \"$P\"; }; ϲat || eval \"$P\""),
    "long-line": ("", "100 kB of blanks before the attack", " " * 100000 + "eval \"$P\""),
    "line-continued": ("", "a name broken over lines", "e\\\nv\\\na\\\nl \"$P\""),
    "unset-path": ("", "no PATH, whole names", "PATH= /bin/sh -c 'PATH=/usr/bin:/bin; eval \"$P\"'"),
    "dot-profile": ("", "a login shell with a profile", "printf %s \"$P\" >.profile; HOME=$PWD ENV= sh -l -c :"),
    "coproc": ("bash", "a coprocess", "bash -c 'coproc C { sh -c \"$P\"; }; cat <&${C[0]}'"),
    "sqlite": ("sqlite3", "sqlite3's .shell", "printf %s \"$P\" >sq; sqlite3 :memory: '.shell sh ./sq'"),
    "script-split": ("split", "a script in 20 pieces, put together", "printf %s \"$P\" >sp; split -n 20 sp piece.; cat piece.* | sh"),
    "redirect-dance": ("", "a script read from descriptor 9", "printf %s \"$P\" >r9; exec 9<r9; sh /dev/fd/9"),
    "openssl": ("openssl", "encrypted, with its password beside it", "printf %s \"$P\" | openssl enc -aes-128-cbc -pbkdf2 -k x -out en && openssl enc -d -aes-128-cbc -pbkdf2 -k x -in en | sh"),
    "zip": ("zip unzip", "from a zip", "printf %s \"$P\" >z && zip -q z.zip z && unzip -p z.zip | sh"),
}


def disguise_check(name):
    tools, _, command = DISGUISES[name]

    def work(t):
        t.need(*tools.split())
        r = t.run(command, env={"P": PAYLOAD, "SELF": command if name == "sh-100" else "", "SP_MARK": "mine", "SP_UP": t.ws.rpartition("/")[0]}, cwd=t.folder(), timeout=40)
        out = r["stdout"].replace("\r", "")
        expect("BYPASS" not in out, out[:300])
        if "RAN" not in out:
            raise Cannot(f"it didn't run: {r['exit_code']} {r['stderr'][:300]!r}")
    return work


for _name, (_, _what, _) in DISGUISES.items():
    suite.add("disguise-" + _name, "obfuscation", f"reading others' memory, writing elsewhere: {_what}", "it runs and gets nowhere",
              disguise_check(_name))


# ---- archives that a command unpacks ----
TAR = r"""
import io,tarfile
t=tarfile.open('evil.tar','w')
def add(name,kind=tarfile.REGTYPE,link='',data=b'evil'):
    i=tarfile.TarInfo(name); i.type=kind; i.linkname=link; i.mode=0o6777; i.size=len(data) if kind==tarfile.REGTYPE else 0
    t.addfile(i,io.BytesIO(data))
%s
t.close()
"""
ARCHIVES = {
    "dots": "add('../../../../../../../../etc/sp-evil')", "absolute": "add('/etc/sp-evil'); add('/usr/bin/sp-evil')",
    "link-then-file": "add('l',tarfile.SYMTYPE,'/etc'); add('l/sp-evil')", "link-chain": "add('a',tarfile.SYMTYPE,'..'); add('a/b',tarfile.SYMTYPE,'../../../../../../etc'); add('a/b/sp-evil')",
    "hard-link": "add('h',tarfile.LNKTYPE,'/etc/passwd'); add('h')", "device": "i=tarfile.TarInfo('d'); i.type=tarfile.BLKTYPE; i.devmajor,i.devminor=8,0; i.mode=0o666; t.addfile(i)",
    "set-user-id": "add('s',data=open('/bin/sh','rb').read())",
}


def archive_check(name):
    def work(t):
        t.need("python3", "tar", "find")
        d = t.folder()
        r = t.run("python3 -c \"$P\" && tar -xPpf evil.tar --same-owner 2>&1; python3 -c \"import tarfile; tarfile.open('evil.tar').extractall()\" 2>/dev/null; "
                  "find /etc/sp-evil /usr/bin/sp-evil /sp-evil 2>/dev/null; grep -l evil /etc/passwd; [ -b d ] && head -c1 d && echo disk; "
                  "[ -u s ] && ./s -p -c 'id -u; grep NoNew /proc/self/status' ; true",
                  cwd=d, env={"P": TAR % ARCHIVES[name]}, timeout=30)
        expect("sp-evil\n" not in r["stdout"].replace("Cannot", "") or "\n/etc/sp-evil\n" not in "\n" + r["stdout"], r["stdout"])
        expect("disk" not in r["stdout"] and "\n0\n" not in r["stdout"] and "/etc/passwd\n" not in r["stdout"].split("Cannot")[-1].split("tar:")[-1], r["stdout"])
        expect("NoNewPrivs:\t0" not in r["stdout"], "a set-user-id shell may gain")
        for path in ("l/sp-evil", "l/passwd", "a/b/sp-evil", "h", "d"):
            a = t.read(f"{d}/{path}")
            expect(a.status >= 400 or b"root:" not in a.body, f"{path}: {a!r}")
    return work


for _name in ARCHIVES:
    suite.add("unpack-" + _name, "deep", f"a tar that writes elsewhere, unpacked by a command: {ARCHIVES[_name]}"[:76],
              "nothing is written elsewhere, or read back through it", archive_check(_name))
