"""`a2a-grpc gateway` in a process of its own."""

from collections.abc import Mapping
from pathlib import Path

from tests.support.replica import Replica


class Gateway(Replica):
    """The gateway alone, in front of `upstream`; it counts as ready when it says so itself."""

    def __init__(self, upstream: str, env: Mapping[str, str] | None = None, ca_file: Path | None = None) -> None:
        """With `ca_file` the upstream speaks TLS, and its authority is in there."""
        super().__init__(agent=None, redis_url=None, env=env or {})
        self._options = ["--upstream", upstream, *(["--upstream-ca-file", str(ca_file)] if ca_file else [])]

    def arguments(self) -> list[str]:
        return ["gateway", *self._options]
