"""box.py: a walk through the Python client of the box. It trusts the daemon at BOX_URL, and has its key."""

import io
import os
import tarfile

from runbox import ApiError, Box, Output

box = Box(os.environ.get("BOX_URL", "http://127.0.0.1:8080"), os.environ["BOX_KEY"], deadline=60)
box.wait_ready()
offer = box.capabilities()
print("version is there:", bool(offer.version), "commands at a time:", offer.limits["max_concurrency"])

# Each identity has a workspace and a user id of its own. The same name of another tenant is another one.
ws = box.workspace(tenant="example", user="alice")
bob = box.workspace(tenant="example", user="bob")

# A command and the files that it works on, in one request.
result = ws.execute("sort in/names | tee sorted", files={"in/names": "ben\nada\n"})
print("sorted:", result.stdout.split())
print("bob sees:", [entry.name for entry in bob.list().entries])

# Its output while it runs. Leaving the block early would kill it.
with ws.stream("for i in 1 2 3; do echo step $i; sleep 0.1; done") as live:
    for event in live:
        if isinstance(event, Output):
            print(f"{event.stream}: {event.text.strip()}")

# Files: one at a time, or several at once that are all there or none. Nothing is buffered on the way.
ws.write("big", io.BytesIO(bytes(1_000_000)))
ws.write_batch({"a.txt": "a", "b/c.txt": b"c"}, folder="many")
print("names:", [entry.name for entry in ws.list("many", recursive=True).entries])
with open(os.devnull, "wb") as sink:
    print("big:", ws.download("big", sink))

# All of it as a tar, made while it is read.
with ws.archive() as body, tarfile.open(fileobj=body, mode="r|") as tar:
    print("files in the archive:", sum(member.isfile() for member in tar))
print("bytes used:", ws.usage().bytes > 1_000_000)

try:
    ws.read("none")
except ApiError as err:
    print("refused:", err.code, err.status)

for one in (ws, bob):
    one.delete_workspace()
print("done")
