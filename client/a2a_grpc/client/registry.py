"""Agents in a registry: found by what they can, and registered there."""

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, Self, TypedDict, TypeVar, Unpack, get_args

from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import Struct

from a2a_grpc.client.closing import Closing
from a2a_grpc.client.credentials import Credentials, Surroundings
from a2a_grpc.client.credentials.choosing import choose
from a2a_grpc.client.deadlines import time_limit
from a2a_grpc.client.discovery import certificate_in
from a2a_grpc.client.errors import CredentialsError
from a2a_grpc.client.lists import listed
from a2a_grpc.client.options import Options, parameters
from a2a_grpc.client.origins import Origins, endpoint
from a2a_grpc.client.transports.authenticated import AuthenticatedTransport
from a2a_grpc.client.transports.base import Transport
from a2a_grpc.client.transports.registry import registry_transport
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.registry.v1 import registry_pb2 as pb
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import (
    A2AError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    RouteNotFoundError,
    excerpt,
)

Detail = Literal["public", "full", "owner"]
Health = Literal["unknown", "healthy", "unreachable"]
Signature = Literal["unsigned", "verified", "untrusted"]
Capability = Literal["streaming", "push_notifications", "extended_agent_card"]

R = TypeVar("R", bound=Message)

_MAX_PAGE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredAgent:
    """An agent as a registry shows it. `card` goes into `A2AClient.connect`."""

    id: str
    card: a2a_pb2.AgentCard
    """With the detail "public" a part of it."""
    detail: Detail
    """How much the registry shows: a part of the card, all of it, or to the owner the lease as well."""
    health: Health
    signature: Signature
    """What the registry thinks of the card's signatures; `verify_card(agent.document, keys)` checks them for you."""
    document: bytes
    """The JSON of the card as the registry gave it."""
    url: str = ""
    """Where it was registered from; "" with the detail "public"."""
    expires: datetime | None = None
    """Until when it is registered; for the owner only."""
    entry: pb.Agent = field(default_factory=pb.Agent, repr=False, compare=False)
    """Everything that the registry says, as it came: when the agent was looked for, and to its owner what was seen."""


class Filters(TypedDict, total=False):
    """What an agent has to be like; see `Registry.search`."""

    skill: str
    tag: str
    provider: str
    capabilities: Iterable[Capability] | Capability
    binding: str
    input_mode: str
    output_mode: str
    health: Health | None
    signature: Signature | None
    mine: bool


class Registry(Closing):
    """A registry of agents. Make one with `connect`, close it with `aclose` or `async with`.

        async with await Registry.connect("https://registry.example.com") as registry:
            async for agent in registry.search("candidates", skill="screening"):
                async with await A2AClient.connect(agent.card) as client: ...

    Every method takes `timeout` in seconds for each call; None sets no limit. Failures are A2AErrors, as those of
    `A2AClient`.
    """

    def __init__(self, transport: Transport) -> None:
        """For `connect`."""
        self._transport = transport

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        credentials: Credentials | Sequence[Credentials] | None = None,
        headers: Mapping[str, str] | None = None,
        connect_timeout: float = 10.0,
        ca_file: Path | None = None,
        allow_origins: Sequence[str] = (),
        certificate: tuple[Path, Path] | None = None,
    ) -> Self:
        """Connect to the registry at `url`: `http://`, `https://`, `grpc://host:port`, or with TLS `grpcs://`.

        `credentials` show who calls, and `headers` go with every call; `connect_timeout` is in seconds; `ca_file` holds
        the PEM certificates to trust instead of the public ones. Credentials are not sent in plain text to another
        machine unless `allow_origins` names it as `A2AClient.connect` has it. `certificate` names the files of a client
        certificate and its key, where that is not among the credentials.

        Raises: InvalidArgumentError; CredentialsError; NotConnectedError where the registry cannot be reached (over
        HTTP a later call tells).
        """
        shown = (credentials,) if isinstance(credentials, Credentials) else tuple(credentials or ())
        options = Options(
            parameters=parameters(headers or {}, ()),
            connect_timeout=connect_timeout,
            keepalive=30.0,
            ca_file=ca_file,
            certificate=certificate or certificate_in(shown),
        )
        # The registry has no card that could name an authorization server.
        authenticator = choose(None, shown, Surroundings(connect_timeout, ca_file, lambda _: True))
        called = endpoint(url)
        if authenticator.shows_something and not Origins(allow_origins).may_have_secrets(called):
            raise CredentialsError(
                f"Credentials are not sent to {excerpt(url)} in plain text. Where nobody can read along, name it with "
                "its scheme in allow_origins."
            )
        registry = cls(AuthenticatedTransport(registry_transport(url, options), authenticator))
        try:
            await registry._transport.open()
        except BaseException:
            await registry.aclose()
            raise
        return registry

    async def search(
        self,
        text: str = "",
        *,
        skill: str = "",
        tag: str = "",
        provider: str = "",
        capabilities: Iterable[Capability] | Capability = (),
        binding: str = "",
        input_mode: str = "",
        output_mode: str = "",
        health: Health | None = None,
        signature: Signature | None = None,
        mine: bool = False,
        timeout: float | None = None,
    ) -> AsyncGenerator[RegisteredAgent, None]:
        """All agents that meet everything that is said, those that were registered last first, page by page.

        `text` is words that occur in name, description or skills; `skill` is the id of a skill, `tag` one of its tags;
        `binding` is for example "GRPC"; the modes are media types; `mine` are the caller's own.
        """
        request = pb.SearchAgentsRequest(
            text=text,
            skill=skill,
            tag=tag,
            provider=provider,
            capabilities=[_number(pb.Capability, one) for one in listed(capabilities)],
            binding=binding,
            input_mode=input_mode,
            output_mode=output_mode,
            health=_number(pb.HealthState, health or "unspecified"),
            signature=_number(pb.SignatureState, signature or "unspecified"),
            mine=mine,
            page_size=_MAX_PAGE,
        )
        while True:
            page = await self._call("SearchAgents", request, pb.SearchAgentsResponse, timeout)
            for agent in page.agents:
                yield _registered(agent)
            if not page.next_page_token:
                return
            if page.next_page_token == request.page_token:
                raise InvalidAgentResponseError("The registry gives a page that leads to itself.")
            request.page_token = page.next_page_token

    async def find(
        self, text: str = "", *, timeout: float | None = None, **filters: Unpack[Filters]
    ) -> RegisteredAgent:
        """The first agent that `search` gives. Raises: RouteNotFoundError where there is none."""
        async with aclosing(self.search(text, timeout=timeout, **filters)) as agents:
            async for agent in agents:
                return agent
        raise RouteNotFoundError("The registry has no such agent.")

    async def get(self, agent_id: str, *, timeout: float | None = None) -> RegisteredAgent:
        """One agent. Raises: RouteNotFoundError where there is none, or none for this caller."""
        response = await self._call("GetAgent", pb.GetAgentRequest(id=agent_id), pb.GetAgentResponse, timeout)
        return _registered(response.agent)

    async def register(
        self,
        card: a2a_pb2.AgentCard | bytes | None = None,
        *,
        url: str = "",
        public: bool = False,
        ttl: int = 0,
        instance: str = "",
        timeout: float | None = None,
    ) -> RegisteredAgent:
        """Register an agent, or register it anew: an owner has one entry for each URL.

        `card` is a card or its JSON; without it the registry fetches the card from `url`. `url` is where the agent is:
        its base, its card, or `grpc://host:port`; without it that is the card's first interface. `public`: everybody
        may find it. The entry has to be renewed within `ttl` seconds; the registry may grant less, and 0 asks for all
        that it grants. `instance` tells processes apart that register the same agent.

        Raises: UnauthenticatedError, InvalidArgumentError, PayloadTooLargeError, ResourceExhaustedError.
        """
        request = pb.RegisterAgentRequest(url=url, public=public, ttl_seconds=ttl, instance=instance)
        if card is not None:
            document = card if isinstance(card, bytes) else protojson.dumps(card)
            request.card.CopyFrom(protojson.loads(document, Struct))
        response = await self._call("RegisterAgent", request, pb.RegisterAgentResponse, timeout)
        return _registered(response.agent)

    async def renew(self, agent_id: str, *, ttl: int = 0, instance: str = "", timeout: float | None = None) -> datetime:
        """Make a registration last; until when it does now. `ttl` in seconds, 0: as long as before.

        Raises: RouteNotFoundError where it has ended already: register again.
        """
        request = pb.RenewAgentRequest(id=agent_id, ttl_seconds=ttl, instance=instance)
        response = await self._call("RenewAgent", request, pb.RenewAgentResponse, timeout)
        return response.lease.expire_time.ToDatetime(UTC)

    async def withdraw(self, agent_id: str, *, instance: str = "", timeout: float | None = None) -> bool:
        """End a registration, or with `instance` what that process has said; False where others keep it."""
        request = pb.WithdrawAgentRequest(id=agent_id, instance=instance)
        response = await self._call("WithdrawAgent", request, pb.WithdrawAgentResponse, timeout)
        return response.withdrawn

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def _call(self, method: str, request: Message, response_type: type[R], timeout: float | None) -> R:
        async with time_limit(timeout):
            return await self._transport.unary(method, request, response_type, timeout=timeout)


def _registered(agent: pb.Agent) -> RegisteredAgent:
    document = protojson.dumps(agent.card)
    try:
        card = protojson.loads(document, a2a_pb2.AgentCard)
    except A2AError as error:
        raise InvalidAgentResponseError(f"What the registry gave is no agent card: {error.message}") from error
    return RegisteredAgent(
        id=agent.id,
        card=card,
        detail=_word(pb.Detail, agent.detail, get_args(Detail), "public"),
        health=_word(pb.HealthState, agent.health.state, get_args(Health), "unknown"),
        signature=_word(pb.SignatureState, agent.signature, get_args(Signature), "untrusted"),
        document=document,
        url=agent.url,
        expires=agent.lease.expire_time.ToDatetime(UTC) if agent.HasField("lease") else None,
        entry=agent,
    )


def _word(values: EnumTypeWrapper, number: int, known: Collection[str], otherwise: str) -> Any:
    """The last word of the name of an enum's value, where it is one of the `known`: a newer registry has others."""
    name = values.Name(number) if number in values.values() else ""
    return next((word for word in known if name.endswith(f"_{word.upper()}")), otherwise)


def _number(values: EnumTypeWrapper, word: str) -> Any:
    """The value of an enum whose name ends in `word`. Raises: InvalidArgumentError."""
    for name, number in values.items():
        if name.endswith(f"_{word.upper()}"):
            return number
    words = ", ".join(name.lower() for name in values.keys())  # noqa: SIM118 -- not a dict
    raise InvalidArgumentError(f"{word!r} is none of {words}.")
