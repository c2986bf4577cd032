/** The seat's client: one workspace, one command at a time. */
import { parseTarget } from "./http.js";
import { Sandbox, percent } from "./sandbox.js";
import type { CallOptions, Listing, Source, Stored, TargetOptions, WriteOptions } from "./types.js";

/** A client of `sallyport seat` at `http://host:port`, `https://host:port` or `unix:/path`. */
export class Seat extends Sandbox {
  protected readonly exec = "/execute";

  constructor(url = "http://127.0.0.1:8080", options: TargetOptions = {}) {
    super(parseTarget(url, options.ca), {});
  }

  protected file(path: string): string {
    return `/files/${path.split("/").map(percent).join("/")}`;
  }

  protected folder(path: string): string {
    const bare = path.replace(/\/+$/, "");
    return this.file(bare === "" ? "" : `${bare}/`);
  }

  /** Replaces a file, atomically; missing folders are made. */
  write(path: string, data: Source, options: WriteOptions = {}): Promise<Stored> {
    return this.store("PUT", this.file(path), data, options);
  }

  /** Removes a file, a link itself, an empty folder or, if `recursive`, any folder. */
  async deletePath(path: string, options: CallOptions & { recursive?: boolean } = {}): Promise<void> {
    const query = options.recursive === true ? "?recursive=true" : "";
    const res = await this.ask({ method: "DELETE", path: this.file(path) + query, signal: options.signal });
    res.destroy();
  }

  /** A folder's names, sorted. */
  list(path = "", options: CallOptions = {}): Promise<Listing> {
    return this.names(path, false, options.signal);
  }

  /** "ok"; "draining" while the daemon shuts down. */
  health(options: CallOptions = {}): Promise<string> {
    return this.status("/healthz", options.signal);
  }
}
