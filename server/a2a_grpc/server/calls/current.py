"""What the steps of the pipeline know and find out about one call."""

import asyncio
from dataclasses import dataclass, field

from google.protobuf.message import Message

from a2a_grpc.server.auth.principal import ANONYMOUS, Principal
from a2a_grpc.server.calls.call import Call


@dataclass(slots=True, kw_only=True)
class Current:
    """One call on its way through the pipeline. Steps fill in what those after them rely on."""

    call: Call
    request: Message
    streaming: bool
    request_id: str = ""
    begun: float = 0.0
    """When the call came, by time.perf_counter()."""
    deadline: asyncio.Timeout | None = None
    principal: Principal = field(default=ANONYMOUS)
    extensions: tuple[str, ...] = ()
    last_event_id: int | None = None
    """Where a stream is to go on; None where the caller does not say."""
