"""The kinds of values that settings have. Each one parses its text and says in a sentence what is wrong with it.

`str()` of every value is what `a2a-grpc config` may print: secrets are already out of it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Annotated, Any
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator, Field

from a2a_grpc.server.store.location import Kind, Location, split_url

HIDDEN = "***"
HIGHEST_PORT = 65535
WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- recognised, not bound


@dataclass(frozen=True, kw_only=True)
class Variable:
    """What a field's environment variable is called and what people need to know about it."""

    name: str
    doc: str
    """A sentence or two for the table in the docs."""
    expects: str = ""
    """Completes "must be …". Made from type and bounds where it is empty."""
    unit: str = ""
    default: str = ""
    """The default in words, where the value itself says little or differs from machine to machine."""
    secret: bool = False
    """The given text may hold a secret, so no message repeats it."""


def _from_text(parse: Callable[[str], object]) -> BeforeValidator:
    """Parses texts and lets values pass that are of the right type already (defaults)."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def split_list(text: str) -> tuple[str, ...]:
    """What stands between commas, and at least one; an empty variable is how somebody says that there is none.

    Raises: ValueError.
    """
    entries = tuple(entry.strip() for entry in text.split(",") if entry.strip())
    if not entries:
        raise ValueError("it names nothing; leave it out, or name at least one, with commas between several")
    return entries


@dataclass(frozen=True)
class Address:
    """A listening address or the address of a server."""

    host: str
    """A name, an IPv4 address, or an IPv6 address without brackets."""
    port: int
    """0 lets the system choose a free one."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def wildcard(self) -> bool:
        """Stands for all addresses of the machine, so nobody else can connect to it literally."""
        return self.host in WILDCARDS

    @property
    def loopback(self) -> bool:
        """Nobody but this machine itself can connect to it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/\[\]@]+)):(?P<port>[0-9]{1,5})")


def parse_address(text: str) -> Address:
    """`HOST:PORT`, with brackets around an IPv6 host."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise ValueError("it must be HOST:PORT, for example 127.0.0.1:50051 or [::1]:50051")
    port = int(match["port"])
    if port > HIGHEST_PORT:
        raise ValueError(f"the port {port} is higher than {HIGHEST_PORT}")
    return Address(match["v6"] or match["host"], port)


def parse_loopback(text: str) -> Address:
    """`HOST:PORT` where nobody but this machine itself can connect."""
    address = parse_address(text)
    if not address.loopback:
        raise ValueError(
            "whoever connects there may read, send again and erase the tasks of everybody, without credentials, so it "
            f"must be an address of this machine alone, such as 127.0.0.1:{address.port or 50052}. To reach it from "
            f"elsewhere: kubectl exec, kubectl port-forward, or ssh -L {address.port or 50052}:127.0.0.1:"
            f"{address.port or 50052}"
        )
    return address


def parse_optional_address(text: str) -> Address | None:
    """`HOST:PORT`, or `none` for no listener."""
    return None if text.lower() == "none" else parse_address(text)


@dataclass(frozen=True)
class RedisUrl:
    """Where the store is."""

    value: str = field(repr=False)
    """The URL as given, with its password."""

    @property
    def cluster(self) -> bool:
        """It names nodes of a cluster."""
        return Location.parse(self.value).kind is Kind.CLUSTER

    def __str__(self) -> str:
        parts = split_url(self.value)
        user, colon, _ = parts.credentials.partition(":")
        shown = f"{user}{f':{HIDDEN}' if colon else ''}@{parts.hosts}" if parts.credentials else parts.hosts
        # redis-py also takes credentials from the query.
        query = re.sub(r"((?:^|&)\w*password=)[^&]*", rf"\1{HIDDEN}", parts.query)
        return f"{parts.scheme}://{shown}{parts.path}{'?' if query else ''}{query}"


_ESCAPES = "in a password the characters / ? # @ : must be written as %2F %3F %23 %40 %3A"


def parse_redis_url(text: str) -> RedisUrl:
    """`redis://`, `unix://`, `redis+sentinel://`, `redis+cluster://`, or with `rediss` for TLS.

    No message repeats the text: it may hold a password.
    """
    try:
        location = Location.parse(text)
    except ValueError as error:
        raise ValueError(f"{error}; {_ESCAPES}") from None
    if location.kind is not Kind.SERVER:
        return RedisUrl(text)
    parts = _split(text)
    if parts.scheme not in {"redis", "rediss", "unix"}:
        raise ValueError(
            "it must begin with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://, for example "
            "redis://localhost:6379/0 or unix:///run/redis/redis.sock"
        )
    if parts.scheme == "unix" and (not parts.path or parts.path == "/"):
        raise ValueError("unix:// needs the path of the socket, for example unix:///run/redis/redis.sock")
    if parts.scheme != "unix":
        if not parts.hostname:
            raise ValueError(f"it names no host; write for example {parts.scheme}://localhost:6379/0")
        if not re.fullmatch(r"/?|/[0-9]+", parts.path):
            raise ValueError(
                "after the host only the number of a database may follow, for example redis://localhost:6379/0; "
                f"{_ESCAPES}"
            )
    return RedisUrl(text)


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise ValueError(f"it is not a URL: its host or port cannot be read; {_ESCAPES}") from error
    return parts


def parse_http_url(text: str) -> str:
    """`http://` or `https://` with a host; a path may follow. A slash at the end is dropped."""
    parts = _split(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("it must be a URL like https://agent.example.com or https://example.com/agents/one")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("it must have no user, no query and no fragment")
    return text.rstrip("/")


@dataclass(frozen=True)
class ApiKeys:
    """The digests of the accepted API keys by the names of their callers. Empty: everybody may call."""

    digests: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """(name, SHA-256 of the key in lower-case hex), in the given order. One name may have several keys."""

    def __bool__(self) -> bool:
        return bool(self.digests)

    def __str__(self) -> str:
        return ",".join(f"{name}:{HIDDEN}" for name, _ in self.digests)


_KEY_NAME = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def parse_api_keys(text: str) -> ApiKeys:
    """`NAME:SHA256HEX,…`. No message repeats a digest, nor a key that somebody put in its place."""
    entries: list[tuple[str, str]] = []
    for number, entry in enumerate(text.split(","), start=1):
        name, colon, digest = entry.strip().partition(":")
        if not colon or not _KEY_NAME.fullmatch(name):
            raise ValueError(
                f"entry {number} must be NAME:SHA256HEX, "
                "where NAME has up to 64 letters, digits and the characters . _ @ -"
            )
        if not _DIGEST.fullmatch(digest.lower()):
            raise ValueError(
                f"the key of {name} (entry {number}) must be given as its SHA-256 in 64 hexadecimal digits: "
                'printf %s "$KEY" | sha256sum | cut -c1-64'
            )
        entries.append((name, digest.lower()))
    return ApiKeys(tuple(entries))


@dataclass(frozen=True)
class Origins:
    """Which web pages may call from a browser."""

    values: tuple[str, ...] = ("*",)
    """Origins such as `https://app.example.com`, or only `*` for all, or nothing for none."""

    def __str__(self) -> str:
        return ",".join(self.values) or "none"


def parse_origins(text: str) -> Origins:
    """`*`, `none`, or origins with commas between them."""
    if text == "*":
        return Origins()
    if text == "none":
        return Origins(())
    origins = tuple(origin.strip() for origin in text.split(","))
    for origin in origins:
        parts = _split(origin)
        if parts.scheme not in {"http", "https"} or not parts.hostname or f"{parts.scheme}://{parts.netloc}" != origin:
            raise ValueError(
                f"{origin!r} is no origin; write for example https://app.example.com, or * for all, or none"
            )
    return Origins(origins)


_HEADER = re.compile(r"[a-z0-9_.-]+")


def parse_header_name(text: str) -> str:
    """A header name that also works as gRPC metadata; lower case afterwards."""
    name = text.lower()
    if not _HEADER.fullmatch(name):
        raise ValueError("it must be a header name of letters, digits and the characters _ . -")
    if name.startswith("grpc-") or name.endswith("-bin"):
        raise ValueError("gRPC keeps names that begin with grpc- or end with -bin for itself")
    return name


def parse_replica(text: str) -> str:
    """A name that is also part of a key in the store."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", text):
        raise ValueError("it must have up to 128 letters, digits and the characters . _ -")
    return text


AddressText = Annotated[Address, _from_text(parse_address)]
OptionalAddressText = Annotated[Address | None, _from_text(parse_optional_address)]
LoopbackText = Annotated[Address, _from_text(parse_loopback)]
RedisUrlText = Annotated[RedisUrl, _from_text(parse_redis_url)]
HttpUrl = Annotated[str, _from_text(parse_http_url)]
ApiKeysText = Annotated[ApiKeys, _from_text(parse_api_keys)]
OriginsText = Annotated[Origins, _from_text(parse_origins)]
HeaderName = Annotated[str, _from_text(parse_header_name)]
ReplicaName = Annotated[str, _from_text(parse_replica)]

LowerCase = BeforeValidator(lambda value: value.lower() if isinstance(value, str) else value)
"""For words that people also write in capitals."""

LONGEST = 10 * 365 * 86400
"""Seconds; keeps every time that is computed from a duration within what Redis and the kernel accept."""
Seconds = Annotated[float, Field(ge=0, le=LONGEST, allow_inf_nan=False)]
"""0 has a meaning of its own, which the field tells."""
PositiveSeconds = Annotated[float, Field(gt=0, le=LONGEST, allow_inf_nan=False)]


def shown(value: Any) -> str:
    """A value as a person would write it into the environment."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    return str(value)
