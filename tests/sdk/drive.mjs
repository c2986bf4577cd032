// drive.mjs: runs operations through the Node client, for tests/sdk; see drive.py.
import { createReadStream, createWriteStream, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { ApiError, Box, RunboxError, Seat, TransportError } from "runbox-sdk";

const [, , url, ca] = process.argv;
const key = process.env.DRIVE_KEY;
const more = ca === undefined ? {} : { ca: readFileSync(ca) };
const top = key === undefined ? new Seat(url, more) : new Box(url, key, more);
let seat; // or the workspace of the identity at hand
const BLOCK = new Uint8Array(1 << 18);
let held;

const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

function options(a) {
  const { timeout, env, cwd, stdin, busy_wait: busyWait } = a;
  const all = { timeout, env, cwd, stdin, busyWait, files: given(a), ...bound(a) };
  return Object.fromEntries(Object.entries(all).filter(([, v]) => v !== undefined));
}

const bound = ({ deadline }) => (deadline === undefined ? {} : { signal: AbortSignal.timeout(deadline * 1000) });

/** Attachments; how: "sized" or, from a source that knows no size, "chunked". */
function given(a) {
  if (a.files === undefined) return undefined;
  if (a.how !== "chunked") return a.files;
  return Object.entries(a.files).map(([path, text]) => [path, [Buffer.from(text)]]);
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
  return snake(await seat[a.put ? "putPath" : "write"](a.path, data, o));
}

function part(a) {
  const o = {};
  if (a.start !== undefined) o.start = a.start;
  if (a.end !== undefined) o.end = a.end;
  return o;
}

/** Takes all; what it took is in .parts, if it is to keep it. */
function taker(keep) {
  const parts = [];
  const w = new Writable({
    write(piece, _, done) {
      if (keep) parts.push(piece);
      done();
    },
  });
  return Object.assign(w, { parts });
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
  put_path: (a) => ops.write({ ...a, put: true }),
  write_batch: async (a) => ({ files: await seat.writeBatch(given(a), { folder: a.folder ?? "" }) }),
  upload: (a) => {
    if (a.how === "file") return put(a, createReadStream(a.source), undefined);
    return put(a, zeros(a.size), a.how === "chunked" ? undefined : a.size);
  },
  download: async (a) => {
    if (a.to !== undefined) return { bytes: await seat.download(a.path, createWriteStream(a.to)) };
    let bytes = 0;
    for await (const piece of await seat.open(a.path)) bytes += piece.length;
    return { bytes };
  },
  sink: async (a) => {
    const out = taker(true);
    const bytes = await seat.download(a.path, out, part(a));
    return { bytes, text: Buffer.concat(out.parts).toString() };
  },
  archive: async (a) => {
    const parts = [];
    const body = await seat.archive(a.path);
    if (body.whole !== undefined) throw new Error("known before its end");
    for await (const piece of body) parts.push(piece);
    const tar = Buffer.concat(parts);
    if ((await seat.downloadArchive(a.path, taker(false))) !== tar.length) throw new Error("another archive");
    return { base64: tar.toString("base64"), whole: body.whole };
  },
  pull: async (a) => ({ bytes: await seat.downloadArchive(a.path, taker(false)) }),
  read: async (a) => ({ text: (await seat.read(a.path, part(a))).toString() }),
  delete_path: async (a) => {
    const { recursive = false, if_match: ifMatch, unmodified_since: unmodifiedSince } = a;
    await seat.deletePath(a.path, { recursive, ifMatch, unmodifiedSince, ...bound(a) });
    return {};
  },
  list: (a) => seat.list(a.path, a.recursive ? { recursive: true } : {}),
  head: async (a) => snake(await seat.head(a.path)),
  usage: () => seat.usage(),
  delete_workspace: async () => {
    await seat.deleteWorkspace();
    return {};
  },
  capabilities: () => top.capabilities(),
  metrics: async () => ({ text: await top.metrics() }),
  health: async () => ({ status: await top.health() }),
  ready: async () => ({ ready: await top.ready() }),
  wait_ready: async (a) => {
    await top.waitReady(bound(a));
    return {};
  },
};

function at(who) {
  if (key === undefined || who.length === 0) return top;
  return top.workspace(who.length === 1 ? who[0] : { tenant: who[0], user: who[1] });
}

for await (const line of createInterface({ input: process.stdin })) {
  const ask = JSON.parse(line);
  try {
    seat = at(ask.who);
    say(await ops[ask.op](ask.args));
  } catch (err) {
    if (err instanceof ApiError) {
      say({ error: "api", code: err.code, status: err.status, retry_after: err.retryAfter ?? null, message: err.message });
    } else if (err.name === "TimeoutError") {
      say({ error: "deadline", message: err.message });
    } else if (err instanceof TransportError) {
      say({ error: "transport", message: err.message });
    } else if (err instanceof RunboxError) {
      say({ error: "refused", message: err.message });
    } else {
      throw err;
    }
  }
}
