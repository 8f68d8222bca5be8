"""gRPC over TLS without knowing who is at the other end, which grpc itself does not offer."""

import ssl
from ipaddress import ip_address
from typing import Final, NamedTuple

from cryptography import x509

_PORT: Final = 443


class Presented(NamedTuple):
    """What a server has shown: a certificate to trust, and a name that is in it."""

    certificate: bytes
    name: str


def presented(target: str, timeout: float) -> Presented | None:
    """The certificate of the server at `target` (host:port), whoever that is; None where none is to be had.

    Blocks for up to `timeout` seconds. A channel that trusts just this certificate accepts the server, unless the
    certificate has expired.
    """
    host, _, port = target.rpartition("/")[2].removeprefix("dns:").rpartition(":")
    address = (host.strip("[]"), int(port)) if host and port.isdigit() else (target, _PORT)
    try:
        found = ssl.get_server_certificate(address, timeout=timeout)
    except (OSError, ValueError):
        return None
    return Presented(found.encode(), _name(x509.load_pem_x509_certificate(found.encode())) or address[0])


def _name(certificate: x509.Certificate) -> str:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ""
    hosts = [name.replace("*", "any") for name in names.get_values_for_type(x509.DNSName)]
    return next(iter([*hosts, *(str(ip_address(str(ip))) for ip in names.get_values_for_type(x509.IPAddress))]), "")
