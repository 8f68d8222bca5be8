"""Which parameters of a call travel to the upstream, and which come back."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from a2a_grpc.server.core.hop_by_hop import is_of_one_hop
from a2a_grpc.wire.headers import A2A_EXTENSIONS, LAST_EVENT_ID, REQUEST_ID

# What gRPC can carry. A name that ends in "-bin" would be taken for base64.
_NAME: Final = re.compile(r"[0-9a-z_.-]+(?<!-bin)")
_VALUE: Final = re.compile(r"[\x20-\x7e]*")


def forwarded(parameters: Mapping[str, str]) -> dict[str, str]:
    """The parameters that the upstream gets."""
    named = {name.strip().lower() for name in parameters.get("connection", "").split(",")}
    return {
        name: value
        for name, value in parameters.items()
        # All else may mean something to the upstream: any header can be an API key, and tracing has several.
        if not is_of_one_hop(name) and name not in named and passable(name, value)
    }


def passable(name: str, value: str) -> bool:
    """Whether gRPC can carry a parameter as metadata."""
    return _NAME.fullmatch(name) is not None and _VALUE.fullmatch(value) is not None


# What the pipeline of an a2a-grpc leaves for its bindings; the challenge belongs to a refusal for want of credentials.
_COMES_BACK: Final = frozenset({A2A_EXTENSIONS, LAST_EVENT_ID, REQUEST_ID, "www-authenticate"})


def returned(metadata: Iterable[tuple[str, str | bytes]] | None) -> dict[str, str]:
    """The response parameters in metadata of the upstream; what proxies on the way have added is left out."""
    return {name: value for name, value in metadata or () if name in _COMES_BACK and isinstance(value, str)}
