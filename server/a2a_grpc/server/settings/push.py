"""The settings of webhooks, and of the keys that sign and encrypt."""

import base64
import binascii
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from a2a_grpc.server.push.allowed import Allowed, parse_allowed
from a2a_grpc.server.settings.source import Group
from a2a_grpc.server.settings.values import HIDDEN, PositiveSeconds, Variable, split_list

DAY = 86400
_KEY_BYTES = 32


@dataclass(frozen=True)
class SecretKeys:
    """Keys for encryption. The first one encrypts, all of them decrypt."""

    keys: tuple[bytes, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return ",".join(HIDDEN for _ in self.keys)


def parse_secret_keys(text: str) -> SecretKeys:
    """Keys of 32 bytes in base64, with commas between them. No message repeats one."""
    keys: list[bytes] = []
    for number, entry in enumerate((part.strip() for part in text.split(",")), start=1):
        try:
            key = base64.b64decode(entry.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if len(key) != _KEY_BYTES:
            raise ValueError(f"key {number} must be 32 random bytes in base64: openssl rand -base64 32")
        if key in keys:
            raise ValueError(f"key {number} is there twice")
        keys.append(key)
    return SecretKeys(tuple(keys))


@dataclass(frozen=True)
class Paths:
    """Files."""

    paths: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return ",".join(str(path) for path in self.paths)


def parse_paths(text: str) -> Paths:
    """Names of files with commas between them."""
    return Paths(tuple(Path(name) for name in split_list(text)))


def _from_text(parse: object) -> BeforeValidator:
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) and callable(parse) else value)


class KeySettings(Group):
    """Keys of the service."""

    signing: Annotated[
        Paths,
        _from_text(parse_paths),
        Variable(
            name="A2A_SIGNING_KEYS",
            default="none: nothing is signed",
            doc="Files of private keys (PEM or JWK; P-256, RSA or Ed25519) with commas between them. Each signs the "
            "cards, the first one signs webhooks; all are published under /.well-known/jwks.json.",
        ),
    ] = Paths()
    encryption: Annotated[
        SecretKeys,
        _from_text(parse_secret_keys),
        Variable(
            name="A2A_ENCRYPTION_KEYS",
            secret=True,
            default="none: webhooks are stored as they come",
            doc="Keys of 32 bytes in base64, with commas between them, that encrypt webhooks and their credentials in "
            "the store. The first one encrypts, all of them decrypt.",
        ),
    ] = SecretKeys()


class PushSettings(Group):
    """Webhooks."""

    enabled: Annotated[
        bool,
        Variable(
            name="A2A_PUSH",
            doc="Whether tasks may have webhooks (push notifications). The card of an agent may switch them off too.",
        ),
    ] = True
    allow: Annotated[
        Allowed,
        _from_text(parse_allowed),
        Variable(
            name="A2A_PUSH_ALLOW",
            default="none: the public internet only",
            doc="What webhooks may reach besides the public internet: hosts, `*.` domains and networks with commas "
            "between them. `localhost` stands for this machine.",
        ),
    ] = Allowed()
    http: Annotated[
        bool,
        Variable(
            name="A2A_PUSH_ALLOW_HTTP",
            doc="Whether webhooks may be http:// as well. Their credentials then travel in plain.",
        ),
    ] = False
    timeout: Annotated[
        PositiveSeconds,
        Field(le=60),
        Variable(name="A2A_PUSH_TIMEOUT", unit="seconds", doc="A webhook has so long to answer a request."),
    ] = 15
    attempts: Annotated[
        int,
        Field(ge=1, le=1000),
        Variable(
            name="A2A_PUSH_ATTEMPTS",
            doc="How often an event is sent to a webhook that does not take it, before the webhook is given up.",
        ),
    ] = 15
    give_up: Annotated[
        PositiveSeconds,
        Field(le=30 * DAY),
        Variable(
            name="A2A_PUSH_GIVE_UP",
            unit="seconds",
            doc="A webhook that did not take an event for so long is given up, whatever attempts are left.",
        ),
    ] = DAY
    backoff: Annotated[
        PositiveSeconds,
        Field(le=3600),
        Variable(
            name="A2A_PUSH_BACKOFF",
            unit="seconds",
            doc="The pause before the second attempt. It doubles with each further one.",
        ),
    ] = 1
    backoff_max: Annotated[
        PositiveSeconds,
        Field(le=DAY),
        Variable(
            name="A2A_PUSH_BACKOFF_MAX",
            unit="seconds",
            doc="The longest pause between two attempts, unless the webhook asks for more (Retry-After, to an hour).",
        ),
    ] = 300
    concurrency: Annotated[
        int,
        Field(ge=1, le=10_000),
        Variable(name="A2A_PUSH_CONCURRENCY", doc="Webhooks that this process sends to at the same time."),
    ] = 100
    per_host: Annotated[
        int,
        Field(ge=1, le=10_000),
        Variable(
            name="A2A_PUSH_PER_HOST",
            doc="How many of these may be at one host; a fifth of that until it has taken an event, and after a "
            "failure.",
        ),
    ] = 10
    max_configs: Annotated[
        int,
        Field(ge=1, le=1000),
        Variable(name="A2A_PUSH_MAX_CONFIGS", doc="Webhooks that one task may have."),
    ] = 100
