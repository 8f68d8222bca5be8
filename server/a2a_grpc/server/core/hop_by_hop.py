"""Headers that belong to one HTTP connection (RFC 9110, 7.6.1), or describe one HTTP message."""

from typing import Final

_NAMES: Final = frozenset(
    {
        "cache-control",
        "connection",
        "date",
        "expect",
        "host",
        "http2-settings",
        "keep-alive",
        "origin",
        "pragma",
        "range",
        "referer",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "upgrade-insecure-requests",
        "user-agent",
    }
)
_PREFIXES: Final = ("accept", "access-control-", "content-", "grpc-", "if-", "proxy-", "sec-")


def is_of_one_hop(name: str) -> bool:
    """Whether a header means nothing beyond the connection that it came on; `name` in lower case."""
    return name in _NAMES or name.startswith(_PREFIXES)
