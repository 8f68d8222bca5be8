"""What the steps of the pipeline know and find out about one call."""

import asyncio
from dataclasses import dataclass, field

from google.protobuf.message import Message

from a2a_grpc.server.auth.principal import ANONYMOUS, Principal
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.hosting.hosts import Hosted
from a2a_grpc.server.store.quotas import Ticket


@dataclass(slots=True, kw_only=True)
class Current:
    """One call on its way through the pipeline. Steps fill in what those after them rely on."""

    call: Call
    request: Message | None
    """None where a call is admitted before its request is read."""
    streaming: bool
    tenant: str | None = ""
    """None where only the request would tell, and is not read."""
    hosted: Hosted = field(init=False, repr=False)
    """What serves the tenant. Set by the step `Tenant`, unless the tenant is not known yet."""
    request_id: str = ""
    begun: float = 0.0
    """When the call came, by time.perf_counter()."""
    deadline: asyncio.Timeout | None = None
    principal: Principal = field(default=ANONYMOUS)
    owner: str = ""
    """Whose the caller's tasks are."""
    ticket: Ticket | None = None
    """What the call holds of what is limited."""
    extensions: tuple[str, ...] = ()
    answer: Message | None = None
    """What the operation has answered: its response, or the first of a stream."""
    last_event_id: int | None = None
    """Where a stream is to go on; None where the caller does not say."""
