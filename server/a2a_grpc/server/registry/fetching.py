"""Cards out of the network: from where the registry may connect to, and from nowhere else."""

import asyncio
import ssl
from typing import Final, NamedTuple

import httpcore

from a2a_grpc.server.push.allowed import Address
from a2a_grpc.server.push.destinations import Destinations, RefusedDestinationError
from a2a_grpc.server.push.network import CheckedNetwork
from a2a_grpc.server.registry.addresses import AgentAddress, card_target

_OK: Final = 200
_HEADERS: Final = (("Accept", "application/json"), ("User-Agent", "a2a-grpc"))
UNREACHED: Final = "it cannot be reached"
NOT_THERE: Final = "is where this registry does not connect to"
"""Without the address that the name leads to: what names mean in the registry's network is nobody's business."""


class Answer(NamedTuple):
    """What came of a request for a card."""

    status: int
    """0: nothing came."""
    body: bytes
    problem: str
    """Half a sentence, such as "it answered 404"; "" where there is a body."""


class CardFetcher:
    """Fetches cards. A redirect is not followed: it would lead to where nobody has looked."""

    def __init__(
        self, destinations: Destinations, trust: ssl.SSLContext, *, timeout: float, max_bytes: int, connections: int
    ) -> None:
        """`timeout` in seconds for one card of up to `max_bytes`; `connections` at the same time."""
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._network = CheckedNetwork(destinations, connections=connections)
        self._places = asyncio.Semaphore(connections)
        # A card is asked for once in a while: no connection is worth being kept.
        self._pool = self._network.pool(trust, keep=0)

    async def close(self) -> None:
        """Close the connections."""
        self._network.close()
        await self._pool.aclose()

    async def look_up(self, address: AgentAddress) -> list[Address]:
        """Where the host of `address` is; nowhere where that cannot be found out. Raises: RefusedDestinationError."""
        destination = address.destination
        try:
            async with asyncio.timeout(self._timeout):
                return await self._network.addresses_of(destination.host, destination.port)
        except (httpcore.ConnectError, TimeoutError):
            return []

    async def fetch(self, address: AgentAddress) -> Answer:
        """The card of the agent at `address`. Raises: RefusedDestinationError."""
        destination, status, body = address.destination, 0, bytearray()
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._places,
                self._pool.stream(
                    "GET",
                    httpcore.URL(
                        scheme=destination.scheme.encode(),
                        host=destination.host.encode(),
                        port=destination.port,
                        target=card_target(destination).encode(),
                    ),
                    headers=[("Host", destination.authority), *_HEADERS],
                ) as response,
            ):
                status = response.status
                if status != _OK:
                    return Answer(status, b"", f"it answered {status}")
                async for chunk in response.aiter_stream():
                    body += chunk
                    if len(body) > self._max_bytes:
                        return Answer(status, b"", f"its card has more than {self._max_bytes} bytes")
        except RefusedDestinationError:
            raise
        except TimeoutError:
            return Answer(status, b"", f"it did not answer within {self._timeout:g} s")
        except (httpcore.NetworkError, httpcore.TimeoutException, OSError):
            return Answer(status, b"", UNREACHED)
        except httpcore.ProtocolError:
            return Answer(status, b"", "it does not speak HTTP")
        return Answer(status, bytes(body), "")
