"""What listens: gRPC, HTTP, and the listener for operators."""

import logging
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

from a2a_grpc.registry.v1 import registry_pb2
from a2a_grpc.server.auth.gate import Gates
from a2a_grpc.server.bindings import http, jsonrpc
from a2a_grpc.server.bindings.asgi.card import CardEndpoint
from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.health import Health
from a2a_grpc.server.bindings.asgi.key_set import KeySetEndpoint
from a2a_grpc.server.bindings.asgi.listener import HttpListener
from a2a_grpc.server.bindings.asgi.media import JSON
from a2a_grpc.server.bindings.asgi.router import PlainRouter, Router
from a2a_grpc.server.bindings.asgi.types import App
from a2a_grpc.server.bindings.grpc.admin_server import AdminServer
from a2a_grpc.server.bindings.grpc.admin_service import AdminService
from a2a_grpc.server.bindings.grpc.server import (
    ConnectionAge,
    GrpcServer,
    Keepalive,
    Options,
    create_registry_server,
    create_server,
)
from a2a_grpc.server.calls import steps
from a2a_grpc.server.calls.handler import Handler
from a2a_grpc.server.card.published import CardSource, KeySource
from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.server.engine.engine import Engine
from a2a_grpc.server.hosting.attempts import Attempts
from a2a_grpc.server.service.admin.dead_letters import DeadLetterDesk
from a2a_grpc.server.service.admin.tasks import TaskDesk
from a2a_grpc.server.settings import Settings
from a2a_grpc.server.store.erasing import Eraser
from a2a_grpc.server.store.inspection import Inspection
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.tail import LogTail
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.store.webhooks import Webhooks
from a2a_grpc.server.tls import Certificates
from a2a_grpc.wire.rules import Rules

log = logging.getLogger("a2a_grpc.server")

# Seconds that calls of operators have to finish when everything else has stopped.
_ADMIN_GRACE = 1.0


class Published(NamedTuple):
    """What the listeners publish, and to whom."""

    cards: CardSource
    keys: KeySource
    gates: Gates | None = None
    """Of whom alone the cards are; None: of everybody, or for the source to say."""
    attempts: Attempts | None = None
    """Whom nobody listens to for a while; None: nobody."""


def compose_certificates(settings: Settings) -> Certificates | None:
    """The certificate of both listeners; None without TLS. Raises: ValueError for files that are no good."""
    tls = settings.tls
    if tls.cert_file is None or tls.key_file is None:
        return None
    return Certificates(tls.cert_file, tls.key_file, tls.client_ca_file, asks=tls.client_cert)


async def listen_grpc(
    settings: Settings,
    handler: Handler,
    published: Published,
    readiness: Readiness,
    max_message_bytes: int,
    certificates: Certificates | None,
    *,
    shared: bool = False,
) -> GrpcServer:
    """Listen for gRPC; `max_message_bytes` is what the largest request of any tenant may have.

    `shared`: other processes listen on the same port.
    """
    server = create_server(
        handler,
        published.cards,
        readiness,
        gates=published.gates,
        attempts=published.attempts,
        keys=published.keys,
        **_grpc_options(settings, max_message_bytes, certificates, shared=shared),
    )
    return await _opened_grpc(settings, server)


async def listen_registry(
    settings: Settings,
    handler: Handler,
    readiness: Readiness,
    certificates: Certificates | None,
    *,
    shared: bool = False,
) -> tuple[GrpcServer, HttpListener]:
    """Listen for the registry, over gRPC and HTTP; `shared`: see `listen_grpc`."""
    largest = settings.limits.max_message_bytes
    server = create_registry_server(handler, readiness, **_grpc_options(settings, largest, certificates, shared=shared))
    app = http.create_app(
        handler,
        max_message_bytes=largest,
        max_nesting=settings.limits.max_nesting,
        cors=Cors(settings.http.cors_origins.values),
        served=Rules(registry_pb2.DESCRIPTOR.services_by_name["RegistryService"]),
        media_type=JSON,
    )
    return (
        await _opened_grpc(settings, server),
        await _opened_http(settings, PlainRouter(gateway=app, health=Health(readiness)), certificates, shared=shared),
    )


async def listen_http(
    settings: Settings,
    handler: Handler,
    published: Published,
    readiness: Readiness,
    max_message_bytes: int,
    certificates: Certificates | None,
    *,
    shared: bool = False,
) -> HttpListener:
    """Listen for HTTP; `max_message_bytes` is what the largest request of any tenant may have.

    `shared`: other processes listen on the same port.
    """
    cors = Cors(settings.http.cors_origins.values)
    gateway, json_rpc = (
        create_app(
            handler,
            max_message_bytes=max_message_bytes,
            max_nesting=settings.limits.max_nesting,
            heartbeat=settings.http.sse_heartbeat,
            cors=cors,
            check_version=steps.Version(settings.protocol.assume_version).check,
        )
        for create_app in (http.create_app, jsonrpc.create_app)
    )
    app = Router(
        gateway=gateway,
        jsonrpc=json_rpc,
        card=CardEndpoint(
            published.cards,
            max_age=settings.card.max_age,
            cors=cors,
            gates=published.gates,
            attempts=published.attempts,
        ),
        health=Health(readiness),
        keys=KeySetEndpoint(published.keys, cors),
    )
    return await _opened_http(settings, app, certificates, shared=shared)


async def administer(
    settings: Settings,
    stack: AsyncExitStack,
    engine: Engine,
    store: TaskStore,
    tail: LogTail,
    letters: DeadLetters,
    *,
    shared: bool = False,
) -> None:
    """Open the listener for operators where one is wanted; `shared`: see `listen_grpc`."""
    addr = settings.admin.addr
    if addr is None:
        return
    service = AdminService(
        DeadLetterDesk(letters, engine, Webhooks(store, letter_ttl=settings.store.dead_letter_ttl)),
        TaskDesk(store, tail, Inspection(store), Eraser(store, letters)),
        store.registry,
    )
    server = AdminServer(service, addr=str(addr), shared=shared)
    port = await opened(server.start(), "A2A_ADMIN_ADDR")
    stack.push_async_callback(server.stop, _ADMIN_GRACE)
    log.info("administration on %s:%d", addr.host, port)


def _grpc_options(
    settings: Settings, max_message_bytes: int, certificates: Certificates | None, *, shared: bool
) -> Options:
    grpc = settings.grpc
    age = ConnectionAge(limit=grpc.max_connection_age, grace=grpc.max_connection_age_grace)
    return Options(
        addr=str(grpc.addr),
        max_message_bytes=max_message_bytes,
        max_nesting=settings.limits.max_nesting,
        max_streams=grpc.max_streams,
        keepalive=Keepalive(
            accept_every=grpc.min_ping_interval, idle=grpc.keepalive_time, timeout=grpc.keepalive_timeout
        ),
        age=age if grpc.max_connection_age else None,
        reflection=grpc.reflection,
        certificates=certificates,
        require_certificates=settings.tls.grpc_requires,
        shared=shared,
    )


async def _opened_grpc(settings: Settings, server: GrpcServer) -> GrpcServer:
    port = await opened(server.start(), "A2A_GRPC_ADDR")
    log.info("gRPC on %s:%d", settings.grpc.addr.host, port)
    return server


async def _opened_http(
    settings: Settings, app: App, certificates: Certificates | None, *, shared: bool
) -> HttpListener:
    listener = HttpListener(
        app,
        settings.http.addr.host,
        settings.http.addr.port,
        certificates=certificates,
        encrypted=settings.tls.terminated,
        shared=shared,
    )
    port = await opened(listener.start(), "A2A_HTTP_ADDR")
    log.info("HTTP on %s:%d", settings.http.addr.host, port)
    return listener


async def opened(listener: Coroutine[Any, Any, int], variable: str) -> int:
    """The port on which `listener` listens. Raises: ValueError that says what to change."""
    try:
        return await listener
    except OSError as error:
        raise unavailable(error, variable) from error


def unavailable(error: OSError, variable: str) -> ValueError:
    """What to raise where nobody can listen at the address in `variable`: it says what to change."""
    return ValueError(
        f"{error.strerror or error}. Set {variable} to an address of this machine that is free, "
        "or end the program that listens there."
    )
