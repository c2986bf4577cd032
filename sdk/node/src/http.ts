/**
 * One request on one connection, over TCP or a unix socket. A connection is never used twice, so that
 * there is nothing to retry: the server may close an idle one at any time.
 */
import { type ClientRequest, type IncomingMessage, type OutgoingHttpHeaders, request } from "node:http";
import { type IpcNetConnectOpts, type Socket, type TcpNetConnectOpts, connect, isIP } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import type * as TLS from "node:tls";

import { RunboxError, TransportError, apiError } from "./errors.js";
import type { Source } from "./types.js";

const BLOCK = 1 << 18;
const ERROR_MAX = 1 << 16;
const EXPECT_OVER = 1 << 20;
const EXPECT_MS = 5000;
const YOUNG = 1 << 16;
const READ = 1 << 16;

/**
 * Tells V8 that a buffer went by. It looks for those that nobody holds any more when its own young heap is full,
 * or at 32 MiB of them, and a stream leaves nearly nothing on that heap: as much garbage there as a buffer has
 * bytes makes it look after some 2 MiB; more keeps less, up to twice as much, and costs time. tests/sdk/test_memory.py
 * holds us to what comes of it.
 */
function passed(bytes: number): void {
  for (; bytes > 0; bytes -= YOUNG) new Array<number>(Math.min(bytes, YOUNG) >> 3).fill(0);
}

/** Where the daemon is. */
export interface Target {
  host?: string;
  port?: number;
  socketPath?: string;
  secure?: boolean;
  /** PEM. */
  ca?: string | Buffer;
}

export function parseTarget(url: string, ca: string | Buffer | undefined): Target {
  if (url.startsWith("unix:")) {
    const socketPath = url.slice("unix:".length);
    if (!socketPath.startsWith("/")) throw new RunboxError("A unix socket needs an absolute path: unix:/path.");
    return { socketPath };
  }
  let u: URL | undefined;
  try {
    u = new URL(url);
  } catch {
    // told below
  }
  const secure = u?.protocol === "https:";
  if (u === undefined || (!secure && u.protocol !== "http:") || u.username || u.pathname !== "/" || u.search || u.hash) {
    throw new RunboxError("The URL must be http://host:port, https://host:port or unix:/path.");
  }
  const port = u.port === "" ? (secure ? 443 : 80) : Number(u.port);
  return { host: u.hostname.replace(/^\[(.*)\]$/, "$1"), port, secure, ...(ca === undefined ? {} : { ca }) };
}

export interface Ask {
  method: string;
  path: string;
  headers?: OutgoingHttpHeaders;
  body?: Source;
  size?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Statuses of the daemon's answer where it isn't an error; 200 alone if it isn't told. */
  good?: readonly number[];
}

/**
 * Reads into one buffer instead of a new one for each piece, which halves what V8 has to look for: node:http copies
 * what it is given.
 */
function reading(to: TcpNetConnectOpts | IpcNetConnectOpts, buffer: Buffer): Socket {
  const callback = (n: number): boolean => {
    passed(1.5 * n);
    return socket.emit("data", buffer.subarray(0, n));
  };
  const socket: Socket = connect({ ...to, onread: { buffer, callback } });
  return socket;
}

/**
 * A connection of its own. node:http writes a head as UTF-8 or as Latin-1, by what else it has to write; ours
 * hold bytes as Latin-1 characters. All other strings it writes are ASCII, as bodies are given as bytes.
 */
function open(target: Target, tls: typeof TLS | undefined, into: Buffer): Socket {
  const { ca, host = "localhost", port = 80, socketPath } = target;
  const to = socketPath === undefined ? { host, port } : { path: socketPath };
  const name = isIP(host) !== 0 ? {} : { servername: host };
  const socket =
    tls !== undefined
      ? tls.connect({ ...to, ...name, ...(ca === undefined ? {} : { ca }), ALPNProtocols: ["http/1.1"] })
      : reading(to, into);
  if (tls !== undefined) {
    socket.on("data", (piece: Buffer) => {
      passed(2 * piece.length); // and its copy
    });
  }
  const write = socket.write.bind(socket) as (data: unknown, encoding?: unknown, done?: unknown) => boolean;
  socket.write = (data: unknown, encoding?: unknown, done?: unknown): boolean => {
    const ready = typeof encoding === "function" ? encoding : done;
    return write(data, typeof data === "string" ? "latin1" : "buffer", ready);
  };
  return socket;
}

/** A node:http that didn't copy what it is given would have it overwritten: see reading(). */
function keep(res: IncomingMessage, into: Buffer): void {
  const push = res.push.bind(res);
  res.push = (piece: unknown, encoding?: BufferEncoding): boolean => {
    const lent = piece instanceof Uint8Array && piece.buffer === into.buffer;
    return push(lent ? Buffer.from(piece) : piece, encoding);
  };
}

function isAbort(signal: AbortSignal | undefined): boolean {
  return signal?.aborted ?? false;
}

/** An abort is told with the caller's own reason, anything else as a failure of the connection. */
export function translate(err: unknown, signal: AbortSignal | undefined): Error {
  if (isAbort(signal)) {
    const reason: unknown = signal?.reason;
    return reason instanceof Error ? reason : new RunboxError("The call was aborted.", { cause: reason });
  }
  if (err instanceof RunboxError) return err;
  const text = err instanceof Error ? err.message : String(err);
  return new TransportError(`The connection failed: ${text}.`, { cause: err });
}

/** The bytes of a source, some at a time. */
export async function* pieces(data: Source): AsyncGenerator<Uint8Array> {
  const source = typeof data === "string" ? Buffer.from(data) : data;
  if (source instanceof Uint8Array) {
    for (let at = 0; at < source.length; at += BLOCK) yield source.subarray(at, at + BLOCK);
    return;
  }
  for await (const piece of source) {
    if (!(piece instanceof Uint8Array)) throw new RunboxError("A source must yield bytes.");
    yield piece;
  }
}

/**
 * Sends the body; stops in silence once there is an answer or the connection is gone. A refusal is read only
 * between turns of the event loop, and a write that comes after it, to a socket that was closed, would hide it.
 */
async function sendBody(req: ClientRequest, body: Source, size: number | undefined): Promise<void> {
  let sent = 0;
  let answered = false;
  req.once("response", () => (answered = true));
  for await (const piece of pieces(body)) {
    sent += piece.length;
    if (size !== undefined && sent > size) throw new RunboxError("There are more bytes to write than the size given.");
    if (sent > BLOCK) await turn();
    // eslint-disable-next-line @typescript-eslint/no-unnecessary-condition
    if (answered || req.destroyed || req.errored) return;
    passed(1.5 * piece.length);
    if (!req.write(piece)) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          req.off("drain", done).off("close", done).off("error", done);
          resolve();
        };
        req.on("drain", done).on("close", done).on("error", done);
      });
    }
  }
  if (size !== undefined && sent < size) throw new RunboxError("There are fewer bytes to write than the size given.");
  req.end();
}

/** How many bytes that is, where it can be known. */
export function sizeOf(body: Source): number | undefined {
  if (typeof body === "string") return Buffer.byteLength(body);
  return body instanceof Uint8Array ? body.length : undefined;
}

/** Sends a request; resolves with the answer's head, whatever its status. */
async function exchange(target: Target, ask: Ask): Promise<IncomingMessage> {
  const tls = target.secure === true ? await import("node:tls") : undefined; // a MiB that most don't need
  const body = ask.body ?? "";
  const size = ask.size ?? sizeOf(body);
  const headers: OutgoingHttpHeaders = { ...ask.headers, connection: "close" };
  if (size === undefined) headers["transfer-encoding"] = "chunked";
  else headers["content-length"] = size;
  const expects = ask.method !== "GET" && (size === undefined || size > EXPECT_OVER);
  if (expects) headers["expect"] = "100-continue"; // a refusal then costs no bytes
  return new Promise((resolve, reject) => {
    if (isAbort(ask.signal)) {
      reject(translate(undefined, ask.signal));
      return;
    }
    const { host, port } = target;
    const into = Buffer.allocUnsafeSlow(READ);
    let req: ClientRequest;
    try {
      req = request({
        host: host ?? "localhost",
        port: port ?? 80,
        createConnection: () => open(target, tls, into),
        method: ask.method,
        path: ask.path,
        headers,
        ...(ask.signal === undefined ? {} : { signal: ask.signal }),
      });
    } catch (err) {
      reject(new RunboxError("The request can't be sent: a header must be text without control characters.", { cause: err }));
      return;
    }
    const fail = (err: unknown): void => {
      reject(translate(err, ask.signal));
      req.destroy();
    };
    req.on("error", fail); // after the answer it changes nothing
    req.on("response", (res) => {
      keep(res, into);
      resolve(res);
    });
    if (expects) {
      let begun = false;
      const begin = (): void => {
        if (begun || req.destroyed) return;
        begun = true;
        void sendBody(req, body, size).catch(fail);
      };
      req.once("continue", begin);
      setTimeout(begin, EXPECT_MS).unref(); // something between doesn't know of it
      req.on("response", () => (begun = true)); // refused: nothing is sent
      req.flushHeaders();
    } else {
      void sendBody(req, body, size).catch(fail);
    }
  });
}

/** The whole of an answer's body as bytes, or its first ones. */
export async function readAll(res: IncomingMessage, signal?: AbortSignal, most = Infinity): Promise<Buffer> {
  const parts: Buffer[] = [];
  let have = 0;
  try {
    for await (const part of res as AsyncIterable<Buffer>) {
      parts.push(part);
      have += part.length;
      if (have >= most) break;
    }
  } catch (err) {
    throw translate(err, signal);
  }
  return Buffer.concat(parts);
}

/** As exchange; an answer that is an error is thrown as one, and so is one that isn't the daemon's. */
export async function send(target: Target, ask: Ask): Promise<IncomingMessage> {
  const res = await exchange(target, ask);
  const status = res.statusCode ?? 0;
  const packed = (res.headers["content-encoding"] ?? "identity").toLowerCase() !== "identity";
  const good = (ask.good ?? [200]).includes(status);
  if (good && !packed) return res;
  if (status < 400) {
    res.destroy();
    const what = good ? "is packed" : `has the status ${status}`;
    throw new TransportError(`The answer ${what}, as none of the daemon's.`);
  }
  const body = await readAll(res, ask.signal, ERROR_MAX);
  res.destroy();
  throw apiError(status, body.toString("utf8"), res.headers["retry-after"]);
}

export function isType(res: IncomingMessage, kind: string): boolean {
  return (res.headers["content-type"] ?? "").split(";")[0] === kind;
}

export type Json = Readonly<Record<string, unknown>>;

/** An object, or it isn't the daemon's answer. */
export function parseObject(text: string): Json {
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch {
    found = undefined;
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) {
    throw new TransportError("The answer is not a JSON object.");
  }
  return found as Json;
}

function wrong(name: string): TransportError {
  return new TransportError(`The answer has no usable "${name}".`);
}

export function text(found: Json, name: string): string {
  const value = found[name];
  if (typeof value !== "string") throw wrong(name);
  return value;
}

export function number(found: Json, name: string): number {
  const value = found[name];
  if (typeof value !== "number") throw wrong(name);
  return value;
}

export function flag(found: Json, name: string): boolean {
  const value = found[name];
  if (typeof value !== "boolean") throw wrong(name);
  return value;
}

export function textOrNull(found: Json, name: string): string | null {
  return found[name] === null ? null : text(found, name);
}
