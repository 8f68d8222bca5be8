"""What is exported to a collector. The variables are those that OpenTelemetry gives names to."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal
from urllib.parse import quote, unquote, urlsplit

from pydantic import BeforeValidator, Field

from a2a_grpc.server.settings.source import Group
from a2a_grpc.server.settings.values import HIDDEN, LowerCase, Variable, parse_http_url

_HEADER_NAME = re.compile(r"[a-z0-9_.-]+")
_ATTRIBUTE_NAME = re.compile(r"[!-~]{1,255}")
_PRINTABLE = re.compile(r"[ -~]*")


def _pairs(text: str, what: str) -> dict[str, str]:
    """`NAME=VALUE,…`, with percent-encoding in the values. No message repeats a value."""
    found: dict[str, str] = {}
    for number, pair in enumerate(text.split(","), start=1):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"entry {number} must be NAME=VALUE, with %2C for a comma: {what}")
        found[name.strip()] = unquote(value.strip())
    return found


@dataclass(frozen=True)
class OtlpHeaders:
    """Headers for the collector, with credentials in them."""

    pairs: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return ",".join(f"{name}={HIDDEN}" for name, _ in self.pairs)


def parse_headers(text: str) -> OtlpHeaders:
    """As metadata of gRPC."""
    found = {name.lower(): value for name, value in _pairs(text, "for example api-key=…").items()}
    for name, value in found.items():
        if not _HEADER_NAME.fullmatch(name) or name.startswith("grpc-") or name.endswith("-bin"):
            raise ValueError(f"{name[:64]!r} is no header that gRPC can send")
        if not _PRINTABLE.fullmatch(value):
            raise ValueError(f"the value of {name[:64]} has characters that gRPC cannot send")
    return OtlpHeaders(tuple(found.items()))


@dataclass(frozen=True)
class ResourceAttributes:
    """What is said of this process in everything that is exported."""

    pairs: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return ",".join(f"{name}={quote(value, safe=' /:@')}" for name, value in self.pairs)


def parse_attributes(text: str) -> ResourceAttributes:
    """`NAME=VALUE,…`."""
    found = _pairs(text, "for example deployment.environment.name=staging")
    for name in found:
        if not _ATTRIBUTE_NAME.fullmatch(name):
            raise ValueError(f"{name[:64]!r} is no name of an attribute")
    return ResourceAttributes(tuple(found.items()))


def parse_endpoint(text: str) -> str:
    """A URL, with a port unless that of https is meant: gRPC takes 443 whatever the scheme."""
    url = parse_http_url(text)
    parts = urlsplit(url)
    if parts.scheme == "http" and not parts.port:
        raise ValueError("it must name the port, mostly :4317; without one gRPC takes 443, for plain text too")
    return url


def _from_text(parse: Callable[[str], object]) -> BeforeValidator:
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


Sampler = Literal[
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
]
_OF_PARENT: Final = "parentbased_"
SERVICE_NAME: Final = "a2a-grpc"


class OtlpSettings(Group):
    """Traces and metrics for a collector."""

    disabled: Annotated[
        bool,
        Variable(
            name="OTEL_SDK_DISABLED",
            doc="`true` switches off all of it, and the metrics for Prometheus as well, which the same library counts.",
        ),
    ] = False
    endpoint: Annotated[
        str | None,
        _from_text(parse_endpoint),
        Variable(
            name="OTEL_EXPORTER_OTLP_ENDPOINT",
            default="none: nothing is exported",
            doc="Where an OpenTelemetry collector takes OTLP over gRPC, such as `http://localhost:4317`; https:// for "
            "TLS, which may leave out the port 443. Traces and metrics go there.",
        ),
    ] = None
    protocol: Annotated[
        Literal["grpc"],
        LowerCase,
        Variable(
            name="OTEL_EXPORTER_OTLP_PROTOCOL", expects="grpc", doc="How to speak to it. The only value is `grpc`."
        ),
    ] = "grpc"
    headers: Annotated[
        OtlpHeaders,
        _from_text(parse_headers),
        Variable(
            name="OTEL_EXPORTER_OTLP_HEADERS",
            secret=True,
            default="none",
            doc="What to send along as metadata, `NAME=VALUE` with commas between them: credentials, mostly.",
        ),
    ] = OtlpHeaders()
    service_name: Annotated[
        str | None,
        Field(max_length=255),
        Variable(
            name="OTEL_SERVICE_NAME",
            default=f"service.name of OTEL_RESOURCE_ATTRIBUTES, or {SERVICE_NAME}",
            doc="The name of this service in what is exported.",
        ),
    ] = None
    resource_attributes: Annotated[
        ResourceAttributes,
        _from_text(parse_attributes),
        Variable(
            name="OTEL_RESOURCE_ATTRIBUTES",
            default="none",
            doc="What else to say of this process, `NAME=VALUE` with commas between them.",
        ),
    ] = ResourceAttributes()
    sampler: Annotated[
        Sampler,
        LowerCase,
        Variable(
            name="OTEL_TRACES_SAMPLER",
            doc="Which traces are recorded. With `parentbased_…` it is those that the caller records; the rest is for "
            "calls that come without a trace.",
        ),
    ] = "parentbased_traceidratio"
    sampler_arg: Annotated[
        float,
        Field(ge=0, le=1, allow_inf_nan=False),
        Variable(name="OTEL_TRACES_SAMPLER_ARG", doc="The share of traces that `…traceidratio` records, from 0 to 1."),
    ] = 0.05
    metric_interval: Annotated[
        int,
        Field(ge=100, le=86_400_000),
        Variable(
            name="OTEL_METRIC_EXPORT_INTERVAL",
            unit="milliseconds",
            doc="How often the metrics are sent to the collector.",
        ),
    ] = 60_000

    @property
    def by_parent(self) -> bool:
        """The caller of a trace decides whether it is recorded."""
        return self.sampler.startswith(_OF_PARENT)

    @property
    def ratio(self) -> float:
        """The share of traces that are recorded otherwise."""
        match self.sampler.removeprefix(_OF_PARENT):
            case "always_on":
                return 1.0
            case "always_off":
                return 0.0
        return self.sampler_arg

    @property
    def attributes(self) -> Mapping[str, str]:
        """What is said of this process, its service's name included."""
        given = dict(self.resource_attributes.pairs)
        return {**given, "service.name": self.service_name or given.get("service.name") or SERVICE_NAME}
