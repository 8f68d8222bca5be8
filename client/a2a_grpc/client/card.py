"""Where an agent card is found (specification 8.2), and for how long it is kept (8.6.2)."""

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from a2a_grpc.client.closing import Closing
from a2a_grpc.client.errors import CardError, CardNotFoundError
from a2a_grpc.client.options import Options, parameters
from a2a_grpc.client.origins import endpoint
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import (
    A2AError,
    InvalidAgentResponseError,
    InvalidArgumentError,
    JsonParseError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnauthenticatedError,
    UnavailableError,
    excerpt,
    from_error_body,
)

if TYPE_CHECKING:
    import httpx

    from a2a_grpc.client.verifying import CardVerifier

WELL_KNOWN: Final = "/.well-known/agent-card.json"

_MAX_CARD_BYTES: Final = 1024 * 1024
_FETCH_SECONDS: Final = 30.0
_MAX_KEPT: Final = 256


def card_url(url: str) -> str:
    """The address of the card of the agent at `url`.

    A path that ends in `.json` or runs through `/.well-known/` is that of a card already. Anything else is the agent's
    base, whose path is kept: agents live side by side under path prefixes.
    """
    parts = urlsplit(url)
    if parts.path.endswith(".json") or "/.well-known/" in parts.path:
        return url
    return parts._replace(path=parts.path.rstrip("/") + WELL_KNOWN, fragment="").geturl()


def parse_card(data: bytes, source: str) -> a2a_pb2.AgentCard:
    """The card in `data`. Raises CardError, which names `source`."""
    try:
        return protojson.loads(data, a2a_pb2.AgentCard)
    except (InvalidArgumentError, JsonParseError) as error:
        raise CardError(f"{excerpt(source)} holds no agent card: {error.message}") from error


def read_card(path: Path) -> a2a_pb2.AgentCard:
    """The card in a file. Raises CardError."""
    return parse_card(read_bytes(path), str(path))


def read_bytes(path: Path) -> bytes:
    """What is in the file of a card. Raises CardNotFoundError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CardNotFoundError(f"The agent card {path} cannot be read: {error.strerror}.") from error


class CardResolver(Closing):
    """Fetches agent cards over HTTP and keeps each for as long as its server allows (RFC 9111).

    A kept card whose time is over is asked for with its ETag or date, so an unchanged one costs a 304. Give one
    resolver to many `A2AClient.connect` calls to share what it keeps. `headers` go with each request; `connect_timeout`
    is in seconds; `ca_file` holds the PEM certificates to trust instead of the public ones; `certificate` names
    the files of a client certificate and its key, for servers that ask for one; without `verify` any certificate of a
    server is taken. With a `verifier` (a `CardVerifier`) only cards that it lets pass are given out, which by default
    are those signed by a key it trusts; a client that is connected with the resolver takes no other card either,
    wherever it is from.
    """

    def __init__(
        self,
        *,
        headers: Mapping[str, str] | None = None,
        connect_timeout: float = 10.0,
        ca_file: Path | None = None,
        verifier: "CardVerifier | None" = None,
        certificate: tuple[Path, Path] | None = None,
        verify: bool = True,
    ) -> None:
        # httpx takes long to import, and an agent that is reached by gRPC alone does not need it.
        from a2a_grpc.client.pool import Pool  # noqa: PLC0415

        options = Options(
            parameters=parameters(headers or {}, ()),
            connect_timeout=connect_timeout,
            keepalive=None,
            ca_file=ca_file,
            certificate=certificate,
            verify=verify,
        )
        self._pool = Pool(options)
        self._verifier = verifier
        self._kept: dict[str, _Kept] = {}

    async def resolve(self, url: str) -> a2a_pb2.AgentCard:
        """The card of the agent at `url`, which is its base address or that of the card itself; see `card_url`.

        Raises InvalidArgumentError for what is no address, CardError when there is no usable card, its
        CardSignatureError for one that is not trusted, NotConnectedError, UnauthenticatedError, PermissionDeniedError,
        ResourceExhaustedError or UnavailableError (also when it does not come within 30 s).
        """
        endpoint(url)
        address = card_url(url)
        kept = self._kept.get(address)
        if kept is None or time.monotonic() >= kept.fresh_until:
            try:
                async with asyncio.timeout(_FETCH_SECONDS):
                    kept = await self._fetch(address, kept)
            except TimeoutError as error:
                raise UnavailableError(f"{excerpt(address)} did not send the agent card in time.") from error
            except InvalidAgentResponseError as error:
                raise error if isinstance(error, CardError) else CardError(error.message) from error
        card = a2a_pb2.AgentCard()
        card.CopyFrom(kept.card)
        return card

    @property
    def verifies(self) -> bool:
        """Whether there is a verifier."""
        return self._verifier is not None

    async def verify(self, card: bytes | a2a_pb2.AgentCard) -> None:
        """Check a card that came by another way: its JSON, or a message. Without a verifier nothing is checked.

        Raises: CardSignatureError for one that is not trusted, and what else `CardVerifier.check` raises.
        """
        if self._verifier is not None:
            await self._verifier.check(card)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def _fetch(self, address: str, kept: "_Kept | None") -> "_Kept":
        headers = {"accept": "application/json"} | (kept.conditions if kept else {})
        async with self._pool.exchange("GET", address, headers=headers) as response:
            if kept is not None and response.status_code == HTTPStatus.NOT_MODIFIED:
                await self.verify(kept.body)  # its keys may be gone
                return self._keep(address, kept.card, kept.body, kept.conditions, response.headers)
            if response.status_code != HTTPStatus.OK:
                raise _refusal(address, response)
            body = await self._pool.body(response, _MAX_CARD_BYTES)
        card = parse_card(body, address)
        await self.verify(body)
        conditions = {
            condition: response.headers[validator]
            for validator, condition in (("etag", "if-none-match"), ("last-modified", "if-modified-since"))
            if validator in response.headers
        }
        return self._keep(address, card, body, conditions, response.headers)

    def _keep(
        self, address: str, card: a2a_pb2.AgentCard, body: bytes, conditions: dict[str, str], headers: Mapping[str, str]
    ) -> "_Kept":
        seconds = _freshness(headers)
        kept = _Kept(card, body, conditions, time.monotonic() + (seconds or 0.0))
        self._kept.pop(address, None)
        if seconds is not None:
            self._kept[address] = kept
        if len(self._kept) > _MAX_KEPT:
            del self._kept[next(iter(self._kept))]  # the one that was fetched longest ago
        return kept


@dataclass(frozen=True, slots=True)
class _Kept:
    card: a2a_pb2.AgentCard
    body: bytes
    conditions: dict[str, str]
    fresh_until: float


def _freshness(headers: Mapping[str, str]) -> float | None:
    """For how many more seconds a response may be used without asking; None if it must not be kept at all."""
    directives = {item.strip().lower() for item in headers.get("cache-control", "").split(",")}
    if "no-store" in directives:
        return None
    if "no-cache" in directives:
        return 0.0
    ages = [int(match[1]) for item in directives if (match := re.fullmatch(r'max-age="?([0-9]{1,9})"?', item))]
    age = re.fullmatch("[0-9]{1,9}", headers.get("age", ""))
    return max(0.0, min(ages, default=0) - (int(age[0]) if age else 0))


def _refusal(address: str, response: "httpx.Response") -> A2AError:
    status = response.status_code
    if response.has_redirect_location:
        target = excerpt(response.headers["location"])
        return CardNotFoundError(f"{excerpt(address)} redirects to {target}; use that address if you trust it.")
    error = type(from_error_body(status, None))
    meaningful = (UnauthenticatedError, PermissionDeniedError, ResourceExhaustedError)
    if status < HTTPStatus.INTERNAL_SERVER_ERROR and error not in meaningful:
        error = CardNotFoundError
    return error(f"There is no agent card at {excerpt(address)}: HTTP status {status}.")
