"""Authorization servers: what they are asked for, and what their answers mean (RFC 6749, RFC 8414, RFC 8628)."""

import asyncio
import base64
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

from a2a_grpc.client.credentials.base import Surroundings
from a2a_grpc.client.errors import CredentialsError
from a2a_grpc.client.options import Options
from a2a_grpc.client.origins import endpoint
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import A2AError, InvalidAgentResponseError, InvalidArgumentError, UnavailableError, excerpt

_MAX_BYTES: Final = 256 * 1024
_SECONDS: Final = 30.0
_EARLY_SECONDS: Final = 30.0
"""A token is renewed so long before its end at the most, or for the last tenth of its life."""
_SECRET: Final = frozenset({"refresh_token", "device_code"})
"""Fields of forms."""


@dataclass(frozen=True, slots=True)
class Token:
    """An access token, until when it is used and until when it holds (by time.monotonic), and what renews it."""

    value: str = field(repr=False)
    fresh_until: float
    holds_until: float
    refresh: str = field(default="", repr=False)

    @property
    def fresh(self) -> bool:
        """Whether it can be used without asking for another."""
        return time.monotonic() < self.fresh_until

    @property
    def holds(self) -> bool:
        """Whether it can be used where there is no other."""
        return time.monotonic() < self.holds_until


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks for tokens: registered with the authorization server, with a secret or without."""

    id: str
    secret: str = field(default="", repr=False)


class TokenRefusedError(CredentialsError):
    """The authorization server gives no token; `code` is its reason (RFC 6749, 5.2)."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


async def ask(url: str, client: Client, form: Mapping[str, str], around: Surroundings) -> dict[str, Any]:
    """What an authorization server answers to a form. Raises: TokenRefusedError; CredentialsError; UnavailableError."""
    headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    if client.secret:
        pair = f"{quote_plus(client.id)}:{quote_plus(client.secret)}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        form = {"client_id": client.id, **form}
    status, answer = await _exchange("POST", url, headers, urlencode(form).encode(), around)
    if status == 200:  # noqa: PLR2004
        return answer
    # What a server repeats in its explanation may be what it was sent.
    sent = [*(form[name] for name in _SECRET & form.keys()), client.secret, headers.get("authorization", "")[6:]]
    code, said = (
        "" if any(secret and secret in text for secret in (*sent, quote_plus(client.secret))) else text
        for text in (str(answer.get(name) or "") for name in ("error", "error_description"))
    )
    code, said = excerpt(code or f"HTTP status {status}", 64), f" ({excerpt(said)})" if said else ""
    raise TokenRefusedError(f"{_site(url)} gives no token: {code}{said}.", code)


async def describe(url: str, around: Surroundings) -> dict[str, Any]:
    """What an authorization server says about itself. Raises: CredentialsError; UnavailableError."""
    status, answer = await _exchange("GET", url, {"accept": "application/json"}, None, around)
    if status != 200:  # noqa: PLR2004
        raise CredentialsError(f"{_site(url)} does not describe itself: HTTP status {status}.")
    return answer


def token_in(answer: Mapping[str, Any], url: str, refresh: str = "") -> Token:
    """The token in an answer; `refresh` renews it where the answer brings nothing else. Raises: CredentialsError."""
    value, kind, lives = answer.get("access_token"), answer.get("token_type", ""), answer.get("expires_in")
    if not isinstance(value, str) or not value or str(kind).lower() != "bearer":
        raise CredentialsError(f"{_site(url)} has answered without a bearer token.")
    # Some servers write the number as a text. One that says nothing, or nonsense, refuses the token when it is over.
    seconds = float(str(lives)) if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", str(lives)) else float("inf")
    holds_until = time.monotonic() + seconds
    renewing = answer.get("refresh_token")
    return Token(
        value,
        holds_until - min(_EARLY_SECONDS, seconds / 10),
        holds_until,
        renewing if isinstance(renewing, str) else refresh,
    )


def check(url: str) -> str:
    """A URL that may be sent secrets. Raises: CredentialsError."""
    try:
        where = endpoint(url)
    except InvalidArgumentError as error:
        raise CredentialsError(error.message) from error
    if not where.host or not (where.tls or where.on_this_machine) or not url.startswith(("https://", "http://")):
        raise CredentialsError(f"Tokens are fetched over https only, not from {excerpt(url)}.")
    return url


async def _exchange(
    verb: str, url: str, headers: Mapping[str, str], content: bytes | None, around: Surroundings
) -> tuple[int, dict[str, Any]]:
    # httpx takes long to import, and most callers have their tokens already.
    from a2a_grpc.client.pool import Pool  # noqa: PLC0415

    pool = Pool(Options(parameters={}, connect_timeout=around.connect_timeout, keepalive=None, ca_file=around.ca_file))
    try:
        async with (
            asyncio.timeout(_SECONDS),
            pool.exchange(verb, check(url), headers=headers, content=content) as response,
        ):
            body = await pool.body(response, _MAX_BYTES)
            status = response.status_code
    except TimeoutError as error:
        raise UnavailableError(f"{_site(url)} did not answer in time.") from error
    except InvalidAgentResponseError as error:
        raise CredentialsError(error.message) from error
    finally:
        await pool.aclose()
    if status >= 500 or status == 429:  # noqa: PLR2004
        raise UnavailableError(f"{_site(url)} cannot answer now: HTTP status {status}.")
    try:
        answer = protojson.parse(body)
    except A2AError:
        answer = None
    if not isinstance(answer, dict):
        raise CredentialsError(f"{_site(url)} has answered with something that is no JSON object: status {status}.")
    return status, answer


def _site(url: str) -> str:
    return excerpt(url.partition("?")[0])
