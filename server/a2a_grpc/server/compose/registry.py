"""The registry of agents: settings and a store become its operations, and what looks whether agents answer."""

from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from a2a_grpc.registry.v1 import registry_pb2
from a2a_grpc.server.auth.config import build_gate
from a2a_grpc.server.auth.gate import Gate, OneGate
from a2a_grpc.server.bindings.upstream.probing import ask_health
from a2a_grpc.server.bindings.upstream.registry import registry_caller
from a2a_grpc.server.calls import steps
from a2a_grpc.server.calls.pipeline import Pipeline
from a2a_grpc.server.calls.tracing import Tracing
from a2a_grpc.server.calls.validation import Validator
from a2a_grpc.server.compose.hosts import limits_of
from a2a_grpc.server.compose.tracing import trace
from a2a_grpc.server.core import ids
from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.server.hosting.attempts import Attempts
from a2a_grpc.server.hosting.hosts import Hosts
from a2a_grpc.server.hosting.limiter import Limiter
from a2a_grpc.server.push.destinations import Destinations
from a2a_grpc.server.push.network import trusting
from a2a_grpc.server.registry.announcing import Announcement, Announcer
from a2a_grpc.server.registry.fetching import CardFetcher
from a2a_grpc.server.registry.health import Checker
from a2a_grpc.server.registry.operations import RegistryOperations, Terms
from a2a_grpc.server.registry.steps import CHAIN, CallLimits, RegistryLimits, RequestValidation
from a2a_grpc.server.registry.watch import watch_store
from a2a_grpc.server.settings import Settings
from a2a_grpc.server.store.opening import open_nodes
from a2a_grpc.server.store.quotas import Quotas
from a2a_grpc.server.store.registrations import OneShard, Registrations
from a2a_grpc.wire.keys import PublicKey, read_key_set

_SERVICE: Final = registry_pb2.DESCRIPTOR.services_by_name["RegistryService"]


class RegistryParts(NamedTuple):
    """What a registry consists of."""

    pipeline: Pipeline
    background: list[Coroutine[Any, Any, None]]
    gate: Gate
    replica: str
    """The name of this process, of which no other has the same."""
    warnings: list[str]


def compose_registry(settings: Settings, store_url: str, stack: AsyncExitStack, readiness: Readiness) -> RegistryParts:
    """The parts, over the store at `store_url`. Raises: ValueError for settings that cannot be used."""
    registry = settings.registry
    gate = build_gate(settings.auth.config(), anonymous=True)
    keys = tuple(_trusted(settings))
    destinations = Destinations(allowed=registry.allow, http=registry.http)
    nodes = open_nodes(store_url, timeout=settings.store.timeout, replicas=settings.store.replicas)
    stack.push_async_callback(nodes.close)
    registrations = Registrations(
        nodes, max_ttl=registry.lease_ttl, per_owner=registry.max_per_owner, most=registry.max_agents
    )

    trust = trusting()

    def fetcher() -> CardFetcher:
        made = CardFetcher(
            destinations,
            trust,
            timeout=registry.check_timeout,
            max_bytes=registry.max_card_bytes,
            connections=registry.check_concurrency,
        )
        stack.push_async_callback(made.close)
        return made

    terms = Terms(max_card_bytes=registry.max_card_bytes, per_owner=registry.max_per_owner, open=gate.open)
    validator = Validator(max_nesting=settings.limits.max_nesting, max_id_length=settings.limits.max_id_length)
    replica = f"{settings.process.replica}-{ids.new_id()[:8]}"
    trace(settings, stack, replica)
    quotas = Quotas(OneShard(replica, nodes.calls))
    limits = RegistryLimits(limits_of(settings))
    pipeline = Pipeline(
        RegistryOperations(registrations, fetcher(), destinations, keys, terms),
        (
            steps.RequestId(),
            Tracing(_SERVICE.full_name),
            steps.AccessLog(_SERVICE.full_name),
            steps.Audit(),
            steps.Errors(),
            steps.Deadline(),
            steps.Authentication(OneGate(gate), Attempts(quotas, settings.quotas.failed_authentication)),
            CallLimits(Limiter(quotas), limits),
            RequestValidation(validator, settings.limits.max_message_bytes),
        ),
        CHAIN,
    )
    background = [watch_store(registrations, readiness)]
    if limits.limited:
        background.append(quotas.renew_forever())
    if registry.check_interval:
        checker = Checker(
            registrations,
            destinations,
            # Its own: whoever registers agents that are slow to answer must not keep it from looking for others.
            fetcher(),
            ask_health,
            keys,
            interval=registry.check_interval,
            timeout=registry.check_timeout,
            concurrency=registry.check_concurrency,
        )
        background.append(checker.run())
    warnings = [*settings.unknown, *settings.plaintext(), *_open_doors(gate)]
    return RegistryParts(pipeline, background, gate, replica, warnings)


def compose_announcer(settings: Settings, hosts: Hosts, registry_url: str, readiness: Readiness) -> Announcer:
    """What keeps the agents of this service registered. Raises: ValueError for settings that cannot be used."""
    registering = settings.registering
    header = (registering.header.name, registering.header.value) if registering.header.name else None
    return Announcer(
        registry_caller(registry_url, header, registering.ca_file),
        registry_url,
        [
            Announcement(
                f"{hosted.card.name} ({hosted.tenant})" if hosted.tenant else hosted.card.name,
                f"{settings.public_http_url}/{quote(hosted.tenant, safe='')}".rstrip("/"),
                hosted.published.body,
            )
            for hosted in hosts
        ],
        readiness,
        public=registering.public,
        instance=settings.process.replica,
    )


def _open_doors(gate: Gate) -> Iterator[str]:
    if gate.open:
        yield (
            "Nothing says how callers are known (A2A_API_KEYS, A2A_JWT_ISSUER, A2A_OIDC_ISSUER, A2A_MTLS): anybody may "
            "register agents here, and withdraw those of others. That is for development."
        )


def _trusted(settings: Settings) -> Iterator[PublicKey]:
    for path in settings.registry.trusted_keys.paths:
        try:
            yield from read_key_set(path.read_bytes())
        except (OSError, ValueError) as error:
            what = error.strerror if isinstance(error, OSError) else error
            raise ValueError(f"A2A_REGISTRY_TRUSTED_KEYS: {path} cannot be used: {what}") from None
