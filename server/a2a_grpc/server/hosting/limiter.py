"""Letting calls in within the limits of their tenant and their caller."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Final, Protocol

from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth.principal import Principal
from a2a_grpc.server.hosting.limits import HostLimits, Quota, group_of
from a2a_grpc.server.hosting.networks import network_of
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.quotas import Quotas, Refused, Room, Ticket
from a2a_grpc.server.store.records import Scope
from a2a_grpc.server.store.stock import Bucket
from a2a_grpc.server.telemetry.instruments import LIMITS_UNCHECKED
from a2a_grpc.wire.errors import QuotaExceededError, Violation

log = logging.getLogger(__name__)

_A_PLACE: Final = 1.0
"""Seconds after which it is worth trying again where a place has to fall free."""
_PAUSE: Final = 1.0
"""Seconds for which nobody is counted after the store did not answer: no call is to wait for that every time."""


class Limited(Protocol):
    """Whose limits count: an agent that is hosted, or a service beside agents."""

    @property
    def tenant(self) -> str:
        """What is counted together, by its name."""

    @property
    def limits(self) -> HostLimits:
        """The limits."""

    @property
    def limited(self) -> bool:
        """Whether there are any."""


class Limiter:
    """Counts calls in the store. While the store is away they are let in: what they want of it says so itself."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._away_until = 0.0

    def ticket(self, hosted: Limited, principal: Principal, peer: str, *, streaming: bool) -> Ticket:
        """What a call will hold. `peer` is its network address, by which callers without a name are told apart."""
        return self._quotas.ticket(hosted.tenant, [*_rooms(hosted, _caller(principal, peer), streaming=streaming)])

    async def enter(
        self, ticket: Ticket, hosted: Limited, method: str, request: Message | None, principal: Principal, peer: str,
        scope: Scope, *, streaming: bool,
    ) -> None:  # fmt: skip
        """Let a call in. Raises: QuotaExceededError."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._away_until:
            LIMITS_UNCHECKED.add()
            return
        caller = _caller(principal, peer)
        buckets = [*_buckets(hosted, caller, method)]
        rooms = [*_rooms(hosted, caller, streaming=streaming)]
        tasks = hosted.limits.caller.tasks
        try:
            if tasks is not None and _begins_a_task(request) and await self._quotas.busy(scope) >= tasks:
                raise self._refusal("caller", "tasks", f"{tasks} tasks that run or wait", _A_PLACE)
            if not buckets and not rooms:
                return
            refused = await self._quotas.enter(ticket, hosted.tenant, buckets, rooms)
        except StoreUnavailableError as error:
            self._away_until = loop.time() + _PAUSE
            LIMITS_UNCHECKED.add()
            log.warning("calls are let in without being counted: %s", error)
            return
        if refused is not None:
            raise self._refused(refused)

    def leave(self, ticket: Ticket) -> None:
        """The call is over."""
        self._quotas.leave(ticket)

    def _refused(self, refused: Refused) -> QuotaExceededError:
        by = refused.by
        whose = "tenant" if len(by.whose) == 1 else "caller"
        if isinstance(by, Bucket):
            limit = f"{by.rate.per_second:g} calls a second, {by.rate.burst:g} at once"
            return self._refusal(whose, f"rate:{by.what}", limit, refused.retry_after or _A_PLACE)
        limit = f"{by.places} {'open streams' if by.what == 'streams' else 'calls in progress'}"
        return self._refusal(whose, by.what, limit, _A_PLACE)

    def _refusal(self, whose: str, what: str, limit: str, retry_after: float) -> QuotaExceededError:
        who = "You have" if whose == "caller" else "All callers together have"
        return QuotaExceededError(
            f"{who} reached the limit of {limit} ({what}). Try again later.",
            quotas=[Violation(f"{whose}:{what}", f"The limit is {limit}.")],
            retry_after=retry_after,
        )


def _caller(principal: Principal, peer: str) -> tuple[str, str]:
    return ("caller", principal.name) if principal.authenticated else ("peer", network_of(peer))


def _parts(hosted: Limited, caller: tuple[str, str]) -> Iterator[tuple[tuple[str, ...], Quota]]:
    yield (hosted.tenant, *caller), hosted.limits.caller
    yield (hosted.tenant,), hosted.limits.tenant


def _buckets(hosted: Limited, caller: tuple[str, str], method: str) -> Iterator[Bucket]:
    group = group_of(method)
    for whose, quota in _parts(hosted, caller):
        if (rate := quota.rates.get(group)) is not None:
            yield Bucket(whose, group, rate)


def _rooms(hosted: Limited, caller: tuple[str, str], *, streaming: bool) -> Iterator[Room]:
    for whose, quota in _parts(hosted, caller):
        places = quota.streams if streaming else quota.calls
        if places is not None:
            yield Room(whose, "streams" if streaming else "calls", places)


def _begins_a_task(request: Message | None) -> bool:
    return isinstance(request, a2a_pb2.SendMessageRequest) and not request.message.task_id
