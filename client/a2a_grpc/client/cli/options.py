"""The options that commands share, each with its name, its meaning and what it is by default."""

import argparse
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from a2a_grpc.client.cli.failures import USAGE, CommandError
from a2a_grpc.client.cli.settings import SECRET_OPTIONS, Settings, Value, variable
from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.client.options import parameters
from a2a_grpc.client.shell import seconds
from a2a_grpc.wire.errors import InvalidArgumentError, excerpt
from a2a_grpc.wire.headers import SUPPORTED_VERSION

_UNITS: Final = {"": 1.0, "s": 1.0, "ms": 0.001, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"([0-9.eE+]+)(ms|s|m|h|)")


def text(value: str) -> str:
    """Any text but none."""
    if not value:
        raise argparse.ArgumentTypeError("it must not be empty")
    return value


def duration(value: str) -> float:
    """A time in seconds: 90, 1.5s, 200ms, 2m, 1h. Raises ArgumentTypeError."""
    found = _DURATION.fullmatch(value)
    number = found[1] if found else ""
    try:
        return seconds(repr(float(number) * _UNITS[found[2]] if found else ""))
    except ValueError:
        return seconds("")


def service_parameter(value: str) -> tuple[str, str]:
    """A service parameter, `key:value`. Raises ArgumentTypeError, without the value: it may be a secret."""
    key, colon, said = value.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError("a service parameter is KEY:VALUE")
    try:
        parameters({key: said}, ())
    except InvalidArgumentError as error:
        raise argparse.ArgumentTypeError(error.message) from error
    return key.strip().lower(), said.strip()


def binding(value: str) -> str:
    """A binding by its name in a card. Raises ArgumentTypeError."""
    if value.upper() not in BINDINGS:
        raise argparse.ArgumentTypeError(f"{excerpt(value, 32)!r} is none of {', '.join(BINDINGS)}")
    return value.upper()


def version(value: str) -> str:
    """A version of the protocol. Raises ArgumentTypeError."""
    if not re.fullmatch(r"[0-9]{1,4}\.[0-9]{1,4}", value):
        raise argparse.ArgumentTypeError("a version is MAJOR.MINOR, such as 1.0")
    return value


def metadata(value: str) -> dict[str, Any]:
    """A JSON object. Raises ArgumentTypeError."""
    try:
        found = json.loads(value)
        json.dumps(found, allow_nan=False)  # NaN and 1e400 are no JSON
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("metadata is a JSON object")
    return found


def boolean(value: str) -> bool:
    """A switch in the environment or in a file. Raises ArgumentTypeError."""
    if value.lower() in ("1", "true", "yes", "on"):
        return True
    if value.lower() in ("", "0", "false", "no", "off"):
        return False
    raise argparse.ArgumentTypeError("it is true or false")


def output(value: str) -> str:
    """A form of output. Raises ArgumentTypeError."""
    if value not in ("text", "json"):
        raise argparse.ArgumentTypeError(f"{excerpt(value, 32)!r} is none of text, json")
    return value


def count(value: str) -> int:
    """A whole number from 0 on. Raises ArgumentTypeError."""
    if not value.isascii() or not value.isdigit() or int(value) >= 2**31:
        raise argparse.ArgumentTypeError("it is a whole number from 0 on")
    return int(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """An option that flags, the environment and files may set."""

    name: str
    help: str
    read: Callable[[str], Any] = text
    metavar: str | None = None
    default: Any = None
    shown: str = ""
    """How the default is put into words where its value does not say it."""
    short: str | None = None
    repeatable: bool = False
    configurable: bool = True
    """Whether the environment and files may set it."""

    @property
    def dest(self) -> str:
        """Its name in a Namespace."""
        return self.name.replace("-", "_")

    @property
    def secret(self) -> bool:
        """Whether nobody may see its value."""
        return self.name in SECRET_OPTIONS

    @property
    def switch(self) -> bool:
        """Whether it takes no value."""
        return self.read is boolean


_ALL: Final = (
    Option(
        name="agent-card",
        short="-a",
        metavar="REF",
        help="the agent: a host, the URL of its base or of its card, the file of its card, registry:ID, or grpc://host:port",
        shown="none",
    ),
    Option(
        name="registry",
        metavar="URL",
        help="the registry in which agents are searched, and registry:ID is looked up",
        shown="none",
    ),
    Option(
        name="registry-bearer",
        metavar="TOKEN",
        help="a bearer token for the registry; see --bearer",
        shown="none",
    ),
    Option(
        name="registry-api-key",
        metavar="KEY",
        help="an API key for the registry; see --api-key",
        shown="none",
    ),
    Option(name="output", short="-o", metavar="text|json", read=output, default="text", help="the form of the output"),
    Option(
        name="stream",
        read=boolean,
        configurable=False,
        default=False,
        shown="off",
        help="print what happens as it happens; with -o json one event a line",
    ),
    Option(
        name="async",
        read=boolean,
        default=False,
        shown="off: wait",
        help="print the task as it is now instead of waiting",
    ),
    Option(
        name="wait", read=boolean, default=False, shown="off", help="wait until the task ends or waits for the caller"
    ),
    Option(
        name="timeout",
        metavar="TIME",
        read=duration,
        help="give up after this time (90, 1.5s, 200ms, 2m, 1h)",
        shown="never",
    ),
    Option(
        name="poll-interval",
        metavar="TIME",
        read=duration,
        default=2.0,
        shown="2s",
        help="the first pause between two looks at a task; later ones grow up to five times that",
    ),
    Option(name="context-id", metavar="ID", help="the context that the message belongs to", shown="a new one"),
    Option(name="task-id", metavar="ID", help="the task that the message continues", shown="a new one"),
    Option(
        name="metadata",
        metavar="JSON",
        read=metadata,
        help="metadata of the request, a JSON object",
        shown="none",
    ),
    Option(
        name="history",
        metavar="N",
        read=count,
        help="so many of the last messages of the task",
        shown="as the agent likes",
    ),
    Option(
        name="transport",
        metavar="BINDING",
        read=binding,
        repeatable=True,
        help=f"use this binding ({', '.join(BINDINGS)}), the first of several that the agent has; repeatable",
        shown="as the card prefers",
    ),
    Option(
        name="a2a-version",
        metavar="VERSION",
        read=version,
        default=SUPPORTED_VERSION,
        help="the version of the protocol that requests ask for",
    ),
    Option(
        name="bearer",
        metavar="TOKEN",
        help="a bearer token; on the command line other users may see it, so prefer the variable",
        shown="none",
    ),
    Option(
        name="api-key",
        metavar="KEY",
        help="an API key; on the command line other users may see it, so prefer the variable",
        shown="none",
    ),
    Option(
        name="client-id",
        metavar="ID",
        help="the client as which the authorization server knows this program",
        shown="none",
    ),
    Option(
        name="client-secret",
        metavar="SECRET",
        help="the secret of --client-id, where it has one; prefer the variable, as for --bearer",
        shown="none",
    ),
    Option(name="scope", metavar="SCOPE", repeatable=True, help="a scope of the token; repeatable", shown="the card's"),
    Option(name="client-cert", metavar="FILE", read=Path, help="the certificate (PEM) for mutual TLS", shown="none"),
    Option(
        name="client-key",
        metavar="FILE",
        read=Path,
        help="the key (PEM) of --client-cert",
        shown="in the file of the certificate",
    ),
    Option(
        name="svc-param",
        metavar="KEY:VALUE",
        read=service_parameter,
        repeatable=True,
        help="a service parameter, sent as a header or as gRPC metadata; repeatable",
        shown="none",
    ),
    Option(
        name="extension",
        metavar="URI",
        repeatable=True,
        help="an extension of the protocol to ask for; repeatable",
        shown="none",
    ),
    Option(
        name="allow-origin",
        metavar="ORIGIN",
        repeatable=True,
        help="another host that a fetched card may name: HOST, HOST:PORT, SCHEME://HOST, or * for any; repeatable",
        shown="that of the card, over TLS",
    ),
    Option(
        name="ca-file",
        metavar="FILE",
        read=Path,
        help="trust these certificates (PEM) instead of the public ones",
        shown="the public ones",
    ),
    Option(
        name="insecure",
        read=boolean,
        default=False,
        shown="off: TLS certificates are verified",
        help="do not verify TLS certificates; for development only",
    ),
    Option(name="verbose", read=boolean, default=False, shown="off", help="show everything that was exchanged"),
    Option(
        name="debug",
        read=boolean,
        default=False,
        shown="off",
        help="log calls and messages to stderr, without credentials",
    ),
)

OPTIONS: Final = {option.name: option for option in _ALL}

OUTPUT: Final = ("output", "stream", "verbose", "debug")
REGISTRY: Final = ("registry", "registry-bearer", "registry-api-key")
AGENT: Final = (
    "agent-card",
    *REGISTRY,
    *OUTPUT,
    "timeout",
    "transport",
    "a2a-version",
    "bearer",
    "api-key",
    "client-secret",
    "client-cert",
    "client-key",
    "svc-param",
    "extension",
    "allow-origin",
    "ca-file",
    "insecure",
)
"""The options of every command that calls an agent."""


def add(parser: argparse.ArgumentParser, names: Sequence[str], settings: Settings) -> None:
    """Give a parser these options, and `--config`; its help says what is in effect without a flag."""
    for name in names:
        option = OPTIONS[name]
        flags = [*([option.short] if option.short else []), f"--{name}"]
        said = f"{option.help} (default: {_effective(option, settings)})".replace("%", "%%")
        if option.switch:
            parser.add_argument(*flags, dest=option.dest, action="store_const", const=True, default=None, help=said)
        else:
            parser.add_argument(
                *flags,
                dest=option.dest,
                action="append" if option.repeatable else "store",
                type=option.read,
                metavar=option.metavar,
                default=None,
                help=said,
            )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="settings in place of the .env file of the working directory (default: none)",
    )
    parser.set_defaults(options=tuple(names))


def resolve(args: argparse.Namespace, settings: Settings) -> None:
    """Fill in what no flag has said; `args.flags` names the rest. Raises CommandError for a setting without meaning."""
    args.flags = {OPTIONS[name].dest for name in args.options if getattr(args, OPTIONS[name].dest) is not None}
    for name in args.options:
        option = OPTIONS[name]
        if getattr(args, option.dest) is None:
            setattr(args, option.dest, value_of(option, settings))


def value_of(option: Option, settings: Settings) -> Any:
    """What an option is without a flag. Raises CommandError."""
    found = settings.get(option.name) if option.configurable else None
    if found is None:
        return [] if option.repeatable else option.default
    try:
        if option.repeatable:
            return [option.read(item.strip()) for item in found.text.split(",") if item.strip()]
        return option.read(found.text)
    except (argparse.ArgumentTypeError, ValueError) as error:
        raise CommandError(USAGE, f"{variable(option.name)} ({found.source}): {error}.") from error


def _effective(option: Option, settings: Settings) -> str:
    found = settings.get(option.name) if option.configurable else None
    if found is not None:
        return f"{shown(option, found)}, from {found.source}"
    return option.shown or str(option.default)


def shown(option: Option, found: Value) -> str:
    """A setting as it may be read by anybody."""
    return "(hidden)" if option.secret else excerpt(found.text, 128)
