"""One attempt to deliver one event to one webhook (4.3.3)."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from importlib.metadata import version

import httpcore

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.keys import SigningKeys
from a2a_grpc.server.push.destinations import Destination, Destinations, RefusedDestinationError
from a2a_grpc.server.push.network import CheckedNetwork, trusting
from a2a_grpc.server.telemetry.tracing import TRACES, Context, Kind, Span
from a2a_grpc.wire import protojson
from a2a_grpc.wire.headers import A2A_VERSION, MEDIA_TYPE_A2A, SUPPORTED_VERSION, parse_retry_after
from a2a_grpc.wire.webhooks import DELIVERY_ID, EVENT_SEQ, NOTIFICATION_TOKEN, SIGNATURE

# An answer is read so far, so that its connection can be used again; what is longer costs the connection.
_READ = 64 * 1024
_READ_FOR = 2.0
_KEPT_OPEN = 30.0
_GONE = 410
_MAX_RETRY_AFTER = 3600.0
_AGENT = f"a2a-grpc/{version('a2a-grpc')}"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an event could not be delivered."""

    reason: str
    """Half a sentence for operators, without anything that the caller keeps secret."""
    retry_after: float | None = None
    """Seconds that the receiver asks to wait."""
    final: bool = False
    """It would be the same the next time."""
    refused: bool = False
    """It was not sent, because the service does not connect there."""


class Courier:
    """Sends requests, each over a connection to an address that was checked."""

    def __init__(self, destinations: Destinations, keys: SigningKeys, *, timeout: float, connections: int) -> None:
        """An attempt takes `timeout` seconds at most. There are up to `connections` at a time: callers see to it."""
        self._destinations = destinations
        self._keys = keys
        self._timeout = timeout
        self._network = CheckedNetwork(destinations, connections=connections)
        self._connections = connections
        self._pool: httpcore.AsyncConnectionPool | None = None
        self._making = asyncio.Lock()

    async def close(self) -> None:
        """Close the connections."""
        self._network.close()
        if self._pool is not None:
            await self._pool.aclose()

    def destination(self, config: a2a_pb2.TaskPushNotificationConfig) -> Destination | Failure:
        """Where `config` leads; a failure where the service does not connect there (any more)."""
        try:
            return self._destinations.read(config.url)
        except RefusedDestinationError as error:
            return Failure(f"its URL {error}", final=True, refused=True)

    async def deliver(
        self,
        config: a2a_pb2.TaskPushNotificationConfig,
        destination: Destination,
        event: Event,
        trace: Context | None = None,
    ) -> Failure | None:
        """POST `event`; None where the receiver has taken it (any 2xx). `trace`: what it is part of."""
        if not TRACES.on:
            return (await self._deliver(config, destination, event, {}))[1]
        span = TRACES.start("POST", Kind.CLIENT, trace, {"http.request.method": "POST"})
        status, failure = 0, None
        try:
            status, failure = await self._deliver(config, destination, event, span.context.headers())
        finally:
            self._describe(span, config, destination, status)
            if failure is not None and not status:
                span.end("REFUSED" if failure.refused else "UNREACHABLE")
            else:
                span.end("CANCELLED" if not status else "" if failure is None else str(status))
        return failure

    @staticmethod
    def _describe(
        span: Span, config: a2a_pb2.TaskPushNotificationConfig, destination: Destination, status: int
    ) -> None:
        if span.sampled:
            span.set("server.address", destination.host)
            span.set("server.port", destination.port)
            span.set("a2a.task.id", config.task_id)
            if status:
                span.set("http.response.status_code", status)

    async def _deliver(
        self,
        config: a2a_pb2.TaskPushNotificationConfig,
        destination: Destination,
        event: Event,
        trace: Mapping[str, str],
    ) -> tuple[int, Failure | None]:
        """The status of the answer (0: none) and what failed."""
        # As it stands in a stream.
        body = protojson.one_line(protojson.dumps(event.response))
        headers = [*self._headers(config, destination, event, body), *trace.items()]
        status = 0
        retry_after = None
        pool = self._pool or await self._made_pool()
        try:
            async with (
                asyncio.timeout(self._timeout),
                pool.stream(
                    "POST",
                    httpcore.URL(
                        scheme=destination.scheme.encode(),
                        host=destination.host.encode(),
                        port=destination.port,
                        target=destination.target.encode(),
                    ),
                    headers=headers,
                    content=body,
                ) as response,
            ):
                status = response.status
                retry_after = _retry_after(response.headers)
                await _read(response)
        except RefusedDestinationError as error:
            return 0, Failure(f"its host {error}", final=True, refused=True)
        except TimeoutError:
            if not status:
                return 0, Failure(f"it did not answer within {self._timeout:g} s")
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException, OSError) as error:
            if not status:
                return 0, Failure(_what(error))
        if status // 100 == 2:  # noqa: PLR2004 - the specification says 2xx
            return status, None
        return status, Failure(f"it answered {status}", retry_after=retry_after, final=status == _GONE)

    async def _made_pool(self) -> httpcore.AsyncConnectionPool:
        """Made for the first delivery: certificates take long to load, and many services never send anything."""
        async with self._making:
            if self._pool is None:
                trust = await asyncio.to_thread(trusting)
                self._pool = self._network.pool(trust, keep=self._connections, keep_for=_KEPT_OPEN)
            return self._pool

    def _headers(
        self,
        config: a2a_pb2.TaskPushNotificationConfig,
        destination: Destination,
        event: Event,
        body: bytes,
    ) -> list[tuple[str, str]]:
        delivery_id = _delivery_id(config, event.seq)
        headers = [
            ("Host", destination.authority),
            ("Content-Type", MEDIA_TYPE_A2A),
            ("Content-Length", str(len(body))),
            ("User-Agent", _AGENT),
            (A2A_VERSION, SUPPORTED_VERSION),
            (DELIVERY_ID, delivery_id),
            (EVENT_SEQ, str(event.seq)),
        ]
        if config.authentication.scheme:
            value = f"{config.authentication.scheme} {config.authentication.credentials}".rstrip()
            headers.append(("Authorization", value))
        if config.token:
            headers.append((NOTIFICATION_TOKEN, config.token))
        if self._keys.first is not None:
            about = {"iat": int(time.time()), "jti": delivery_id, "seq": event.seq, "aud": config.url}
            protected, signature = self._keys.first.sign(body, {"typ": "JOSE", **about})
            headers.append((SIGNATURE, f"{protected}..{signature}"))
        return headers


def _delivery_id(config: a2a_pb2.TaskPushNotificationConfig, seq: int) -> str:
    named = f"{config.task_id} {len(config.id)} {config.id} {seq}"
    return blake2b(named.encode(), digest_size=16).hexdigest()


async def _read(response: httpcore.Response) -> None:
    """Read what comes with an answer: it is the answer that counts, and this only saves the connection."""
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_READ_FOR):
            async for chunk in response.aiter_stream():
                size += len(chunk)
                if size > _READ:
                    return


def _retry_after(headers: list[tuple[bytes, bytes]]) -> float | None:
    text = next((value for name, value in headers if name.lower() == b"retry-after"), b"").decode("latin-1")
    seconds = parse_retry_after(text)
    return None if seconds is None else min(seconds, _MAX_RETRY_AFTER)


def _what(error: Exception) -> str:
    cause = error.__cause__ or error.__context__
    while cause is not None and not str(error):
        error, cause = cause, cause.__cause__  # type: ignore[assignment]
    match error:
        case httpcore.TimeoutException():
            return "the connection to it timed out"
        case httpcore.ProtocolError():
            return "it does not speak HTTP"
    return f"it cannot be reached ({str(error)[:200] or type(error).__name__})"
