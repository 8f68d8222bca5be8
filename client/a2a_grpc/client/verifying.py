"""Whether a card is from whom it says (specification 8.4.3)."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

import orjson

from a2a_grpc.client.closing import Closing
from a2a_grpc.client.errors import CardSignatureError
from a2a_grpc.client.lists import listed
from a2a_grpc.client.options import Options
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.card_signatures import Signer, verify_signatures
from a2a_grpc.wire.errors import InvalidAgentResponseError, InvalidArgumentError, UnavailableError, excerpt
from a2a_grpc.wire.jws import BadSignatureError
from a2a_grpc.wire.keys import PublicKey, read_key_set

_MAX_BYTES: Final = 256 * 1024
_FETCH_SECONDS: Final = 10.0
_KEPT_SECONDS: Final = 300.0
"""A key that its owner takes out of the set is trusted for so long at the most."""
_AGAIN_SECONDS: Final = 10.0
"""A card with an unknown key does not have the keys fetched more often than this."""


Policy: TypeAlias = Literal["always", "if signed"]
"""Which cards have to be signed by a key that is trusted: all of them, or those that have signatures at all."""


def verify_card(card: bytes | a2a_pb2.AgentCard, jwks: bytes | Mapping[str, Any]) -> Signer:
    """Who has signed the card: its JSON as it was received, or a message. `jwks` is the key set that is trusted.

    One signature that holds is enough. Keys and addresses of keys that the card itself brings are not followed.

    Raises: CardSignatureError where none holds; InvalidArgumentError for a key set that is none; JsonParseError and
    InvalidArgumentError for bytes that are no card.
    """
    return _verified(card, _keys(jwks, "The key set"))


class CardVerifier(Closing):
    """Verifies cards with keys that are trusted, known beforehand or fetched from addresses that are trusted.

        verifier = CardVerifier(jwks_urls=["https://agent.example.com/.well-known/jwks.json"])
        async with verifier, CardResolver(verifier=verifier) as resolver: ...

    Keys are fetched over https (or from this machine), kept for five minutes, and fetched again when a card names one
    that is not among them. Close it with `aclose` or `async with`; it belongs to one event loop.

    With the policy "if signed" a card without any signature passes, as one does where agents begin to sign. That finds
    signatures that are wrong or of strangers, and is no protection from who can change the card: the signatures can be
    left out, too. The default, "always", is.
    """

    def __init__(
        self,
        *,
        jwks: bytes | Mapping[str, Any] | None = None,
        jwks_urls: Iterable[str] = (),
        ca_file: Path | None = None,
        policy: Policy = "always",
    ) -> None:
        """`ca_file` holds the PEM certificates to trust instead of the public ones, where keys are fetched.

        Raises: InvalidArgumentError for a key set that is none, an address that is not safe, a policy that is none, or
        nothing to trust.
        """
        from a2a_grpc.client.pool import Pool  # noqa: PLC0415 - see CardResolver

        self._known = _keys(jwks, "The key set") if jwks is not None else ()
        self._urls = listed(jwks_urls)
        for url in self._urls:
            _check(url)
        if policy not in get_args(Policy):
            raise InvalidArgumentError(f"{excerpt(str(policy))!r} is no policy: give 'always' or 'if signed'.")
        self._may_be_unsigned = policy == "if signed"
        if jwks is None and not self._urls:
            raise InvalidArgumentError("A verifier needs keys, or addresses of keys, that are trusted.")
        self._pool = Pool(Options(parameters={}, connect_timeout=_FETCH_SECONDS, keepalive=None, ca_file=ca_file))
        self._fetched: tuple[PublicKey, ...] = ()
        self._fetched_at = float("-inf")
        self._fetching = asyncio.Lock()

    async def check(self, card: bytes | a2a_pb2.AgentCard) -> Signer | None:
        """As `verify`, but for what the policy lets pass: None for a card that nobody has signed."""
        if self._may_be_unsigned and not _is_signed(card):
            return None
        return await self.verify(card)

    async def verify(self, card: bytes | a2a_pb2.AgentCard) -> Signer:
        """Who has signed the card, whatever the policy; see `verify_card`.

        Raises: CardSignatureError where no signature holds; UnavailableError where keys that could tell cannot be had.
        """
        if self._urls:
            await self._fetch(_KEPT_SECONDS)
        try:
            return _verified(card, self._known + self._fetched)
        except CardSignatureError:
            if not self._urls or not await self._fetch(_AGAIN_SECONDS):
                raise
        return _verified(card, self._known + self._fetched)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def _fetch(self, older_than: float) -> bool:
        """Fetch the keys unless that was done within the time; whether it was done now."""
        async with self._fetching:
            if time.monotonic() - self._fetched_at < older_than:
                return False
            found = [await self._key_set(url) for url in self._urls]
            self._fetched = tuple(key for keys in found for key in keys)
            self._fetched_at = time.monotonic()
            return True

    async def _key_set(self, url: str) -> tuple[PublicKey, ...]:
        try:
            async with (
                asyncio.timeout(_FETCH_SECONDS),
                self._pool.exchange("GET", url, headers={"accept": "application/jwk-set+json, */*;q=0.5"}) as response,
            ):
                body = await self._pool.body(response, _MAX_BYTES)
                if not response.is_success:
                    raise UnavailableError(f"The keys at {excerpt(url)} cannot be had: status {response.status_code}.")
            return _keys(body, f"What is at {excerpt(url)}")
        except TimeoutError as error:
            raise UnavailableError(f"The keys at {excerpt(url)} did not come in time.") from error
        except (InvalidArgumentError, InvalidAgentResponseError) as error:
            raise UnavailableError(f"The keys at {excerpt(url)} cannot be used: {error.message}") from error


def _verified(card: bytes | a2a_pb2.AgentCard, keys: tuple[PublicKey, ...]) -> Signer:
    try:
        return verify_signatures(card, keys)
    except BadSignatureError as error:
        raise CardSignatureError(f"The agent card cannot be trusted: {error}.") from error


def _is_signed(card: bytes | a2a_pb2.AgentCard) -> bool:
    found = protojson.loads(card, a2a_pb2.AgentCard) if isinstance(card, bytes) else card
    return bool(found.signatures)


def _keys(jwks: bytes | Mapping[str, Any], what: str) -> tuple[PublicKey, ...]:
    try:
        return read_key_set(jwks if isinstance(jwks, bytes) else orjson.dumps(dict(jwks)))
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(f"{what} cannot be used: {error}.") from error


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        raise InvalidArgumentError(f"{excerpt(url)}: this is no URL.") from None
    local = host in ("localhost", "127.0.0.1", "::1")
    if not (parts.scheme == "https" or (parts.scheme == "http" and local)) or not host:
        raise InvalidArgumentError(f"{excerpt(url)}: keys that are trusted must come over https.")


__all__ = ["CardVerifier", "Signer", "verify_card"]
