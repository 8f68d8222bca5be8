"""The settings and their groups.

To add one, add a field; its name, doc and default reach the checks, `a2a-grpc config` and docs/SETTINGS.md.
"""

import re
import secrets
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from a2a_grpc.server.settings.auth import AuthSettings
from a2a_grpc.server.settings.push import KeySettings, PushSettings
from a2a_grpc.server.settings.quotas import QuotaSettings
from a2a_grpc.server.settings.registry import RegisterSettings, RegistrySettings
from a2a_grpc.server.settings.source import EnvironmentSource, Group
from a2a_grpc.server.settings.telemetry import OtlpSettings
from a2a_grpc.server.settings.tls import TlsSettings
from a2a_grpc.server.settings.values import (
    Address,
    AddressText,
    HttpUrl,
    LoopbackText,
    LowerCase,
    OptionalAddressText,
    Origins,
    OriginsText,
    PositiveSeconds,
    RedisUrlText,
    ReplicaName,
    Seconds,
    Variable,
)

MIB = 1024 * 1024
DAY = 86400


class GrpcSettings(Group):
    """gRPC server."""

    addr: Annotated[AddressText, Variable(name="A2A_GRPC_ADDR", doc="Where the gRPC server listens.")] = Address(
        "0.0.0.0",  # noqa: S104 -- a service in a container is called from outside
        50051,
    )
    keepalive_time: Annotated[
        PositiveSeconds,
        Field(le=DAY),  # gRPC counts milliseconds in 32 bits
        Variable(
            name="A2A_GRPC_KEEPALIVE_TIME",
            unit="seconds",
            doc="A connection without traffic for so long is pinged, so that a peer that vanished is noticed.",
        ),
    ] = 30
    keepalive_timeout: Annotated[
        PositiveSeconds,
        Field(le=DAY),
        Variable(
            name="A2A_GRPC_KEEPALIVE_TIMEOUT",
            unit="seconds",
            doc="A peer that does not answer a ping for so long is disconnected.",
        ),
    ] = 10
    min_ping_interval: Annotated[
        PositiveSeconds,
        Field(le=DAY),
        Variable(
            name="A2A_GRPC_MIN_PING_INTERVAL",
            unit="seconds",
            doc="How often a caller may ping, also without calls. Who pings more often is disconnected.",
        ),
    ] = 10
    max_streams: Annotated[
        int,
        Field(ge=0, le=2**31 - 1),
        Variable(
            name="A2A_GRPC_MAX_STREAMS",
            doc="Calls at the same time on one connection. 0 leaves it to the gRPC library.",
        ),
    ] = 0
    max_connection_age: Annotated[
        Seconds,
        Field(le=DAY),
        Variable(
            name="A2A_GRPC_MAX_CONNECTION_AGE",
            unit="seconds",
            doc="An older connection is asked to go elsewhere, so that balancers can rebalance. 0 sets no limit.",
        ),
    ] = 0
    max_connection_age_grace: Annotated[
        PositiveSeconds,
        Field(le=DAY),
        Variable(
            name="A2A_GRPC_MAX_CONNECTION_AGE_GRACE",
            unit="seconds",
            doc="With A2A_GRPC_MAX_CONNECTION_AGE: how long calls on such a connection may go on. No stream lasts for "
            "longer than this: it ends with UNAVAILABLE, and its reader resumes it elsewhere.",
        ),
    ] = 600
    reflection: Annotated[
        bool,
        Variable(
            name="A2A_GRPC_REFLECTION",
            doc="Tools such as grpcurl may ask the server for its schema.",
        ),
    ] = True


class HttpSettings(Group):
    """HTTP gateway."""

    addr: Annotated[
        AddressText,
        Variable(
            name="A2A_HTTP_ADDR",
            doc="Where the HTTP server listens: HTTP+JSON, JSON-RPC, the agent card, /healthz and /readyz.",
        ),
    ] = Address("0.0.0.0", 8080)  # noqa: S104 -- as above
    sse_heartbeat: Annotated[
        PositiveSeconds,
        Variable(
            name="A2A_SSE_HEARTBEAT",
            unit="seconds",
            doc="A stream without events for so long gets a comment, so that proxies keep it open.",
        ),
    ] = 15
    cors_origins: Annotated[
        OriginsText,
        Variable(
            name="A2A_CORS_ORIGINS",
            expects="*, none, or origins with commas between them, for example https://app.example.com",
            doc="Web pages that may call from a browser: `*` for all, `none`, or origins with commas between them.",
        ),
    ] = Origins()


class CardSettings(Group):
    """Agent card."""

    public_grpc_addr: Annotated[
        AddressText | None,
        Variable(
            name="A2A_PUBLIC_GRPC_ADDR",
            default="A2A_GRPC_ADDR, with localhost for a wildcard",
            doc="The gRPC address that the agent card tells callers.",
        ),
    ] = None
    public_http_url: Annotated[
        HttpUrl | None,
        Variable(
            name="A2A_PUBLIC_HTTP_URL",
            default="A2A_HTTP_ADDR, with localhost for a wildcard, behind http:// or with TLS https://",
            doc="The URL of the HTTP gateway that the agent card tells callers. It may have a path.",
        ),
    ] = None
    max_age: Annotated[
        int,
        Field(ge=0, le=365 * DAY),
        Variable(
            name="A2A_CARD_MAX_AGE",
            unit="seconds",
            doc="How long callers may keep the agent card before they ask again (Cache-Control).",
        ),
    ] = 300
    access: Annotated[
        Literal["public", "authenticated"],
        LowerCase,
        Variable(
            name="A2A_CARD_ACCESS",
            doc="Who gets the public card: everybody, or `authenticated` callers only, with the same credentials as "
            "for calls. How to get these they must know from elsewhere then.",
        ),
    ] = "public"
    jku: Annotated[
        HttpUrl | None,
        Variable(
            name="A2A_CARD_JKU",
            default="/.well-known/jwks.json behind A2A_PUBLIC_HTTP_URL",
            doc="Where a signed card says that the keys are published which check it (A2A_SIGNING_KEYS).",
        ),
    ] = None


CLUSTER_SHARDS = 16


class StoreSettings(Group):
    """Store."""

    redis_url: Annotated[
        RedisUrlText | None,
        Variable(
            name="A2A_REDIS_URL",
            secret=True,
            default="the embedded store",
            doc="The Redis or Valkey that holds the tasks: redis://, unix://, redis+sentinel://HOST:PORT,…/MASTER or "
            "redis+cluster://HOST:PORT,…, with rediss for TLS (see DEPLOY.md). Several replicas share one. "
            "Without it a server of this process's own is started in A2A_DATA_DIR.",
        ),
    ] = None
    data_dir: Annotated[
        Path,
        Variable(
            name="A2A_DATA_DIR",
            default="$XDG_DATA_HOME/a2a-grpc, or ~/.local/share/a2a-grpc",
            doc="Where the embedded store keeps its data. One process at a time.",
        ),
    ] = Path("~/.local/share/a2a-grpc")
    shards: Annotated[
        int,
        Field(ge=1, le=4096),
        Variable(
            name="A2A_SHARDS",
            doc="Parts that the tasks are spread over; 16 or more on a cluster. Fixed when a store is first used.",
        ),
    ] = 1
    task_ttl: Annotated[
        PositiveSeconds,
        Variable(
            name="A2A_TASK_TTL",
            unit="seconds",
            doc="How long a task is kept after it has ended. Tasks that have not ended are kept.",
        ),
    ] = 7 * DAY
    dedupe_ttl: Annotated[
        Seconds,
        Variable(
            name="A2A_DEDUPE_TTL",
            unit="seconds",
            doc="How long the same message of the same caller leads to the same task. 0 turns that off.",
        ),
    ] = DAY
    timeout: Annotated[
        PositiveSeconds,
        Variable(name="A2A_STORE_TIMEOUT", unit="seconds", doc="A call to the store is given up after this."),
    ] = 1.5
    patience: Annotated[
        Seconds,
        Variable(
            name="A2A_STORE_PATIENCE",
            unit="seconds",
            doc="How long a running turn, and who waits for it, holds out while the store is away.",
        ),
    ] = 45
    replicas: Annotated[
        int,
        Field(ge=0, le=100),
        Variable(
            name="A2A_STORE_REPLICAS",
            doc="A write is acknowledged only when so many replicas of the store have it (WAIT). With 0 a failover may "
            "lose what was acknowledged last.",
        ),
    ] = 0
    snapshot_events: Annotated[
        int,
        Field(ge=1),
        Variable(
            name="A2A_SNAPSHOT_EVENTS",
            unit="events",
            doc="A running task gets a new snapshot after so many events: fewer make reading cheaper, more writing.",
        ),
    ] = 256
    log_events: Annotated[
        int,
        Field(ge=100),
        Variable(
            name="A2A_LOG_EVENTS",
            unit="events",
            doc="At least so many events of a task are kept for streams that resume; of a longer task the oldest go.",
        ),
    ] = 10_000
    dead_letter_ttl: Annotated[
        PositiveSeconds,
        Variable(
            name="A2A_DEAD_LETTER_TTL",
            unit="seconds",
            doc="How long a dead letter is kept: a turn that could not be run to its end.",
        ),
    ] = 30 * DAY
    stream_buffer: Annotated[
        int,
        Field(ge=1),
        Variable(
            name="A2A_STREAM_BUFFER",
            unit="events",
            doc="Events held in memory for a subscriber who reads slowly; beyond that it reads them from the store.",
        ),
    ] = 256


class EngineSettings(Group):
    """Running turns."""

    lease_ttl: Annotated[
        Seconds,
        Field(ge=1, le=600),
        Variable(
            name="A2A_LEASE_TTL",
            unit="seconds",
            doc="A replica that was not heard of for so long is taken for lost: others run its turns again. It says "
            "that it is there four times as often.",
        ),
    ] = 4
    max_attempts: Annotated[
        int,
        Field(ge=1, le=100),
        Variable(
            name="A2A_MAX_ATTEMPTS",
            doc="How often a turn is begun in all where replicas are lost under it. An agent or a skill may declare "
            "its own number; 1 means never twice.",
        ),
    ] = 3

    max_turns: Annotated[
        int,
        Field(ge=1),
        Variable(name="A2A_MAX_TURNS", doc="Turns that run at the same time in this process. More wait their turn."),
    ] = 100
    max_ready: Annotated[
        int,
        Field(ge=1),
        Variable(
            name="A2A_MAX_READY",
            doc="Turns that may wait for a replica, in each shard. Beyond that messages are refused, and nothing is "
            "stored.",
        ),
    ] = 10_000
    turn_timeout: Annotated[
        Seconds,
        Variable(
            name="A2A_TURN_TIMEOUT",
            unit="seconds",
            doc="A turn that runs for longer ends as failed. 0 sets no limit.",
        ),
    ] = DAY
    cancel_grace: Annotated[
        Seconds,
        Variable(
            name="A2A_CANCEL_GRACE",
            unit="seconds",
            doc="How long a canceled agent may still write last words.",
        ),
    ] = 5
    mixed_timeout: Annotated[
        PositiveSeconds,
        Variable(
            name="A2A_MIXED_TIMEOUT",
            unit="seconds",
            doc="An agent that answers with a message or a task has so long to show which; then it is a task.",
        ),
    ] = 1.0


class DrainSettings(Group):
    """Stopping."""

    delay: Annotated[
        Seconds,
        Field(le=600),
        Variable(
            name="A2A_DRAIN_DELAY",
            unit="seconds",
            doc="After SIGTERM the service says that it is not ready and goes on for so long. SIGINT skips it.",
        ),
    ] = 0
    grace: Annotated[
        Seconds,
        Field(le=DAY),
        Variable(
            name="A2A_DRAIN_GRACE",
            unit="seconds",
            doc="How long running turns may take to end by themselves then. What still runs goes to another replica.",
        ),
    ] = 15
    timeout: Annotated[
        PositiveSeconds,
        Field(le=2 * DAY),
        Variable(
            name="A2A_DRAIN_TIMEOUT",
            unit="seconds",
            doc="The process ends at the latest so long after the signal. Longer than delay and grace together, and "
            "shorter than the platform waits before it kills (Kubernetes: terminationGracePeriodSeconds, 30).",
        ),
    ] = 28


class AdminSettings(Group):
    """Administration."""

    addr: Annotated[
        LoopbackText | None,
        Variable(
            name="A2A_ADMIN_ADDR",
            default="none: switched off",
            doc="Where the administration service listens (gRPC): dead letters, all tasks, replicas. It asks for no "
            "credentials, so it must be an address of this machine alone, such as `127.0.0.1:50052`.",
        ),
    ] = None


class MetricsSettings(Group):
    """Metrics."""

    addr: Annotated[
        OptionalAddressText,
        Variable(
            name="A2A_METRICS_ADDR",
            expects="HOST:PORT, or none",
            doc="Where Prometheus reads the metrics (GET /metrics); `none` switches them off. It asks for no "
            "credentials, so it must not be public. Where the default port is taken the service warns and starts "
            "without.",
        ),
    ] = Address("0.0.0.0", 9464)  # noqa: S104 -- read by another machine, as above

    @property
    def asked_for(self) -> bool:
        """The address is not the default."""
        return "addr" in self.model_fields_set


class LimitSettings(Group):
    """Limits on requests."""

    max_message_bytes: Annotated[
        int,
        Field(ge=1024, le=2**31 - 1),
        Variable(
            name="A2A_MAX_MESSAGE_BYTES",
            unit="bytes",
            doc="The largest request, measured as protobuf on every binding.",
        ),
    ] = 4 * MIB
    max_nesting: Annotated[
        int,
        Field(ge=8, le=90),  # protobuf itself stops at 100, some of which the envelope takes
        Variable(
            name="A2A_MAX_NESTING",
            unit="levels",
            doc="How deeply values in data parts and metadata may be nested.",
        ),
    ] = 32
    max_id_length: Annotated[
        int,
        Field(ge=64, le=4096),
        Variable(
            name="A2A_MAX_ID_LENGTH",
            unit="characters",
            doc="The longest id (task, context, message) that a caller may send.",
        ),
    ] = 256


class ProtocolSettings(Group):
    """Protocol."""

    assume_version: Annotated[
        Literal["1.0"] | None,
        Variable(
            name="A2A_ASSUME_VERSION",
            expects="1.0, or unset",
            default="none: such calls are refused",
            doc="The protocol version of callers that send no A2A-Version. The only value is `1.0`.",
        ),
    ] = None


def _replica_name() -> str:
    """A host that comes back after a crash must not be taken for the one that crashed: hence the random part."""
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:100] or "replica"
    return f"{host}-{secrets.token_hex(4)}"


class ProcessSettings(Group):
    """This process."""

    replica: Annotated[
        ReplicaName,
        Variable(
            name="A2A_REPLICA",
            default="the host's name and a random part",
            doc="The name of this replica in the store. It must differ between processes that live at the same time.",
        ),
    ] = Field(default_factory=_replica_name)
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        LowerCase,
        Variable(name="A2A_LOG_LEVEL", doc="The least important messages that are logged."),
    ] = "info"
    log_format: Annotated[
        Literal["text", "json"],
        LowerCase,
        Variable(name="A2A_LOG_FORMAT", doc="`text` for people, `json` for machines (one object a line)."),
    ] = "text"


class Settings(BaseSettings):
    """The whole tree. Made by `load`."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid")

    grpc: GrpcSettings
    http: HttpSettings
    card: CardSettings
    store: StoreSettings
    engine: EngineSettings
    drain: DrainSettings
    admin: AdminSettings
    metrics: MetricsSettings
    otlp: OtlpSettings
    limits: LimitSettings
    quotas: QuotaSettings
    protocol: ProtocolSettings
    auth: AuthSettings
    keys: KeySettings
    push: PushSettings
    tls: TlsSettings
    registry: RegistrySettings
    registering: RegisterSettings
    process: ProcessSettings
    unknown: tuple[str, ...]
    """A sentence for each variable that begins like ours and is none of ours."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ=environ)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 -- reads os.environ, whatever `load` was given
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 -- a file in the folder must not change a service
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """One source: the given environment."""
        return (EnvironmentSource(settings_cls, init_settings()["environ"]),)

    @property
    def public_grpc_addr(self) -> str:
        """The gRPC address for the agent card, as `host:port`."""
        return str(self.card.public_grpc_addr or _reachable(self.grpc.addr))

    @property
    def public_http_url(self) -> str:
        """The gateway's URL for the agent card, without a slash at the end."""
        scheme = "https" if self.tls.on else "http"
        return self.card.public_http_url or f"{scheme}://{_reachable(self.http.addr)}"

    @property
    def card_jku(self) -> str:
        """Where the keys are published that check the card."""
        return self.card.jku or f"{self.public_http_url}/.well-known/jwks.json"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for the log at start, about what works but may not be meant."""
        found = list(self.unknown)
        if self.card.public_grpc_addr is None and self.grpc.addr.wildcard:
            found.append(_unreachable("A2A_PUBLIC_GRPC_ADDR", self.public_grpc_addr, "agent.example.com:443"))
        if self.card.public_http_url is None and self.http.addr.wildcard:
            found.append(_unreachable("A2A_PUBLIC_HTTP_URL", self.public_http_url, "https://agent.example.com"))
        found.extend(self.plaintext())
        if self.store.redis_url is not None and self.store.redis_url.cluster and self.store.shards < CLUSTER_SHARDS:
            found.append(
                f"A2A_SHARDS is {self.store.shards}: the tasks lie on no more nodes of the cluster than that, and it "
                f"can be changed only with an empty store. {CLUSTER_SHARDS} or more spread them over all."
            )
        return tuple(found)

    def plaintext(self) -> Iterator[str]:
        """Sentences about what others could read along, or not reach."""
        if self.tls.on:
            if self.public_http_url.startswith("http://") and not self.tls.terminated:
                yield (
                    f"A2A_PUBLIC_HTTP_URL is {self.public_http_url}, but the HTTP listener speaks TLS: callers who "
                    "read the card will not get through. Write https://."
                )
            if self.tls.client_cert == "optional" and self.tls.grpc_client_cert is None:
                yield (
                    "A2A_TLS_CLIENT_CERT is optional, which the gRPC library does not know: over gRPC nobody is asked "
                    "for a certificate. Set A2A_TLS_GRPC_CLIENT_CERT to required, or to none."
                )
            return
        if self.tls.terminated:
            return
        listeners = {"A2A_GRPC_ADDR": self.grpc.addr, "A2A_HTTP_ADDR": self.http.addr}
        plain = " and ".join(name for name, addr in listeners.items() if not addr.loopback)
        if plain:
            yield (
                f"{plain} can be reached from other machines without TLS: whoever is on the way reads and changes all, "
                "credentials included. Set A2A_TLS_CERT_FILE and A2A_TLS_KEY_FILE, or A2A_TLS_TERMINATED where a mesh "
                "or an ingress encrypts."
            )


def _reachable(addr: Address) -> Address:
    return Address("localhost", addr.port) if addr.wildcard else addr


def _unreachable(name: str, used: str, example: str) -> str:
    return (
        f"{name} is not set: the agent card names {used}, which only callers on this machine can reach. "
        f"Set it to the address that others use, for example {example}."
    )
