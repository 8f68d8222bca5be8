"""Connections to webhooks: a name is looked up here, every address is checked, and a checked one is connected to."""

import asyncio
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpcore

from a2a_grpc.server.push.allowed import Address
from a2a_grpc.server.push.destinations import Destinations, addresses

# Addresses of one host that are tried, and seconds for each where there are others.
_TRIES = 3
_EACH = 5.0
# Look-ups have threads of their own: those of agents may all be busy, and a name server may be slow.
_THREADS = 8
_THREAD_NAME = "a2a-worker-lookup"


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections to where `destinations` allows it, and nowhere else."""

    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations
        self._inner = httpcore.AnyIOBackend()
        self._lookups = ThreadPoolExecutor(_THREADS, thread_name_prefix=_THREAD_NAME)

    def close(self) -> None:
        """Give up look-ups that still run."""
        self._lookups.shutdown(wait=False, cancel_futures=True)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect. Raises: RefusedDestinationError if any address of `host` is not allowed; httpcore.ConnectError."""
        found = await self.addresses_of(host, port)
        failure: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in found[:_TRIES]:
            limit = timeout if len(found) == 1 else min(timeout or _EACH, _EACH)
            try:
                return await self._inner.connect_tcp(
                    str(address), port, timeout=limit, local_address=local_address, socket_options=socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def addresses_of(self, host: str, port: int) -> list[Address]:
        """Where `host` is. Raises: RefusedDestinationError if any address is not allowed; httpcore.ConnectError."""
        found = list(addresses(await self._look_up(host, port)))
        for address in found:
            self._destinations.check(host, address)
        return found

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        """No webhook is behind one."""
        raise NotImplementedError

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def _look_up(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(
                self._lookups, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            )
        except OSError as error:
            raise httpcore.ConnectError(f"the name cannot be resolved: {error.strerror or error}") from error
        return list(dict.fromkeys(str(address[0]) for *_, address in found))
