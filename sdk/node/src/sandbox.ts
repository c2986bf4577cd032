/** What a seat and a workspace of a box have in common, but for the addresses. */
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { performance } from "node:perf_hooks";
import { Readable, type Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";

import { ApiError, RunboxError, TransportError } from "./errors.js";
import {
  type Ask,
  type Json,
  type Target,
  flag,
  isType,
  number,
  parseObject,
  readAll,
  send,
  text,
  textOrNull,
  translate,
} from "./http.js";
import { Live } from "./live.js";
import { form } from "./multipart.js";
import type {
  CallOptions,
  CommandOptions,
  DeleteOptions,
  Entry,
  FileInfo,
  Files,
  Listing,
  RangeOptions,
  Result,
  Source,
  Stored,
  WriteOptions,
} from "./types.js";

/** A path as it stands in an address. */
export function percent(path: string): string {
  try {
    return encodeURIComponent(path);
  } catch (err) {
    throw new RunboxError("The path is not Unicode.", { cause: err }); // half of a surrogate pair
  }
}

/** As headers have it. A condition that isn't a date would be none. */
function date(seconds: number): string {
  const at = new Date(seconds * 1000);
  const year = at.getUTCFullYear(); // NaN where it is none
  if (!(year >= 0 && year <= 9999)) throw new RunboxError("The time must be of a year from 0 to 9999.");
  return at.toUTCString();
}

export async function readObject(res: IncomingMessage, signal: AbortSignal | undefined): Promise<Json> {
  return parseObject((await readAll(res, signal)).toString("utf8"));
}

/**
 * The answer's bytes; a failure is told in our words, and only to who reads. A piece goes through by an event: an
 * iterator here and another in Readable.from cost as much again as all the rest of a download.
 */
class Body extends Readable {
  bytes = 0;
  #wanted = false;
  #failed: Error | undefined;

  constructor(
    private readonly res: IncomingMessage,
    signal: AbortSignal | undefined,
  ) {
    super({ highWaterMark: 1 << 16 });
    const fail = (err?: Error): void => {
      if (res.readableEnded) return;
      this.#failed ??= translate(err ?? new Error("it ended early"), signal);
      if (this.#wanted) this.destroy(this.#failed);
    };
    res.pause(); // until somebody reads
    res.on("data", (piece: Buffer) => {
      this.bytes += piece.length;
      this.#wanted = this.push(piece);
      if (!this.#wanted) res.pause();
    });
    res.on("end", () => this.push(null)).on("error", fail).on("close", fail);
  }

  get whole(): boolean | undefined {
    if (!this.readableEnded) return undefined;
    const made = this.res.trailers["x-runbox-archive"];
    return made === "whole" ? true : made === "partial" ? false : undefined;
  }

  override _read(): void {
    this.#wanted = true;
    if (this.#failed !== undefined) this.destroy(this.#failed);
    else this.res.resume();
  }

  override _destroy(err: Error | null, done: (err?: Error | null) => void): void {
    this.res.destroy();
    done(err);
  }
}

/** Whether the answer is this part of a file, or as much of it as there is. */
function isPart(res: IncomingMessage, start: number, end: number | undefined): boolean {
  const found = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(res.headers["content-range"] ?? "");
  if (res.statusCode !== 206 || found === null) return false;
  const [first, last, total] = found.slice(1).map(Number) as [number, number, number];
  const until = end === undefined ? total : Math.min(end, total);
  return first === start && last + 1 === until && Number(res.headers["content-length"]) === until - start;
}

const TYPES: readonly unknown[] = ["file", "directory", "symlink", "other"];

function toEntry(found: unknown): Entry {
  if (typeof found !== "object" || found === null || !("type" in found) || !TYPES.includes(found.type)) {
    throw new TransportError('The answer has no usable "entries".');
  }
  const one = found as Json;
  const entry: Entry = {
    name: text(one, "name"),
    type: found.type as Entry["type"],
    size: number(one, "size"),
    mode: text(one, "mode"),
    mtime: number(one, "mtime"),
  };
  return one["raw"] === undefined ? entry : { ...entry, raw: text(one, "raw") };
}

/** Asks one daemon; `headers` go with every request. */
export abstract class Remote {
  /** @internal */
  constructor(
    protected readonly target: Target,
    protected readonly headers: OutgoingHttpHeaders,
  ) {}

  protected ask(ask: Ask): Promise<IncomingMessage> {
    return send(this.target, { ...ask, headers: { ...this.headers, ...ask.headers } });
  }

  /** The one word of an answer that a daemon gives with 200 or 503. */
  protected async status(path: string, signal: AbortSignal | undefined): Promise<string> {
    const res = await send(this.target, { method: "GET", path, signal, good: [200, 503] });
    return text(await readObject(res, signal), "status");
  }
}

/** Bytes as they come. A failure is told in our words; destroying it drops the connection. */
export function toBody(res: IncomingMessage, signal: AbortSignal | undefined): Body {
  return new Body(res, signal);
}

/** Writes all of it; returns how many bytes that were. The sink is ended. */
export async function copy(body: Body, sink: Writable, signal: AbortSignal | undefined): Promise<number> {
  try {
    await pipeline(body, sink, signal === undefined ? {} : { signal });
  } catch (err) {
    throw signal?.aborted === true ? translate(err, signal) : err;
  }
  return body.bytes;
}

/** One workspace: a Seat, or a Workspace of a Box. */
export abstract class Sandbox extends Remote {
  protected abstract readonly exec: string;
  protected abstract file(path: string): string;
  protected abstract folder(path: string, recursive: boolean): string;
  protected abstract readonly writeMethod: string; // to what `file` says
  protected abstract removal(path: string, recursive: boolean): string;

  /** Runs one command; resolves when it has ended. */
  async execute(command: string, options: CommandOptions = {}): Promise<Result> {
    const res = await this.run(command, "application/json", options);
    const found = await readObject(res, options.signal);
    return {
      stdout: text(found, "stdout"),
      stderr: text(found, "stderr"),
      exitCode: number(found, "exit_code"),
      signal: textOrNull(found, "signal"),
      timedOut: flag(found, "timed_out"),
      oomKilled: found["oom_killed"] === true,
      quotaExceeded: found["quota_exceeded"] === true,
      durationMs: number(found, "duration_ms"),
      stdoutTruncated: flag(found, "stdout_truncated"),
      stderrTruncated: flag(found, "stderr_truncated"),
    };
  }

  /** Starts one command; resolves once it runs. Iterate for its output. */
  async stream(command: string, options: CommandOptions = {}): Promise<Live> {
    const res = await this.run(command, "text/event-stream", options);
    if (!isType(res, "text/event-stream")) {
      res.destroy();
      throw new TransportError("The daemon doesn't stream output.");
    }
    return new Live(res, options.signal);
  }

  /** Asks again only where the daemon said "busy" and the caller wanted that. */
  protected async run(
    command: string,
    accept: string,
    options: CommandOptions & { files?: Files },
  ): Promise<IncomingMessage> {
    const { timeout, env, cwd, stdin, files, busyWait = 0, signal } = options;
    const body = JSON.stringify({ command, timeout, env, cwd, stdin });
    const ask: Ask = { method: "POST", path: this.exec, headers: { accept }, signal };
    if (files !== undefined) {
      if (busyWait > 0) throw new RunboxError("A command with files can't be sent twice: leave out busyWait.");
      const made = form(files, body);
      return this.ask({ ...ask, body: made.body, headers: { accept, "content-type": made.contentType } });
    }
    const until = performance.now() + busyWait * 1000;
    for (;;) {
      try {
        return await this.ask({ ...ask, body, headers: { accept, "content-type": "application/json" } });
      } catch (err) {
        const left = until - performance.now();
        if (!(err instanceof ApiError) || err.code !== "busy" || left <= 0) throw err;
        const asked = err.retryAfter ?? 0; // none at all would make this a hot loop
        await rest(Math.min(asked > 0 ? asked * 1000 : 1000, left), signal);
      }
    }
  }

  /** A file's bytes as a stream, from `start` up to, without, `end`. Destroy it to leave early. */
  async open(path: string, options: RangeOptions = {}): Promise<Readable> {
    return toBody(await this.get(path, options), options.signal);
  }

  /** A file's bytes, all in memory. */
  async read(path: string, options: RangeOptions = {}): Promise<Buffer> {
    return readAll(await this.get(path, options), options.signal);
  }

  /** Writes a file's bytes into `sink` as they come, and ends it; resolves with how many. */
  async download(path: string, sink: Writable, options: RangeOptions = {}): Promise<number> {
    return copy(toBody(await this.get(path, options), options.signal), sink, options.signal);
  }

  private async get(path: string, options: RangeOptions): Promise<IncomingMessage> {
    const { start = 0, end, signal } = options;
    const ranged = start !== 0 || end !== undefined;
    if (start < 0 || (end !== undefined && end <= start)) {
      throw new RunboxError("A range must be of at least one byte, from 0 or more on.");
    }
    const range = `bytes=${start}-${end === undefined ? "" : end - 1}`;
    const ask: Ask = { method: "GET", path: this.file(path), headers: ranged ? { range } : {}, signal };
    const res = await this.ask(ranged ? { ...ask, good: [200, 206] } : ask);
    if (ranged && !isPart(res, start, end)) {
      res.destroy();
      throw new TransportError("The answer is not the range asked for.");
    }
    if (isType(res, "application/json")) {
      res.destroy(); // a seat lists a folder on the same path
      throw new ApiError("The path is a folder.", "is_a_directory", res.statusCode ?? 0);
    }
    if (!isType(res, "application/octet-stream")) {
      res.destroy();
      throw new TransportError("The answer is no file.");
    }
    return res;
  }

  /** Replaces a file, atomically; missing folders are made. */
  write(path: string, data: Source, options: WriteOptions = {}): Promise<Stored> {
    return this.store(this.writeMethod, this.file(path), data, options);
  }

  /** Removes a file, a link itself, an empty folder or, if `recursive`, any folder. */
  async deletePath(path: string, options: DeleteOptions = {}): Promise<void> {
    const { recursive = false, ifMatch, unmodifiedSince, signal } = options;
    const headers: Record<string, string> = {};
    if (ifMatch !== undefined) headers["if-match"] = ifMatch;
    if (unmodifiedSince !== undefined) headers["if-unmodified-since"] = date(unmodifiedSince);
    const res = await this.ask({ method: "DELETE", path: this.removal(path, recursive), headers, signal, good: [204] });
    res.destroy();
  }

  protected async store(method: string, path: string, data: Source, options: WriteOptions): Promise<Stored> {
    const headers: Record<string, string> = { "content-type": "application/octet-stream" };
    if (options.newOnly === true) headers["if-none-match"] = "*";
    if (options.ifMatch !== undefined) headers["if-match"] = options.ifMatch;
    const { size, signal } = options;
    const res = await this.ask({ method, path, headers, body: data, size, signal, good: [200, 201] });
    const found = await readObject(res, signal);
    const created = res.statusCode === 201;
    return { path: text(found, "path"), size: number(found, "size"), etag: res.headers.etag, created };
  }

  protected async names(path: string, recursive: boolean, signal: AbortSignal | undefined): Promise<Listing> {
    const res = await this.ask({ method: "GET", path: this.folder(path, recursive), signal });
    const found = await readObject(res, signal);
    if (!Array.isArray(found["entries"])) throw new TransportError('The answer has no usable "entries".');
    const entries = found["entries"].map(toEntry);
    return { path: text(found, "path"), entries, truncated: flag(found, "truncated") };
  }

  /** What is there, without its content. */
  async head(path = "", options: CallOptions = {}): Promise<FileInfo> {
    try {
      return await this.look(path, options);
    } catch (err) {
      if (!(err instanceof ApiError) || err.status !== 400) throw err;
    }
    try {
      (await this.open(path, options)).destroy(); // HEAD doesn't say why
    } catch (err) {
      if (!(err instanceof ApiError) || err.code !== "is_directory") throw err;
      return { path, isDirectory: true, size: undefined, etag: undefined };
    }
    return this.look(path, options); // it changed meanwhile
  }

  private async look(path: string, options: CallOptions): Promise<FileInfo> {
    const res = await this.ask({ method: "HEAD", path: this.file(path), signal: options.signal });
    res.destroy();
    const isDirectory = isType(res, "application/json");
    if (!isDirectory && !isType(res, "application/octet-stream")) {
      throw new TransportError("The answer is neither a file nor a folder.");
    }
    const size = isDirectory ? undefined : Number(res.headers["content-length"]);
    return { path, isDirectory, size, etag: res.headers.etag };
  }
}

/** Waits; an abort ends it with the caller's reason. */
export async function rest(ms: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    await sleep(ms, undefined, signal === undefined ? {} : { signal });
  } catch (err) {
    throw translate(err, signal);
  }
}
