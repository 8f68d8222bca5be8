"""How to connect: what every transport of one client shares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from a2a_grpc.client.lists import listed
from a2a_grpc.wire.errors import InvalidArgumentError
from a2a_grpc.wire.headers import A2A_EXTENSIONS, A2A_VERSION, SUPPORTED_VERSION, format_extensions

if TYPE_CHECKING:
    from a2a_grpc.client.transports.observed import Observer


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Seconds, bytes, and the parameters that go with every call, their names in lower case."""

    parameters: Mapping[str, str] = field(repr=False)  # may hold credentials
    connect_timeout: float
    keepalive: float | None
    ca_file: Path | None
    idle_timeout: float | None = None
    certificate: tuple[Path, Path] | None = None
    """PEM files of the client's own certificate and its key."""
    verify: bool = True
    """Whether the certificates of servers are verified."""
    observer: "Observer | None" = None
    # The service refuses messages above 4 MiB, but a Task or a page of Tasks holds many of them.
    max_receive_bytes: int = 64 * 1024 * 1024


def parameters(headers: Mapping[str, str], extensions: Sequence[str]) -> dict[str, str]:
    """Service parameters (specification 3.2.6) and the caller's own headers, which win.

    Raises InvalidArgumentError for a header that not both HTTP and gRPC can carry; its value, often a secret, is not
    shown.
    """
    merged = {A2A_VERSION: SUPPORTED_VERSION}
    if extensions:
        merged[A2A_EXTENSIONS] = format_extensions(listed(extensions))
    for name, value in headers.items():
        key = header_name(name)
        if not value.isascii() or not value.isprintable():
            raise InvalidArgumentError(f"The value of the header {key} must be printable ASCII text.")
        merged[key] = value.strip()
    return merged


def header_name(name: str) -> str:
    """The name in lower case. Raises InvalidArgumentError for one that not both HTTP and gRPC can carry."""
    key = name.strip().lower()
    if not key or not key.isascii() or not key.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise InvalidArgumentError(f"{name!r} cannot be the name of a header.")
    if key.startswith("grpc-") or key.endswith("-bin"):
        raise InvalidArgumentError(f"The header name {key} is reserved by gRPC.")
    return key
