"""The shapes of ASGI 3, as far as the bindings use them."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

Header = tuple[bytes, bytes]
"""One response header: the name in lower case, the value as it goes over the wire."""
