"""Schemes whose credentials are tokens of an issuer: one check, however the card says that tokens are to be had."""

from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.auth.principal import Principal
from a2a_grpc.server.auth.tokens import Tokens


class Issued:
    """Callers known by a bearer token (RFC 6750) of one issuer. Subclasses say what the card has of it."""

    challenge = "Bearer"

    def __init__(self, name: str, issuer: str, tokens: Tokens) -> None:
        """`issuer`: one of those of `tokens`."""
        self.name = name
        self._issuer = issuer
        self._tokens = tokens

    @property
    def means(self) -> str:
        """See Scheme."""
        return f"a bearer token of {self._issuer}"

    @property
    def description(self) -> str:
        """For the card."""
        return f"A token of {self._issuer}."

    async def authenticate(self, credentials: Credentials) -> Principal | None:
        """See Scheme; None also for a token of another issuer."""
        token = await self._tokens.read(credentials)
        if token is None or token.issuer != self._issuer:
            return None
        return token.principal(self.name)
