"""The operations of the registry."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, cast

from google.protobuf.message import Message

from a2a_grpc.registry.v1 import registry_pb2 as pb
from a2a_grpc.server import audit
from a2a_grpc.server.core import ids, pages
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.core.pages import Cursor
from a2a_grpc.server.push.destinations import Destinations, RefusedDestinationError
from a2a_grpc.server.registry.addresses import AgentAddress, address_of, parse_address
from a2a_grpc.server.registry.cards import Card, document_of, read_card, signature_of
from a2a_grpc.server.registry.entries import lease_of, present
from a2a_grpc.server.registry.fetching import NOT_THERE, CardFetcher
from a2a_grpc.server.registry.search import Wanted, facets_of
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.page_tokens import cursor_of
from a2a_grpc.server.store.registrations import Full, Glance, NewEntry, Registration, Registrations, Withdrawal
from a2a_grpc.wire.errors import (
    QuotaExceededError,
    RouteNotFoundError,
    UnauthenticatedError,
    Violation,
    excerpt,
    invalid,
)
from a2a_grpc.wire.keys import PublicKey

DEFAULT_PAGE_SIZE: Final = 20
# Rows that one search goes through, so that it ends in time whatever it finds, and how many it reads at once.
_SCANNED: Final = 2000
_BATCH: Final = 200
_READ_AHEAD: Final = 20
_MAX_PAGE_BYTES: Final = 3 * 1024 * 1024
_A_WHILE: Final = 60.0
"""Seconds after which there may be room again."""


class AgentNotFoundError(RouteNotFoundError):
    """There is no agent of this id, or none for this caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the registry takes."""

    max_card_bytes: int
    per_owner: int
    open: bool
    """Nobody has to say who he is: everybody sees and changes everything."""


class RegistryOperations:
    """What the registry does, under the names of its operations."""

    def __init__(
        self,
        registrations: Registrations,
        fetcher: CardFetcher,
        destinations: Destinations,
        keys: Sequence[PublicKey],
        terms: Terms,
    ) -> None:
        """`keys` are those whose signatures count."""
        self._registrations = registrations
        self._fetcher = fetcher
        self._destinations = destinations
        self._keys = keys
        self._terms = terms
        self.unary: Mapping[str, Callable[[Any, Caller], Awaitable[Message]]] = {
            "RegisterAgent": self.register,
            "RenewAgent": self.renew,
            "WithdrawAgent": self.withdraw,
            "GetAgent": self.get,
            "SearchAgents": self.search,
        }
        self.streams: Mapping[str, Callable[[Any, Caller], AsyncGenerator[Event, None]]] = {}

    async def register(self, request: pb.RegisterAgentRequest, caller: Caller) -> pb.RegisterAgentResponse:
        """Keep an agent, in place of what its owner had at its URL.

        Raises: UnauthenticatedError; InvalidArgumentError for a URL or a card that is not taken; PayloadTooLargeError;
        QuotaExceededError; StoreUnavailableError.
        """
        owner = self._owner(caller)
        address, card = await self._given(request)
        signature = signature_of(card.document, self._keys)
        entry = NewEntry(
            id=_id_of(owner, address.url),
            owner=owner,
            url=address.url,
            card=card.document,
            facets=facets_of(card.message),
            public=request.public,
            signature=signature.state,
            key_id=signature.key_id,
            instance=request.instance,
        )
        outcome = await self._registrations.register(entry, request.ttl_seconds)
        if isinstance(outcome, Full):
            raise self._full(outcome)
        kept, created = outcome
        if created:
            audit.note("agent-registered", principal=caller.principal.name, agent=kept.id, url=kept.url)
        return pb.RegisterAgentResponse(agent=present(kept, pb.DETAIL_OWNER), created=created)

    async def renew(self, request: pb.RenewAgentRequest, caller: Caller) -> pb.RenewAgentResponse:
        """Make an entry of the caller last. Raises: UnauthenticatedError; AgentNotFoundError; StoreUnavailableError."""
        owner = self._owner(caller)
        kept = await self._registrations.renew(request.id, owner, request.ttl_seconds, request.instance)
        if kept is None:
            raise _not_found(request.id)
        return pb.RenewAgentResponse(lease=lease_of(kept))

    async def withdraw(self, request: pb.WithdrawAgentRequest, caller: Caller) -> pb.WithdrawAgentResponse:
        """End an entry of the caller. Raises: as `renew`, but not where there is no entry of this id at all."""
        owner = self._owner(caller)
        outcome = await self._registrations.withdraw(request.id, owner, request.instance)
        if outcome is Withdrawal.OTHER:
            raise _not_found(request.id)
        if outcome is Withdrawal.OK:
            audit.note("agent-withdrawn", principal=caller.principal.name, agent=request.id)
        return pb.WithdrawAgentResponse(withdrawn=outcome is not Withdrawal.KEPT)

    async def get(self, request: pb.GetAgentRequest, caller: Caller) -> pb.GetAgentResponse:
        """One entry. Raises: AgentNotFoundError; StoreUnavailableError."""
        entry = await self._registrations.find(request.id)
        detail = self._detail(entry, caller) if entry is not None else None
        if entry is None or detail is None:
            raise _not_found(request.id)
        return pb.GetAgentResponse(agent=present(entry, detail))

    async def search(self, request: pb.SearchAgentsRequest, caller: Caller) -> pb.SearchAgentsResponse:
        """One page.

        Raises: UnauthenticatedError where a stranger asks for what is not shown to it; InvalidArgumentError for a page
        token of another search; StoreUnavailableError.
        """
        known = self._known(caller)
        if (request.provider or request.mine) and not known:
            raise UnauthenticatedError("To search by provider, or for your own entries, send credentials.")
        size = request.page_size or DEFAULT_PAGE_SIZE
        bound_to = _filters(request, caller)
        wanted, place, used = Wanted.of(request), cursor_of(request.page_token, bound_to), 0
        shown = place
        response = pb.SearchAgentsResponse()
        for _ in range(_SCANNED // _BATCH):
            look = await self._registrations.look(place, _BATCH)
            met = [glance for glance in look.glances if self._meets(glance, wanted, caller)]
            for at in range(0, len(met), _READ_AHEAD):
                some = met[at : at + _READ_AHEAD]
                entries = await asyncio.gather(*(self._registrations.find(glance.place.task_id) for glance in some))
                for glance, entry in zip(some, entries, strict=True):
                    detail = self._detail(entry, caller) if entry is not None else None
                    if entry is None or detail is None:
                        continue
                    agent = present(entry, detail)
                    used += agent.ByteSize()
                    if len(response.agents) == size or (used > _MAX_PAGE_BYTES and response.agents):
                        # The place of an agent that was shown: the last one looked at may be nothing for the caller.
                        response.next_page_token = pages.encode(cast("Cursor", shown), bound_to)
                        return response
                    response.agents.append(agent)
                    shown = glance.place
            place = look.last or place
            if not look.more:
                return response
        response.next_page_token = pages.encode(place, bound_to) if place is not None else ""
        return response

    def _known(self, caller: Caller) -> bool:
        return self._terms.open or caller.authenticated

    def _owner(self, caller: Caller) -> str:
        if not self._known(caller):
            raise UnauthenticatedError("Only callers with credentials register agents.")
        return caller.scope.owner

    def _detail(self, entry: Registration | Glance, caller: Caller) -> pb.Detail | None:
        """How much of an entry the caller sees; None: that there is one is nothing for him."""
        if self._known(caller):
            return pb.DETAIL_OWNER if entry.owner == caller.scope.owner else pb.DETAIL_FULL
        return pb.DETAIL_PUBLIC if entry.public else None

    def _meets(self, glance: Glance, wanted: Wanted, caller: Caller) -> bool:
        request, detail = wanted.request, self._detail(glance, caller)
        return (
            detail is not None
            and (not request.mine or detail == pb.DETAIL_OWNER)
            and request.health in (pb.HEALTH_STATE_UNSPECIFIED, glance.state)
            and request.signature in (pb.SIGNATURE_STATE_UNSPECIFIED, glance.signature)
            and wanted.met_by(glance.facets, provider=detail != pb.DETAIL_PUBLIC)
        )

    async def _given(self, request: pb.RegisterAgentRequest) -> tuple[AgentAddress, Card]:
        if not request.HasField("card"):
            if not request.url:
                raise invalid(Violation("url", "is required, unless the card is given"))
            address = _read_url(request.url)
            return address, await self._fetch(address)
        card = read_card(document_of(request.card), self._terms.max_card_bytes)
        if request.url:
            return _read_url(request.url), card
        try:
            return address_of(card.message), card
        except RefusedDestinationError as error:
            problem = f"is required: the URL of the card's first interface {error}"
            raise invalid(Violation("url", problem)) from None

    async def _fetch(self, address: AgentAddress) -> Card:
        if address.grpc:
            raise invalid(Violation("card", "is required: no card is to be had from a gRPC address"))
        if refusal := address.refusal(self._destinations):
            raise invalid(Violation("url", f"{refusal}, so no card is fetched from there; send the card"))
        try:
            answer = await self._fetcher.fetch(address)
        except RefusedDestinationError:
            raise invalid(Violation("url", f"{NOT_THERE}; send the card")) from None
        if answer.problem:
            raise invalid(Violation("url", f"gives no card: {answer.problem}"))
        return read_card(answer.body, self._terms.max_card_bytes)

    def _full(self, outcome: Full) -> QuotaExceededError:
        limit = (
            f"{self._terms.per_owner} agents" if outcome is Full.OWNER else "all the agents that this registry keeps"
        )
        subject = "owner:agents" if outcome is Full.OWNER else "registry:agents"
        who = "You have" if outcome is Full.OWNER else "There are"
        return QuotaExceededError(
            f"{who} {limit} already. Withdraw one, or wait until one is no longer renewed.",
            quotas=[Violation(subject, f"The limit is {limit}.")],
            retry_after=_A_WHILE,
        )


def _id_of(owner: str, url: str) -> str:
    """The same for the same owner and URL, so that an entry that was lost comes back under its id."""
    return blake2b(f"{len(owner)}:{owner}{url}".encode(), digest_size=16).hexdigest()


def _read_url(url: str) -> AgentAddress:
    try:
        return parse_address(url)
    except RefusedDestinationError as error:
        raise invalid(Violation("url", str(error))) from None


def _not_found(agent_id: str) -> AgentNotFoundError:
    return AgentNotFoundError(
        "There is no such agent, or not for you. An entry is kept for as long as it is renewed.",
        metadata={"agent_id": excerpt(agent_id)},
    )


def _filters(request: pb.SearchAgentsRequest, caller: Caller) -> bytes:
    """A digest of everything that decides which agents a search finds; whose it is counts."""
    bound = pb.SearchAgentsRequest()
    bound.CopyFrom(request)
    bound.ClearField("page_size")
    bound.ClearField("page_token")
    whose = ids.scope(caller.scope.owner, str(caller.authenticated))
    return pages.digest(bound, whose)
