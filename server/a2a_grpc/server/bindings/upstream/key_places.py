"""API keys that do not stand in a header (4.5.2), on their way to the upstream.

gRPC has neither a query nor cookies: there the keys are metadata of the same name. Which parameter or cookie is one,
the card of the upstream says; where it shows its card to callers alone, its challenge does.
"""

import re
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import grpc
import grpc.aio

from a2a_grpc.card.v1.card_pb2 import GetAgentCardRequest
from a2a_grpc.card.v1.card_pb2_grpc import AgentCardServiceStub
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.bindings.upstream.forwarding import passable
from a2a_grpc.server.card.published import Unheaded
from a2a_grpc.wire.errors import A2AError
from a2a_grpc.wire.protojson import loads

_TIMEOUT: Final = 5.0
_KEPT_SECONDS: Final = 30.0
"""After a change of the upstream keys are looked for in the old place for so long at the most."""
_MOST_TENANTS: Final = 256

_CHALLENGE: Final = re.compile(r'\bApiKey (query|cookie)="([^"]*)"')


class _Place(NamedTuple):
    location: str
    """"query" or "cookie"."""
    name: str


class KeyPlaces:
    """The query parameters and cookies in which callers of the upstream send keys, by tenant."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = AgentCardServiceStub(channel)
        self._known: OrderedDict[str, tuple[float, tuple[_Place, ...]]] = OrderedDict()

    async def keys_of(self, tenant: str, credentials: Unheaded) -> dict[str, str]:
        """The keys that came with a request, as metadata. Asks the upstream where a request has a query or cookies."""
        if not credentials.query and not credentials.cookies:
            return {}
        found: dict[str, str] = {}
        for location, name in await self._of(tenant):
            sent = (credentials.query if location == "query" else credentials.cookies).get(name)
            if sent is not None and passable(name.lower(), sent):
                found[name.lower()] = sent
        return found

    async def _of(self, tenant: str) -> tuple[_Place, ...]:
        until, places = self._known.get(tenant, (0.0, ()))
        if time.monotonic() < until:
            return places
        try:
            places = await self._ask(tenant)
        except (grpc.aio.AioRpcError, A2AError):
            # The call itself will say what is wrong with the upstream.
            return ()
        self._known[tenant] = time.monotonic() + _KEPT_SECONDS, places
        self._known.move_to_end(tenant)
        if len(self._known) > _MOST_TENANTS:
            self._known.popitem(last=False)
        return places

    async def _ask(self, tenant: str) -> tuple[_Place, ...]:
        try:
            answer = await self._stub.GetAgentCard(GetAgentCardRequest(tenant=tenant), timeout=_TIMEOUT)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                return tuple(_challenged(error.trailing_metadata() or ()))
            if error.code() is grpc.StatusCode.NOT_FOUND:
                # One agent for all tenants has one card.
                return await self._of("") if tenant else ()
            raise
        return tuple(_declared(loads(answer.body, a2a_pb2.AgentCard)))


def _declared(card: a2a_pb2.AgentCard) -> Iterator[_Place]:
    for scheme in card.security_schemes.values():
        key = scheme.api_key_security_scheme
        if key.location in ("query", "cookie"):
            yield _Place(key.location, key.name)


def _challenged(metadata: Iterable[tuple[str, str | bytes]]) -> Iterator[_Place]:
    for header, value in metadata:
        if header == "www-authenticate" and isinstance(value, str):
            yield from (_Place(*place) for place in _CHALLENGE.findall(value))
