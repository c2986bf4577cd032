"""build.py: the loop of an agent that builds a program in the sandbox: it watches the build, ends it
early when it has seen enough, mends what is wrong and tries again. mend() stands where a model would
be asked. What the build prints is a stranger's: it is shown and looked at, never run here."""

import os
import re
from typing import Optional

from runbox import Output, Seat

FOLDER = "example/project"
FILES = {
    "Makefile": "hello: hello.c\n\tcc -Wall -Werror -o $@ $<\n",
    "hello.c": '#include <stdio.h>\n\nint main(void)\n{\n    printf("hello\\n")\n    return 0;\n}\n',
}
TRIES = 3


def build(seat: Seat) -> tuple[bool, str]:
    """Streams one build. True where it worked; else what it said."""
    said = ""
    with seat.stream("make", cwd=FOLDER, timeout=60) as live:
        for event in live:
            if isinstance(event, Output):
                print(f"  {event.stream}: {event.text}", end="")
                said += event.text
                if said.count("error:") > 20:
                    return False, said  # leaving kills the build: there is enough to do
    return live.exit is not None and live.exit.exit_code == 0, said


def mend(source: str, said: str) -> Optional[str]:
    """The source with the first error mended, or None. A model's turn, in a real agent."""
    found = re.search(r"hello\.c:(\d+):\d+: error: expected ‘;’|hello\.c:(\d+):\d+: error: expected ';'", said)
    if found is None:
        return None
    lines = source.split("\n")
    lines[int(found[1] or found[2]) - 1] += ";"
    return "\n".join(lines)


def main() -> None:
    seat = Seat(os.environ.get("SEAT_URL", "http://127.0.0.1:8080"), deadline=120)
    for name, text in FILES.items():
        seat.write(f"{FOLDER}/{name}", text)
    try:
        for attempt in range(1, TRIES + 1):
            print(f"build {attempt}:")
            worked, said = build(seat)
            if worked:
                print("it says:", seat.execute("./hello", cwd=FOLDER, timeout=5).stdout.strip())
                return
            mended = mend(seat.read(f"{FOLDER}/hello.c").decode(), said)
            if mended is None:
                raise SystemExit("I don't know what to do about that.")
            seat.write(f"{FOLDER}/hello.c", mended)
        raise SystemExit("It still doesn't build.")
    finally:
        seat.delete_path("example", recursive=True)


if __name__ == "__main__":
    main()
