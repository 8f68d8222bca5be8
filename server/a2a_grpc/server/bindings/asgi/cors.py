"""Cross-origin access for agents and user interfaces that run in a browser."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from a2a_grpc.server.bindings.asgi.types import Header

_EXPOSED = b"a2a-extensions, etag, last-event-id, retry-after, www-authenticate, x-request-id"
_ALLOWED = b"a2a-extensions, a2a-version, accept, authorization, content-type, last-event-id, x-request-id"
_HEADER_NAMES = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1024}")
_VARY: Header = (b"vary", b"origin")


@dataclass(frozen=True, slots=True)
class Cors:
    """Which origins may read the answers: "*" for all, or exact origins; empty for none.

    Credentials in the sense of CORS (cookies) are never allowed: A2A's travel in headers that a page sets itself.
    """

    origins: tuple[str, ...] = ("*",)
    max_age: int = 600
    """Seconds for which a browser may remember a preflight."""
    _for_all: list[Header] = field(
        init=False,
        repr=False,
        default_factory=lambda: [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", _EXPOSED)],
    )

    def headers(self, origin: str | None) -> list[Header]:
        """The headers of a response to a request from `origin`; a request without one needs none."""
        if origin is None:
            return []
        return self.public_headers(origin)

    def public_headers(self, origin: str | None) -> list[Header]:
        """The same for a response that shared caches keep: it must fit every request that it may be served to."""
        if "*" in self.origins:
            return self._for_all
        if not self.origins:
            return []
        if origin not in self.origins:
            return [_VARY]
        return [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", _EXPOSED),
            _VARY,
        ]

    def preflight(self, verbs: Iterable[str], asked: str | None) -> list[Header]:
        """What OPTIONS answers beside `headers`: the verbs of the resource, and the request headers `asked` for.

        Which headers a caller needs depends on its authentication scheme, so whatever is asked for is allowed.
        """
        if not self.origins:
            return []
        names = asked.encode("latin-1") if asked and _HEADER_NAMES.fullmatch(asked) else _ALLOWED
        return [
            (b"access-control-allow-methods", ", ".join(verbs).encode()),
            (b"access-control-allow-headers", names),
            (b"access-control-max-age", b"%d" % self.max_age),
            (b"vary", b"access-control-request-headers"),
        ]
