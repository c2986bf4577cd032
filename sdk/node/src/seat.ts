/** The seat's client: one workspace, one command at a time. */
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";

import { ApiError, RunboxError, TransportError } from "./errors.js";
import {
  type Json,
  type Target,
  flag,
  isType,
  number,
  parseObject,
  parseTarget,
  readAll,
  send,
  text,
  textOrNull,
  translate,
} from "./http.js";
import { Live } from "./live.js";
import type {
  CallOptions,
  CommandOptions,
  Entry,
  FileInfo,
  Listing,
  RangeOptions,
  Result,
  Source,
  Stored,
  WriteOptions,
} from "./types.js";

function filePath(path: string): string {
  try {
    return `/files/${path.split("/").map(encodeURIComponent).join("/")}`;
  } catch (err) {
    throw new RunboxError("The path is not Unicode.", { cause: err }); // half of a surrogate pair
  }
}

function commandBody(command: string, options: CommandOptions): string {
  const { timeout, env, cwd, stdin } = options;
  return JSON.stringify({ command, timeout, env, cwd, stdin });
}

async function readObject(res: IncomingMessage, signal: AbortSignal | undefined): Promise<Json> {
  return parseObject((await readAll(res, signal)).toString("utf8"));
}

/** The answer's bytes; a failure is told in our words. */
async function* told(res: IncomingMessage, signal: AbortSignal | undefined): AsyncGenerator<Buffer> {
  try {
    yield* res as AsyncIterable<Buffer>;
  } catch (err) {
    throw translate(err, signal);
  }
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

export interface SeatOptions {
  /** For https, where the daemon's certificate isn't one that Node trusts: what is, as PEM. */
  ca?: string | Buffer;
}

/** A client of `sallyport seat` at `http://host:port`, `https://host:port` or `unix:/path`. */
export class Seat {
  readonly #target: Target;

  constructor(url = "http://127.0.0.1:8080", options: SeatOptions = {}) {
    this.#target = parseTarget(url, options.ca);
  }

  /** Runs one command; resolves when it has ended. */
  async execute(command: string, options: CommandOptions = {}): Promise<Result> {
    const res = await this.#post(command, "application/json", options);
    const found = await readObject(res, options.signal);
    return {
      stdout: text(found, "stdout"),
      stderr: text(found, "stderr"),
      exitCode: number(found, "exit_code"),
      signal: textOrNull(found, "signal"),
      timedOut: flag(found, "timed_out"),
      oomKilled: found["oom_killed"] === true,
      durationMs: number(found, "duration_ms"),
      stdoutTruncated: flag(found, "stdout_truncated"),
      stderrTruncated: flag(found, "stderr_truncated"),
    };
  }

  /** Starts one command; resolves once it runs. Iterate for its output. */
  async stream(command: string, options: CommandOptions = {}): Promise<Live> {
    const res = await this.#post(command, "text/event-stream", options);
    if (!isType(res, "text/event-stream")) {
      res.destroy();
      throw new TransportError("The daemon doesn't stream output.");
    }
    return new Live(res, options.signal);
  }

  #post(command: string, accept: string, options: CommandOptions): Promise<IncomingMessage> {
    return send(this.#target, {
      method: "POST",
      path: "/execute",
      headers: { accept, "content-type": "application/json" },
      body: commandBody(command, options),
      signal: options.signal,
    });
  }

  async #get(path: string, options: RangeOptions): Promise<IncomingMessage> {
    const { start = 0, end, signal } = options;
    const ranged = start !== 0 || end !== undefined;
    if (start < 0 || (end !== undefined && end <= start)) {
      throw new RunboxError("A range must be of at least one byte, from 0 or more on.");
    }
    const range = `bytes=${start}-${end === undefined ? "" : end - 1}`;
    const headers = ranged ? { range } : {};
    const res = await send(this.#target, { method: "GET", path: filePath(path), headers, signal });
    if (ranged && res.statusCode !== 206) {
      res.destroy();
      throw new TransportError("The answer is not the range asked for.");
    }
    if (!isType(res, "application/octet-stream")) {
      res.destroy(); // a folder is listed on the same path
      throw new ApiError("The path is a folder.", "is_a_directory", res.statusCode ?? 0);
    }
    return res;
  }

  /** A file's bytes as a stream, from `start` up to, without, `end`. Destroy it to leave early. */
  async open(path: string, options: RangeOptions = {}): Promise<Readable> {
    const res = await this.#get(path, options);
    const body = Readable.from(told(res, options.signal), { objectMode: false, highWaterMark: 1 << 18 });
    body.once("close", () => res.destroy()); // also where nobody read
    return body;
  }

  /** A file's bytes, all in memory. */
  async read(path: string, options: RangeOptions = {}): Promise<Buffer> {
    return readAll(await this.#get(path, options), options.signal);
  }

  /** Replaces a file, atomically; missing folders are made. */
  async write(path: string, data: Source, options: WriteOptions = {}): Promise<Stored> {
    const headers: Record<string, string> = { "content-type": "application/octet-stream" };
    if (options.newOnly === true) headers["if-none-match"] = "*";
    if (options.ifMatch !== undefined) headers["if-match"] = options.ifMatch;
    const res = await send(this.#target, {
      method: "PUT",
      path: filePath(path),
      headers,
      body: data,
      size: options.size,
      signal: options.signal,
    });
    const found = await readObject(res, options.signal);
    const created = res.statusCode === 201;
    return { path: text(found, "path"), size: number(found, "size"), etag: res.headers.etag, created };
  }

  /** Removes a file, a link itself, an empty folder or, if `recursive`, any folder. */
  async delete(path: string, options: CallOptions & { recursive?: boolean } = {}): Promise<void> {
    const query = options.recursive === true ? "?recursive=true" : "";
    const res = await send(this.#target, {
      method: "DELETE",
      path: filePath(path) + query,
      signal: options.signal,
    });
    res.destroy();
  }

  /** A folder's names, sorted. */
  async list(path = "", options: CallOptions = {}): Promise<Listing> {
    const folder = path.replace(/\/+$/, "");
    const target = filePath(folder === "" ? "" : `${folder}/`);
    const res = await send(this.#target, { method: "GET", path: target, signal: options.signal });
    const found = await readObject(res, options.signal);
    if (!Array.isArray(found["entries"])) throw new TransportError('The answer has no usable "entries".');
    const entries = found["entries"].map(toEntry);
    return { path: text(found, "path"), entries, truncated: flag(found, "truncated") };
  }

  /** What is there, without its content. */
  async head(path = "", options: CallOptions = {}): Promise<FileInfo> {
    const res = await send(this.#target, { method: "HEAD", path: filePath(path), signal: options.signal });
    res.destroy();
    const isDirectory = !isType(res, "application/octet-stream");
    const size = isDirectory ? undefined : Number(res.headers["content-length"]);
    return { path, isDirectory, size, etag: res.headers.etag };
  }

  /** "ok"; "draining" while the daemon shuts down. */
  async health(options: CallOptions = {}): Promise<string> {
    const res = await send(this.#target, { method: "GET", path: "/healthz", signal: options.signal }, [503]);
    return text(await readObject(res, options.signal), "status");
  }
}
