// seat.mjs: a walk through the Node client. It trusts the daemon at SEAT_URL.
import { Readable } from "node:stream";
import { ApiError, Seat } from "runbox-sdk";

const seat = new Seat(process.env.SEAT_URL ?? "http://127.0.0.1:8080");
const signal = AbortSignal.timeout(60_000); // for all that follows
console.log("health:", await seat.health({ signal }));

// A command that fails is a result, not an exception.
const result = await seat.execute('echo "hello $WHO"; exit 3', { timeout: 5, env: { WHO: "world" }, signal });
console.log("exit code:", result.exitCode, "stdout:", result.stdout.trim());

// Its output while it runs. Leaving the loop early would kill it.
for await (const event of await seat.stream("for i in 1 2 3; do echo step $i; sleep 0.1; done", { signal })) {
  if (event.kind === "output") console.log(`${event.stream}: ${event.text.trim()}`);
  else console.log("ended with", event.exitCode);
}

// Files: text, bytes, or anything that yields bytes. Nothing is buffered on the way.
const stored = await seat.write("example/notes/a.txt", "some bytes", { signal });
await seat.write("example/big", Readable.from([new Uint8Array(1_000_000)]), { signal });
console.log("read:", (await seat.read("example/notes/a.txt", { signal })).toString());
let size = 0;
for await (const piece of await seat.open("example/big", { signal })) size += piece.length;
console.log("big:", size);
console.log("names:", (await seat.list("example", { signal })).entries.map((entry) => entry.name));

// Two writers: the second one learns that it was too late.
await seat.write("example/notes/a.txt", "other bytes", { signal });
try {
  await seat.write("example/notes/a.txt", "late", { ifMatch: stored.etag, signal });
} catch (err) {
  if (!(err instanceof ApiError)) throw err;
  console.log("refused:", err.code, err.status);
}

await seat.deletePath("example", { recursive: true, signal });
console.log("done");
