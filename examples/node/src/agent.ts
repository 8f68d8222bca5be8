import { fromJson, type JsonValue } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { A2AService, type AgentCard, AgentCardSchema, type AgentInterface } from "../gen/a2a_pb.js";

const VERSION = "1.0";
const CONNECT_TIMEOUT_MS = 10_000;
// Tasks with large artifacts do not fit into the few MiB that most libraries take unless told otherwise.
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** Fetches the card of the agent at `baseUrl`. */
export async function discover(baseUrl: string): Promise<AgentCard> {
  const response = await fetch(`${baseUrl.replace(/\/$/, "")}/.well-known/agent-card.json`, {
    signal: AbortSignal.timeout(CONNECT_TIMEOUT_MS),
  });
  if (!response.ok) throw new Error(`the card: ${response.status} ${response.statusText}`);
  // A later minor version may add fields.
  return fromJson(AgentCardSchema, (await response.json()) as JsonValue, { ignoreUnknownFields: true });
}

/** The first interface of the card that speaks this version over gRPC. */
export function grpcInterface(card: AgentCard): AgentInterface {
  const found = card.supportedInterfaces.find((one) => one.protocolBinding === "GRPC" && one.protocolVersion === VERSION);
  if (!found) throw new Error(`${card.name} has no interface for gRPC ${VERSION}`);
  return found;
}

/** An agent and the connection to it. */
export interface Agent {
  calls: Client<typeof A2AService>;
  /** Whom calls are for, as the card says. */
  tenant: string;
  close(): void;
}

/** Connects, with TLS if the card came over TLS: what the card names must not be less protected. */
export function connect(chosen: AgentInterface, secure: boolean): Agent {
  const baseUrl = `${secure ? "https" : "http"}://${chosen.url}`;
  // Pings find out that a connection is dead while a stream is silent. The server takes one every 10 s.
  const sessions = new Http2SessionManager(baseUrl, { pingIntervalMs: 30_000, pingTimeoutMs: 10_000 });
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager: sessions,
    readMaxBytes: MAX_ANSWER_BYTES,
    interceptors: [withVersion],
  });
  return { calls: createClient(A2AService, transport), tenant: chosen.tenant, close: () => sessions.abort() };
}

const withVersion: Interceptor = (next) => (request) => {
  request.header.set("A2A-Version", VERSION);
  return next(request);
};
