"""deploy/clear.sh, by which every script removes a root that it made: what a cut-off run left mounted there, a folder of
the host's on the same disk too, must live. Each test has a mount namespace of its own."""
import re
import subprocess

import pytest

from harness import names

CLEAR = names.ROOT / "deploy/clear.sh"


@pytest.fixture(name="host")
def fixture_host(tmp_path):
    for path in ("host/deep", "the root/dev", "the root/mnt", "the root too/dev"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "host/deep/file").write_text("the host's")
    (tmp_path / "the root/own").write_text("ours")
    return tmp_path


def clear(folder, script):
    return subprocess.run(["unshare", "--mount", "sh", "-ec", script, "sh", CLEAR], cwd=folder, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)


def test_what_is_mounted_stays(host):
    done = clear(host, """
        mount --bind host 'the root/mnt'; mount -t tmpfs tmpfs 'the root/mnt/deep'; mount --bind host 'the root/dev'
        mount --bind 'the root' 'the root'; mount --bind host 'the root/dev'; mount --bind host 'the root too/dev'
        "$1" 'the root'; grep -c 'root.*too/dev' /proc/self/mounts; ! grep 'the.040root/' /proc/self/mounts""")
    assert (done.returncode, done.stdout) == (0, "1\n"), done
    assert not (host / "the root").exists() and (host / "host/deep/file").read_text() == "the host's"


def test_what_is_in_use_stops_it(host):
    done = clear(host, """mount --bind host 'the root/dev'; sleep 1000 <'the root/dev/deep/file' & sleeper=$!
        status=0; "$1" 'the root' || status=$?; kill $sleeper; exit $status""")
    assert done.returncode != 0 and "busy" in done.stderr, done
    assert (host / "the root/own").exists() and (host / "host/deep/file").exists()


def test_none_there_and_a_link(host):
    (host / "link").symlink_to("host")
    done = clear(host, '"$1" missing; "$1" link')
    assert done.returncode == 0, done
    assert not (host / "link").is_symlink() and (host / "host/deep/file").exists()


def test_all_use_it():
    """Nothing that mmdebstrap or a build filled is removed in another way."""
    for path in [*names.ROOT.glob("deploy/**/*.sh"), *names.ROOT.glob("tests/places/*.sh"), names.ROOT / "deploy/workflow.py"]:
        if path != CLEAR:
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"one-file-system|rmtree|rm -rf? \"?\$(root|room|out)\"?\s", text), path
            assert "mmdebstrap --quiet" not in text or "deploy/clear.sh" in text, path
