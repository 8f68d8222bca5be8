"""The settings of a registry of agents, and of an agent that keeps itself registered with one."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

from a2a_grpc.server.push.allowed import Allowed, parse_allowed
from a2a_grpc.server.settings.push import Paths, parse_paths
from a2a_grpc.server.settings.source import Group
from a2a_grpc.server.settings.values import HIDDEN, PositiveSeconds, Seconds, Variable

DAY = 86400

_HEADER = re.compile(r"([A-Za-z0-9_.-]{1,64}):[ \t]*([!-~](?:[ -~]*[!-~])?)")


@dataclass(frozen=True)
class Header:
    """One header with credentials in it."""

    name: str = ""
    value: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{self.name}: {HIDDEN}" if self.name else ""


def parse_header(text: str) -> Header:
    """`NAME: VALUE`. No message repeats the value."""
    found = _HEADER.fullmatch(text)
    if found is None:
        raise ValueError("it must be a header as it is sent, NAME: VALUE, for example X-API-Key: … or Authorization: …")
    return Header(found[1].lower(), found[2])


def parse_registry_url(text: str) -> str:
    """`http://`, `https://`, `grpc://` or `grpcs://` with a host. A slash at the end is dropped."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in {"http", "https", "grpc", "grpcs"} or not parts.hostname or "@" in parts.netloc:
        raise ValueError("it must be a URL like https://registry.example.com or grpc://registry:50051, without a user")
    if parts.query or parts.fragment or (parts.scheme.startswith("grpc") and (parts.path.strip("/") or not parts.port)):
        raise ValueError("it must have no query and no fragment; with grpc:// it must have a port and no path")
    return text.rstrip("/")


def _from_text(parse: Callable[[str], object]) -> BeforeValidator:
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


class RegistrySettings(Group):
    """Registry of agents (`a2a-grpc registry`)."""

    lease_ttl: Annotated[
        PositiveSeconds,
        Field(ge=1, le=30 * DAY),
        Variable(
            name="A2A_REGISTRY_LEASE_TTL",
            unit="seconds",
            doc="How long an agent is kept that does not renew its registration. It may ask for less.",
        ),
    ] = 60
    max_per_owner: Annotated[
        int,
        Field(ge=1, le=10**6),
        Variable(name="A2A_REGISTRY_MAX_PER_OWNER", doc="Agents that one owner may register."),
    ] = 100
    max_agents: Annotated[
        int, Field(ge=1, le=10**6), Variable(name="A2A_REGISTRY_MAX_AGENTS", doc="Agents that are kept in all.")
    ] = 10_000
    max_card_bytes: Annotated[
        int,
        Field(ge=1024, le=1024 * 1024),
        Variable(name="A2A_REGISTRY_MAX_CARD_BYTES", unit="bytes", doc="The largest agent card, as JSON."),
    ] = 64 * 1024
    check_interval: Annotated[
        Seconds,
        Field(le=DAY),
        Variable(
            name="A2A_REGISTRY_CHECK_INTERVAL",
            unit="seconds",
            doc="How often the registry looks whether an agent answers. 0: never.",
        ),
    ] = 30
    check_timeout: Annotated[
        PositiveSeconds,
        Field(le=60),
        Variable(
            name="A2A_REGISTRY_CHECK_TIMEOUT",
            unit="seconds",
            doc="An agent has so long to answer then, and to give its card where it is registered by its URL alone.",
        ),
    ] = 5
    check_concurrency: Annotated[
        int,
        Field(ge=1, le=10_000),
        Variable(name="A2A_REGISTRY_CHECK_CONCURRENCY", doc="Agents that this process looks for at the same time."),
    ] = 100
    allow: Annotated[
        Allowed,
        _from_text(parse_allowed),
        Variable(
            name="A2A_REGISTRY_ALLOW",
            default="none: the public internet only",
            doc="Where the registry connects to besides the public internet, to look for agents and to fetch cards: "
            "hosts, `*.` domains and networks with commas between them. Agents elsewhere may be registered with their "
            "card; whether they answer stays unknown.",
        ),
    ] = Allowed()
    http: Annotated[
        bool,
        Variable(
            name="A2A_REGISTRY_ALLOW_HTTP",
            doc="Whether the registry connects to http:// and grpc:// as well.",
        ),
    ] = False
    trusted_keys: Annotated[
        Paths,
        _from_text(parse_paths),
        Variable(
            name="A2A_REGISTRY_TRUSTED_KEYS",
            default="none: no signature is trusted",
            doc="Files with JWK Sets, commas between them: who has signed a card with one of these keys is trusted.",
        ),
    ] = Paths()


class RegisterSettings(Group):
    """Being registered."""

    url: Annotated[
        str | None,
        _from_text(parse_registry_url),
        Variable(
            name="A2A_REGISTER_URL",
            default="none",
            doc="The registry that the agents of this service are kept registered with, for as long as it is ready "
            "for calls: http://, https://, grpc:// or grpcs:// (TLS). Same as `serve --register`.",
        ),
    ] = None
    header: Annotated[
        Header,
        _from_text(parse_header),
        Variable(
            name="A2A_REGISTER_HEADER",
            secret=True,
            default="none",
            doc="The header that tells the registry who registers, as NAME: VALUE.",
        ),
    ] = Header()
    public: Annotated[
        bool,
        Variable(
            name="A2A_REGISTER_PUBLIC",
            doc="Whether everybody may find the agents there, not only callers that the registry knows.",
        ),
    ] = False
    ca_file: Annotated[
        Path | None,
        Variable(
            name="A2A_REGISTER_CA_FILE",
            default="the public authorities",
            doc="The certificates (PEM) that vouch for the registry.",
        ),
    ] = None
