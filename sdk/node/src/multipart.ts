/** multipart/form-data as a stream: no file is held in memory, and none is read before its turn. */
import { randomBytes } from "node:crypto";

import { RunboxError } from "./errors.js";
import { pieces, sizeOf } from "./http.js";
import type { Files, Source } from "./types.js";

function quoted(name: string): string {
  // eslint-disable-next-line no-control-regex
  if (/[\x00-\x1f\x7f]/.test(name)) throw new RunboxError("A file's name can't have control characters in it.");
  return name.replace(/[\\"]/g, "\\$&");
}

/** A body of an optional part "request" and any number of files, each under its path. */
export function form(
  files: Files,
  request?: string,
): { body: AsyncIterable<Uint8Array>; size: number | undefined; contentType: string } {
  const boundary = randomBytes(16).toString("hex");
  const start = `--${boundary}\r\nContent-Disposition: form-data; name="`;
  const parts: [Buffer, Source][] = [];
  if (request !== undefined) {
    parts.push([Buffer.from(`${start}request"\r\nContent-Type: application/json\r\n\r\n`), request]);
  }
  for (const [path, data] of Symbol.iterator in files ? files : Object.entries(files)) {
    parts.push([Buffer.from(`${start}file"; filename="${quoted(path)}"\r\n\r\n`), data]);
  }
  const end = Buffer.from(`--${boundary}--\r\n`);
  let size: number | undefined = end.length;
  for (const [head, data] of parts) {
    const n = sizeOf(data);
    size = n === undefined || size === undefined ? undefined : size + head.length + n + 2;
  }
  async function* body(): AsyncGenerator<Uint8Array> {
    for (const [head, data] of parts) {
      yield head;
      yield* pieces(data);
      yield Buffer.from("\r\n");
    }
    yield end;
  }
  return { body: body(), size, contentType: `multipart/form-data; boundary=${boundary}` };
}
