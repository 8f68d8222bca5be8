"""What credentials are to the client."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from a2a_grpc.pb import a2a_pb2


@dataclass(frozen=True, slots=True)
class Access:
    """What goes with a call so that the agent knows who calls. Over gRPC all of it is metadata."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    cookies: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __or__(self, other: "Access") -> "Access":
        return Access(
            {**self.headers, **other.headers}, {**self.query, **other.query}, {**self.cookies, **other.cookies}
        )


NO_ACCESS = Access()


class Wanted(NamedTuple):
    """A scheme that the agent's card requires (specification 4.5), with the scopes wanted from it."""

    name: str
    scheme: a2a_pb2.SecurityScheme
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """How authorization servers are reached, and which of those that a card names may be told secrets."""

    connect_timeout: float
    ca_file: Path | None
    trusted: Callable[[str], bool]


class Credentials(ABC):
    """Something that the caller has to show. Give one or several to `A2AClient.connect`.

    An object may serve many clients, one event loop at a time. Its secrets stand in no repr, log or error.
    """

    @abstractmethod
    def meets(self, wanted: Wanted | None) -> bool:
        """Whether these are credentials for this scheme; None stands for an agent without a card."""

    @abstractmethod
    async def access(self, wanted: Wanted | None, around: Surroundings) -> Access:
        """What goes with the next call. Raises: CredentialsError; UnavailableError."""

    async def renewed(self, wanted: Wanted | None, around: Surroundings, refused: Access) -> Access | None:  # noqa: ARG002
        """What else to try where the agent has refused `refused`; None where there is nothing. Raises as `access`."""
        return None
