"""From what a caller names to the interfaces that are called (specification 8.2, 8.3.2)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeGuard

from a2a_grpc.client.card import read_card
from a2a_grpc.client.credentials import ClientCertificate, Credentials, Surroundings
from a2a_grpc.client.credentials.choosing import Authenticator, choose
from a2a_grpc.client.errors import CardError, CredentialsError
from a2a_grpc.client.interfaces import GRPC, known_bindings, some, usable
from a2a_grpc.client.options import Options
from a2a_grpc.client.origins import Endpoint, Origins, endpoint, interface_endpoint, is_readable
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import InvalidArgumentError, excerpt
from a2a_grpc.wire.headers import SUPPORTED_VERSION

Target = str | Path | a2a_pb2.AgentCard | a2a_pb2.AgentInterface

# A card of the largest size names thousands, and each costs the time of a connection before the next is tried.
_MOST_INTERFACES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """An agent: the interfaces to call, in the order of its card, and what to show there."""

    interfaces: Sequence[a2a_pb2.AgentInterface]
    card: a2a_pb2.AgentCard | None
    authenticator: Authenticator
    tls_by_default: bool
    """See `interfaces.grpc_address`."""
    url: str
    """The target, where it is a URL."""


async def find(
    target: Target,
    options: Options,
    *,
    bindings: Sequence[str],
    credentials: Sequence[Credentials],
    origins: Origins,
    fetch: Callable[[str], Awaitable[a2a_pb2.AgentCard]],
) -> Found:
    """The agent that `target` names, whose card `fetch` gets; for targets and errors see `A2AClient.connect`."""
    bindings = known_bindings(bindings)
    fetched: Endpoint | None = None
    card: a2a_pb2.AgentCard | None
    if _is_url(target, "http://", "https://"):
        fetched = endpoint(target)
        card = offered = await fetch(target)
    else:
        offered, card = await _given(target)
    tls_by_default = _is_url(target, "https://")
    if isinstance(target, a2a_pb2.AgentInterface):
        interface_endpoint(target, tls_by_default=False)  # the caller's own: what is wrong with it is said
    interfaces: Sequence[a2a_pb2.AgentInterface] = _readable(usable(offered, bindings))
    if fetched is not None:
        interfaces = _on_its_own(interfaces, origins, fetched, tls_by_default=tls_by_default)

    def trusted(url: str) -> bool:
        return fetched is None or origins.may_name(endpoint(url), fetched)

    authenticator = choose(card, credentials, Surroundings(options.connect_timeout, options.ca_file, trusted))
    if authenticator.shows_something:
        interfaces = _unread(interfaces, origins, tls_by_default=tls_by_default)
    return Found(
        interfaces=interfaces[:_MOST_INTERFACES],
        card=card,
        authenticator=authenticator,
        tls_by_default=tls_by_default,
        url=target if _is_url(target, "http://", "https://", "grpc://", "grpcs://") else "",
    )


def certificate_in(credentials: Sequence[Credentials]) -> tuple[Path, Path] | None:
    """The files of the client certificate among the credentials, and of its key."""
    found = next((one for one in credentials if isinstance(one, ClientCertificate)), None)
    return (Path(found.cert_file), Path(found.key_file)) if found else None


def _readable(interfaces: Sequence[a2a_pb2.AgentInterface]) -> list[a2a_pb2.AgentInterface]:
    """Those whose address can be used. Raises CardError if there is none."""
    kept = [interface for interface in interfaces if is_readable(interface)]
    if not kept:
        # Not with the addresses: there may be passwords in them.
        raise CardError("No address in the agent's card can be used: they cannot be read, or have credentials in them.")
    return kept


def _on_its_own(
    interfaces: Sequence[a2a_pb2.AgentInterface], origins: Origins, card: Endpoint, *, tls_by_default: bool
) -> list[a2a_pb2.AgentInterface]:
    """Those that the card from this endpoint may name. Raises CardError if there is none."""
    kept = [
        interface
        for interface in interfaces
        if origins.may_name(interface_endpoint(interface, tls_by_default=tls_by_default), card)
    ]
    if not kept:
        raise CardError(
            f"The card from {excerpt(card.host)} names {_named(interfaces)}, which is not that host over TLS. "
            "Where that is right, name it in allow_origins."
        )
    return kept


def _unread(
    interfaces: Sequence[a2a_pb2.AgentInterface], origins: Origins, *, tls_by_default: bool
) -> list[a2a_pb2.AgentInterface]:
    """Those that may be sent credentials. Raises CredentialsError if there is none."""
    kept = [
        interface
        for interface in interfaces
        if origins.may_have_secrets(interface_endpoint(interface, tls_by_default=tls_by_default))
    ]
    if not kept:
        raise CredentialsError(
            f"Credentials are not sent to {_named(interfaces)} in plain text. Where nobody can read along, name it "
            "with its scheme in allow_origins."
        )
    return kept


def _named(interfaces: Sequence[a2a_pb2.AgentInterface]) -> str:
    return some(excerpt(interface.url, 128) for interface in interfaces)


def _is_url(target: object, *schemes: str) -> TypeGuard[str]:
    return isinstance(target, str) and target.startswith(schemes)


async def _given(target: Target) -> tuple[a2a_pb2.AgentCard, a2a_pb2.AgentCard | None]:
    """A card with the interfaces to use, and the agent's card, for a target that is not to be fetched."""
    if isinstance(target, a2a_pb2.AgentCard):
        return target, target
    if _is_url(target, "grpc://", "grpcs://"):
        endpoint(target)
        target = a2a_pb2.AgentInterface(url=target, protocol_binding=GRPC, protocol_version=SUPPORTED_VERSION)
    if isinstance(target, a2a_pb2.AgentInterface):
        return a2a_pb2.AgentCard(supported_interfaces=[target]), None
    path = Path(target)
    if isinstance(target, str) and not await asyncio.to_thread(path.is_file):
        raise InvalidArgumentError(
            f"{excerpt(target)!r} is no agent: give a URL (http, https, grpc or grpcs) or the file of a card."
        )
    card = await asyncio.to_thread(read_card, path)
    return card, card
