"""Bearer tokens (4.5.3): JSON Web Tokens of one issuer."""

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth.issued import Issued
from a2a_grpc.server.auth.tokens import Tokens


class Bearer(Issued):
    """Callers known by a token that an issuer has given them."""

    def __init__(self, issuer: str, tokens: Tokens) -> None:
        """`issuer`: one of those of `tokens`."""
        super().__init__("bearer", issuer, tokens)

    @property
    def card(self) -> a2a_pb2.SecurityScheme:
        """How the card describes it."""
        scheme = a2a_pb2.HTTPAuthSecurityScheme(scheme="Bearer", bearer_format="JWT", description=self.description)
        return a2a_pb2.SecurityScheme(http_auth_security_scheme=scheme)
