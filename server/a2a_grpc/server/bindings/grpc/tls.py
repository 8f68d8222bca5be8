"""TLS on the gRPC listener."""

from typing import Any, Final, cast

import grpc
import grpc.aio

from a2a_grpc.server.auth.credentials import PeerCertificate
from a2a_grpc.server.auth.mutual_tls import read_certificate
from a2a_grpc.server.tls import Certificates, Pair

_PEER: Final = "x509_pem_cert"


def server_credentials(certificates: Certificates, *, require_client: bool) -> grpc.ServerCredentials:
    """Credentials whose certificate is asked for with each connection.

    With `require_client` a caller without a certificate is turned away in the handshake. The library has nothing in
    between that and asking nobody.
    """
    used = certificates.current()

    def fetch() -> grpc.ServerCertificateConfiguration:
        nonlocal used
        pair = certificates.current()
        if pair is used:
            return cast("grpc.ServerCertificateConfiguration", None)  # no change; the stubs don't know
        used = pair
        return _configuration(pair, require_client)

    return grpc.dynamic_ssl_server_credentials(_configuration(used, require_client), fetch, require_client)


def _configuration(pair: Pair, require_client: bool) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(pair.key, pair.chain)], root_certificates=pair.client_ca if require_client else None
    )


def peer_certificate(context: grpc.aio.ServicerContext[Any, Any]) -> PeerCertificate | None:
    """The certificate that the peer of a call has shown."""
    shown = next(iter(context.auth_context().get(_PEER, ())), None)
    if shown is None:
        return None
    try:
        return read_certificate(shown)
    except ValueError:  # nobody can be known by it
        return None
