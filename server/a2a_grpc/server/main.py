"""Composition: settings and an agent become a running service. Nothing is decided here."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from a2a_grpc.server import logs
from a2a_grpc.server.bindings.upstream.target import parse_target
from a2a_grpc.server.bindings.upstream.upstream import Upstream
from a2a_grpc.server.card.published import publish
from a2a_grpc.server.card.signing import PublishedKeys
from a2a_grpc.server.compose.hosts import host_executor, host_many, host_one, open_doors, shut_doors
from a2a_grpc.server.compose.levels import watch_levels
from a2a_grpc.server.compose.listeners import (
    Published,
    administer,
    compose_certificates,
    listen_grpc,
    listen_http,
    listen_registry,
)
from a2a_grpc.server.compose.metrics import measure, watch_upstream
from a2a_grpc.server.compose.pipeline import compose_pipeline
from a2a_grpc.server.compose.push import compose_push
from a2a_grpc.server.compose.tracing import trace
from a2a_grpc.server.core import ids
from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.server.drain import Answers, Deadline, Drain, Times, Work, default, stop_signals
from a2a_grpc.server.engine.engine import Engine
from a2a_grpc.server.engine.run import Limits
from a2a_grpc.server.hosting.attempts import Attempts
from a2a_grpc.server.hosting.hosts import Hosts
from a2a_grpc.server.hosting.limiter import Limiter
from a2a_grpc.server.keys import load_signing_keys
from a2a_grpc.server.lifecycle import (
    StoreWatch,
    part,
    purge_forever,
    spare_the_collector,
    worker_threads,
)
from a2a_grpc.server.service.operations import Operations
from a2a_grpc.server.settings import Settings, SettingsError, load
from a2a_grpc.server.settings.registry import parse_registry_url
from a2a_grpc.server.settings.table import effective
from a2a_grpc.server.store.embedded import EmbeddedStore, EmbeddedStoreError
from a2a_grpc.server.store.errors import StoreMisconfiguredError
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.quotas import Quotas
from a2a_grpc.server.store.tail import LogTail
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.worker import Membership

log = logging.getLogger("a2a_grpc.server")

DEMO_AGENT = "a2a_grpc.server.agents.demo:agent"
_MOST_WORKERS = 256


def serve(arguments: Sequence[str]) -> int:
    """`a2a-grpc serve [MODULE:ATTR|FILE]`: run agents until a signal. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="a2a-grpc serve",
        description="Serve an agent over gRPC and HTTP.",
        epilog="Settings are environment variables; `a2a-grpc config` lists them with what is in effect.",
    )
    parser.add_argument(
        "agent",
        nargs="?",
        metavar="MODULE:ATTR|FILE",
        help="the module and the name in it that holds the Agent, such as my_agent:agent; or a file such as "
        "agents.yaml that names an agent for each tenant; default: the demo agent",
    )
    parser.add_argument(
        "--executor",
        metavar="MODULE:CLASS",
        help="serve an AgentExecutor of a2a-sdk instead: a class, a function that makes one, or an object",
    )
    parser.add_argument(
        "--card",
        metavar="FILE|MODULE:ATTR",
        help="the card for --executor: a YAML or JSON file, or an AgentCard; default: the executor's agent_card",
    )
    parser.add_argument(
        "--register",
        metavar="URL",
        help="keep the agents registered with the registry there, such as http://localhost:8090 or "
        "grpc://localhost:50060; default: A2A_REGISTER_URL",
    )
    _add_workers(parser)
    given = parser.parse_args(arguments)
    reference = given.agent or DEMO_AGENT
    if given.executor is not None and given.agent is not None:
        parser.error("name an agent or an --executor, not both")
    if given.card is not None and given.executor is None:
        parser.error("--card goes with --executor; the card of an Agent is its own")
    try:
        register = parse_registry_url(given.register) if given.register is not None else None
    except ValueError as error:
        return _complain([f"--register is {given.register[:100]!r}, but {error}"])

    def composed(settings: Settings, life: _Life) -> Coroutine[Any, Any, None]:
        if given.executor is not None:
            hosts = host_executor(settings, given.executor, given.card)
            return _serve(settings, hosts, life, register or settings.registering.url)
        host = host_many if reference.endswith((".yaml", ".yml")) else host_one
        return _serve(settings, host(settings, reference), life, register or settings.registering.url)

    return _run(composed, given, ["serve", *arguments], ("grpc", "http", "admin"))


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
    parser.add_argument(
        "--upstream-ca-file",
        type=Path,
        metavar="FILE",
        help="call it over TLS, if these certificates (PEM) vouch for it; default: plain text",
    )
    _add_workers(parser)
    given = parser.parse_args(arguments)
    try:
        upstream = parse_target(given.upstream)
        authorities = given.upstream_ca_file.read_bytes() if given.upstream_ca_file else None
    except ValueError as error:
        return _complain([f"--upstream {error}"])
    except OSError as error:
        return _complain([f"--upstream-ca-file {given.upstream_ca_file} cannot be read: {error.strerror}"])
    return _run(
        lambda settings, life: _gateway(settings, upstream, authorities, life),
        given,
        ["gateway", *arguments],
        ("http",),
    )


def registry(arguments: Sequence[str]) -> int:
    """`a2a-grpc registry`: keep a registry of agents until a signal. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="a2a-grpc registry",
        description="Keep a registry of agents, over gRPC and HTTP.",
        epilog="Settings are environment variables; `a2a-grpc config` lists them with what is in effect.",
    )
    _add_workers(parser)
    return _run(_registry, parser.parse_args(arguments), ["registry", *arguments], ("grpc", "http"))


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


class _Life(NamedTuple):
    """How this process ends, and whose it is."""

    deadline: Deadline
    member: Membership | None
    """One of several workers; None: a process by itself."""

    @property
    def shared(self) -> bool:
        """Others listen on the same ports."""
        return self.member is not None


def _add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        type=_at_least_one,
        default=1,
        metavar="N",
        help="serve with so many processes on the same ports, one for each core say; default: 1",
    )
    # How a supervisor starts a worker: the descriptor of a socket.
    parser.add_argument("--supervised", type=int, help=argparse.SUPPRESS)


def _at_least_one(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= _MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"it must be a number from 1 to {_MOST_WORKERS}, not {text[:20]!r}")
    return number


_Compose = Callable[[Settings, _Life], Coroutine[Any, Any, None]]


def _run(compose: _Compose, given: argparse.Namespace, command: Sequence[str], ports: Sequence[str]) -> int:
    """`command`: what this program was called with; `ports`: the groups of settings that say where it listens."""
    for number in (signal.SIGTERM, signal.SIGINT):
        # Until somebody waits for them. One that got lost would leave a container running until it is killed.
        if os.getpid() == 1:
            signal.signal(number, default())
    try:
        settings = load()
    except SettingsError as error:
        return _complain(error.problems)
    logs.configure(settings.process.log_level, settings.process.log_format)
    spare_the_collector()
    if given.supervised is None and given.workers > 1:
        return _supervise(settings, command, given.workers, ports)
    member = None
    if given.supervised is not None:
        try:
            member = Membership(given.supervised)
        except OSError as error:
            return _complain([f"--supervised is what a supervisor says to its workers: {error}"])
        settings = member.assignment.applied(settings)
        logs.configure(settings.process.log_level, settings.process.log_format, member.assignment.number)
    deadline = Deadline(settings.drain.timeout, again=member is None)
    status = 0
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        workers = worker_threads()
        runner.get_loop().set_default_executor(workers)
        try:
            runner.run(compose(settings, _Life(deadline, member)))
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


def _supervise(settings: Settings, command: Sequence[str], workers: int, ports: Sequence[str]) -> int:
    from a2a_grpc.server.supervisor import supervise  # noqa: PLC0415 - one process by itself needs none

    stored = "grpc" in ports  # a gateway keeps nothing
    try:
        return asyncio.run(supervise(settings, command, workers, ports, stored=stored))
    except (ValueError, OSError, EmbeddedStoreError) as error:
        return _complain(str(error).splitlines())
    except KeyboardInterrupt:
        return 130


def _warn(warnings: Sequence[str], life: _Life) -> None:
    if life.member is None or life.member.assignment.number == 1:
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


async def _serve(settings: Settings, hosts: Hosts, life: _Life, registry_url: str | None) -> None:
    _warn([*settings.warnings, *open_doors(hosts), *shut_doors(settings, hosts)], life)
    signing = load_signing_keys(settings.keys.signing.paths)
    certificates = compose_certificates(settings)
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
        trace(settings, stack, store.replica)
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
        quotas = Quotas(store)
        attempts = Attempts(quotas, settings.quotas.failed_authentication)
        published = Published(
            cards=hosts,
            keys=PublishedKeys(signing),
            gates=hosts if settings.card.access == "authenticated" else None,
            attempts=attempts,
        )
        push = compose_push(settings, store, signing) if settings.push.enabled else None
        if push is not None:
            push.sender.watch(tail.watch)
        engine = Engine(
            hosts.agent_of,
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
        pipeline = compose_pipeline(
            settings,
            hosts,
            attempts,
            Limiter(quotas),
            Operations(
                hosts,
                engine,
                store,
                tail,
                push.configs if push is not None else None,
                dedupe_ttl=settings.store.dedupe_ttl,
                cancel_grace=settings.engine.cancel_grace,
            ),
        )
        watch = StoreWatch(store, tail, engine, readiness)

        async def reached() -> None:
            for hosted in hosts:
                since = await store.card_published_ms(hosted.published.etag)
                hosted.published = publish(hosted.card, datetime.fromtimestamp(since // 1000, UTC))

        await administer(settings, stack, engine, store, tail, letters, shared=life.shared)
        await measure(settings, stack, store.replica, turns=lambda: engine.running, member=life.member)
        largest = max(hosted.limits.max_message_bytes for hosted in hosts)
        for listen in (listen_grpc, listen_http):
            drain.add(await listen(settings, pipeline, published, readiness, largest, certificates, shared=life.shared))
        for hosted in hosts:
            hosted.gate.warm()
            log.info("serving %s%s", hosted.card.name, f" to {hosted.tenant}" if hosted.tenant else "")
        background = [watch.run(reached), purge_forever(store, letters)]
        if push is not None:
            background.append(push.sender.run())
        background += watch_levels(store, tail, engine)
        if any(hosted.limited for hosted in hosts):
            background.append(quotas.renew_forever())
        if registry_url is not None:
            # What only a registry needs takes time that every start would pay for.
            from a2a_grpc.server.compose.registry import compose_announcer  # noqa: PLC0415

            announcer = compose_announcer(settings, hosts, registry_url, readiness)
            drain.add(announcer)
            background.append(announcer.run())
        await _until_stopped(drain, life, readiness, *background)


async def _gateway(settings: Settings, target: str, authorities: bytes | None, life: _Life) -> None:
    # The card and the credentials are the upstream's business.
    _warn(settings.unknown, life)
    async with AsyncExitStack() as stack:
        trace(settings, stack, settings.process.replica)
        readiness = Readiness()
        upstream = Upstream(target, readiness, authorities)
        stack.push_async_callback(upstream.close)
        await upstream.start()
        await measure(settings, stack, settings.process.replica, member=life.member)
        watch_upstream(readiness)
        largest = settings.limits.max_message_bytes
        published = Published(cards=upstream.cards, keys=upstream.cards)
        certificates = compose_certificates(settings)
        listener = await listen_http(
            settings, upstream.handler, published, readiness, largest, certificates, shared=life.shared
        )
        drain = _drain(settings, stack, readiness, Answers(listener.answered))
        drain.add(listener)
        log.info("a gateway to %s", target)
        await _until_stopped(drain, life, readiness)


async def _registry(settings: Settings, life: _Life) -> None:
    from a2a_grpc.server.compose.registry import compose_registry  # noqa: PLC0415 -- as in `_serve`

    async with AsyncExitStack() as stack:
        readiness = Readiness()
        parts = compose_registry(settings, await _store_url(settings, stack), stack, readiness)
        _warn(parts.warnings, life)
        certificates = compose_certificates(settings)
        await measure(settings, stack, parts.replica, member=life.member)
        grpc, http = await listen_registry(settings, parts.pipeline, readiness, certificates, shared=life.shared)
        drain = _drain(settings, stack, readiness, Answers(http.answered))
        drain.add(grpc)
        drain.add(http)
        parts.gate.warm()
        log.info("a registry of agents")
        await _until_stopped(drain, life, readiness, *parts.background)


async def _store_url(settings: Settings, stack: AsyncExitStack) -> str:
    if settings.store.redis_url is not None:
        return settings.store.redis_url.value
    embedded = EmbeddedStore(settings.store.data_dir)
    stack.push_async_callback(embedded.stop)
    return await embedded.start()


def _drain(settings: Settings, stack: AsyncExitStack, readiness: Readiness, work: Work) -> Drain:
    drain = Drain(readiness, work, Times(delay=settings.drain.delay, grace=settings.drain.grace))
    stack.push_async_callback(drain.close)
    return drain


async def _until_stopped(
    drain: Drain, life: _Life, readiness: Readiness, *background: Coroutine[Any, Any, None]
) -> None:
    """Run `background` until a signal and the drain that it begins; what fails in it ends the service."""
    with stop_signals(life.deadline) as stop:
        tasks = [asyncio.create_task(work) for work in background]
        if life.member is not None:
            tasks.append(asyncio.create_task(life.member.run()))
            readiness.subscribe(life.member.note)
        draining = asyncio.create_task(drain.run(stop))
        try:
            done, _ = await asyncio.wait({draining, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (draining, *tasks):
                task.cancel()
            await asyncio.gather(draining, *tasks, return_exceptions=True)
