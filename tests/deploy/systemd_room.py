"""systemd_room.py: Debian's systemd as the first process of namespaces of its own, with the units of
deploy/systemd as they are shipped. The host's files are below an overlay whose upper layer is memory, its
devices, /run and /tmp are not there, and it has a cgroup of its own: what runs inside changes nothing
here. Nothing inside has another network than ours, and sockets are moved to a path."""
import os
import pathlib
import shutil
import subprocess
import tempfile

from harness import names, procs
from harness.http import Conn

ROOT = pathlib.Path(__file__).resolve().parents[2]
KEY = "test-key-0123456789abcdef"
BUILD = r'''
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$ROOM"
mkdir "$ROOM/up" "$ROOM/work" "$ROOM/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$ROOM/up,workdir=$ROOM/work" "$ROOM/root"
cd "$ROOM/root"
mount -t proc proc proc
mount -t sysfs sysfs sys -o ro
mount -t cgroup2 cgroup2 sys/fs/cgroup
for d in run dev; do mount -t tmpfs tmpfs $d -o mode=755; done
for d in tmp var/tmp; do mount -t tmpfs tmpfs $d -o mode=1777; done
for n in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "dev/${n%:*}" c 1 "${n#*:}"; done
mknod -m 666 dev/tty c 5 0
ln -s pts/ptmx dev/ptmx
mkdir dev/pts dev/shm
mount -t devpts devpts dev/pts -o newinstance,ptmxmode=0666
mount -t tmpfs tmpfs dev/shm -o mode=1777
touch dev/console
ln -s /proc/self/fd dev/fd
rm -rf etc/systemd/system etc/sallyport
mkdir -p etc/systemd/system etc/sallyport
cp "$UNITS"/*.service "$UNITS"/*.socket etc/systemd/system/
cp "$UNITS"/*.sysusers usr/lib/sysusers.d/sallyport.conf
cp "$BINARY" usr/local/bin/sallyport
cp "$UNITS"/*.tmpfiles usr/lib/tmpfiles.d/sallyport.conf
systemd-sysusers --root="$PWD" sallyport.conf
systemd-tmpfiles --root="$PWD" --create sallyport.conf
(umask 077; echo "RUNBOX_API_KEY=$KEY" >etc/sallyport/box.env; echo "SALLYPORT_LOG_REQUESTS=true" >etc/sallyport/seat.env)
for kind in box seat; do
    mkdir "etc/systemd/system/sallyport-$kind.socket.d" "etc/systemd/system/sallyport-$kind.service.d"
    printf '[Socket]\nListenStream=\nListenStream=/run/%s.sock\n' $kind >"etc/systemd/system/sallyport-$kind.socket.d/room.conf"
    printf '[Service]\nStandardError=file:/run/%s.log\n' $kind >"etc/systemd/system/sallyport-$kind.service.d/room.conf"
    for d in $DROPINS; do cp "$UNITS/$d" "etc/systemd/system/sallyport-$kind.service.d/"; done
done
printf '[Unit]\nWants=sallyport-box.socket sallyport-seat.socket\n' >etc/systemd/system/room.target
eval "$BEFORE"
pivot_root . mnt
umount -l /mnt
exec env -i container=room PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system \
    --unit=room.target --log-target=console --show-status=0
'''


def unified():
    """The root of the host's cgroup2 tree."""
    with open("/proc/mounts", encoding="ascii") as f:
        return next(pathlib.Path(line.split()[1]) for line in f if line.split()[2] == "cgroup2")


class Room:
    def __init__(self, before="", dropins=()):
        """before: shell, run in the room's root before systemd is; dropins: of deploy/systemd, for both units."""
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sp-systemd-", dir="/run"))
        self.cgroup = unified() / self.folder.name
        self.cgroup.mkdir()
        self.said = open(self.folder.with_suffix(".log"), "w+b")
        env = {**os.environ, "ROOM": str(self.folder), "UNITS": str(ROOT / "deploy/systemd"),
               "BINARY": str(names.BIN), "KEY": KEY, "BEFORE": before, "DROPINS": " ".join(dropins)}
        self.outer = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--cgroup", "--uts", "--ipc",
             "bash", "-c", f'{BUILD}'], env=env, stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said,
            preexec_fn=lambda: (self.cgroup / "cgroup.procs").write_text("0"))

    @property
    def root(self):
        init = procs.wait_for("the room's first process", lambda: procs.children(self.outer.pid))[0]
        return pathlib.Path(f"/proc/{init}/root")

    def wait_up(self):
        try:
            for kind in ("box", "seat"):
                procs.wait_for("it listens", lambda: (self.root / f"run/{kind}.sock").exists(), 60)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.log()}") from None

    def log(self, kind=None):
        """Of a daemon, or of systemd."""
        path = self.root / (f"run/{kind}.log" if kind else "dev/console")
        said = b"" if kind else pathlib.Path(self.said.name).read_bytes()
        return (said + (path.read_bytes() if path.exists() else b"")).decode("utf-8", "replace")

    def status(self):
        """What systemd says of the services."""
        return subprocess.run(["nsenter", "-t", self.root.parent.name, "--mount", "--pid", "--cgroup", "systemctl", "show",
                               "-p", "Id,Result,ExecMainStatus,ActiveState", "sallyport-*"],
                              capture_output=True, text=True, check=False).stdout

    def conn(self, kind):
        return Conn(str(self.root / f"run/{kind}.sock"))

    def close(self):
        self.outer.kill()  # takes the first process along, and so everything
        self.outer.wait()
        self.said.close()
        os.unlink(self.said.name)
        procs.wait_for("the cgroup is gone", self.cgroup_gone)
        shutil.rmtree(self.folder, ignore_errors=True)

    def cgroup_gone(self):
        try:
            for d in sorted((d for d, _, _ in os.walk(self.cgroup)), reverse=True):
                os.rmdir(d)
        except OSError:  # something in it is still ending
            return False
        return True
