"""Composition: settings and an agent become a running service. Nothing is decided here."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, NamedTuple

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server import logs
from a2a_grpc.server.agents import Agent
from a2a_grpc.server.agents.loading import load_agent
from a2a_grpc.server.auth.config import build_gate
from a2a_grpc.server.auth.gate import Gate, OneGate
from a2a_grpc.server.bindings import http, jsonrpc
from a2a_grpc.server.bindings.asgi.card import CardEndpoint
from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.health import Health
from a2a_grpc.server.bindings.asgi.listener import HttpListener
from a2a_grpc.server.bindings.asgi.router import Router
from a2a_grpc.server.bindings.grpc.admin_server import AdminServer
from a2a_grpc.server.bindings.grpc.admin_service import AdminService
from a2a_grpc.server.bindings.grpc.server import ConnectionAge, GrpcServer, Keepalive, create_server
from a2a_grpc.server.bindings.upstream.target import parse_target
from a2a_grpc.server.bindings.upstream.upstream import Upstream
from a2a_grpc.server.calls import steps
from a2a_grpc.server.calls.handler import Handler
from a2a_grpc.server.calls.pipeline import Pipeline
from a2a_grpc.server.calls.validation import Validator
from a2a_grpc.server.card.interfaces import with_interfaces
from a2a_grpc.server.card.published import CardSource, PublishedCard, publish
from a2a_grpc.server.card.validation import validate
from a2a_grpc.server.core import ids
from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.server.drain import Answers, Deadline, Drain, Times, Work, stop_signals
from a2a_grpc.server.engine.engine import Engine
from a2a_grpc.server.engine.run import Limits
from a2a_grpc.server.keys import SigningKeys, load_signing_keys
from a2a_grpc.server.lifecycle import (
    StoreWatch,
    part,
    purge_forever,
    spare_the_collector,
    worker_threads,
)
from a2a_grpc.server.push.configs import PushConfigs
from a2a_grpc.server.push.courier import Courier
from a2a_grpc.server.push.destinations import Destinations
from a2a_grpc.server.push.sealing import Sealer
from a2a_grpc.server.push.sender import Patience, PushSender
from a2a_grpc.server.push.terms import Terms
from a2a_grpc.server.service.admin.dead_letters import DeadLetterDesk
from a2a_grpc.server.service.admin.tasks import TaskDesk
from a2a_grpc.server.service.operations import Operations
from a2a_grpc.server.settings import Settings, SettingsError, load
from a2a_grpc.server.settings.table import effective
from a2a_grpc.server.store.embedded import EmbeddedStore, EmbeddedStoreError
from a2a_grpc.server.store.erasing import Eraser
from a2a_grpc.server.store.errors import StoreMisconfiguredError
from a2a_grpc.server.store.inspection import Inspection
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.tail import LogTail
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.store.webhooks import Webhooks
from a2a_grpc.wire.sequence import EVENT_SEQUENCE

log = logging.getLogger("a2a_grpc.server")

DEMO_AGENT = "a2a_grpc.server.agents.demo:agent"
# Seconds that calls of operators have to finish when everything else has stopped.
_ADMIN_GRACE = 1.0


def serve(arguments: Sequence[str]) -> int:
    """`a2a-grpc serve [MODULE:ATTR]`: run an agent until a signal. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="a2a-grpc serve",
        description="Serve an agent over gRPC and HTTP.",
        epilog="Settings are environment variables; `a2a-grpc config` lists them with what is in effect.",
    )
    parser.add_argument(
        "agent",
        nargs="?",
        default=DEMO_AGENT,
        metavar="MODULE:ATTR",
        help="the module and the name in it that holds the Agent, such as my_agent:agent; default: the demo agent",
    )
    reference = parser.parse_args(arguments).agent

    def composed(settings: Settings, deadline: Deadline) -> Coroutine[Any, Any, None]:
        return _serve(settings, load_agent(reference), deadline)

    return _run(composed)


def gateway(arguments: Sequence[str]) -> int:
    """`a2a-grpc gateway --upstream HOST:PORT`: serve HTTP for a service elsewhere. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="a2a-grpc gateway", description="Serve HTTP+JSON and JSON-RPC for an A2A service that speaks gRPC."
    )
    parser.add_argument(
        "--upstream",
        required=True,
        metavar="HOST:PORT",
        help="where the service listens for gRPC; a name with several addresses, or ipv4:HOST:PORT,HOST:PORT, for all",
    )
    try:
        upstream = parse_target(parser.parse_args(arguments).upstream)
    except ValueError as error:
        return _complain([f"--upstream {error}"])
    return _run(lambda settings, deadline: _gateway(settings, upstream, deadline))


def config(arguments: Sequence[str]) -> int:
    """`a2a-grpc config`: print the settings in effect. Returns the exit status."""
    argparse.ArgumentParser(
        prog="a2a-grpc config", description="Print the settings in effect, secrets hidden."
    ).parse_args(arguments)
    try:
        rows = effective(load())
    except SettingsError as error:
        return _complain(error.problems)
    width = max(len(row.name) for row in rows)
    for row in rows:
        sys.stdout.write(f"{row.name:<{width}}  {row.source:<11}  {row.value}\n")
    return 0


def _run(compose: Any) -> int:
    try:
        settings = load()
    except SettingsError as error:
        return _complain(error.problems)
    logs.configure(settings.process.log_level, settings.process.log_format)
    spare_the_collector()
    deadline = Deadline(settings.drain.timeout)
    status = 0
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        workers = worker_threads()
        runner.get_loop().set_default_executor(workers)
        try:
            runner.run(compose(settings, deadline))
        except (ValueError, OSError, EmbeddedStoreError, StoreMisconfiguredError) as error:
            status = _complain(str(error).splitlines())
        except KeyboardInterrupt:
            status = 130
        except Exception:
            log.exception("the service failed")
            status = 1
        left = runner.run(part(workers))
        if left:
            log.warning("the process ends without what the agent does not end: %s", ", ".join(left))
            logging.shutdown()
            os._exit(status)
    deadline.cancel()
    return status


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        log.warning("%s", warning)


def _loop_factory() -> Any:
    try:
        import uvloop  # noqa: PLC0415 - not available on every platform
    except ImportError:
        return None
    return uvloop.new_event_loop


def _complain(problems: Sequence[str]) -> int:
    for problem in problems:
        sys.stderr.write(f"a2a-grpc: {problem}\n")
    return 2


async def _serve(settings: Settings, agent: Agent, deadline: Deadline) -> None:
    _warn(settings.warnings)
    gate = build_gate(settings.auth.config(), agent.card)
    card = _public_card(settings, agent, gate)
    signing = load_signing_keys(settings.keys.signing.paths)
    async with AsyncExitStack() as stack:
        url = await _store_url(settings, stack)
        store = TaskStore(
            url,
            # A process that comes back under its old name must not be taken for the one that went away.
            replica=f"{settings.process.replica}-{ids.new_id()[:8]}",
            shards=settings.store.shards,
            timeout=settings.store.timeout,
            task_ttl=settings.store.task_ttl,
            patience=settings.store.patience,
            max_ready=settings.engine.max_ready,
            log_events=settings.store.log_events,
            store_replicas=settings.store.replicas,
            # The last event may have to wait behind another one that is tried for as long.
            webhook_patience=2 * settings.push.give_up if settings.push.enabled else 0,
        )
        stack.push_async_callback(store.close)
        tail = LogTail(
            store.nodes,
            store,
            lambda task_id: store.keys_of(task_id).events(task_id),
            buffer=settings.store.stream_buffer,
            timeout=settings.store.timeout,
            patience=settings.store.patience,
        )
        stack.push_async_callback(tail.close)
        letters = DeadLetters(store, ttl=settings.store.dead_letter_ttl)
        push = _push(settings, store, signing) if settings.push.enabled else None
        if push is not None:
            push.sender.watch(tail.watch)
        engine = Engine(
            agent,
            store,
            tail,
            letters,
            limits=Limits(
                turn_timeout=settings.engine.turn_timeout,
                cancel_grace=settings.engine.cancel_grace,
                max_attempts=settings.engine.max_attempts,
            ),
            max_turns=settings.engine.max_turns,
            mixed_timeout=settings.engine.mixed_timeout,
            snapshot_events=settings.store.snapshot_events,
            lease_ttl=settings.engine.lease_ttl,
            patience=settings.store.patience,
        )
        readiness = Readiness()
        drain = _drain(settings, stack, readiness, engine)
        pipeline = _pipeline(
            settings,
            card,
            gate,
            Operations(
                agent,
                gate,
                engine,
                store,
                tail,
                push.configs if push is not None else None,
                dedupe_ttl=settings.store.dedupe_ttl,
                cancel_grace=settings.engine.cancel_grace,
            ),
        )
        cards = _Cards(card)
        watch = StoreWatch(store, tail, engine, readiness)

        async def reached() -> None:
            published = await store.card_published_ms(cards.published.etag)
            cards.published = publish(card, datetime.fromtimestamp(published // 1000, UTC))

        await _administer(settings, stack, engine, store, tail, letters)
        drain.add(await _listen_grpc(settings, pipeline, cards, readiness))
        drain.add(await _listen_http(settings, pipeline, cards, readiness))
        gate.warm()
        log.info("serving %s", card.name)
        background = [watch.run(reached), purge_forever(store, letters)]
        if push is not None:
            background.append(push.sender.run())
        await _until_stopped(drain, deadline, *background)


async def _gateway(settings: Settings, target: str, deadline: Deadline) -> None:
    # The card and the credentials are the upstream's business.
    _warn(settings.unknown)
    async with AsyncExitStack() as stack:
        readiness = Readiness()
        upstream = Upstream(target, readiness)
        stack.push_async_callback(upstream.close)
        await upstream.start()
        listener = await _listen_http(settings, upstream.handler, upstream.cards, readiness)
        drain = _drain(settings, stack, readiness, Answers(listener.answered))
        drain.add(listener)
        log.info("a gateway to %s", target)
        await _until_stopped(drain, deadline)


async def _store_url(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.store.redis_url is not None:
        return settings.store.redis_url.value
    embedded = EmbeddedStore(settings.store.data_dir)
    stack.push_async_callback(embedded.stop)
    return await embedded.start()


def _public_card(settings: Settings, agent: Agent, gate: Gate) -> a2a_pb2.AgentCard:
    """The card as it is served: the agent's, with what only the service knows.

    Raises: ValueError that lists what is missing.
    """
    for addr, public, addr_name, public_name in (
        (settings.grpc.addr, settings.card.public_grpc_addr, "A2A_GRPC_ADDR", "A2A_PUBLIC_GRPC_ADDR"),
        (settings.http.addr, settings.card.public_http_url, "A2A_HTTP_ADDR", "A2A_PUBLIC_HTTP_URL"),
    ):
        if public is None and not addr.port:
            raise ValueError(
                f"{addr_name} is {addr}, so the system picks the port and the agent card cannot name it. "
                f"Set {public_name}, or give {addr_name} a port."
            )
    card = with_interfaces(agent.card, settings.public_grpc_addr, settings.public_http_url)
    declared = agent.card.capabilities
    switched_off = declared.HasField("push_notifications") and not declared.push_notifications
    card.capabilities.push_notifications = settings.push.enabled and not switched_off
    card.capabilities.extensions.add(
        uri=EVENT_SEQUENCE, description="Numbers each streamed event in its metadata, for bindings without event ids."
    )
    gate.declare(card)
    problems = validate(card)
    if problems:
        listed = "; ".join(f"{problem.field}: {problem.description}" for problem in problems)
        raise ValueError(f"the agent's card cannot be published: {listed}")
    if agent.extended_card is not None:
        extended = with_interfaces(agent.extended_card, settings.public_grpc_addr, settings.public_http_url)
        extended.capabilities.CopyFrom(card.capabilities)
        gate.declare(extended)
        agent.extended_card = extended
    return card


def _pipeline(settings: Settings, card: a2a_pb2.AgentCard, gate: Gate, operations: Operations) -> Pipeline:
    limits = settings.limits
    return Pipeline(
        operations,
        (
            steps.RequestId(),
            steps.AccessLog(),
            steps.Audit(),
            steps.Errors(),
            steps.Deadline(),
            steps.Version(settings.protocol.assume_version),
            steps.Authentication(OneGate(gate)),
            steps.Extensions({extension.uri: extension.required for extension in card.capabilities.extensions}),
            steps.Capabilities(card.capabilities),
            steps.Validation(
                Validator(
                    max_message_bytes=limits.max_message_bytes,
                    max_nesting=limits.max_nesting,
                    max_id_length=limits.max_id_length,
                    webhook=Terms(_destinations(settings)).violations,
                )
            ),
        ),
    )


class _Push(NamedTuple):
    """What webhooks need."""

    configs: PushConfigs
    sender: PushSender


def _push(settings: Settings, store: TaskStore, signing: SigningKeys) -> _Push:
    push = settings.push
    webhooks = Webhooks(store, letter_ttl=settings.store.dead_letter_ttl)
    configs = PushConfigs(webhooks, Sealer(settings.keys.encryption.keys), limit=push.max_configs)
    courier = Courier(_destinations(settings), signing, timeout=push.timeout, connections=push.concurrency)
    sender = PushSender(
        store,
        webhooks,
        configs,
        courier,
        patience=Patience(
            attempts=push.attempts, limit=push.give_up, first=push.backoff, most=max(push.backoff, push.backoff_max)
        ),
        lease_ttl=settings.engine.lease_ttl,
        concurrency=push.concurrency,
        per_host=push.per_host,
    )
    return _Push(configs, sender)


def _destinations(settings: Settings) -> Destinations:
    return Destinations(allowed=settings.push.allow, http=settings.push.http)


def _drain(settings: Settings, stack: AsyncExitStack, readiness: Readiness, work: Work) -> Drain:
    drain = Drain(readiness, work, Times(delay=settings.drain.delay, grace=settings.drain.grace))
    stack.push_async_callback(drain.close)
    return drain


async def _listen_grpc(settings: Settings, handler: Handler, cards: CardSource, readiness: Readiness) -> GrpcServer:
    grpc, limits = settings.grpc, settings.limits
    age = ConnectionAge(limit=grpc.max_connection_age, grace=grpc.max_connection_age_grace)
    server = create_server(
        handler,
        cards,
        readiness,
        addr=str(grpc.addr),
        max_message_bytes=limits.max_message_bytes,
        max_nesting=limits.max_nesting,
        max_streams=grpc.max_streams,
        keepalive=Keepalive(
            accept_every=grpc.min_ping_interval, idle=grpc.keepalive_time, timeout=grpc.keepalive_timeout
        ),
        age=age if grpc.max_connection_age else None,
        reflection=grpc.reflection,
    )
    port = await _opened(server.start(), "A2A_GRPC_ADDR")
    log.info("gRPC on %s:%d", grpc.addr.host, port)
    return server


async def _listen_http(settings: Settings, handler: Handler, cards: CardSource, readiness: Readiness) -> HttpListener:
    limits, cors = settings.limits, Cors(settings.http.cors_origins.values)
    gateway, json_rpc = (
        create_app(
            handler,
            max_message_bytes=limits.max_message_bytes,
            max_nesting=limits.max_nesting,
            heartbeat=settings.http.sse_heartbeat,
            cors=cors,
            check_version=steps.Version(settings.protocol.assume_version).check,
        )
        for create_app in (http.create_app, jsonrpc.create_app)
    )
    app = Router(
        gateway=gateway,
        jsonrpc=json_rpc,
        card=CardEndpoint(cards, max_age=settings.card.max_age, cors=cors),
        health=Health(readiness),
    )
    listener = HttpListener(app, settings.http.addr.host, settings.http.addr.port)
    port = await _opened(listener.start(), "A2A_HTTP_ADDR")
    log.info("HTTP on %s:%d", settings.http.addr.host, port)
    return listener


async def _administer(
    settings: Settings, stack: AsyncExitStack, engine: Engine, store: TaskStore, tail: LogTail, letters: DeadLetters
) -> None:
    """Open the listener for operators where one is wanted."""
    addr = settings.admin.addr
    if addr is None:
        return
    service = AdminService(
        DeadLetterDesk(letters, engine),
        TaskDesk(store, tail, Inspection(store), Eraser(store, letters)),
        store.registry,
    )
    server = AdminServer(service, addr=str(addr))
    port = await _opened(server.start(), "A2A_ADMIN_ADDR")
    stack.push_async_callback(server.stop, _ADMIN_GRACE)
    log.info("administration on %s:%d", addr.host, port)


async def _opened(listener: Coroutine[Any, Any, int], variable: str) -> int:
    """The port on which `listener` listens. Raises: ValueError that says what to change."""
    try:
        return await listener
    except OSError as error:
        raise ValueError(
            f"{error.strerror or error}. Set {variable} to an address of this machine that is free, "
            "or end the program that listens there."
        ) from error


async def _until_stopped(drain: Drain, deadline: Deadline, *background: Coroutine[Any, Any, None]) -> None:
    """Run `background` until a signal and the drain that it begins; what fails in it ends the service."""
    with stop_signals(deadline) as stop:
        tasks = [asyncio.create_task(work) for work in background]
        draining = asyncio.create_task(drain.run(stop))
        try:
            done, _ = await asyncio.wait({draining, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (draining, *tasks):
                task.cancel()
            await asyncio.gather(draining, *tasks, return_exceptions=True)


class _Cards:
    """The one card of this service; when it was first published is known once the store is."""

    def __init__(self, card: a2a_pb2.AgentCard) -> None:
        self.published = publish(card, datetime.now(UTC).replace(microsecond=0))

    async def public_card(self, tenant: str) -> PublishedCard | None:
        return self.published if tenant == "" else None
