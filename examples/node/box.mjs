// box.mjs: a walk through the Node client of the box. It trusts the daemon at BOX_URL, and has its key.
import { createWriteStream } from "node:fs";
import { devNull } from "node:os";
import { Readable } from "node:stream";
import { ApiError, Box } from "runbox-sdk";

const box = new Box(process.env.BOX_URL ?? "http://127.0.0.1:8080", process.env.BOX_KEY);
const signal = AbortSignal.timeout(60_000); // for all that follows
await box.waitReady({ signal });
const offer = await box.capabilities({ signal });
console.log("version is there:", offer.version !== "", "commands at a time:", offer.limits.max_concurrency);

// Each identity has a workspace and a user id of its own. The same name of another tenant is another one.
const ws = box.workspace({ tenant: "example", user: "alice" });
const bob = box.workspace({ tenant: "example", user: "bob" });

// A command and the files that it works on, in one request.
const result = await ws.execute("sort in/names | tee sorted", { files: { "in/names": "ben\nada\n" }, signal });
console.log("sorted:", result.stdout.trim().split("\n"));
console.log("bob sees:", (await bob.list("", { signal })).entries.length);

// Its output while it runs. Leaving the loop early would kill it.
for await (const event of await ws.stream("for i in 1 2 3; do echo step $i; sleep 0.1; done", { signal })) {
  if (event.kind === "output") console.log(`${event.stream}: ${event.text.trim()}`);
}

// Files: one at a time, or several at once that are all there or none. Nothing is buffered on the way.
await ws.write("big", Readable.from([new Uint8Array(1_000_000)]), { signal });
await ws.writeBatch({ "a.txt": "a", "b/c.txt": "c" }, { folder: "many", signal });
console.log("names:", (await ws.list("many", { recursive: true, signal })).entries.map((entry) => entry.name));
console.log("big:", await ws.download("big", createWriteStream(devNull), { signal }));

// All of it as a tar, made while it is read.
const size = await ws.downloadArchive("", createWriteStream(devNull), { signal });
console.log("bytes in the archive:", size > 1_000_000, "bytes used:", (await ws.usage({ signal })).bytes > 1_000_000);

try {
  await ws.read("none", { signal });
} catch (err) {
  if (!(err instanceof ApiError)) throw err;
  console.log("refused:", err.code, err.status);
}

for (const one of [ws, bob]) await one.deleteWorkspace({ signal });
console.log("done");
