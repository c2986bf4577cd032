"""Which user commands are: for a daemon that may choose."""
import grp
import os
import pwd

import pytest


@pytest.mark.plan("root-uid1000")
def test_users_by_name(start):
    """Out of /etc/passwd and /etc/group."""
    games, mail = pwd.getpwnam("games"), grp.getgrnam("mail")

    def prepare(d):
        os.chown(d.ws, games.pw_uid, games.pw_gid)
    d = start(env={"SALLYPORT_USER": "games:mail"}, prepare=prepare)
    assert d.run("id -u; id -g")["stdout"] == f"{games.pw_uid}\n{mail.gr_gid}\n"
    for value in ("no-such-user", "games:no-such-group"):
        d = start(up=False, env={"SALLYPORT_USER": value})
        assert d.wait_exit()["status"] == 2
        last = d.log().splitlines()[-1]
        assert last.startswith("sallyport: SALLYPORT_USER") and "no-such" in last, d.log()


@pytest.mark.plan("root-root")
def test_commands_as_root_must_be_accepted(start):
    d = start(up=False, env={"SALLYPORT_USER": "0:0"})
    report = d.wait_exit()
    assert report["status"] == 2 and "SALLYPORT_ACCEPT_MISSING=uid" in d.log(), d.log()
    assert start(plan="root-root").run("id -u")["stdout"] == "0\n"  # the harness accepts it for this plan
