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
 * Makes a call again while the service is UNAVAILABLE, until `signal` or after some attempts.
 *
 * A message that is sent again under its message id starts nothing a second time, so that this is safe for sendMessage too.
 */
export async function retried<T>(signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  for (let attempt = 1, wait = FIRST_WAIT_MS; ; attempt++, wait *= 2) {
    try {
      return await call();
    } catch (error) {
      const failure = ConnectError.from(error);
      if (failure.code !== Code.Unavailable || attempt === ATTEMPTS) throw error;
      const pause = Math.max(wait * (0.5 + Math.random()), retryDelay(failure));
      console.error(`UNAVAILABLE, once more in ${Math.round(pause)} ms`);
      await sleep(pause, undefined, { signal });
    }
  }
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
