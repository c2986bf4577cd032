"""git with every transport that needs no network: each script runs inside and bare."""

ENV = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@x", "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@x",
       "GIT_AUTHOR_DATE": "1700000000 +0000", "GIT_COMMITTER_DATE": "1700000000 +0000"}


def test_git(twin):
    """Times and names are fixed, so even the object ids inside and bare must be the same."""
    out, inside, _ = twin.run(r"""
        set -e; git init -q -b main r; cd r
        for n in $(seq 30); do seq $n $((n * 50)) >f$n; git add f$n; git commit -qm "c$n"; done
        git rev-parse HEAD; git log --oneline | wc -l; git switch -qc side HEAD~5; echo s >side; git add .
        git commit -qm side
        git switch -q main; git merge -q --no-edit side; git log --merges --oneline | wc -l
        git mv f1 g1; git commit -qm mv; git log --follow --oneline g1 | wc -l; git blame -s g1 | head -1 |
        cut -d' ' -f3-
        echo dirty >>f2; git stash -q; git status --porcelain | wc -l; git stash pop -q; git diff --stat |
        tail -1; git checkout -q f2
        git worktree add -q ../wt side; (cd ../wt; echo w >w; git add w; git commit -qm w); git worktree list |
        wc -l
        git rebase -q --onto HEAD~1 HEAD~1 2>/dev/null; git tag -a v1 -m v1; git describe
        git config core.hooksPath hooks; mkdir hooks
        printf '#!/bin/sh\necho hook >&2\nexit 1\n' >hooks/pre-commit; chmod +x hooks/pre-commit
        echo z >z; git add z; git commit -qm z 2>err || cat err; git reset -q; rm -r z hooks
        git config --unset core.hooksPath
        git gc -q --prune=now; git count-objects -v | grep in-pack; git fsck 2>&1 | grep -v dangling || true
        cd ..
        git clone -q r c1; git clone -q --no-hardlinks --depth 1 "file://$PWD/r" c2; git clone -q --bare r b.git
        (cd c1; git log -1 --format=%H; git remote set-url origin ../b.git; echo p >p; git add p
        git commit -qm p; git push -q origin main)
        git --git-dir=b.git log -1 --format=%s; (cd c2; git log --oneline | wc -l; git fetch -q --unshallow
        git log --oneline | wc -l)
        (cd c1; git bundle create -q ../x.bundle main; git archive HEAD | tar t | wc -l; git grep -c p -- p
        git submodule -q add "$PWD/../b.git" sub 2>&1 | grep -o 'not allowed' || true)
        git clone -q x.bundle c3 -b main; cd c3; git format-patch -q -1 --stdout | git apply -R --check &&
        echo applies; git fsmonitor--daemon status || true
        """, env=ENV)
    lines = out.splitlines()
    assert lines[1:4] == ["30", "1", "2"] and "v1" in out and "hook" in lines and "applies" in lines, out
    assert (inside / "b.git" / "HEAD").read_text() == "ref: refs/heads/main\n"


def test_git_over_http(twin):
    """The smart protocol through git's own CGI program and a server on loopback."""
    out, *_ = twin.run(r"""
        set -e; git init -q -b main r; cd r; echo 1 >a; git add a; git commit -qm a; cd ..
        git clone -q --bare r s.git
        python3 cgi_server.py & until [ -e port ]; do sleep 0.02; done
        git clone -q "http://127.0.0.1:$(cat port)/s.git" c; cat c/a; git -C c log --format=%s; kill %1
        """, {"cgi_server.py": CGI}, env=ENV)
    assert out.splitlines() == ["1", "a"]


CGI = r"""
import http.server, os, subprocess
class H(http.server.BaseHTTPRequestHandler):
    def serve(self, body=b""):
        path, _, query = self.path.partition("?")
        env = {**os.environ, "GIT_PROJECT_ROOT": os.getcwd(), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
               "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "CONTENT_LENGTH": str(len(body)),
               "HTTP_GIT_PROTOCOL": self.headers.get("Git-Protocol", "")}
        out = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True).stdout
        head, _, rest = out.partition(b"\r\n\r\n")
        self.wfile.write(b"HTTP/1.0 200 OK\r\n" + head + b"\r\n\r\n" + rest)
    def do_GET(self): self.serve()
    def do_POST(self): self.serve(self.rfile.read(int(self.headers["Content-Length"])))
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
open("port.new", "w").write(str(s.server_address[1])); os.rename("port.new", "port"); s.serve_forever()
"""
