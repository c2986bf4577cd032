/** The seat's client: one workspace, one command at a time. */
import { parseTarget } from "./http.js";
import { Sandbox, percent } from "./sandbox.js";
import type { CallOptions, Listing, TargetOptions } from "./types.js";

/** A client of `sallyport seat` at `http://host:port`, `https://host:port` or `unix:/path`. */
export class Seat extends Sandbox {
  protected readonly exec = "/execute";
  protected readonly writeMethod = "PUT";

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

  protected removal(path: string, recursive: boolean): string {
    return this.file(path) + (recursive ? "?recursive=true" : "");
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
