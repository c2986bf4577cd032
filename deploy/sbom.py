#!/usr/bin/python3
"""sbom.py BUILD [--root FOLDER]: what is in BUILD/sallyport, as CycloneDX 1.5 in JSON on stdout.

BUILD is one of `./dev build`'s folders. Components are the libraries that the linker was given there, each with
the Debian package that it came from, and, for what is linked at the start, the libraries that the loader adds.
--root adds the packages of an image's Debian root. The same build gives the same bytes: no time is in it but
SOURCE_DATE_EPOCH's. Trusts the build folder and dpkg."""
import argparse
import functools
import gzip
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.parse
import uuid


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


@functools.cache
def said(*args):
    return subprocess.run(args, capture_output=True, text=True, check=True).stdout


@functools.cache
def owners():
    """path -> package, of every file that dpkg has put here. Its own index: asking takes a third of a second each."""
    found = {}
    for listing in pathlib.Path("/var/lib/dpkg/info").glob("*.list"):
        for line in listing.read_text(encoding="utf-8").splitlines():
            found[line] = listing.stem
    return found


def linked(build):
    """The libraries from outside the tree that go into the daemon's files: paths as the linker had them."""
    ninja = (build / "build.ninja").read_text()
    rules = re.findall(r"^build (src/\S+): c_LINKER [^|\n]*\| ([^\n]*)\n LINK_ARGS = ([^\n]*)", ninja, re.M)
    paths = {pathlib.Path(p) for _, inputs, _ in rules for p in inputs.split() if re.search(r"\.(a|so)$", p)}
    outside = {p.resolve() for p in paths if p.is_absolute()}
    if any("-static" in args for _, _, args in rules):  # libc is in it too: the small binary's, or all of it
        compiler = re.search(r"^rule c_LINKER\n command = (.*?) \$ARGS", ninja, re.M)[1].split()
        outside |= {pathlib.Path(said(*compiler, f"-print-file-name={n}").strip()).resolve() for n in ("libc.a", "libgcc.a")}
    loaded = subprocess.run(["ldd", build / "sallyport"], capture_output=True, text=True, check=False).stdout
    outside = {p for p in outside if p.suffix == ".a"} | {pathlib.Path(p).resolve() for p in re.findall(r"(/\S+) \(0x", loaded)}
    return sorted(p for p in outside if p.name != "libm.so")  # a linker script


def unpacked(root, package):
    """As dpkg-query would say it, of a package that was only unpacked: by its own changelogs. The first line of one
    is `source (version) ...`; that of a rebuild for one architecture has a file of its own."""
    changes = sorted((root / "usr/share/doc" / package).glob("changelog.Debian*.gz"), key=lambda p: -len(p.name))
    heads = [gzip.open(p, "rt", encoding="utf-8").readline() for p in changes]
    (source, version), (_, source_version) = (re.match(r"(\S+) \(([^)]+)\)", heads[n]).groups() for n in (0, -1))
    return [package, version, source, source_version]


def package_of(path):
    """(package, version, source, source's version). What a cross build takes from its sysroot has the name of the
    package that has the same file here."""
    root, _, inside = str(path).rpartition("/sysroot/")
    here = re.sub(r"/[a-z0-9_]+-linux-gnu/", f"/{said('gcc', '-print-multiarch').strip()}/", "/" + inside) if root else str(path)
    for name in (here, here.removeprefix("/usr")):
        if name in owners():
            package = owners()[name]
            if root:
                return unpacked(pathlib.Path(root) / "sysroot", package.split(":")[0])
            return said("dpkg-query", "-W", "-f", "${Package} ${Version} ${source:Package} ${source:Version}", package).split()
    return None


def deb(name, version, source, source_version, arch, **more):
    query = urllib.parse.urlencode({"arch": arch, "distro": "debian-12"})
    purl = f"pkg:deb/debian/{name}@{urllib.parse.quote(version, safe='')}?{query}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
            "properties": [{"name": "debian:source", "value": f"{source} {source_version}"}, *more.pop("properties", [])], **more}


def component(path, build, arch):
    how = [{"name": "sallyport:linked", "value": "static" if path.suffix == ".a" else "shared"},
           {"name": "sallyport:file", "value": path.name}]
    hashes = [{"alg": "SHA-256", "content": sha256(path)}]
    found = package_of(path)
    if found:
        return deb(*found, arch, hashes=hashes, properties=how)
    if path.is_relative_to((build / "libh2o").resolve()):  # made from Debian's source package
        version = next((build / "libh2o").glob("h2o_*.dsc")).stem.partition("_")[2]
        return deb("h2o", version, "h2o", version, arch, hashes=hashes, properties=how)
    raise SystemExit(f"sbom: no package has {path}")


def installed(root):
    """The packages of a Debian root."""
    for stanza in (root / "var/lib/dpkg/status").read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", stanza, re.M))
        if fields.get("Status", "").endswith(" installed"):
            source, _, version = fields.get("Source", fields["Package"]).partition(" ")
            yield deb(fields["Package"], fields["Version"], source, version.strip("()") or fields["Version"],
                      fields["Architecture"])


def bill(build, root):
    binary = build / "sallyport"
    arch = {0x3e: "amd64", 0xb7: "arm64"}[binary.read_bytes()[18]]  # e_machine
    ours = {"type": "application", "bom-ref": "sallyport", "name": "sallyport",
            "version": re.search(r'-DSP_VERSION="([^"]+)"', (build / "build.ninja").read_text())[1], "licenses": [{"license": {"id": "MIT"}}],
            "hashes": [{"alg": "SHA-256", "content": sha256(binary)}]}
    parts = {c["bom-ref"] + c["properties"][-1]["value"]: c for c in (component(p, build, arch) for p in linked(build))}
    for c in parts.values():  # one package may have several of the files
        c["bom-ref"] += "#" + c["properties"][-1]["value"]
    image = list(installed(root)) if root else []
    everything = sorted([*parts.values(), *image], key=lambda c: c["bom-ref"])
    document = {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
                "metadata": {"component": ours, "tools": {"components": [{"type": "application", "name": "deploy/sbom.py"}]}},
                "components": everything,
                "dependencies": [{"ref": "sallyport", "dependsOn": sorted(c["bom-ref"] for c in parts.values())}]}
    if "SOURCE_DATE_EPOCH" in os.environ:
        document["metadata"]["timestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document, sort_keys=True))}"
    return document


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("build", type=pathlib.Path)
    p.add_argument("--root", type=pathlib.Path)
    a = p.parse_args()
    json.dump(bill(a.build.resolve(), a.root), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
