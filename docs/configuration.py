#!/usr/bin/python3
"""configuration.py SALLYPORT: docs/configuration.md, on stdout, from what the binary's own table says (--help).
tests/docs/test_configuration.py holds the page to it. Trusts the binary."""
import re
import subprocess
import sys

HEAD = """# Configuration

<!-- Made by docs/configuration.py from `sallyport --help`; `./dev docs` makes it anew. -->

Settings come from the environment. One that is empty counts as not there. A value that doesn't parse, a
`SALLYPORT_` variable that doesn't exist, and in the box a `RUNBOX_` one, stop the start with one sentence and
exit status 2. There is no configuration file, and no setting changes while the daemon runs, but for the TLS
pair: SIGHUP reads it anew.

| kind | written as |
|---|---|
| duration | `250ms`, `30s`, `5m`, `24h` |
| number of processors | `2`, `0.5`; down to `0.01` |
| size | bytes, or with a unit: `64k`, `16MiB`, `1GiB` |
| yes or no | `true` or `false` |

`sallyport check`, with the settings of a seat, tells which layers of confinement they and the host give;
`sallyport check box`, with those of a box, the same of that.
"""
SECTIONS = (
    ("Of the seat", lambda name, box: name.startswith("SANDBOX_")),
    ("Of the seat alone", lambda name, box: name.startswith("SALLYPORT_") and not both(name, box)),
    ("Of both", lambda name, box: name.startswith("SALLYPORT_") and both(name, box)),
    ("Of the box", lambda name, box: name.startswith("RUNBOX_")),
)


def both(name, box):
    """Whether the box takes it too: it has none of its own for the same, and users are its own affair."""
    return name == "SALLYPORT_REGISTRY_USER" or (
        name.replace("SALLYPORT_", "RUNBOX_") not in box and name != "SALLYPORT_USER")


def settings(text):
    """(name, help, default) of every line of the table."""
    for line in text.splitlines():
        m = re.match(r"  ([A-Z][A-Z_]+) +(.*)", line)
        if m and m[1] != "SALLYPORT_TEST_DISABLE":
            default = re.search(r" \[([^\]]*)\]$", m[2])
            yield m[1], m[2][:default.start()] if default else m[2], default[1] if default else ""


def page(text):
    rows = list(settings(text))
    box = {name for name, _, _ in rows if name.startswith("RUNBOX_")}
    out = [HEAD]
    for title, belongs in SECTIONS:
        out.append(f"## {title}\n\n| variable | default | meaning |\n|---|---|---|")
        for name, meaning, default in rows:
            if belongs(name, box):
                meaning = meaning.removeprefix("box: ").replace("|", "\\|")
                out.append(f"| `{name}` | {f'`{default}`' if default else '-'} | {meaning} |")
        out.append("")
    return "\n".join(out)


if __name__ == "__main__":
    sys.stdout.write(page(subprocess.run([sys.argv[1], "--help"], capture_output=True, text=True, check=True).stdout))
