"""OpenID Connect (4.5.5): tokens of a provider that describes itself."""

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth.bearer import CHALLENGE, caller
from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.auth.jwks import discovery_url
from a2a_grpc.server.auth.principal import Principal
from a2a_grpc.server.auth.tokens import Tokens


class OpenIdConnect:
    """Callers known by a token of a provider; its discovery document says where its keys are."""

    name = "openIdConnect"
    challenge = CHALLENGE

    def __init__(self, issuer: str, tokens: Tokens) -> None:
        """`issuer`: one of those of `tokens`."""
        self._issuer = issuer
        self._tokens = tokens

    @property
    def card(self) -> a2a_pb2.SecurityScheme:
        """How the card describes it."""
        scheme = a2a_pb2.OpenIdConnectSecurityScheme(
            open_id_connect_url=discovery_url(self._issuer), description=f"A token of {self._issuer}."
        )
        return a2a_pb2.SecurityScheme(open_id_connect_security_scheme=scheme)

    @property
    def means(self) -> str:
        """See Scheme."""
        return f"a bearer token of {self._issuer}"

    async def authenticate(self, credentials: Credentials) -> Principal | None:
        """See Scheme."""
        return await caller(self.name, self._issuer, self._tokens, credentials)
