/** A running command's output as server-sent events. */
import type { IncomingMessage } from "node:http";
import { TextDecoder } from "node:util";

import { ApiError, TransportError } from "./errors.js";
import { flag, type Json, number, parseObject, text, textOrNull, translate } from "./http.js";
import type { Exit, Output } from "./types.js";

const LINE_MAX = 1 << 20;

/**
 * Iterate it: outputs as they come, then how the command ended. Not reading stops the command, once
 * the buffers between are full. Leaving the loop, or close(), kills it.
 */
export class Live implements AsyncIterable<Output | Exit> {
  /** How the command ended; there after the last event. */
  exit: Exit | undefined;
  readonly #res: IncomingMessage;
  readonly #signal: AbortSignal | undefined;

  /** @internal */
  constructor(res: IncomingMessage, signal: AbortSignal | undefined) {
    this.#res = res;
    this.#signal = signal;
    res.on("error", () => undefined); // told where it is read
  }

  /** Kills the command, if it still runs. */
  close(): void {
    this.#res.destroy();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Output | Exit> {
    let name = "";
    let data = "";
    try {
      for await (const line of this.#lines()) {
        if (line.startsWith("event:")) {
          name = line.slice(6).trimStart();
        } else if (line.startsWith("data:")) {
          data = line.slice(5).trimStart();
        } else if (line === "") {
          const event = toEvent(name, data);
          [name, data] = ["", ""];
          if (event?.kind === "exit") this.exit = event;
          if (event !== undefined) yield event;
          if (this.exit !== undefined) return;
        }
      }
      throw new TransportError("The stream ended before the command did.");
    } finally {
      this.close();
    }
  }

  async *#lines(): AsyncGenerator<string> {
    const decoder = new TextDecoder("utf-8", { fatal: true });
    let rest = "";
    const chunks = this.#res.iterator({ destroyOnReturn: false }) as AsyncIterableIterator<Buffer>;
    for (;;) {
      let next: IteratorResult<Buffer, unknown>;
      try {
        next = await chunks.next();
      } catch (err) {
        throw translate(err, this.#signal);
      }
      if (next.done === true) return;
      const lines = (rest + decode(decoder, next.value)).split("\n");
      rest = lines.pop() ?? "";
      if (rest.length > LINE_MAX) throw new TransportError("A line of the stream is too long.");
      yield* lines;
    }
  }
}

function decode(decoder: TextDecoder, chunk: Buffer): string {
  try {
    return decoder.decode(chunk, { stream: true });
  } catch (err) {
    throw new TransportError("The stream is not UTF-8.", { cause: err });
  }
}

function toExit(found: Json): Exit {
  return {
    kind: "exit",
    exitCode: number(found, "exit_code"),
    signal: textOrNull(found, "signal"),
    timedOut: flag(found, "timed_out"),
    oomKilled: found["oom_killed"] === true,
    quotaExceeded: found["quota_exceeded"] === true,
    durationMs: number(found, "duration_ms"),
    stdoutBytes: number(found, "stdout_bytes"),
    stderrBytes: number(found, "stderr_bytes"),
  };
}

function toEvent(name: string, data: string): Output | Exit | undefined {
  if (name === "stdout" || name === "stderr") {
    return { kind: "output", stream: name, text: text(parseObject(data), "text") };
  }
  if (name === "exit") return toExit(parseObject(data));
  if (name === "error") {
    const found = parseObject(data);
    throw new ApiError(text(found, "error"), text(found, "code"), 200);
  }
  return undefined; // the start, a comment, or what a newer daemon says
}
