"""OpenID Connect (4.5.5): tokens of a provider that describes itself."""

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth.issued import Issued
from a2a_grpc.server.auth.jwks import discovery_url
from a2a_grpc.server.auth.tokens import Tokens


class OpenIdConnect(Issued):
    """Callers known by a token of a provider; its discovery document says where its keys are."""

    def __init__(self, issuer: str, tokens: Tokens) -> None:
        """`issuer`: one of those of `tokens`."""
        super().__init__("openIdConnect", issuer, tokens)

    @property
    def card(self) -> a2a_pb2.SecurityScheme:
        """How the card describes it."""
        scheme = a2a_pb2.OpenIdConnectSecurityScheme(
            open_id_connect_url=discovery_url(self._issuer), description=self.description
        )
        return a2a_pb2.SecurityScheme(open_id_connect_security_scheme=scheme)
