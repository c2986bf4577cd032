"""The memory, pids and cpu controllers at work, on Debian's own kernel in a virtual machine: the limits are on
the cgroup of commands, in the box of each identity's; a command that runs over its memory is ended whole and says
so, the cell isn't; and without the right to the controllers the daemon says that and starts, or refuses."""
import json
import textwrap

import pytest

from harness import vm

SETTINGS = """
    b=/bin/busybox
    own=/sys/fs/cgroup/own
    export SANDBOX_WORKSPACE=/ws SANDBOX_PORT=8080 SALLYPORT_BIND=127.0.0.1 SALLYPORT_ACCEPT_MISSING=signal-scope
    export SALLYPORT_MAX_MEMORY=64MiB SALLYPORT_MAX_PROCS=40
    if [ -d $own ]; then # an earlier script's
        $b rmdir $own
        echo '-memory -pids -cpu' >/sys/fs/cgroup/cgroup.subtree_control
        $b chown 1000:1000 /ws
    fi
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
    echo '+memory +pids +cpu' >/sys/fs/cgroup/cgroup.subtree_control
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
    echo "limits $(cat memory.max memory.swap.max memory.oom.group pids.max cpu.max 2>/dev/null | $b tr '\\n' ' ')"
    echo "daemon $($b wc -l <../daemon/cgroup.procs)"
    cd /
    run plain '{"command":"echo ok; cat /proc/self/cgroup"}'
    run big '{"command":"dd if=/dev/zero of=/dev/shm/x bs=1M count=200; echo survived"}'
    run next '{"command":"rm -f /dev/shm/x; echo next"}'
    run part '{"command":"dd if=/dev/zero of=/dev/shm/x bs=1M count=20 2>/dev/null; rm /dev/shm/x; echo small"}'
    run busy '{"command":"i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo counted"}'
    run left '{"command":"for i in 1 2 3 4 5; do while :; do :; done & done; echo left"}'
    echo "throttled $($b awk '/^nr_throttled/ {print $2}' $own/sallyport-0/commands/cpu.stat)"
    echo "again $(cat $own/sallyport-0/commands/cpu.max)"
    run last '{"command":"echo last"}'
    $b grep -c 'the cell' /tmp/log
    """
BOX = """
    export RUNBOX_API_KEY=not-a-key-for-production RUNBOX_ROOT=/data RUNBOX_PORT=8080 RUNBOX_BIND=127.0.0.1
    export SALLYPORT_CPUS=0.2 SALLYPORT_MAX_PROCS=400
    unset SANDBOX_WORKSPACE SANDBOX_PORT SALLYPORT_BIND
    echo '+memory +pids +cpu' >/sys/fs/cgroup/cgroup.subtree_control
    $b sh -c 'echo $$ >/sys/fs/cgroup/own/cgroup.procs; exec /usr/bin/sallyport box' >/tmp/log 2>&1 &
    pid=$!
    while ! $b wget -q -O /dev/null http://127.0.0.1:8080/ready 2>/dev/null; do $b sleep 0.1; done
    $b grep 'layer' /tmp/log
    call() {
        $b wget -q -O - --header 'Authorization: Bearer not-a-key-for-production' --header "X-Runbox-Identity: $1" \
            --header 'Content-Type: application/json' --post-data "$2" http://127.0.0.1:8080/v1/exec
    }
    say() {
        printf '%s %s\n' "$1" "$(call "$2" "$3")"
    }
    """
# Two of 40 MiB at a time are more than the 64 that each may have.
TWO = """
    say plain a '{"command":"cat /proc/self/cgroup"}'
    say other b '{"command":"cat /proc/self/cgroup"}'
    at=$own/sallyport-0/commands
    for n in $(ls $at | $b grep '^[0-9]'); do
        [ -n "$($b cat $at/$n/cell/cgroup.procs)" ] || continue
        echo "limits $n $(cd $at/$n/run; cat memory.max memory.oom.group pids.max cpu.max | $b tr '\\n' ' ')"
    done
    big='{"command":"dd if=/dev/zero of=/dev/null bs=40M count=1 2>/dev/null; echo enough"}'
    call a "$big" >/tmp/a & one=$!
    call b "$big" >/tmp/b & two=$!
    wait $one $two
    echo "first $(cat /tmp/a)"
    echo "second $(cat /tmp/b)"
    call b '{"command":"sleep 1; echo beside"}' >/tmp/b & two=$!
    say over a '{"command":"for i in 1 2 3 4; do dd if=/dev/zero of=/dev/null bs=40M count=20 2>/dev/null & done; wait; echo survived"}'
    wait $two
    echo "beside $(cat /tmp/b)"
    say next a '{"command":"echo next"}'
    say spin a '{"command":"for i in 1 2 3 4 5 6 7 8 9 10; do for j in 1 2 3 4 5 6 7 8 9 10; do while :; do :; done & done; done; wait","timeout":6}'
    say last a '{"command":"echo last"}'
    echo "lost $($b grep -c 'is lost' /tmp/log)"
    """


def script(*parts):
    return "".join(textwrap.dedent(p) for p in (SETTINGS, *parts, "finish\n"))


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the scripts said, all in one machine: to boot it is half of what one takes."""
    three = "echo '+memory +pids +cpu' >/sys/fs/cgroup/cgroup.subtree_control\n"
    return vm.run(tmp_path_factory.mktemp("machine"), {
        "limits": script(ALONE, three, "export SALLYPORT_CPUS=0.5\nstart_alone\n", WORK),
        "others": script(DELEGATED, "SALLYPORT_CPUS=1 /usr/bin/sallyport seat; echo status $?\n", "start\n",
                         "run plain '{\"command\":\"sleep 100 & echo ok\"}'\n"),
        "number": script(ALONE, "echo '+memory +pids' >/sys/fs/cgroup/cgroup.subtree_control\n",
                         "$b chown 0:0 /ws; export SALLYPORT_ACCEPT_MISSING=signal-scope,uid\nstart_alone\n",
                         "run many '" + json.dumps({"command": MANY, "timeout": 20}) + "'\n",
                         "echo \"refused $($b awk '/^max/ {print $2}' $own/sallyport-0/commands/pids.events)\"\n",
                         "run last '{\"command\":\"echo last\"}'\n"),
    }, {"box": script(BOX, TWO)})


def answer(out, name):
    return json.loads(next(x for x in out if x.startswith(f"{name} {{")).split(" ", 1)[1])


def line(out, name):
    return next(x for x in out if x.startswith(name)).split(" ", 1)[1]


@pytest.mark.slow
def test_limits(told):
    out = told["limits"]
    text = "\n".join(out)
    assert "layer cgroup: on (commands are ended together, their memory has one limit, their number has one, their processors have one)" in text
    limits = line(out, "limits").split()
    assert limits[0] == str(64 << 20) and limits[-4:] == ["1", "40", "50000", "100000"], text
    assert int(line(out, "daemon")) == 4, text
    assert answer(out, "plain")["stdout"] == "ok\n0::/own/sallyport-0/commands\n"
    big = answer(out, "big")
    assert big["oom_killed"] is True and big["signal"] == "SIGKILL" and big["exit_code"] == 137, big
    assert "survived" not in big["stdout"]
    for name, said in (("next", "next\n"), ("part", "small\n"), ("busy", "counted\n"), ("left", "left\n"),
                       ("last", "last\n")):
        r = answer(out, name)
        assert r["stdout"] == said and r["exit_code"] == 0 and "oom_killed" not in r, r
    assert int(line(out, "throttled")) > 0 and line(out, "again") == "50000 100000", text
    assert line(out, "end") == "0 0 ", text  # status, folders left, controllers left


@pytest.mark.slow
def test_others_in_the_cgroup(told):
    """The kernel gives no controllers to the children of a cgroup with processes: told, and no more, but where
    nothing else keeps the limit."""
    out = told["others"]
    text = "\n".join(out)
    shared = "commands are ended together; others share our cgroup, so no limit for memory"
    assert f"layer cgroup: on ({shared} and processes)" in text
    assert f"The layer cgroup is missing (SALLYPORT_CPUS needs it; {shared}, processes and processors); " \
        "SALLYPORT_ACCEPT_MISSING=cgroup,signal-scope starts without it." in text
    assert line(out, "status") == "2"
    assert answer(out, "plain")["stdout"] == "ok\n"
    assert line(out, "end") == "0 0 ", text


@pytest.mark.slow
def test_number_of_processes(told):
    out = told["number"]
    text = "\n".join(out)
    assert "their number has one" in text and answer(out, "many")["stdout"] in ("", "made\n")
    assert int(line(out, "refused")) > 0, text
    assert answer(out, "last")["stdout"] == "last\n"
    assert line(out, "end") == "0 0 ", text


@pytest.mark.slow
def test_box(told):
    """Each identity has its limits for itself, and what one does over them is its own loss. A hundred processes that
    spin on a fifth of a processor end in time: what is ended isn't held to the limit."""
    out = told["box"]
    text = "\n".join(out)
    assert "layer cgroup: on (commands are ended together, their memory has one limit, their number has one, " \
        "their processors have one)" in text
    assert "layer view: on" in text and "layer pid-ns: on" in text, text
    places = [answer(out, x)["stdout"].strip() for x in ("plain", "other")]
    assert places[0] != places[1] and all(p.startswith("0::/own/sallyport-0/commands/") and p.endswith("/run") for p in places)
    limits = [x.split()[2:] for x in out if x.startswith("limits")]
    assert len(limits) >= 2 and all(x == [str(64 << 20), "1", "400", "20000", "100000"] for x in limits), text
    for name, said in (("first", "enough\n"), ("second", "enough\n"), ("beside", "beside\n"), ("next", "next\n"),
                       ("last", "last\n")):
        r = answer(out, name)
        assert r["stdout"] == said and r["exit_code"] == 0 and "oom_killed" not in r, text
    over = answer(out, "over")
    assert over["oom_killed"] is True and over["signal"] == "SIGKILL" and over["stdout"] == "", over
    assert answer(out, "spin")["timed_out"] is True
    assert line(out, "lost") == "0" and line(out, "end") == "0 0 ", text
