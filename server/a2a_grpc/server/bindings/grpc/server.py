"""The gRPC listener: which services it carries, and its limits."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Required, TypedDict, Unpack

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from a2a_grpc.card.v1 import card_pb2, card_pb2_grpc
from a2a_grpc.pb import a2a_pb2, a2a_pb2_grpc
from a2a_grpc.registry.v1 import registry_pb2, registry_pb2_grpc
from a2a_grpc.server.auth.gate import Gates
from a2a_grpc.server.bindings.grpc.card_service import CardService
from a2a_grpc.server.bindings.grpc.health import Health
from a2a_grpc.server.bindings.grpc.reflection import add_reflection
from a2a_grpc.server.bindings.grpc.registrar import Registrar
from a2a_grpc.server.bindings.grpc.registry_service import RegistryServicer
from a2a_grpc.server.bindings.grpc.servicer import MakeCall, Servicer, make_call
from a2a_grpc.server.bindings.grpc.tls import server_credentials
from a2a_grpc.server.calls.cards import CardReading
from a2a_grpc.server.calls.handler import Handler
from a2a_grpc.server.card.published import CardSource, KeySource
from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.server.hosting.attempts import Attempts
from a2a_grpc.server.tls import Certificates

A2A_SERVICE: Final = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].full_name
CARD_SERVICE: Final = card_pb2.DESCRIPTOR.services_by_name["AgentCardService"].full_name
REGISTRY_SERVICE: Final = registry_pb2.DESCRIPTOR.services_by_name["RegistryService"].full_name
HEALTH_SERVICE: Final = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

_NOTICE: Final = 0.5
"""Seconds between the news that the server leaves and its leaving, where somebody watches its health."""
_QUIET: Final = 0.03
"""Seconds without a new call, while none is answered, after which the library is told to stop: those who wait for an
answer before they send the next call have none under way then."""
_LONGEST_QUIET: Final = 0.25
"""Seconds that others can delay it."""
_CROSSING: Final = 0.05
"""Seconds for which no call is answered afterwards: until the news of it has reached the peers."""
_SETTLE: Final = 0.5
"""Seconds in which calls may end by themselves when everything that they could wait for is over."""
_LAST_WORDS: Final = 1.0
"""Seconds that calls have, once ended, to send their status."""
_MAX_PENDING: Final = 10_000
"""Calls that may wait for the event loop."""
_MAX_METADATA_BYTES: Final = 64 * 1024
"""As many as the head of an HTTP request may have."""
_NO_GRACE_IS_LONGER: Final = 2 * 86_400.0

_library_log = logging.getLogger("grpc._cython.cygrpc")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionAge:
    """How long connections last, give or take a tenth; a client makes a new one then. All in seconds."""

    limit: float
    grace: float
    """From there on calls that run may go on for this long; then the library cuts the connection."""

    @property
    def longest_call(self) -> float:
        """A call that ends by itself so long after its start is never cut.

        A client sends no new calls over a connection of which it knows that it is too old. The margin is for the way of
        that news, and for the end of the call.
        """
        return self.grace - min(5.0, self.grace / 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keepalive:
    """HTTP/2 pings on connections. All in seconds."""

    accept_every: float = 10.0
    """Callers may ping this often, also without calls; who pings much more often is disconnected."""
    idle: float = 30.0
    """The server pings a connection on which nothing came in for this long."""
    timeout: float = 10.0
    """A connection that leaves a ping unanswered for this long is closed, and its calls are cancelled."""


class GrpcServer:
    """A gRPC server that is not listening yet. Make it with `create_server` or `create_registry_server`."""

    def __init__(
        self,
        server: grpc.aio.Server,
        addr: str,
        service: str,
        health: Health,
        registrar: Registrar,
        credentials: grpc.ServerCredentials | None,
        *,
        shared: bool,
    ) -> None:
        self._server = server
        self._addr = addr
        self._service = service
        self._health = health
        self._registrar = registrar
        self._credentials = credentials
        self._shared = shared
        self._stopping: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Listen, and return the port. Raises OSError, with the address in its text, when that fails."""
        return await listen(self._server, self._addr, self._credentials, shared=self._shared)

    def retire(self) -> None:
        """Say that nothing is ready here any more, and serve on."""
        self._health.retire()

    async def leave(self) -> None:
        """Take no more connections, and tell those that are open to go elsewhere; the calls that run go on.

        The library then ends, with CANCELLED and without a word to us, each call that was sent before its peer had the
        news. So those who watch the health are told a moment before, and answers are held back around the moment:
        whoever sends the next call after the last answer sends none into it.
        """
        self.retire()
        await asyncio.sleep(max(0.0, _NOTICE - self._health.told_for()))
        with self._registrar.holding():
            await self._quiet()
            self._stop_library()
            await asyncio.sleep(_CROSSING)
        self._health.close()

    async def _quiet(self) -> None:
        loop = asyncio.get_running_loop()
        until, calls = loop.time() + _LONGEST_QUIET, -1
        while calls != self._registrar.unary_calls and loop.time() < until:
            calls = self._registrar.unary_calls
            await asyncio.sleep(_QUIET)

    async def end(self) -> None:
        """End the calls that still run, after a moment in which they may do so themselves."""
        await asyncio.wait((self._stop_library(),), timeout=_SETTLE)
        await self.stop(0.0)

    async def stop(self, grace: float | None) -> None:
        """Refuse new calls, end streams, wait `grace` seconds for the rest, then end it. None: cancel at once."""
        stopping = self._stop_library()
        self._health.close()
        self._registrar.drain(self._service)
        if grace is not None:
            await asyncio.wait((stopping,), timeout=grace)
            # The library would end calls with the connection, without the details that an A2AError has.
            self._registrar.end(self._service)
            await asyncio.wait((stopping,), timeout=_LAST_WORDS)
        await self._server.stop(None)
        await stopping

    def _stop_library(self) -> asyncio.Task[None]:
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._server.stop(_NO_GRACE_IS_LONGER))
        return self._stopping


class Options(TypedDict, total=False):
    """How a port is served, whatever is served there. `addr` and `max_message_bytes` must be said."""

    addr: Required[str]
    """"host:port" (port 0: any free one) or "unix:PATH"."""
    max_message_bytes: int
    """Larger requests are refused with PayloadTooLargeError; those of more than twice as many bytes by the gRPC
    library, which then never holds them in memory."""
    max_nesting: int
    max_streams: int
    """Calls at the same time on one connection; 0 leaves it to the library."""
    keepalive: Keepalive
    age: ConnectionAge | None
    """No call of the service lasts longer than `longest_call` of it: it ends with UnavailableError."""
    reflection: bool
    certificates: Certificates | None
    """With them the port speaks TLS and nothing else."""
    require_certificates: bool
    """Only to callers who show a certificate of their own."""
    shared: bool
    """See `listen`."""


def create_server(
    handler: Handler,
    cards: CardSource | None,
    readiness: Readiness,
    *,
    gates: Gates | None = None,
    attempts: Attempts | None = None,
    keys: KeySource | None = None,
    **options: Unpack[Options],
) -> GrpcServer:
    """A server for A2AService, the agent card (with `cards`), health and, when wanted, reflection.

    With `gates` the card is kept to callers with credentials, and from those whom `attempts` does not listen to; `keys`
    are published beside it. Must be called on the event loop that will serve.
    """

    def register(registrar: Registrar, make_call: MakeCall) -> Sequence[str]:
        servicer = Servicer(handler, make_call)
        registrar.when_refused(A2A_SERVICE, servicer.refused)
        a2a_pb2_grpc.add_A2AServiceServicer_to_server(servicer, registrar.as_server())
        if cards is None:
            return (A2A_SERVICE,)
        card_service = CardService(CardReading(cards, gates, attempts), keys, make_call)
        card_pb2_grpc.add_AgentCardServiceServicer_to_server(card_service, registrar.as_server())
        return (A2A_SERVICE, CARD_SERVICE)

    return _server(A2A_SERVICE, register, readiness, **options)


def create_registry_server(handler: Handler, readiness: Readiness, **options: Unpack[Options]) -> GrpcServer:
    """A server for RegistryService, health and, when wanted, reflection. Otherwise as `create_server`."""

    def register(registrar: Registrar, make_call: MakeCall) -> Sequence[str]:
        servicer = RegistryServicer(handler, make_call)
        registrar.when_refused(REGISTRY_SERVICE, servicer.refused)
        registry_pb2_grpc.add_RegistryServiceServicer_to_server(servicer, registrar.as_server())
        return (REGISTRY_SERVICE,)

    return _server(REGISTRY_SERVICE, register, readiness, **options)


def _server(
    service: str,
    register: Callable[[Registrar, MakeCall], Sequence[str]],
    readiness: Readiness,
    *,
    addr: str,
    max_message_bytes: int = 4 * 1024 * 1024,
    max_nesting: int = 32,
    max_streams: int = 0,
    keepalive: Keepalive = Keepalive(),
    age: ConnectionAge | None = None,
    reflection: bool = True,
    certificates: Certificates | None = None,
    require_certificates: bool = False,
    shared: bool = False,
) -> GrpcServer:
    """A server for `service` and what else `register` names, with the limits of `Options`."""
    _library_log.addFilter(_without_header_values)
    registrar = Registrar(max_message_bytes=max_message_bytes, max_nesting=max_nesting)
    if age is not None:
        registrar.limit(service, age.longest_call)
    services = register(registrar, partial(make_call, certificates=certificates is not None and require_certificates))
    health = Health(readiness, services)
    health_pb2_grpc.add_HealthServicer_to_server(health, registrar.as_server())
    if reflection:
        add_reflection([*services, HEALTH_SERVICE], registrar)
    server = grpc.aio.server(
        handlers=registrar.handlers,
        options=(
            ("grpc.max_receive_message_length", 2 * max_message_bytes),
            ("grpc.max_send_message_length", -1),  # a task may be larger than the messages that made it
            # By default the library refuses more than 8 KiB at random: a token of some groups is as long.
            ("grpc.max_metadata_size", _MAX_METADATA_BYTES),
            ("grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES),
            # Calls that wait to be taken up. Beyond that the library ends them with a bare CANCELLED, at random, probes
            # among them (B103); the default of 1000 is less than two seconds of work.
            ("grpc.server.max_pending_requests", _MAX_PENDING),
            ("grpc.server.max_pending_requests_hard_limit", _MAX_PENDING),
            # Two servers on one port that nobody has meant to share are a mistake that must not pass unseen.
            ("grpc.so_reuseport", int(shared)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.keepalive_time_ms", round(keepalive.idle * 1000)),
            ("grpc.keepalive_timeout_ms", round(keepalive.timeout * 1000)),
            ("grpc.http2.ping_timeout_ms", round(keepalive.timeout * 1000)),  # the one that counts; a minute by default
            # Half the promised interval: a ping that the network delayed makes the next one look too early.
            ("grpc.http2.min_ping_interval_without_data_ms", round(keepalive.accept_every * 500)),
            *((("grpc.max_concurrent_streams", max_streams),) if max_streams else ()),
            *(_age_options(age) if age is not None else ()),
        ),
    )
    credentials = (
        server_credentials(certificates, require_client=require_certificates) if certificates is not None else None
    )
    return GrpcServer(server, addr, service, health, registrar, credentials, shared=shared)


def _age_options(age: ConnectionAge) -> tuple[tuple[str, int], ...]:
    return (
        ("grpc.max_connection_age_ms", round(age.limit * 1000)),
        ("grpc.max_connection_age_grace_ms", round(age.grace * 1000)),
    )


async def listen(
    server: grpc.aio.Server, addr: str, credentials: grpc.ServerCredentials | None = None, *, shared: bool = False
) -> int:
    """Have `server` listen on `addr`, in plaintext without `credentials`, and return the port.

    `shared`: other processes do so as well, and somebody has seen to it that these are the right ones. Raises OSError,
    with the address in its text.
    """
    if not shared and not addr.startswith("unix:"):
        await asyncio.to_thread(_try_to_bind, addr)
    try:
        port = server.add_insecure_port(addr) if credentials is None else server.add_secure_port(addr, credentials)
    except RuntimeError as error:
        raise OSError(f"cannot listen for gRPC on {addr}") from error
    await server.start()
    return port


def _try_to_bind(addr: str) -> None:
    """Raise the OSError that says why nobody can listen on `addr`.

    gRPC raises an error without a reason, and tells the reason on stderr in words of its own.
    """
    host, _, port = addr.rpartition(":")
    failure: OSError | None = None
    try:
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, where in found:
            try:
                with socket.socket(family, kind, protocol) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(where)
            except OSError as error:
                failure = error
            else:
                return  # gRPC, too, is content with one address of several
    except OSError as error:  # the name
        failure = error
    if failure is not None:
        reason = os.strerror(failure.errno) if failure.errno and failure.errno > 0 else failure.strerror
        raise OSError(failure.errno, f"cannot listen for gRPC on {addr}: {reason}") from failure


def _without_header_values(record: logging.LogRecord) -> bool:
    """Keep out what the library logs, with a traceback and the value, for each metadata value that is not UTF-8.

    It reads such a value as Latin-1, which is fine; but anybody could fill the log, and a value may be a credential.
    """
    return not str(record.msg).startswith("Invalid encoding on")
