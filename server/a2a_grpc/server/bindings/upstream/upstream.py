"""The upstream as one thing to start and to close."""

import asyncio

from a2a_grpc.server.bindings.upstream.cards import UpstreamCards
from a2a_grpc.server.bindings.upstream.channel import open_channel, watch
from a2a_grpc.server.bindings.upstream.handler import UpstreamHandler
from a2a_grpc.server.bindings.upstream.key_places import KeyPlaces
from a2a_grpc.server.bindings.upstream.recording import RecordedHandler
from a2a_grpc.server.bindings.upstream.tracing import TracedHandler
from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.server.telemetry.tracing import TRACES


class Upstream:
    """A remote a2a-grpc at `target` ("host:port", or another name that gRPC resolves).

    Must be made on the event loop that uses it.
    """

    def __init__(self, target: str, readiness: Readiness, authorities: bytes | None = None) -> None:
        """`authorities`: see `open_channel`."""
        self._readiness = readiness
        self._channel = open_channel(target, authorities)
        self._watch: asyncio.Task[None] | None = None
        places = KeyPlaces(self._channel)
        handler = UpstreamHandler(self._channel, places)
        self.handler = RecordedHandler(TracedHandler(handler) if TRACES.on else handler)
        self.cards = UpstreamCards(self._channel, places)

    async def start(self) -> None:
        """Connect in the background, and report the state as the component "upstream" of the readiness."""
        self._watch = asyncio.create_task(watch(self._channel, self._readiness))

    async def close(self, grace: float | None = None) -> None:
        """Disconnect. Calls that still run have `grace` seconds; then they fail with UnavailableError."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.wait((self._watch,))
        await self._channel.close(grace)
