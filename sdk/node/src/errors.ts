/** What can go wrong, by who said so. */

/** Any failure of a call but an abort. */
export class RunboxError extends Error {
  override name = "RunboxError";
}

/** There was no answer, or only a part of one, or it wasn't the daemon's. */
export class TransportError extends RunboxError {
  override name = "TransportError";
}

/** The daemon answered with an error. */
export class ApiError extends RunboxError {
  override name = "ApiError";
  /** For programs: "busy", "not_found", ... */
  readonly code: string;
  /** Of HTTP; 200 where the error came after a stream had begun. */
  readonly status: number;
  /** Seconds, where the daemon said. */
  readonly retryAfter: number | undefined;

  constructor(message: string, code: string, status: number, retryAfter?: number) {
    super(message);
    this.code = code;
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** An answer to HEAD has no body to tell the code: these statuses have but one. */
const HEAD_CODES: Readonly<Record<number, readonly [string, string]>> = {
  404: ["not_found", "There is nothing at this path."],
  409: ["not_a_file", "The path is no file."],
};

/** The error that an answer holds; one without our JSON has the code "unknown". */
export function apiError(status: number, body: string, retryAfter: string | undefined): ApiError {
  let [code, message] = ["unknown", `The server answered with status ${status}.`];
  const known = body === "" ? HEAD_CODES[status] : undefined;
  if (known !== undefined) [code, message] = known;
  try {
    const found: unknown = JSON.parse(body);
    if (typeof found === "object" && found !== null && "code" in found && "error" in found) {
      if (typeof found.code === "string" && typeof found.error === "string") {
        [code, message] = [found.code, found.error];
      }
    }
  } catch {
    // not ours: a proxy's page, or no body
  }
  const seconds = retryAfter !== undefined && /^[0-9]+$/.test(retryAfter) ? Number(retryAfter) : undefined;
  return new ApiError(message, code, status, seconds);
}
