"""OAuth 2.0 (4.5.4): tokens as everywhere, and in the card how to get one. A scheme of the card holds one grant."""

from typing import Final, Literal

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth.issued import Issued
from a2a_grpc.server.auth.tokens import Tokens

Flow = Literal["client_credentials", "authorization_code", "device_code"]

NAMES: Final[dict[Flow, str]] = {
    "client_credentials": "oauth2ClientCredentials",
    "authorization_code": "oauth2AuthorizationCode",
    "device_code": "oauth2DeviceCode",
}


class OAuth2(Issued):
    """Callers known by a token of an authorization server."""

    def __init__(self, flow: Flow, flows: a2a_pb2.OAuthFlows, metadata_url: str, issuer: str, tokens: Tokens) -> None:
        """`flows` holds the endpoints of `flow`; `issuer`: the one of `tokens` that gives tokens there."""
        super().__init__(NAMES[flow], issuer, tokens)
        self._flows = flows
        self._metadata_url = metadata_url

    @property
    def card(self) -> a2a_pb2.SecurityScheme:
        """How the card describes it."""
        scheme = a2a_pb2.OAuth2SecurityScheme(
            flows=self._flows, oauth2_metadata_url=self._metadata_url, description=self.description
        )
        return a2a_pb2.SecurityScheme(oauth2_security_scheme=scheme)
