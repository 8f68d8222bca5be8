// Calls an agent over gRPC with stubs of its own: discovers it, sends, streams, cancels, and meets errors.
//
// Usage: npm start -- http://localhost:8080, where `a2a-grpc serve` runs with its demo agent.

import { create } from "@bufbuild/protobuf";
import { randomUUID } from "node:crypto";

import { type Message, MessageSchema, Role, type TaskState } from "../gen/a2a_pb.js";
import { type Agent, connect, discover, grpcInterface } from "./agent.js";
import { follow, printArtifact, printEvent, stateName } from "./events.js";
import { describe, retried } from "./failures.js";

const TEXT = "summarize Agents call each other. They speak A2A. Some of them are slow. A2A lets them stream.";
// A call that is not a stream is over by then.
const TIMEOUT_MS = 30_000;

function message(text: string): Message {
  return create(MessageSchema, {
    messageId: randomUUID(),
    role: Role.USER,
    parts: [{ content: { case: "text", value: text } }],
  });
}

/** Waits for the outcome of a message. */
async function send(agent: Agent): Promise<void> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  // Made once: every attempt carries the same message id, so that the work is done once.
  const request = { tenant: agent.tenant, message: message(TEXT) };
  const { payload } = await retried(signal, () => agent.calls.sendMessage(request, { signal, timeoutMs: TIMEOUT_MS }));
  if (payload.case !== "task") throw new Error(`a ${payload.case} in place of a task`);
  console.log(`send ${stateName(payload.value.status?.state)}`);
  payload.value.artifacts.forEach(printArtifact);
}

/** Shows what happens as it happens. */
async function stream(agent: Agent): Promise<void> {
  console.log("stream");
  for await (const event of follow(agent, message(TEXT))) printEvent(event);
}

/** Stops a task that would go on for a minute, and sees its stream end. */
async function cancelRunning(agent: Agent): Promise<void> {
  const long = message(`summarize ${"Agents call each other. ".repeat(3000)}`);
  let running = "";
  let last: TaskState | undefined;
  for await (const { payload } of follow(agent, long)) {
    if (payload.case === "task") {
      running = payload.value.id;
    } else if (payload.case === "statusUpdate") {
      last = payload.value.status?.state;
    } else if (running) {
      // It is at work: stop it, once.
      const task = await agent.calls.cancelTask({ tenant: agent.tenant, id: running }, { timeoutMs: TIMEOUT_MS });
      console.log(`cancel ${stateName(task.status?.state)}`);
      running = "";
    }
  }
  console.log(`  the stream ended with ${stateName(last)}`);
}

/** Makes two mistakes and says what the service answers. */
async function meetErrors({ calls, tenant }: Agent): Promise<void> {
  const empty = { messageId: randomUUID(), role: Role.USER };
  const mistakes = [
    () => calls.getTask({ tenant, id: "no-such-task" }, { timeoutMs: TIMEOUT_MS }),
    () => calls.sendMessage({ tenant, message: empty }, { timeoutMs: TIMEOUT_MS }),
  ];
  for (const mistake of mistakes) {
    try {
      await mistake();
    } catch (error) {
      console.log(`error ${describe(error)}`);
    }
  }
}

const [baseUrl, ...more] = process.argv.slice(2);
if (!baseUrl || more.length) {
  console.error("usage: npm start -- URL");
  process.exit(2);
}
const card = await discover(baseUrl);
console.log(`agent ${card.name} ${card.version}`);
const agent = connect(grpcInterface(card), baseUrl.startsWith("https:"));
try {
  for (const step of [send, stream, cancelRunning, meetErrors]) await step(agent);
} catch (error) {
  console.error(describe(error));
  process.exitCode = 1;
} finally {
  agent.close();
}
