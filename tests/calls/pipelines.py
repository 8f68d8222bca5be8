"""The real pipeline around operations that a test writes."""

import hashlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent
from a2a_grpc.server.auth.api_key import ApiKeys
from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.auth.gate import Gate
from a2a_grpc.server.calls import steps
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.pipeline import Pipeline
from a2a_grpc.server.calls.tracing import Tracing
from a2a_grpc.server.calls.validation import Validator
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.hosting.attempts import Attempts
from a2a_grpc.server.hosting.hosts import Hosted, Hosts
from a2a_grpc.server.hosting.limiter import Limiter
from a2a_grpc.server.hosting.limits import HostLimits
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.operations import Operations
from a2a_grpc.server.store.quotas import Quotas

Unary = Callable[[Any, Caller], Awaitable[Message]]
Stream = Callable[[Any, Caller], AsyncGenerator[Event, None]]

REQUEST = a2a_pb2.GetTaskRequest(id="task")
MAX_BYTES = 4096
NO_LIMITER = cast("Limiter", None)
NO_ATTEMPTS = Attempts(cast("Quotas", None), None)
VALIDATOR = Validator(max_nesting=32, max_id_length=256)


def operations(unary: Unary | None = None, stream: Stream | None = None) -> Operations:
    """Operations of which every unary one is `unary` and every streaming one `stream`."""
    methods = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].methods
    made = SimpleNamespace(
        unary={method.name: unary for method in methods if not method.server_streaming},
        streams={method.name: stream for method in methods if method.server_streaming},
    )
    return cast("Operations", made)


def pipeline(
    unary: Unary | None = None,
    stream: Stream | None = None,
    *,
    assumed: str | None = None,
    keys: Mapping[str, str] | None = None,
    extensions: Mapping[str, bool] | None = None,
    capabilities: a2a_pb2.AgentCapabilities | None = None,
) -> Pipeline:
    """The pipeline as main composes it. `keys`: callers and their API keys, sent in x-api-key."""
    digests = [(name, hashlib.sha256(key.encode()).hexdigest()) for name, key in (keys or {}).items()]
    gate = Gate([ApiKeys(digests, "header", "X-API-Key")] if digests else ())
    hosts = hosts_of(gate, extensions or {}, capabilities)
    return Pipeline(
        operations(unary, stream),
        (
            steps.RequestId(),
            Tracing(),
            steps.AccessLog(),
            steps.Audit(),
            steps.Errors(),
            steps.Deadline(),
            steps.Version(assumed),
            steps.Tenant(hosts),
            steps.Authentication(hosts, NO_ATTEMPTS),
            steps.Limits(NO_LIMITER),
            steps.Extensions(),
            steps.Capabilities(),
            steps.Validation(VALIDATOR),
        ),
    )


def hosts_of(
    gate: Gate, extensions: Mapping[str, bool], capabilities: a2a_pb2.AgentCapabilities | None = None
) -> Hosts:
    """One agent for all tenants, with these in its card. By default it streams and has an extended card."""
    agent = Agent(name="Test", description="Does nothing.", version="1")
    card = a2a_pb2.AgentCard()
    card.CopyFrom(agent.card)
    card.capabilities.CopyFrom(
        a2a_pb2.AgentCapabilities(streaming=True, extended_agent_card=True) if capabilities is None else capabilities
    )
    for uri, required in extensions.items():
        card.capabilities.extensions.add(uri=uri, required=required)
    return Hosts([Hosted(agent, gate, card, HostLimits(max_message_bytes=MAX_BYTES))], for_all=True)


def call(method: str = "GetTask", *, timeout: float | None = None, **parameters: str) -> Call:
    """A call of version 1.0; `parameters` by name with underscores, "" leaves one out."""
    given = {"a2a_version": "1.0", **parameters}
    sent = {name.replace("_", "-"): value for name, value in given.items() if value}
    return Call(
        method=method,
        binding="GRPC",
        parameters=sent,
        credentials=Credentials(parameters=sent),
        peer="127.0.0.1:1",
        timeout=timeout,
    )


def answering(response: Message) -> Unary:
    async def operation(_: Any, __: Caller) -> Message:
        return response

    return operation


def raising(error: BaseException) -> Unary:
    async def operation(_: Any, __: Caller) -> Message:
        raise error

    return operation
