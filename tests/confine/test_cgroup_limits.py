"""The memory and pids controllers at work, on Debian's own kernel in a virtual machine: the limits are on
the cgroup of commands, a command that runs over its memory is ended whole and says so, the cell isn't; and
without the right to the controllers the daemon says that and starts."""
import json
import textwrap

import pytest

from harness import vm

SETTINGS = """
    b=/bin/busybox
    own=/sys/fs/cgroup/own
    export SANDBOX_WORKSPACE=/ws SANDBOX_PORT=8080 SALLYPORT_BIND=127.0.0.1 SALLYPORT_ACCEPT_MISSING=signal-scope
    export SALLYPORT_MAX_MEMORY=64MiB SALLYPORT_MAX_PROCS=40
    $b mkdir $own
    start() {
        /usr/bin/sallyport seat >/tmp/log 2>&1 &
        pid=$!
        while ! $b wget -q -O /dev/null http://127.0.0.1:8080/healthz 2>/dev/null; do $b sleep 0.1; done
        $b grep 'layer cgroup' /tmp/log
    }
    run() {
        printf '%s ' "$1"
        $b wget -q -O - --header 'Content-Type: application/json' --post-data "$2" http://127.0.0.1:8080/execute
    }
    finish() {
        kill $pid
        wait $pid
        echo "end $? $($b find $own -mindepth 1 -type d | $b wc -l) $(cat $own/cgroup.subtree_control)"
    }
    """
DELEGATED = """
    echo '+memory +pids' >/sys/fs/cgroup/cgroup.subtree_control
    echo $$ >$own/cgroup.procs
    """
# The script's own shell stays in that cgroup: it may have no controllers for its children then.
ALONE = """
    start_alone() {
        $b sh -c 'echo $$ >/sys/fs/cgroup/own/cgroup.procs; exec /usr/bin/sallyport seat' >/tmp/log 2>&1 &
        pid=$!
        while ! $b wget -q -O /dev/null http://127.0.0.1:8080/healthz 2>/dev/null; do $b sleep 0.1; done
        $b grep 'layer cgroup' /tmp/log
    }
    """
# As root, whom no RLIMIT_NPROC binds: so it is the cgroup that refuses.
MANY = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do (for j in 1 2 3 4; do sleep 100 & done; wait) & done; sleep 1; echo made"
WORK = """
    cd $own/sallyport-0/commands
    echo "limits $(cat memory.max memory.swap.max memory.oom.group pids.max 2>/dev/null | $b tr '\\n' ' ')"
    echo "daemon $($b wc -l <../daemon/cgroup.procs)"
    cd /
    run plain '{"command":"echo ok; cat /proc/self/cgroup"}'
    run big '{"command":"dd if=/dev/zero of=/dev/shm/x bs=1M count=200; echo survived"}'
    run next '{"command":"rm -f /dev/shm/x; echo next"}'
    run part '{"command":"dd if=/dev/zero of=/dev/shm/x bs=1M count=20 2>/dev/null; rm /dev/shm/x; echo small"}'
    run last '{"command":"echo last"}'
    $b grep -c 'the cell' /tmp/log
    """


def lines(tmp_path, *parts):
    script = "".join(textwrap.dedent(p) for p in parts)
    return vm.run(script, tmp_path)


def answer(out, name):
    return json.loads(next(x for x in out if x.startswith(f"{name} {{")).split(" ", 1)[1])


def line(out, name):
    return next(x for x in out if x.startswith(name)).split(" ", 1)[1]


@pytest.mark.slow
def test_limits(tmp_path):
    out = lines(tmp_path, SETTINGS, ALONE, "echo '+memory +pids' >/sys/fs/cgroup/cgroup.subtree_control\n",
                "start_alone\n", WORK, "finish\n")
    text = "\n".join(out)
    assert "layer cgroup: on (commands are ended together, their memory has one limit, their number has one)" in text
    assert line(out, "limits").split()[0] == str(64 << 20) and line(out, "limits").split()[-2:] == ["1", "40"], text
    assert int(line(out, "daemon")) == 4, text
    assert answer(out, "plain")["stdout"] == "ok\n0::/own/sallyport-0/commands\n"
    big = answer(out, "big")
    assert big["oom_killed"] is True and big["signal"] == "SIGKILL" and big["exit_code"] == 137, big
    assert "survived" not in big["stdout"]
    for name, said in (("next", "next\n"), ("part", "small\n"), ("last", "last\n")):
        r = answer(out, name)
        assert r["stdout"] == said and r["exit_code"] == 0 and "oom_killed" not in r, r
    assert line(out, "end") == "0 0 ", text  # status, folders left, controllers left


@pytest.mark.slow
def test_others_in_the_cgroup(tmp_path):
    """The kernel gives no controllers to the children of a cgroup with processes: told, and no more."""
    out = lines(tmp_path, SETTINGS, DELEGATED, "start\n",
                "run plain '{\"command\":\"sleep 100 & echo ok\"}'\n", "finish\n")
    text = "\n".join(out)
    assert "layer cgroup: on (commands are ended together; others share our cgroup, so no limit for memory and processes)" in text
    assert answer(out, "plain")["stdout"] == "ok\n"
    assert line(out, "end") == "0 0 ", text


@pytest.mark.slow
def test_number_of_processes(tmp_path):
    out = lines(tmp_path, SETTINGS, ALONE, "echo '+memory +pids' >/sys/fs/cgroup/cgroup.subtree_control\n",
                "$b chown 0:0 /ws; export SALLYPORT_ACCEPT_MISSING=signal-scope,uid\nstart_alone\n",
                "run many '" + json.dumps({"command": MANY, "timeout": 20}) + "'\n",
                "echo \"refused $($b awk '/^max/ {print $2}' $own/sallyport-0/commands/pids.events)\"\n",
                "run last '{\"command\":\"echo last\"}'\n", "finish\n")
    text = "\n".join(out)
    assert "their number has one" in text and answer(out, "many")["stdout"] in ("", "made\n")
    assert int(line(out, "refused")) > 0, text
    assert answer(out, "last")["stdout"] == "last\n"
    assert line(out, "end") == "0 0 ", text
