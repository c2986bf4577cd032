"""Node and npm: workers, processes, sockets, an install from local folders: inside and bare, with known results."""
import re

import data_files as data


def node(twin, name):
    """Warnings of older versions begin with the process number."""
    out, *_ = twin.run(f"node {name}.js", data.tree("node"), clean=lambda t: re.sub(r"\(node:\d+\)", "", t))
    return out.splitlines()


def test_workers_and_processes(twin):
    assert node(twin, "workers") == ["Linux Linux Linux Linux 20", "child 42", "exit 0", "7 SIGKILL",
        "status 3", "usr2"]


def test_files_and_sockets(twin):
    assert node(twin, "sockets")[:4] == ["100000 a,b,cluster.js,sockets.js,workers.js", "watched", "body19",
        "unix"]


def test_cluster(twin):
    """Several processes accept on one socket that the first hands to them."""
    assert node(twin, "cluster") == ["ok,ok,ok,ok", "down"]


def test_npm(twin):
    """npm pack, an install from a tarball and from a folder with an install script, npx, npm run, npm ci. No network is asked."""
    out, inside, _ = twin.run(r"""
        set -e; export npm_config_offline=true npm_config_install_links=true npm_config_update_notifier=false npm_config_audit=false npm_config_fund=false
        (cd lib && npm pack --silent); cd app; npm install --silent ../lib/lib-1.2.3.tgz ../tool
        cat node_modules/tool/built; node -p 'require("lib").twice(21)'; npx --no-install tool-cmd
        npm run --silent hello
        npm ls --depth=0 2>/dev/null | grep -c lib@; rm -r node_modules; npm ci --silent
        node -p 'require("lib").twice(4)'
        npm test --silent 2>&1 | grep -E '^# (pass|fail)' || npm test --silent 2>&1 |
        grep -E '(pass|fail) [0-9]' | cut -c3-
        """, data.tree("npm"))
    lines = out.splitlines()
    assert lines[1:9] == ["built install", "42", "tool runs", "pre", "hi", "from app", "1",
        "8"] and any("pass 2" in line for line in lines), out
    assert (inside / "app" / "node_modules" / "tool" / "built").exists()
