"""embed.py OUT FILE...: writes the files' texts as a C file with one array a file, and a table.

With --append=EXTRA, the text of EXTRA follows the policies of the front, the cell and the registry (a sanitizer's
needs; the broker's allows them anyhow, and a command's never gets more).
--symbol=NAME is the table's name.
"""
import os
import sys

ROLES = ("front.seccomp", "cell.seccomp", "registry.seccomp")


def main():
    args = sys.argv[1:]
    extra = b""
    symbol = "sp_policy_embedded"
    header = '"confine/policy.h"'
    while args[0].startswith("--"):
        key, _, val = args.pop(0).partition("=")
        if key == "--append":
            with open(val, "rb") as f:
                extra = f.read()
        elif key == "--symbol":
            symbol = val
        else:
            sys.exit("embed.py: unknown option " + key)
    out, files = args[0], args[1:]
    lines = ["/* Made by policy/embed.py. */", "#include " + header, ""]
    table = []
    for i, path in enumerate(files):
        name = os.path.basename(path)
        with open(path, "rb") as f:
            text = f.read()
        if name in ROLES and extra:
            text += b"\n" + extra
        lines.append("static const char text_%d[] = {" % i)
        for at in range(0, len(text), 20):
            lines.append("    " + ", ".join(str(b) for b in text[at:at + 20]) + ",")
        lines += ["    0,", "};", ""]
        table.append('    {"%s", text_%d, %d},' % (name, i, len(text)))
    lines.append("const struct sp_policy_embedded %s[] = {" % symbol)
    lines += table + ["};", "const size_t %s_n = %d;" % (symbol, len(table)), ""]
    with open(out, "w", encoding="ascii") as f:
        f.write("\n".join(lines))


main()
