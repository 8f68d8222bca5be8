"""The HTTP connections of a client, and what their failures mean."""

import asyncio
import functools
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final

import httpx

from a2a_grpc.client.bodies import ACCEPTED, chunks
from a2a_grpc.client.credentials.base import NO_ACCESS, Access
from a2a_grpc.client.errors import NotConnectedError
from a2a_grpc.client.options import Options
from a2a_grpc.wire.errors import InvalidAgentResponseError, InvalidArgumentError, UnavailableError, excerpt

# uvicorn and others close an idle connection after 5 s. Letting go of it first avoids a request on a dying connection.
_IDLE_SECONDS = 4.0


class Pool:
    """Connections without limits on time or number: a stream holds one for as long as its task runs.

    Redirects are not followed, since the headers may hold credentials that are for one host only.
    """

    def __init__(self, options: Options) -> None:
        self._max_bytes = options.max_receive_bytes
        self._client = httpx.AsyncClient(
            headers={"user-agent": "a2a-grpc", "accept-encoding": ACCEPTED, **options.parameters},
            # Of no use to A2A, and whatever an agent sets would be sent along for ever.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            timeout=httpx.Timeout(None, connect=options.connect_timeout),
            limits=httpx.Limits(max_connections=None, keepalive_expiry=_IDLE_SECONDS),
            verify=_trust(options),
        )

    @asynccontextmanager
    async def exchange(
        self,
        verb: str,
        url: str,
        *,
        headers: Mapping[str, str],
        content: bytes | None = None,
        answer_within: float | None = None,
        access: Access = NO_ACCESS,
    ) -> AsyncGenerator[httpx.Response, None]:
        """Send a request; the block reads the response, whatever its status.

        The response has to begin within `answer_within` seconds. Raises, also for what happens in the block:
        NotConnectedError when there was no connection, UnavailableError when it broke, InvalidArgumentError for a URL
        that is none.
        """
        where = excerpt(url.partition("?")[0])
        try:
            headers = {**headers, **access.headers}
            if access.cookies:
                headers["cookie"] = "; ".join(f"{name}={value}" for name, value in access.cookies.items())
            request = self._client.build_request(
                verb, url, headers=headers, content=content, extensions={"trace": _watch}
            )
            if access.query:
                request.url = _QuietURL(request.url.copy_merge_params(dict(access.query)))
            response = await self._answer(request, where, answer_within)
            try:
                yield response
            finally:
                await response.aclose()
        except httpx.ConnectTimeout as error:
            raise NotConnectedError(f"No connection to {where} in time.") from error
        except (httpx.ConnectError, httpx.ProxyError) as error:
            raise NotConnectedError(f"No connection to {where}: {_cause(error)}.") from error
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise InvalidArgumentError(f"{where} is no address to call: {error}") from error
        except httpx.TransportError as error:
            if self._client.is_closed:
                raise UnavailableError("The client was closed.") from error
            raise UnavailableError(f"The connection to {where} broke.") from error

    async def _answer(self, request: httpx.Request, where: str, within: float | None) -> httpx.Response:
        try:
            async with asyncio.timeout(within):
                return await self._client.send(request, stream=True)
        except TimeoutError as error:
            raise UnavailableError(f"No answer from {where} within {within:g} s.") from error

    async def body(self, response: httpx.Response, max_bytes: int = 0) -> bytes:
        """The whole body.

        Raises InvalidAgentResponseError if it is longer than `max_bytes`, or than a client takes, or cannot be
        decompressed.
        """
        limit = max_bytes or self._max_bytes
        body = bytearray()
        async for chunk in chunks(response):
            body += chunk
            if len(body) > limit:
                raise InvalidAgentResponseError(
                    f"The answer of {excerpt(response.url.path)} is longer than {limit} bytes."
                )
        return bytes(body)

    async def aclose(self) -> None:
        await self._client.aclose()


# Silence is no failure while an answer takes long, so the system has to ask whether the other side is still there:
# after 20 s, then four times. Data that nobody acknowledges is given up after the same 40 s.
_WATCHED: Final = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 20),
    (socket.IPPROTO_TCP, "TCP_KEEPALIVE", 20),  # the same on macOS
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 4),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 40_000),
)


async def _watch(event: str, info: Mapping[str, Any]) -> None:
    """Have the system watch each new connection; httpx calls this with all that happens to one."""
    if event != "connection.connect_tcp.complete":
        return
    opened = info["return_value"].get_extra_info("socket")
    # uvloop gives out a socket that refuses options. Those of a copy are those of the connection.
    with socket.socket(fileno=os.dup(opened.fileno())) as copy:
        for level, name, value in _WATCHED:
            option = getattr(socket, name, None)
            if option is not None:
                copy.setsockopt(level, option, value)


class _QuietURL(httpx.URL):
    """A URL with a secret among its parameters: httpx writes the URL of each request into its log."""

    def __str__(self) -> str:
        return str(self.copy_with(query=None))

    __repr__ = __str__


def _trust(options: Options) -> ssl.SSLContext:
    """Whom to believe, and what to show. Raises: InvalidArgumentError."""
    try:
        if options.certificate is None and options.verify:
            return ssl.create_default_context(cafile=options.ca_file) if options.ca_file else _public_trust()
        context = ssl.create_default_context(cafile=options.ca_file) if options.ca_file else httpx.create_ssl_context()
        if not options.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if options.certificate is not None:
            context.load_cert_chain(*options.certificate, password=_no_passphrase)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(f"The certificates cannot be read: {error}.") from error
    return context


def _no_passphrase() -> str:
    """Instead of the question on the terminal that OpenSSL would ask."""
    raise ValueError("the key is encrypted")


def _cause(error: BaseException) -> str:
    """What the system said, at the bottom of what the libraries made of it."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return (error.strerror if isinstance(error, socket.gaierror) else None) or str(error)


@functools.cache
def _public_trust() -> ssl.SSLContext:
    """The public certificate authorities. Loading them takes tens of milliseconds, so that is done once."""
    return httpx.create_ssl_context()
