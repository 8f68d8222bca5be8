"""What a scheme of authentication is: a check, and its entry in the card."""

from typing import Protocol

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.auth.principal import Principal


class Scheme(Protocol):
    """One way to prove who calls. Each file that implements it holds all that is to be known about it."""

    @property
    def name(self) -> str:
        """What the card calls it."""

    @property
    def card(self) -> a2a_pb2.SecurityScheme:
        """How the card describes it (4.5.1)."""

    @property
    def means(self) -> str:
        """What a caller has to send, in words: completes "Send …"."""

    @property
    def challenge(self) -> str:
        """One challenge of WWW-Authenticate (RFC 9110, 11.6.1); "" where no header could bring the credentials."""

    async def authenticate(self, credentials: Credentials) -> Principal | None:
        """The caller; None where there are no credentials of this kind.

        Raises: UnauthenticatedError for credentials that don't hold; UnavailableError where they cannot be checked now.
        """
