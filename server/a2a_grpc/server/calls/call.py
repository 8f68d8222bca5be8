"""One call, as far as its binding can tell."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.auth.gate import Gate
from a2a_grpc.server.auth.principal import Principal
from a2a_grpc.server.telemetry.tracing import Span

_NO_CREDENTIALS = Credentials()


@dataclass(slots=True, kw_only=True)
class Call:
    """What came with a request besides its message, and what goes back besides the response."""

    method: str
    """Name of the operation in the proto, such as "SendMessage"; "" while it cannot be seen yet."""

    binding: str
    """One of the card's protocolBinding values (4.4.6): "GRPC", "HTTP+JSON" or "JSONRPC"."""

    parameters: Mapping[str, str]
    """Request headers or gRPC metadata (3.2.6). Names are lower-case; repeated values are joined with ","."""

    credentials: Credentials = _NO_CREDENTIALS

    peer: str = ""
    """Network address of the caller as "host:port", empty when the transport has none."""

    timeout: float | None = None
    """Seconds that the caller waits from the start of the call on; None = no limit."""

    admitted: tuple[Gate, Principal] | None = None
    """Who calls, by which gate, where that was asked before the request was read."""

    span: Span | None = None
    """What of a trace the call is. Set by the step `Tracing`."""

    recorded: bool = False
    """It is on record what became of it."""

    response_parameters: dict[str, str] = field(default_factory=dict)
    """What the pipeline wants to send as headers or metadata, names in lower case. Complete before the first event."""
