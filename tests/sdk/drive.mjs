// drive.mjs: runs operations through the Node client, for tests/sdk; see drive.py.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { ApiError, Seat, TransportError } from "runbox-sdk";

const ca = process.argv[3];
const seat = new Seat(process.argv[2], ca === undefined ? {} : { ca: readFileSync(ca) });
const BLOCK = new Uint8Array(1 << 18);
let held;

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

function options(a) {
  const { timeout, env, cwd, stdin, deadline } = a;
  const signal = deadline === undefined ? undefined : AbortSignal.timeout(deadline * 1000);
  return Object.fromEntries(Object.entries({ timeout, env, cwd, stdin, signal }).filter(([, v]) => v !== undefined));
}

function snake(value) {
  return Object.fromEntries(
    Object.entries(value).map(([k, v]) => [k.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`), v]),
  );
}

async function stream(a, tell = false) {
  const got = { stdout: "", stderr: "" };
  const live = await seat.stream(a.command, options(a));
  for await (const e of live) {
    if (e.kind !== "output") continue;
    got[e.stream] += e.text;
    if (tell) say({ event: e.stream, text: e.text });
  }
  return { ...got, ...snake(live.exit) };
}

function* zeros(size) {
  for (; size > 0; size -= BLOCK.length) yield BLOCK.subarray(0, Math.min(size, BLOCK.length));
}

async function put(a, data, size) {
  const o = { newOnly: a.new_only ?? false };
  if (a.if_match !== undefined) o.ifMatch = a.if_match;
  if (size !== undefined) o.size = size;
  return snake(await seat.write(a.path, data, o));
}

const ops = {
  execute: async (a) => snake(await seat.execute(a.command, options(a))),
  stream,
  follow: (a) => stream(a, true),
  leave: async (a) => {
    for await (const e of await seat.stream(a.command, options(a))) return { text: e.text };
  },
  hold: async (a) => {
    held = await seat.stream(a.command, options(a));
    return {};
  },
  take: async (a) => {
    let n = 0;
    for await (const e of held) {
      n += e.text?.length ?? 0;
      if (n >= a.size) break;
    }
    return { bytes: n };
  },
  write: (a) => {
    const data = Buffer.from(a.text);
    return put(a, a.how === undefined ? data : [data], a.how === "sized" ? data.length : undefined);
  },
  upload: (a) => put(a, zeros(a.size), a.how === "chunked" ? undefined : a.size),
  download: async (a) => {
    let bytes = 0;
    for await (const piece of await seat.open(a.path)) bytes += piece.length;
    return { bytes };
  },
  read: async (a) => {
    const part = {};
    if (a.start !== undefined) part.start = a.start;
    if (a.end !== undefined) part.end = a.end;
    return { text: (await seat.read(a.path, part)).toString() };
  },
  delete: async (a) => {
    await seat.delete(a.path, { recursive: a.recursive ?? false });
    return {};
  },
  list: (a) => seat.list(a.path),
  head: async (a) => snake(await seat.head(a.path)),
  health: async () => ({ status: await seat.health() }),
};

for await (const line of createInterface({ input: process.stdin })) {
  const ask = JSON.parse(line);
  try {
    say(await ops[ask.op](ask.args));
  } catch (err) {
    if (err instanceof ApiError) {
      say({ error: "api", code: err.code, status: err.status, retry_after: err.retryAfter ?? null, message: err.message });
    } else if (err.name === "TimeoutError") {
      say({ error: "deadline", message: err.message });
    } else if (err instanceof TransportError) {
      say({ error: "transport", message: err.message });
    } else {
      throw err;
    }
  }
}
