/** The box's client: one daemon, many identities, each with a workspace of its own. */
import type { IncomingMessage } from "node:http";
import type { Writable } from "node:stream";

import { ApiError, RunboxError, TransportError } from "./errors.js";
import { type Json, flag, isType, number, parseObject, parseTarget, readAll, text, translate } from "./http.js";
import type { Live } from "./live.js";
import { form } from "./multipart.js";
import { Remote, Sandbox, copy, percent, readObject, rest, toBody } from "./sandbox.js";
import type {
  Archive,
  BoxCommandOptions,
  CallOptions,
  Capabilities,
  Files,
  Identity,
  Listing,
  Placed,
  Result,
  Source,
  Stored,
  TargetOptions,
  Usage,
  WriteOptions,
} from "./types.js";

const READY_PAUSE = 200;

/** A header's value. What can't be one must not become another; the daemon judges the rest. */
function field(what: string, value: string): string {
  // eslint-disable-next-line no-control-regex
  if (!/^[^\x00-\x20\x7f]+$/.test(value)) throw new RunboxError(`${what} must be visible text without blanks.`);
  return Buffer.from(value).toString("latin1"); // see open() in http.ts
}

function toPlaced(found: unknown): Placed {
  if (typeof found !== "object" || found === null) throw new TransportError('The answer has no usable "files".');
  const one = found as Json;
  return { path: text(one, "path"), size: number(one, "size"), created: flag(one, "created") };
}

/** One identity's workspace; commands in it run one after the other. See Box.workspace. */
export class Workspace extends Sandbox {
  protected readonly exec = "/v1/exec";
  protected readonly writeMethod = "POST";

  protected file(path: string): string {
    return `/v1/files?path=${percent(path)}`;
  }

  protected folder(path: string, recursive: boolean): string {
    return `/v1/list?path=${percent(path)}${recursive ? "&recursive=true" : ""}`;
  }

  protected removal(path: string, recursive: boolean): string {
    return `/v1/path?path=${percent(path)}${recursive ? "&recursive=true" : ""}`;
  }

  /** Runs one command, its `files` written before; resolves when it has ended. */
  override execute(command: string, options: BoxCommandOptions = {}): Promise<Result> {
    return super.execute(command, options);
  }

  /** Starts one command, its `files` written before; resolves once it runs. Iterate for its output. */
  override stream(command: string, options: BoxCommandOptions = {}): Promise<Live> {
    return super.stream(command, options);
  }

  /** As write, by `PUT /v1/path`, which never takes a body for a form. */
  putPath(path: string, data: Source, options: WriteOptions = {}): Promise<Stored> {
    return this.store("PUT", `/v1/path?path=${percent(path)}`, data, options);
  }

  /**
   * Writes files below `folder`, all or none: none is placed before all bytes are there; see docs/box.md
   * "Multipart". At most 48.
   */
  async writeBatch(files: Files, options: CallOptions & { folder?: string } = {}): Promise<Placed[]> {
    const { folder = "", signal } = options;
    const { body, size, contentType } = form(files);
    const path = `/v1/files/batch?path=${percent(folder)}`;
    const res = await this.ask({ method: "POST", path, headers: { "content-type": contentType }, body, size, signal });
    const found = await readObject(res, signal);
    if (!Array.isArray(found["files"])) throw new TransportError('The answer has no usable "files".');
    return found["files"].map(toPlaced);
  }

  /** A folder's names, sorted; with `recursive` all below it, a folder before what is in it. */
  list(path = "", options: CallOptions & { recursive?: boolean } = {}): Promise<Listing> {
    return this.names(path, options.recursive === true, options.signal);
  }

  /** A folder as a pax tar, made while it is read. Destroy it to leave early. */
  async archive(path = "", options: CallOptions = {}): Promise<Archive> {
    return toBody(await this.tar(path, options.signal), options.signal);
  }

  private async tar(path: string, signal: AbortSignal | undefined): Promise<IncomingMessage> {
    const res = await this.ask({ method: "GET", path: `/v1/archive?path=${percent(path)}`, signal });
    if (!isType(res, "application/x-tar")) {
      res.destroy();
      throw new TransportError("The answer is no archive.");
    }
    return res;
  }

  /** Writes a folder's tar into `sink` as it comes, and ends it; resolves with how many bytes. */
  async downloadArchive(path: string, sink: Writable, options: CallOptions = {}): Promise<number> {
    return copy(toBody(await this.tar(path, options.signal), options.signal), sink, options.signal);
  }

  /** What the workspace takes, and may take. */
  async usage(options: CallOptions = {}): Promise<Usage> {
    const res = await this.ask({ method: "GET", path: "/v1/usage", signal: options.signal });
    const found = await readObject(res, options.signal);
    return { bytes: number(found, "bytes"), entries: number(found, "entries"), quota: number(found, "quota") };
  }

  /** Removes all that is in the workspace and ends all that runs there. */
  async deleteWorkspace(options: CallOptions = {}): Promise<void> {
    const res = await this.ask({ method: "DELETE", path: "/v1/workspace", signal: options.signal, good: [204] });
    res.destroy();
  }
}

/** A list of texts, or it isn't the daemon's answer. */
function texts(found: Json, name: string): string[] {
  const list = found[name];
  if (!Array.isArray(list) || !list.every((v) => typeof v === "string")) {
    throw new TransportError(`The answer has no usable "${name}".`);
  }
  return list;
}

/**
 * A client of `sallyport box` at `http://host:port`, `https://host:port` or `unix:/path`. The key opens
 * every identity's workspace: keep it on your own servers.
 */
export class Box extends Remote {
  readonly #headers: Record<string, string>;

  constructor(url: string, key: string, options: TargetOptions = {}) {
    const headers = { authorization: `Bearer ${field("A key", key)}` };
    super(parseTarget(url, options.ca), headers);
    this.#headers = headers;
  }

  /**
   * The workspace of an identity, or of a tenant's user. A name is 1 to 256 bytes of visible text without
   * blanks. Asks nothing yet.
   */
  workspace(identity: Identity): Workspace {
    const named: Record<string, string> =
      typeof identity === "string"
        ? { "x-runbox-identity": field("An identity", identity) }
        : { "x-runbox-tenant": field("A tenant", identity.tenant), "x-runbox-user": field("A user", identity.user) };
    return new Workspace(this.target, { ...this.#headers, ...named });
  }

  /** Version, limits, layers of confinement, routes. */
  async capabilities(options: CallOptions = {}): Promise<Capabilities> {
    const res = await this.ask({ method: "GET", path: "/v1/capabilities", signal: options.signal });
    const found = await readObject(res, options.signal);
    const limits = parseObject(JSON.stringify(found["limits"] ?? null));
    for (const name of Object.keys(limits)) number(limits, name);
    return {
      name: text(found, "name"),
      version: text(found, "version"),
      mode: text(found, "mode"),
      limits: limits as Readonly<Record<string, number>>,
      layers: texts(found, "layers"),
      routes: texts(found, "routes"),
    };
  }

  /** Counters in Prometheus's text format. */
  async metrics(options: CallOptions = {}): Promise<string> {
    const res = await this.ask({ method: "GET", path: "/metrics", signal: options.signal });
    if (!isType(res, "text/plain")) {
      res.destroy();
      throw new TransportError("The answer is no text.");
    }
    return (await readAll(res, options.signal)).toString("utf8");
  }

  /** "ok"; "draining" while the daemon shuts down. */
  health(options: CallOptions = {}): Promise<string> {
    return this.status("/healthz", options.signal);
  }

  /** Whether commands can be run: the box has just run one, or tried to. */
  async ready(options: CallOptions = {}): Promise<boolean> {
    return (await this.status("/ready", options.signal)) === "ready";
  }

  /** Asks until the box is ready, also while nobody listens yet. The signal bounds it. */
  async waitReady(options: CallOptions = {}): Promise<void> {
    for (;;) {
      try {
        if (await this.ready(options)) return;
      } catch (err) {
        if (options.signal?.aborted === true) throw translate(err, options.signal);
        if (!(err instanceof TransportError) && !(err instanceof ApiError && err.status === 503)) throw err;
      }
      await rest(READY_PAUSE, options.signal);
    }
  }
}
