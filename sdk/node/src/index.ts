/** Client of a Sallyport daemon: commands with live output, and files. */
export { Box, Workspace } from "./box.js";
export { ApiError, RunboxError, TransportError } from "./errors.js";
export { Live } from "./live.js";
export { Sandbox } from "./sandbox.js";
export { Seat } from "./seat.js";
export type {
  Archive,
  BoxCommandOptions,
  CallOptions,
  Capabilities,
  CommandOptions,
  DeleteOptions,
  Entry,
  Exit,
  FileInfo,
  Files,
  Identity,
  Listing,
  Output,
  Placed,
  RangeOptions,
  Result,
  Source,
  Stored,
  TargetOptions,
  Usage,
  WriteOptions,
} from "./types.js";
