"""Bearer tokens (4.5.3): JSON Web Tokens of one issuer."""

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.auth.principal import Principal
from a2a_grpc.server.auth.tokens import Tokens

CHALLENGE = "Bearer"


async def caller(scheme: str, issuer: str, tokens: Tokens, credentials: Credentials) -> Principal | None:
    """The caller by a token of `issuer`, in the name of a scheme; None where the token is another issuer's.

    Raises: UnauthenticatedError; UnavailableError.
    """
    token = await tokens.read(credentials)
    if token is None or token.issuer != issuer:
        return None
    return token.principal(scheme)


class Bearer:
    """Callers known by a token that an issuer has given them."""

    name = "bearer"
    challenge = CHALLENGE

    def __init__(self, issuer: str, tokens: Tokens) -> None:
        """`issuer`: one of those of `tokens`."""
        self._issuer = issuer
        self._tokens = tokens

    @property
    def card(self) -> a2a_pb2.SecurityScheme:
        """How the card describes it."""
        scheme = a2a_pb2.HTTPAuthSecurityScheme(
            scheme="Bearer", bearer_format="JWT", description=f"A token of {self._issuer}."
        )
        return a2a_pb2.SecurityScheme(http_auth_security_scheme=scheme)

    @property
    def means(self) -> str:
        """See Scheme."""
        return f"a bearer token of {self._issuer}"

    async def authenticate(self, credentials: Credentials) -> Principal | None:
        """See Scheme."""
        return await caller(self.name, self._issuer, self._tokens, credentials)
