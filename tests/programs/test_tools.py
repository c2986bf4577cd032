"""Archives, perl, databases, transfers: each script runs inside and bare, and its result is known."""
import zipfile

import data_files as data


def test_archives(twin):
    """tar with gzip, bzip2, xz, zstd; zip; cpio; threads of xz; times, modes and links that come back."""
    out, inside, _ = twin.run(r"""
        mkdir -p tree/sub; seq 20000 >tree/data; ln -s data tree/link; ln tree/data tree/hard
        printf '\0\377' >tree/sub/bin
        chmod 0755 tree/sub/bin; touch -d '2005-05-05 05:05 UTC' tree/data
        for how in gzip bzip2 xz 'xz -T2 --block-size=20KiB' zstd; do
            tar --sort=name -c -I "$how" -f t.tar tree && mkdir out && tar -x -I "$how" -f t.tar -C out &&
            diff -r tree out/tree && stat -c '%h %Y' out/tree/data && readlink out/tree/link && rm -r out t.tar
        done
        gzip -kf tree/data && zcat tree/data.gz | cmp - tree/data && gzip -l tree/data.gz | tail -1 |
        awk '{print $2}'
        zip -qr t.zip tree && unzip -q t.zip -d unz && diff -r tree unz/tree && unzip -Z1 t.zip | wc -l
        find tree | sort | busybox cpio -o -H newc >t.cpio 2>/dev/null; mkdir c; (cd c &&
        busybox cpio -id <../t.cpio 2>/dev/null); diff -r tree c/tree && echo cpio
        xz -k tree/data && xz -t tree/data.xz && echo good; printf broken >bad.gz; gzip -t bad.gz 2>/dev/null
        echo $?
        tar -c tree | tar -t | sort | tail -1
        """)
    lines = out.splitlines()
    assert lines[:10] == ["2 1115269500", "data"] * 5 and lines[10] == "108894", out
    assert "cpio" in lines and "good" in lines and lines[-2] == "1"
    with zipfile.ZipFile(inside / "t.zip") as z:
        assert z.testzip() is None and z.read("tree/sub/bin") == b"\0\377"


def test_perl(twin):
    out, *_ = twin.run("perl p.pl", data.tree("perl"))
    assert out.splitlines() == [",".join(f"{n}={n * n}" for n in range(1, 11)),
        "500500 2001000 4501500 8002000", "child 7",
                                "locked", "shared", "alarm", "connected", "a<1>b<22>c<333>", "sub"]


def test_sqlite_with_wal(twin):
    """A write-ahead log needs shared memory and locks; two processes write at once."""
    out, inside, _ = twin.run(r"""
        sqlite3 a.db 'pragma journal_mode=wal; create table t(id integer primary key, who text);'
        add() { for n in 1 2 3 4 5 6 7 8 9 10; do sqlite3 -cmd '.timeout 20000' a.db "insert into t(who) values('$1')"; done; }
        add x & add y & wait
        sqlite3 a.db 'select who, count(*) from t group by who; pragma integrity_check; pragma journal_mode;'
        sqlite3 a.db 'begin immediate; insert into t(who) values("z"); select count(*) from t; rollback; select count(*) from t;'
        sqlite3 a.db 'create virtual table f using fts5(b); insert into f values("some words here"); select b from f where f match "words";'
        sqlite3 a.db '.dump t' | sqlite3 b.db; sqlite3 b.db 'select count(*) from t; vacuum;'
        sqlite3 b.db .schema
        sqlite3 a.db "with recursive c(n) as (values(1) union all select n+1 from c where n<1000) select sum(n) from c"
        """)
    assert out.splitlines() == ["wal", "x|10", "y|10", "ok", "wal", "21", "20", "some words here", "20",
                                "CREATE TABLE t(id integer primary key, who text);", "500500"]
    assert (inside / "a.db").read_bytes()[:15] == b"SQLite format 3"


SERVER = r"""
import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, body):
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_GET(self): self.answer(b"x" * 300000 if self.path == "/big" else b"got " + self.path.encode())
    def do_POST(self): self.answer(b"sum %d" % sum(self.rfile.read(int(self.headers["Content-Length"]))))
    def log_message(self, *a): pass
s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
open("port.new", "w").write(str(s.server_address[1])); import os; os.rename("port.new", "port")
s.serve_forever()
"""


def test_curl_against_a_server_of_the_command(twin):
    out, inside, _ = twin.run(r"""
        python3 server.py & until [ -e port ]; do sleep 0.02; done; u=http://127.0.0.1:$(cat port)
        curl -sS $u/hello; echo; curl -sS -o big $u/big -w '%{size_download} %{http_code}\n'; sha1sum <big |
        cut -c1-8
        head -c 1000 /dev/zero | tr '\0' '\1' | curl -sS --data-binary @- $u/; echo
        curl -sS --parallel $u/a $u/b -o pa -o pb 2>/dev/null; cat pa pb; echo
        curl -sS http://localhost:$(cat port)/name; echo
        python3 -c "import urllib.request as u; print(u.urlopen('$u/py').read().decode())"
        exec 3<>/dev/tcp/127.0.0.1/$(cat port); printf 'GET /raw HTTP/1.0\r\n\r\n' >&3; tail -1 <&3; echo
        curl -sS http://127.0.0.1:1/ 2>/dev/null; echo $?; kill %1
        """, {"server.py": SERVER})
    assert out.splitlines() == ["got /hello", "300000 200", "9fcc3bd0", "sum 1000", "got /agot /b", "got /name",
        "got /py",
                                "got /raw", "7"]
    assert (inside / "big").stat().st_size == 300000


def test_openssl(twin):
    out, *_ = twin.run(r"""
        openssl genpkey -algorithm ed25519 -out k 2>/dev/null; openssl pkey -in k -pubout -out p; echo text >m
        openssl pkeyutl -sign -inkey k -rawin -in m -out s &&
        openssl pkeyutl -verify -pubin -inkey p -rawin -in m -sigfile s
        echo secret | openssl enc -aes-256-cbc -pbkdf2 -pass pass:x |
        openssl enc -d -aes-256-cbc -pbkdf2 -pass pass:x
        openssl req -x509 -newkey rsa:2048 -nodes -keyout r -out c -days 1 -subj /CN=t 2>/dev/null
        openssl x509 -in c -noout -subject
        openssl dgst -sha3-256 m | cut -d' ' -f2 | cut -c1-8
        """)
    assert out.splitlines()[:3] == ["Signature Verified Successfully", "secret", "subject=CN = t"]
