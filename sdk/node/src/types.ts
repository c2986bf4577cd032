/** What goes in and comes back, as values. */
import type { Readable } from "node:stream";

export interface TargetOptions {
  /** For https, where the daemon's certificate isn't one that Node trusts: what is, as PEM. */
  ca?: string | Buffer;
}

/** Whose workspace: a name, or a tenant's user, which is another one than any name's. */
export type Identity = string | { tenant: string; user: string };

export interface CallOptions {
  /** Ends the call, up to the last byte of its answer. */
  signal?: AbortSignal;
}

export interface CommandOptions extends CallOptions {
  /** Seconds after which the daemon kills it, which is a result, not an error. */
  timeout?: number;
  /** Added to the command's environment. */
  env?: Readonly<Record<string, string>>;
  /** Relative to the workspace, or absolute and below it. */
  cwd?: string;
  /** Fed to the command; without it, stdin is /dev/null. */
  stdin?: string;
  /** Seconds to ask again for, while the daemon answers "busy". */
  busyWait?: number;
}

export interface BoxCommandOptions extends CommandOptions {
  /** Attachments, written before it runs. Not with `busyWait`. */
  files?: Files;
}

/** A command that has ended, and its output. */
export interface Result {
  stdout: string;
  stderr: string;
  exitCode: number;
  signal: string | null;
  timedOut: boolean;
  /** The kernel ended something of it for want of memory. */
  oomKilled: boolean;
  /** The box ended it, as it made its workspace too large. */
  quotaExceeded: boolean;
  durationMs: number;
  stdoutTruncated: boolean;
  stderrTruncated: boolean;
}

/** Some output of a running command, in whole characters. */
export interface Output {
  kind: "output";
  stream: "stdout" | "stderr";
  text: string;
}

/** How a command ended. */
export interface Exit {
  kind: "exit";
  exitCode: number;
  signal: string | null;
  timedOut: boolean;
  /** The kernel ended something of it for want of memory. */
  oomKilled: boolean;
  /** The box ended it, as it made its workspace too large. */
  quotaExceeded: boolean;
  durationMs: number;
  stdoutBytes: number;
  stderrBytes: number;
}

/** What a file can be written from: text, bytes, or anything that yields bytes. */
export type Source = string | Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

/** Paths, and what is written there. */
export type Files = Readonly<Record<string, Source>> | Iterable<readonly [string, Source]>;

export interface RangeOptions extends CallOptions {
  /** First byte. */
  start?: number;
  /** The byte after the last. */
  end?: number;
}

export interface WriteOptions extends CallOptions {
  /** How many bytes will come, where we can't know: otherwise they are sent in chunks. */
  size?: number;
  /** Nothing may be there yet. */
  newOnly?: boolean;
  /** Only over the file that has this entity tag. */
  ifMatch?: string;
}

export interface DeleteOptions extends CallOptions {
  /** A folder with all in it. */
  recursive?: boolean;
  /** Only the file that has this entity tag. */
  ifMatch?: string;
  /** Seconds since 1970, as a listing's `mtime`: only what didn't change after that second. */
  unmodifiedSince?: number;
}

/** A file that was written. */
export interface Stored {
  path: string;
  size: number;
  etag: string | undefined;
  created: boolean;
}

/** A file or folder, without its content; `size` and `etag` are a file's. */
export interface FileInfo {
  path: string;
  isDirectory: boolean;
  size: number | undefined;
  etag: string | undefined;
}

/** One name in a folder. `raw`: percent-encoded, where it isn't UTF-8. */
export interface Entry {
  name: string;
  raw?: string;
  type: "file" | "directory" | "symlink" | "other";
  size: number;
  mode: string;
  mtime: number;
}

/** A folder's names, sorted; `truncated` where there were too many. */
export interface Listing {
  path: string;
  entries: Entry[];
  truncated: boolean;
}

/** One file of several that were written. */
export interface Placed {
  path: string;
  size: number;
  created: boolean;
}

/** A folder's tar as it comes. */
export interface Archive extends Readable {
  /**
   * Once it was read to its end: false if something was left out of it. Undefined before, and where a proxy took the
   * answer's trailer away.
   */
  readonly whole: boolean | undefined;
}

/** What a workspace takes: `bytes` as `du` counts them; a `quota` of 0 is none. */
export interface Usage {
  bytes: number;
  entries: number;
  quota: number;
}

/** What a box offers. Limits: bytes, or milliseconds where the name ends in `_ms`. */
export interface Capabilities {
  name: string;
  version: string;
  mode: string;
  limits: Readonly<Record<string, number>>;
  layers: readonly string[];
  routes: readonly string[];
}
