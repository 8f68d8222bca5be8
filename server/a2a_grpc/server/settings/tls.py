"""The settings of TLS on the listeners."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from a2a_grpc.server.settings.source import Group
from a2a_grpc.server.settings.values import LowerCase, Variable


class TlsSettings(Group):
    """TLS."""

    cert_file: Annotated[
        Path | None,
        Variable(
            name="A2A_TLS_CERT_FILE",
            default="none: no TLS",
            doc="The certificate (PEM) of the gRPC and the HTTP listener, with what leads to its authority. With it "
            "both speak TLS and nothing else. The files of TLS are read again when they change.",
        ),
    ] = None
    key_file: Annotated[
        Path | None, Variable(name="A2A_TLS_KEY_FILE", default="none", doc="The private key of the certificate (PEM).")
    ] = None
    client_ca_file: Annotated[
        Path | None,
        Variable(
            name="A2A_TLS_CLIENT_CA_FILE",
            default="none",
            doc="The authorities (PEM) whose client certificates are accepted.",
        ),
    ] = None
    client_cert: Annotated[
        Literal["none", "optional", "required"],
        LowerCase,
        Variable(
            name="A2A_TLS_CLIENT_CERT",
            doc="Whether callers are asked for a certificate. With `required` nobody connects without one, probes "
            "included; with `optional` it is for the schemes of authentication to say who needs one.",
        ),
    ] = "none"
    grpc_client_cert: Annotated[
        Literal["none", "required"] | None,
        LowerCase,
        Variable(
            name="A2A_TLS_GRPC_CLIENT_CERT",
            expects="none or required",
            default="A2A_TLS_CLIENT_CERT, with none for optional",
            doc="The same for gRPC alone. Its library can ask everybody for a certificate or nobody.",
        ),
    ] = None
    terminated: Annotated[
        bool,
        Variable(
            name="A2A_TLS_TERMINATED",
            doc="A mesh or an ingress in front encrypts what comes over networks, so the listeners need not.",
        ),
    ] = False

    @property
    def on(self) -> bool:
        """The listeners speak TLS."""
        return self.cert_file is not None

    @property
    def grpc_requires(self) -> bool:
        """Nobody connects to the gRPC listener without a certificate."""
        return (self.grpc_client_cert or self.client_cert) == "required"

    @property
    def http_asks(self) -> bool:
        """The HTTP listener asks for client certificates."""
        return self.client_cert != "none"

    @property
    def asks(self) -> bool:
        """Some listener asks for client certificates."""
        return self.http_asks or self.grpc_requires

    def problems(self) -> Iterator[str]:
        """A sentence for what is configured by half."""
        for name, value, other_name, other in (
            ("A2A_TLS_CERT_FILE", self.cert_file, "A2A_TLS_KEY_FILE", self.key_file),
            ("A2A_TLS_KEY_FILE", self.key_file, "A2A_TLS_CERT_FILE", self.cert_file),
            ("A2A_TLS_CLIENT_CA_FILE", self.client_ca_file, "A2A_TLS_CERT_FILE", self.cert_file),
        ):
            if value is not None and other is None:
                yield f"{name} is set, but {other_name} is not. TLS needs both."
        asking = "A2A_TLS_CLIENT_CERT" if self.http_asks else "A2A_TLS_GRPC_CLIENT_CERT"
        if self.asks and self.client_ca_file is None:
            yield f"{asking} asks for client certificates, but A2A_TLS_CLIENT_CA_FILE does not say whose are accepted."
        if not self.asks and self.client_ca_file is not None:
            yield "A2A_TLS_CLIENT_CA_FILE is set, but nobody is asked for a certificate. Set A2A_TLS_CLIENT_CERT."
