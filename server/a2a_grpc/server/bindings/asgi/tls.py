"""TLS in front of the HTTP connections."""

import asyncio
from collections.abc import Callable
from typing import Final, cast

from a2a_grpc.server.auth.credentials import PeerCertificate
from a2a_grpc.server.auth.mutual_tls import read_certificate
from a2a_grpc.server.bindings.asgi.types import Header, Scope
from a2a_grpc.server.tls import Certificates

HSTS: Final[Header] = (b"strict-transport-security", b"max-age=31536000")
"""RFC 6797: who has been here over HTTPS comes by nothing else for a year."""

_HANDSHAKE: Final = 10.0
"""Seconds that a handshake may take."""
_GOODBYE: Final = 1.0
"""Seconds that a peer has to answer the end of a connection."""
_CERTIFICATE: Final = "a2a_grpc.certificate"


class TlsDoor(asyncio.Protocol):
    """Shakes hands on one accepted connection and hands it over to the protocol that `inside` makes.

    The certificate is asked for with each connection: a server of asyncio keeps the one that it was started with.
    """

    def __init__(
        self, inside: Callable[[], asyncio.Protocol], certificates: Certificates, doors: "set[TlsDoor]"
    ) -> None:
        """`doors` holds the connections that are no further."""
        self._inside = inside
        self._certificates = certificates
        self._doors = doors
        self._transport: asyncio.Transport | None = None
        self._shaking: asyncio.Task[None] | None = None
        self._early: list[bytes] = []
        self._lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.pause_reading()
        self._doors.add(self)
        self._shaking = asyncio.get_running_loop().create_task(self._shake(self._transport))

    def data_received(self, data: bytes) -> None:
        # The first request may come with the last message of the handshake.
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._lost = True

    def abort(self) -> None:
        """Close without waiting for the handshake."""
        if self._transport is not None:
            self._transport.abort()
        if self._shaking is not None:
            self._shaking.cancel()

    async def _shake(self, transport: asyncio.Transport) -> None:
        try:
            secured = await asyncio.get_running_loop().start_tls(
                transport,
                self,
                self._certificates.current().context,
                server_side=True,
                ssl_handshake_timeout=_HANDSHAKE,
                ssl_shutdown_timeout=_GOODBYE,
            )
        except OSError:  # of TLS as well: a stranger, or no TLS at all; time-outs and peers that have gone
            transport.abort()
            return
        finally:
            self._doors.discard(self)
        if self._lost or secured is None:
            return
        protocol = self._inside()
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        if self._early:
            protocol.data_received(b"".join(self._early))


def certificate_state(transport: asyncio.BaseTransport) -> dict[str, PeerCertificate]:
    """What the peer's certificate adds to the state of a connection's requests; nothing where it has shown none."""
    tls = transport.get_extra_info("ssl_object")
    data = tls.getpeercert(binary_form=True) if tls is not None else None
    if not data:
        return {}
    try:
        return {_CERTIFICATE: read_certificate(data)}
    except ValueError:  # nobody can be known by it
        return {}


def certificate_of(scope: Scope) -> PeerCertificate | None:
    """The certificate of the peer of a request."""
    found: PeerCertificate | None = scope.get("state", {}).get(_CERTIFICATE)
    return found
