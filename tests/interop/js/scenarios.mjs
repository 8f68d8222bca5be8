// Calls a service with the official JavaScript client and prints what came back: one JSON object, scenario -> outcome.
// Tasks and events are printed as ProtoJSON, errors as their class and text; the judgement is the Python tests'.
//
// node scenarios.mjs CARD_URL BINDING SCENARIO...

import { randomUUID } from "node:crypto";

import {
  CancelTaskRequest,
  GetTaskRequest,
  ListTasksRequest,
  ListTasksResponse,
  Message,
  SendMessageRequest,
  StreamResponse,
  SubscribeToTaskRequest,
  Task,
} from "@a2a-js/sdk";
import {
  ClientFactory,
  ClientFactoryOptions,
  JsonRpcTransportFactory,
  RestTransportFactory,
  ServiceParameters,
  withA2AExtensions,
} from "@a2a-js/sdk/client";
import { GrpcTransportFactory } from "@a2a-js/sdk/client/grpc";

const TRANSPORTS = {
  GRPC: () => new GrpcTransportFactory(),
  "HTTP+JSON": () => new RestTransportFactory(),
  JSONRPC: () => new JsonRpcTransportFactory(),
};

const [cardUrl, binding, ...names] = process.argv.slice(2);
const factory = new ClientFactory({ ...ClientFactoryOptions.default, transports: [TRANSPORTS[binding]()] });
const client = await factory.createFromUrl(cardUrl);

// A fresh message id each time, since a repeated one is a retry; its prefix can choose what the agent does.
function request(text, { prefix = "js", taskId, contextId, parts, configuration } = {}) {
  const message = { messageId: `${prefix}-${randomUUID()}`, role: "ROLE_USER", parts: parts ?? [{ text }], taskId, contextId };
  return SendMessageRequest.fromJSON({ message, configuration });
}

async function send(...args) {
  const result = await client.sendMessage(request(...args));
  return "status" in result ? { task: Task.toJSON(result) } : { message: Message.toJSON(result) };
}

async function start(text) {
  return (await send(text, { configuration: { returnImmediately: true } })).task;
}

async function get(id, more = {}) {
  return Task.toJSON(await client.getTask(GetTaskRequest.fromJSON({ id, ...more })));
}

async function cancel(id) {
  return Task.toJSON(await client.cancelTask(CancelTaskRequest.fromJSON({ id })));
}

async function collect(events) {
  const seen = [];
  for await (const event of events) seen.push(StreamResponse.toJSON(event));
  return seen;
}

function subscribe(id) {
  return client.resubscribeTask(SubscribeToTaskRequest.fromJSON({ id }));
}

// What a call that must fail failed with.
async function failure(call) {
  try {
    return { unexpected: await call() };
  } catch (error) {
    return { name: error.name, reason: error.reason, message: error.message };
  }
}

const SCENARIOS = {
  send: () => send("hello", { prefix: "tck-artifact-text" }),

  message: () => send("msg", { prefix: "tck-message-response" }),

  file: () => send("a file", { prefix: "tck-artifact-file" }),

  data: () => send("data", { prefix: "tck-artifact-data" }),

  async stream() {
    const events = await collect(client.sendMessageStream(request("hello", { prefix: "tck-stream-001" })));
    return { events, task: await get(events[0].task.id) };
  },

  async chunks() {
    const sent = request("hello", { prefix: "tck-stream-artifact-chunked" });
    const events = await collect(client.sendMessageStream(sent));
    return { events, task: await get(events[0].task.id) };
  },

  async conversation() {
    const { task: asked } = await send("ask");
    const { task: answered } = await send("the answer", { taskId: asked.id });
    return { asked, answered, whole: await get(asked.id), none: await get(asked.id, { historyLength: 0 }) };
  },

  async list() {
    const first = (await send("hello", { prefix: "tck-artifact-text" })).task;
    const { contextId } = first;
    const second = (await send("hello", { prefix: "tck-artifact-text", contextId })).task;
    const third = (await send("hello", { prefix: "tck-artifact-text", contextId })).task;
    const page = await client.listTasks(ListTasksRequest.fromJSON({ contextId, pageSize: 2 }));
    const rest = await client.listTasks(
      ListTasksRequest.fromJSON({ contextId, pageSize: 2, pageToken: page.nextPageToken, includeArtifacts: true }),
    );
    const made = [first.id, second.id, third.id];
    return { made, page: ListTasksResponse.toJSON(page), rest: ListTasksResponse.toJSON(rest) };
  },

  async cancel() {
    const { id } = await start("slow 30 silent");
    return { id, canceled: await cancel(id), again: await failure(() => cancel(id)) };
  },

  async subscribe() {
    const { id } = await start("slow 2");
    return { id, events: await collect(subscribe(id)) };
  },

  async parked() {
    const { task: asked } = await send("ask");
    const stream = subscribe(asked.id);
    const { value: snapshot } = await stream.next();
    await send("the answer", { taskId: asked.id });
    return { snapshot: StreamResponse.toJSON(snapshot), events: await collect(stream) };
  },

  async unknown() {
    const id = randomUUID();
    return {
      get: await failure(() => get(id)),
      cancel: await failure(() => cancel(id)),
      subscribe: await failure(() => collect(subscribe(id))),
      send: await failure(() => send("hello", { taskId: id })),
      stream: await failure(() => collect(client.sendMessageStream(request("hello", { taskId: id })))),
    };
  },

  async ended() {
    const { task } = await send("hello");
    const more = request("more", { taskId: task.id });
    return {
      send: await failure(() => client.sendMessage(more)),
      stream: await failure(() => collect(client.sendMessageStream(more))),
      subscribe: await failure(() => collect(subscribe(task.id))),
    };
  },

  async invalid() {
    const odd = [{ raw: "AAAA", mediaType: "application/x-nobody-takes-this" }];
    return {
      parts: await failure(() => send("", { parts: [] })),
      mediaType: await failure(() => send("", { parts: odd })),
      pageToken: await failure(() => client.listTasks(ListTasksRequest.fromJSON({ pageToken: "made up" }))),
    };
  },

  fallback: () => collect(client.sendMessageStream(request("hello", { prefix: "tck-artifact-text" }))),

  extendedCard: () => failure(() => client.getAgentCard()),

  async extension() {
    const serviceParameters = ServiceParameters.create(withA2AExtensions("urn:a2a:tck:required-extension"));
    return {
      without: await failure(() => send("hello")),
      with: Task.toJSON(await client.sendMessage(request("hello"), { serviceParameters })),
    };
  },
};

const outcomes = {};
for (const name of names) {
  try {
    outcomes[name] = await SCENARIOS[name]();
  } catch (error) {
    outcomes[name] = { threw: `${error.stack}` };
  }
}
process.stdout.write(JSON.stringify(outcomes));
process.exit(0); // gRPC channels of the client have no close
