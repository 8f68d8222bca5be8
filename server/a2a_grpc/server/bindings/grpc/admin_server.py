"""The listener for operators. It asks for no credentials, so only the machine itself may reach it."""

import asyncio
from typing import Final

import grpc
import grpc.aio

from a2a_grpc.admin.v1 import admin_pb2
from a2a_grpc.admin.v1.admin_pb2_grpc import AdminServiceServicer, add_AdminServiceServicer_to_server
from a2a_grpc.server.bindings.grpc.reflection import add_reflection
from a2a_grpc.server.bindings.grpc.registrar import Registrar
from a2a_grpc.server.bindings.grpc.server import listen

ADMIN_SERVICE: Final = admin_pb2.DESCRIPTOR.services_by_name["AdminService"].full_name

# An id, a filter, a page token: no request is longer.
_MAX_REQUEST_BYTES: Final = 65_536
_MAX_NESTING: Final = 32
_LAST_WORDS: Final = 1.0
"""Seconds that calls have, once ended at the end of the grace, to send their status."""


class AdminServer:
    """A gRPC server for AdminService, with reflection. Must be made on the event loop that will serve."""

    def __init__(self, service: AdminServiceServicer, *, addr: str, shared: bool = False) -> None:
        """`addr` is "host:port"; port 0: any free one. `shared`: see `listen`."""
        self._addr = addr
        self._shared = shared
        self._registrar = Registrar(max_message_bytes=_MAX_REQUEST_BYTES, max_nesting=_MAX_NESTING)
        add_AdminServiceServicer_to_server(service, self._registrar.as_server())
        add_reflection([ADMIN_SERVICE], self._registrar)
        self._server = grpc.aio.server(
            handlers=self._registrar.handlers,
            options=(
                ("grpc.max_receive_message_length", 2 * _MAX_REQUEST_BYTES),
                ("grpc.max_send_message_length", -1),  # a task may be larger than the messages that made it
                ("grpc.so_reuseport", int(shared)),
            ),
        )

    async def start(self) -> int:
        """Listen, and return the port. Raises OSError, with the address in its text, when that fails."""
        return await listen(self._server, self._addr, shared=self._shared)

    async def stop(self, grace: float | None) -> None:
        """Refuse new calls, end streams, wait `grace` seconds for the rest, then end it. None: cancel at once."""
        self._registrar.drain(ADMIN_SERVICE)
        stopping = asyncio.create_task(self._server.stop(None if grace is None else grace + _LAST_WORDS))
        await asyncio.wait((stopping,), timeout=grace)
        if not stopping.done():
            self._registrar.end(ADMIN_SERVICE)
        await stopping
