"""Calls to a registry of agents, over gRPC or HTTP."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
import grpc.aio
import httpx
from google.protobuf.message import Message
from google.rpc import status_pb2

from a2a_grpc.registry.v1 import registry_pb2, registry_pb2_grpc
from a2a_grpc.server.bindings.upstream.failure import details_of
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import A2AError, UnavailableError, from_error_body, from_status
from a2a_grpc.wire.headers import MEDIA_TYPE_JSON
from a2a_grpc.wire.rules import Rules

_TIMEOUT: Final = 5.0
_MAX_BYTES: Final = 4 * 1024 * 1024
_RULES: Final = Rules(registry_pb2.DESCRIPTOR.services_by_name["RegistryService"])
_AWAY: Final = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED})


class RegistryCaller(Protocol):
    """A remote registry. Must be made on the event loop that uses it."""

    async def __call__(self, method: str, request: Message) -> Any:
        """The answer to an operation, within a few seconds. Raises: A2AError."""

    async def close(self) -> None:
        """Disconnect."""


def registry_caller(url: str, header: tuple[str, str] | None, ca_file: Path | None) -> RegistryCaller:
    """A caller for `url`: http, https, grpc or grpcs. `header` goes with each call, its name in lower case.

    Raises: ValueError where `ca_file` (PEM) cannot be used.
    """
    scheme, _, rest = url.partition("://")
    try:
        if scheme in ("grpc", "grpcs"):
            authorities = ca_file.read_bytes() if ca_file else None
            return _OverGrpc(rest.rstrip("/"), authorities, header, tls=scheme == "grpcs")
        return _OverHttp(url, ssl.create_default_context(cafile=ca_file) if ca_file else None, header)
    except OSError as error:
        raise ValueError(f"A2A_REGISTER_CA_FILE: {ca_file} cannot be used: {error.strerror or error}") from None


class _OverGrpc:
    def __init__(self, target: str, authorities: bytes | None, header: tuple[str, str] | None, *, tls: bool) -> None:
        self._metadata = (header,) if header else ()
        options = (
            ("grpc.max_reconnect_backoff_ms", 2_000),
            ("grpc.use_local_subchannel_pool", 1),
            # A registry that vanished, or moved, must be looked for anew while the old connection still seems to stand.
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.keepalive_timeout_ms", 5_000),
            ("grpc.http2.ping_timeout_ms", 5_000),  # the one that counts; a minute by default
            ("grpc.keepalive_permit_without_calls", 1),
        )
        if tls:
            self._channel = grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(authorities), options)
        else:
            self._channel = grpc.aio.insecure_channel(target, options)
        self._stub = registry_pb2_grpc.RegistryServiceStub(self._channel)

    async def __call__(self, method: str, request: Message) -> Any:
        call: Callable[..., Any] = getattr(self._stub, method)
        try:
            return await call(request, timeout=_TIMEOUT, metadata=self._metadata)
        except grpc.aio.AioRpcError as error:
            if (status := details_of(error)) is not None:
                raise from_status(status) from error
            if error.code() in _AWAY:
                raise _unreached() from error
            raise from_status(status_pb2.Status(code=error.code().value[0], message=error.details() or "")) from error

    async def close(self) -> None:
        await self._channel.close()


class _OverHttp:
    def __init__(self, url: str, trust: ssl.SSLContext | None, header: tuple[str, str] | None) -> None:
        self._base = url
        self._client = httpx.AsyncClient(
            headers=dict([header] if header else []), timeout=_TIMEOUT, verify=trust or httpx.create_ssl_context()
        )

    async def __call__(self, method: str, request: Message) -> Any:
        call = _RULES.to_http(method, request)
        try:
            async with (
                asyncio.timeout(_TIMEOUT),
                self._client.stream(
                    call.verb,
                    self._base + call.path,
                    params=list(call.query),
                    content=call.body,
                    # Compressed, a little could be without end.
                    headers={"accept-encoding": "identity"}
                    | ({"content-type": MEDIA_TYPE_JSON} if call.body is not None else {}),
                ) as response,
            ):
                body = bytearray()
                async for chunk in response.aiter_raw():
                    body += chunk
                    if len(body) > _MAX_BYTES:
                        raise UnavailableError(f"it answered with more than {_MAX_BYTES} bytes")
        except (httpx.TransportError, TimeoutError) as error:
            raise _unreached() from error
        if not response.is_success:
            raise from_error_body(response.status_code, _parsed(bytes(body)))
        return protojson.loads(bytes(body), _RULES.operations[method].response)

    async def close(self) -> None:
        await self._client.aclose()


def _parsed(body: bytes) -> object:
    try:
        return protojson.parse(body)
    except A2AError:
        return None  # a proxy's page, for instance


def _unreached() -> UnavailableError:
    return UnavailableError("it cannot be reached")
