"""`a2a-grpc gateway` in a process of its own."""

import sys
from collections.abc import Mapping

from tests.support.replica import Replica


class Gateway(Replica):
    """The gateway alone, in front of `upstream`; it counts as ready when it says so itself."""

    def __init__(self, upstream: str, env: Mapping[str, str] | None = None) -> None:
        super().__init__(agent=None, redis_url=None, env=env or {})
        self._upstream = upstream

    def command(self) -> list[str]:
        return [sys.executable, "-m", "a2a_grpc.server", "gateway", "--upstream", self._upstream]
