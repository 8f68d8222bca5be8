import type { JsonObject } from "@bufbuild/protobuf";
import { toJson } from "@bufbuild/protobuf";
import { ValueSchema } from "@bufbuild/protobuf/wkt";

import { type Artifact, type StreamResponse, TaskState, TaskStateSchema } from "../gen/a2a_pb.js";

export const EVENT_SEQUENCE = "urn:a2a-grpc:extension:event-sequence:v1";

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

/** The text that an event adds to an artifact. */
export function textOf(event: StreamResponse): string {
  if (event.payload.case !== "artifactUpdate") return "";
  const parts = event.payload.value.artifact?.parts ?? [];
  return parts.map((part) => (part.content.case === "text" ? part.content.value : "")).join("");
}

/** The number of an event in its task, where the extension event-sequence is active. */
export function numberOf(event: StreamResponse): number {
  return Number(event.payload.value?.metadata?.[EVENT_SEQUENCE] ?? 0);
}

/** The name of a state as the protocol spells it. */
export function stateName(state: TaskState = TaskState.UNSPECIFIED): string {
  return TaskStateSchema.value[state]?.name ?? String(state);
}
