import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { setTimeout as sleep } from "node:timers/promises";

import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "../gen/google/rpc/error_details_pb.js";

const ATTEMPTS = 6;
const FIRST_WAIT_MS = 200;

/** What an error is: its code, its reason, and the fields that are wrong. */
export function describe(error: unknown): string {
  const failure = ConnectError.from(error);
  const said = [codeName(failure.code)];
  for (const info of failure.findDetails(ErrorInfoSchema)) said.push(info.reason, info.domain);
  for (const bad of failure.findDetails(BadRequestSchema)) said.push(...bad.fieldViolations.map((one) => one.field));
  return said.join(" ");
}

/**
 * Makes a call again while the service is UNAVAILABLE or out of reach, or the caller too fast.
 *
 * A message that is sent again under its message id starts nothing a second time, so that this is safe for sendMessage too.
 */
export async function retried<T>(signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  const tries = new Patience();
  for (;;) {
    try {
      return await call();
    } catch (error) {
      await tries.wait(error, signal);
    }
  }
}

/** How often a call has failed in a row. */
export class Patience {
  private failures = 0;

  /**
   * Returns when the call should be made again. Throws the error if that ends the attempts: it does not pass by itself, or
   * is one too many.
   */
  async wait(error: unknown, signal?: AbortSignal): Promise<void> {
    const failure = ConnectError.from(error);
    this.failures += 1;
    if (!passes(failure) || this.failures === ATTEMPTS || signal?.aborted) throw error;
    const longest = FIRST_WAIT_MS * 2 ** this.failures;
    const pause = Math.max(longest * (0.25 + Math.random() / 2), retryDelay(failure));
    console.error(`${codeName(failure.code)}, once more in ${Math.round(pause)} ms`);
    await sleep(pause, undefined, { signal });
  }

  /** The call has brought something. */
  reset(): void {
    this.failures = 0;
  }
}

/** Whether the same call may succeed later. Connect calls a connection that was cut canceled or aborted, without details. */
function passes(failure: ConnectError): boolean {
  const cut = [Code.Canceled, Code.Aborted].includes(failure.code) && failure.details.length === 0;
  // A limit that is reached passes by itself where the service says when.
  const limited = failure.code === Code.ResourceExhausted && retryDelay(failure) > 0;
  return cut || limited || failure.code === Code.Unavailable;
}

/** How many milliseconds the service asks to wait. */
function retryDelay(failure: ConnectError): number {
  const delay = failure.findDetails(RetryInfoSchema)[0]?.retryDelay;
  return delay ? durationMs(delay) : 0;
}

/** The name of a code as the protocol spells it: NotFound is NOT_FOUND. */
function codeName(code: Code): string {
  return (Code[code] ?? String(code)).replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
}
