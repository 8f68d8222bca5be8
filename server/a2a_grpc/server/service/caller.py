"""Who calls, as far as the operations need to know."""

from dataclasses import dataclass, field

from a2a_grpc.server.auth.principal import ANONYMOUS, Principal
from a2a_grpc.server.store.records import Scope


@dataclass(slots=True, kw_only=True)
class Caller:
    """The caller of one operation: its scope, and what it asked for."""

    scope: Scope
    authenticated: bool
    principal: Principal = field(default=ANONYMOUS, compare=False)
    """Who calls; whose its tasks are is in the scope."""
    extensions: tuple[str, ...]
    """The extensions that are active for this call (4.6)."""
    last_event_id: int | None = None
    """Of a streaming call: the number of the last event that the caller has; 0: none yet. None: it did not say."""
    resumed: bool = False
    """Set by the operation, before its first event, where the stream goes on from `last_event_id`."""
