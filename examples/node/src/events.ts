import { type JsonObject, toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";

import { type Artifact, type Message, type StreamResponse, TaskState, TaskStateSchema } from "../gen/a2a_pb.js";
import type { Agent } from "./agent.js";
import { Patience } from "./failures.js";

const EVENT_SEQUENCE = "urn:a2a-grpc:extension:event-sequence:v1";

/**
 * Sends a message and yields the events of its stream, each once and in order.
 *
 * A stream that breaks is taken up behind its last event: the message is sent again under its id, which starts nothing a
 * second time, with the number of that event. There is no deadline, since a task may take its time.
 */
export async function* follow(agent: Agent, message: Message): AsyncGenerator<StreamResponse> {
  const tries = new Patience();
  let seen = 0;
  for (;;) {
    try {
      const headers = { "A2A-Extensions": EVENT_SEQUENCE, "Last-Event-ID": String(seen) };
      for await (const event of agent.calls.sendStreamingMessage({ tenant: agent.tenant, message }, { headers })) {
        // A stream that goes on begins with the task as it is known already, or, if events are no longer there, as it
        // stands now; then its number is a new one.
        const current = numberOf(event);
        if (current && current <= seen) continue;
        seen = current;
        tries.reset();
        yield event;
      }
      return;
    } catch (error) {
      await tries.wait(error);
    }
  }
}

export function printEvent(event: StreamResponse): void {
  switch (event.payload.case) {
    case "task":
    case "message":
      console.log(`  ${event.payload.case}`);
      break;
    case "statusUpdate":
      console.log(`  ${stateName(event.payload.value.status?.state)}`);
      break;
    case "artifactUpdate":
      printArtifact(event.payload.value.artifact);
      break;
  }
}

export function printArtifact(artifact: Artifact | undefined): void {
  const content = (artifact?.parts ?? []).map((part) => {
    if (part.content.case === "text") return part.content.value;
    if (part.content.case !== "data") return "";
    const data = toJson(ValueSchema, part.content.value) as JsonObject;
    return `${data.kept} of ${data.sentences} sentences`;
  });
  // Only the first chunk of an artifact has its name; all of them have its id.
  console.log(`  ${artifact?.name || "+"}: ${content.join("").trim()}`);
}

/** The number of an event in its task, where the extension event-sequence is active. */
function numberOf(event: StreamResponse): number {
  return Number(event.payload.value?.metadata?.[EVENT_SEQUENCE] ?? 0);
}

/** The name of a state as the protocol spells it. */
export function stateName(state: TaskState = TaskState.UNSPECIFIED): string {
  return TaskStateSchema.value[state]?.name ?? String(state);
}
