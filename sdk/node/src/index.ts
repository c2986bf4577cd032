/** Client of a Sallyport daemon: commands with live output, and files. */
export { ApiError, RunboxError, TransportError } from "./errors.js";
export { Live } from "./live.js";
export { Seat, type SeatOptions } from "./seat.js";
export type {
  CallOptions,
  CommandOptions,
  Entry,
  Exit,
  FileInfo,
  Listing,
  Output,
  RangeOptions,
  Result,
  Source,
  Stored,
  WriteOptions,
} from "./types.js";
