"""seat.py: a walk through the Python client. It trusts the daemon at SEAT_URL."""

import io
import os

from runbox import ApiError, Exit, Output, Seat

seat = Seat(os.environ.get("SEAT_URL", "http://127.0.0.1:8080"), deadline=60)
print("health:", seat.health())

# A command that fails is a result, not an exception.
result = seat.execute('echo "hello $WHO"; exit 3', timeout=5, env={"WHO": "world"})
print("exit code:", result.exit_code, "stdout:", result.stdout.strip())

# Its output while it runs. Leaving the block early would kill it.
with seat.stream("for i in 1 2 3; do echo step $i; sleep 0.1; done") as live:
    for event in live:
        if isinstance(event, Output):
            print(f"{event.stream}: {event.text.strip()}")
        elif isinstance(event, Exit):
            print("ended with", event.exit_code)

# Files: bytes, text, or anything that can be read. Nothing is buffered on the way.
stored = seat.write("example/notes/a.txt", "some bytes")
seat.write("example/big", io.BytesIO(bytes(1_000_000)))
print("read:", seat.read("example/notes/a.txt").decode())
with seat.open("example/big") as body:
    print("big:", sum(len(piece) for piece in body))
print("names:", [entry.name for entry in seat.list("example").entries])

# Two writers: the second one learns that it was too late.
seat.write("example/notes/a.txt", "other bytes")
try:
    seat.write("example/notes/a.txt", "late", if_match=stored.etag)
except ApiError as err:
    print("refused:", err.code, err.status)

seat.delete_path("example", recursive=True)
print("done")
