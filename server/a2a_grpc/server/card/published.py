"""A card in the form in which it is served."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Protocol

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.protojson import dumps


@dataclass(frozen=True, slots=True)
class PublishedCard:
    """A public card, ready to be sent. Build it with `publish`."""

    card: a2a_pb2.AgentCard
    body: bytes
    """The card as ProtoJSON, the same bytes on every replica."""
    etag: str
    """A strong entity tag with its quotes, made of the content: replicas behind one balancer agree on it (B095)."""
    last_modified: datetime
    """When the content was changed, in UTC."""
    private: bool = False
    """It was given to this reader because of its credentials, and no shared cache may have it."""
    varies: tuple[str, ...] = ()
    """The headers that such credentials stand in, in lower case."""


class Unheaded(Protocol):
    """What credentials may stand in besides headers; it is a Credentials."""

    @property
    def query(self) -> Mapping[str, str]:
        """See Credentials."""

    @property
    def cookies(self) -> Mapping[str, str]:
        """See Credentials."""


class Request(Protocol):
    """What a source that is elsewhere needs to know about who asks; it is a Call."""

    @property
    def parameters(self) -> Mapping[str, str]:
        """See Call."""

    @property
    def credentials(self) -> Unheaded:
        """See Call."""

    @property
    def response_parameters(self) -> dict[str, str]:
        """See Call."""


class CardSource(Protocol):
    """Where the listeners get public cards from."""

    async def public_card(self, tenant: str, request: Request, /) -> PublishedCard | None:
        """The card of `tenant` ("" = of the server itself), None if there is none.

        Raises A2AError when it cannot be had at the moment.
        """


class KeySource(Protocol):
    """Where the HTTP listener gets the keys from that check signatures of this service."""

    async def key_set(self) -> bytes | None:
        """The JWK Set (RFC 7517), with public keys alone; None where nothing is signed. Raises A2AError."""


def publish(card: a2a_pb2.AgentCard, last_modified: datetime) -> PublishedCard:
    """`card` as it will be served. `last_modified` must know its time zone."""
    if last_modified.tzinfo is None:
        raise ValueError("last_modified needs a time zone")
    body = dumps(card)
    return PublishedCard(
        card=card, body=body, etag=f'"{sha256(body).hexdigest()[:32]}"', last_modified=last_modified.astimezone(UTC)
    )
