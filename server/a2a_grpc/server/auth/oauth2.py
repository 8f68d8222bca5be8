"""OAuth 2.0 (4.5.4): tokens as everywhere, and in the card how to get one. A scheme of the card holds one grant."""

from typing import Final, Literal

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth.bearer import CHALLENGE, caller
from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.auth.principal import Principal
from a2a_grpc.server.auth.tokens import Tokens

Flow = Literal["client_credentials", "authorization_code", "device_code"]

NAMES: Final[dict[Flow, str]] = {
    "client_credentials": "oauth2ClientCredentials",
    "authorization_code": "oauth2AuthorizationCode",
    "device_code": "oauth2DeviceCode",
}


class OAuth2:
    """Callers known by a token of an authorization server."""

    challenge = CHALLENGE

    def __init__(self, flow: Flow, flows: a2a_pb2.OAuthFlows, metadata_url: str, issuer: str, tokens: Tokens) -> None:
        """`flows` holds the endpoints of `flow`; `issuer`: the one of `tokens` that gives tokens there."""
        self.name = NAMES[flow]
        self._flows = flows
        self._metadata_url = metadata_url
        self._issuer = issuer
        self._tokens = tokens

    @property
    def card(self) -> a2a_pb2.SecurityScheme:
        """How the card describes it."""
        scheme = a2a_pb2.OAuth2SecurityScheme(
            flows=self._flows, oauth2_metadata_url=self._metadata_url, description=f"A token of {self._issuer}."
        )
        return a2a_pb2.SecurityScheme(oauth2_security_scheme=scheme)

    @property
    def means(self) -> str:
        """See Scheme."""
        return f"a bearer token of {self._issuer}"

    async def authenticate(self, credentials: Credentials) -> Principal | None:
        """See Scheme."""
        return await caller(self.name, self._issuer, self._tokens, credentials)
