"""vm.py: Debian's own kernel in a virtual machine, for what the host's kernel can't be asked: here a cgroup
tree that has the memory and pids controllers. Shell scripts run as root, one after the other, in a system of a few
programs in memory; what they print comes back. Nothing of the host is reachable from inside. Emulated: that works wherever the tests do."""
import os
import pathlib
import re
import shutil
import subprocess

from . import names

PROGRAMS = ("/bin/bash", "/usr/bin/cat", "/usr/bin/dd", "/usr/bin/rm", "/usr/bin/sleep")
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /ws /etc
b=/bin/busybox
if [ "$1" != moved ]; then
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
$b mkdir -p /dev/shm /dev/pts
$b mount -t tmpfs -o mode=1777 shm /dev/shm
$b mount -t tmpfs -o mode=1777 tmp /tmp
$b mount -t cgroup2 cg /sys/fs/cgroup
$b ip link set lo up
$b chown 1000:1000 /ws
echo "root:x:0:0::/:/bin/sh" > /etc/passwd
$b dmesg -n 1
fi
part() {
    echo "VM-PART $1"
    $b sh "/scripts/$1" 2>&1
}
if [ "$1" != moved ]; then
    echo "VM-BEGIN"
    for n in $($b cat /scripts.first); do part "$n"; done
fi
if [ "$1" != moved ] && [ -s /scripts.moved ]; then # the first root can't be left, so no view is made in it
    $b mkdir /new
    $b mount -t tmpfs new /new
    $b cp -a /bin /usr /lib* /etc /scripts* /init /ws /new
    $b mkdir -p /new/proc /new/sys /new/dev /new/tmp /new/run
    for m in proc sys dev tmp; do $b mount -o move /$m /new/$m; done
    exec $b switch_root /new /bin/busybox sh /init moved
fi
for n in $($b cat /scripts.moved); do part "$n"; done
echo "VM-END"
$b poweroff -f
"""


def kernel():
    """The newest kernel of Debian's cloud image, unpacked but not installed."""
    where = names.ROOT / "build" / "kernel"
    found = sorted(where.glob("boot/vmlinuz-*"))
    if not found:
        where.mkdir(parents=True, exist_ok=True)
        text = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], check=True,
                              capture_output=True, text=True).stdout
        package = re.search(r"Depends: (linux-image-\S+)", text)[1]
        subprocess.run(["apt-get", "download", package], check=True, cwd=where, capture_output=True)
        deb = next(where.glob("linux-image-*.deb"))
        subprocess.run(["dpkg-deb", "-x", deb, where], check=True)
        deb.unlink()
        found = sorted(where.glob("boot/vmlinuz-*"))
    return found[-1]


def libraries(program):
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(/\S+)", out))


def build_root(root, first, moved):
    for p in ("bin", "usr/bin", "lib64", "ws", "scripts"):
        (root / p).mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    wanted = {pathlib.Path(p): p for p in PROGRAMS}
    needed = set().union(*(libraries(p) for p in (names.BIN, *PROGRAMS)))
    shutil.copy(names.BIN, root / "usr/bin/sallyport")
    for p in [*map(str, wanted), *needed]:
        if p.endswith(":") or not os.path.exists(p):
            continue
        to = root / p.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(p, to)
    (root / "bin/sh").symlink_to("bash")
    for order, scripts in (("first", first), ("moved", moved)):
        (root / f"scripts.{order}").write_text(" ".join(scripts))
        for name, script in scripts.items():
            (root / "scripts" / name).write_text(script)
    init = root / "init"
    init.write_text(INIT)
    init.chmod(0o755)


def run(folder, first, moved, memory="768M", bound=1800):
    """What each script printed, by its name, as lines. moved: those that run in a root that is a mount, as a machine
    has it."""
    root = pathlib.Path(folder) / "root"
    build_root(root, first, moved)
    listing = subprocess.run(["find", "."], cwd=root, check=True, capture_output=True).stdout
    image = pathlib.Path(folder) / "initrd"
    with open(image, "wb") as f:
        subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], cwd=root, input=listing, stdout=f, check=True,
                       stderr=subprocess.DEVNULL)
    done = subprocess.run(
        ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", memory, "-smp", "1", "-nographic", "-no-reboot", "-nic", "none",
         "-kernel", kernel(), "-initrd", image, "-append", "console=ttyS0 no_timer_check loglevel=1 panic=-1 rdinit=/init"],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=bound, check=False)
    text = done.stdout.decode("utf-8", "replace").replace("\r", "")
    assert "VM-BEGIN\n" in text and "VM-END" in text, text[-5000:] + done.stderr.decode()
    parts = text.partition("VM-BEGIN\n")[2].partition("VM-END")[0].split("VM-PART ")[1:]
    return {name: rest.splitlines() for name, _, rest in (part.partition("\n") for part in parts)}
