"""Connections to where callers say: names are looked up, each address is checked, a checked one is connected to."""

import asyncio
import socket
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpcore

from a2a_grpc.server.push.allowed import Address
from a2a_grpc.server.push.destinations import Destinations, addresses

# Addresses of one host that are tried, and seconds for each where there are others.
_TRIES = 3
_EACH = 5.0
# Look-ups have threads of their own: those of agents may all be busy. A name server that does not answer keeps one for
# longer than a request may take, so there are more of them than requests.
_THREADS_EACH = 2
_THREAD_NAME = "a2a-worker-lookup"


class CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Opens connections to where `destinations` allows it, and nowhere else."""

    def __init__(self, destinations: Destinations, *, connections: int) -> None:
        """`connections` is how many are opened at the same time."""
        self._destinations = destinations
        self._inner = httpcore.AnyIOBackend()
        self._threads = ThreadPoolExecutor(_THREADS_EACH * connections, thread_name_prefix=_THREAD_NAME)
        self._under_way: dict[str, asyncio.Future[list[Any]]] = {}
        """The look-ups by the name: who wants to know the same waits for the same answer, and one thread."""

    def pool(self, trust: ssl.SSLContext, *, keep: int, keep_for: float | None = None) -> httpcore.AsyncConnectionPool:
        """Connections by this way, of which `keep` stay open for `keep_for` seconds after their requests.

        They are not bounded: who is canceled while it waits for a connection of a pool may leave one behind that nobody
        uses and nobody closes, until there are no others. Whoever makes requests bounds them.
        """
        return httpcore.AsyncConnectionPool(
            ssl_context=trust,
            max_connections=None,
            max_keepalive_connections=keep,
            keepalive_expiry=keep_for,
            network_backend=self,
        )

    def close(self) -> None:
        """Give up look-ups that still run."""
        self._threads.shutdown(wait=False, cancel_futures=True)

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
        under_way = self._under_way.get(host)
        if under_way is None:
            under_way = self._under_way[host] = asyncio.get_running_loop().run_in_executor(
                self._threads, lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            )
            under_way.add_done_callback(lambda done: self._looked_up(host, done))
        try:
            # One who gives up waiting does not take the answer from others.
            found = await asyncio.shield(under_way)
        except OSError as error:
            raise httpcore.ConnectError(f"the name cannot be resolved: {error.strerror or error}") from error
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    def _looked_up(self, host: str, done: asyncio.Future[list[Any]]) -> None:
        del self._under_way[host]
        if not done.cancelled():
            done.exception()  # Nobody may be left to see it.


def trusting() -> ssl.SSLContext:
    """The certificates that this machine trusts (SSL_CERT_FILE, SSL_CERT_DIR), else those that httpx comes with."""
    import httpx  # noqa: PLC0415 - takes as long to import as a tenth of the service

    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
