"""grpc.health.v1, driven by the readiness of the process.

| service                       | SERVING                          | for                                  |
|-------------------------------|----------------------------------|--------------------------------------|
| "", and each service served   | while the process is ready       | load balancers, readiness probes     |
| "liveness"                    | as long as the process answers   | liveness probes                      |

Liveness asks nothing of the store: an outage of the store must not restart every replica with all their running turns.
"""

# ruff: noqa: N802  # the proto names the methods

import asyncio
import math
from collections.abc import AsyncGenerator, Iterable
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthServicer

from a2a_grpc.server.core.readiness import Readiness
from a2a_grpc.wire.errors import UnavailableError

LIVENESS: Final = "liveness"

_Request = health_pb2.HealthCheckRequest
_Response = health_pb2.HealthCheckResponse


class Health(HealthServicer):
    """Check and Watch.

    The servicer of grpcio-health-checking is not used: it forgets all watchers of a service when one of them leaves.
    """

    def __init__(self, readiness: Readiness, services: Iterable[str]) -> None:
        self._ready = False
        self._told = -math.inf
        """When the news came that this process is not ready, by the loop's clock."""
        self._closed = False
        self._services = frozenset(services) | {""}
        self._watchers: set[asyncio.Event] = set()
        self._unsubscribe = readiness.subscribe(self._changed)

    def retire(self) -> None:
        """From now on nothing is ready, whatever the readiness says."""
        self._unsubscribe()
        self._changed(ready=False)

    def told_for(self) -> float:
        """For how many seconds everybody who watches has known that nothing is ready."""
        return asyncio.get_running_loop().time() - self._told if self._watchers else math.inf

    def close(self) -> None:
        """Let the watchers go, who would hold up the server's stop."""
        self.retire()
        self._closed = True
        self._changed(ready=False)

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> _Response:
        status = self._status(request.service)
        if status == _Response.SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "The service is not known to this server.")
        return _Response(status=status)

    async def Watch(
        self,
        request: _Request,
        context: grpc.aio.ServicerContext[Any, Any],  # noqa: ARG002
    ) -> AsyncGenerator[_Response, None]:
        changed = asyncio.Event()
        self._watchers.add(changed)
        try:
            last: int | None = None
            while True:
                changed.clear()
                status = self._status(request.service)
                if status != last:
                    last = status
                    yield _Response(status=status)
                elif self._closed:
                    raise UnavailableError("The server is shutting down.", retry_after=1.0)
                else:
                    await changed.wait()
        finally:
            self._watchers.discard(changed)

    def _changed(self, ready: bool) -> None:
        if self._ready and not ready:
            self._told = asyncio.get_running_loop().time()
        self._ready = ready
        for watcher in self._watchers:
            watcher.set()

    def _status(self, service: str) -> int:
        if service == LIVENESS:
            return _Response.SERVING
        if service not in self._services:
            return _Response.SERVICE_UNKNOWN
        return _Response.SERVING if self._ready else _Response.NOT_SERVING
