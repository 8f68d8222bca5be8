"""One call, as far as its binding can tell."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class Call:
    """What came with a request besides its message, and what goes back besides the response."""

    method: str
    """Name of the operation in the proto, such as "SendMessage"."""

    binding: str
    """One of the card's protocolBinding values (4.4.6): "GRPC", "HTTP+JSON" or "JSONRPC"."""

    parameters: Mapping[str, str]
    """Request headers or gRPC metadata (3.2.6). Names are lower-case; repeated values are joined with ","."""

    peer: str = ""
    """Network address of the caller as "host:port", empty when the transport has none."""

    timeout: float | None = None
    """Seconds that the caller waits from the start of the call on; None = no limit."""

    response_parameters: dict[str, str] = field(default_factory=dict)
    """What the pipeline wants to send as headers or metadata, names in lower case. Complete before the first event."""
