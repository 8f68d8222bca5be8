"""Tokens that the client fetches and renews by itself: client credentials and device flow (specification 4.5.7)."""

import asyncio
import inspect
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from a2a_grpc.client.credentials.base import Access, Credentials, Surroundings, Wanted
from a2a_grpc.client.credentials.endpoint import Client, Token, TokenRefusedError, ask, check, describe, token_in
from a2a_grpc.client.credentials.fixed import bearer, takes_bearer
from a2a_grpc.client.errors import CredentialsError
from a2a_grpc.client.lists import listed
from a2a_grpc.wire.errors import InvalidArgumentError, UnavailableError, excerpt

_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_DEFAULT_INTERVAL: Final = 5.0
_SLOWER: Final = 5.0
"""Both from RFC 8628, 3.2 and 3.5."""


class Endpoints(NamedTuple):
    """Addresses of an authorization server; empty where it has none."""

    token: str
    refresh: str = ""
    device: str = ""


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """What a person is told: to open `verification_uri` and to enter `user_code` within `expires_in` seconds.

    `verification_uri_complete` holds the code already; empty where the server gives none.
    """

    verification_uri: str
    user_code: str = field(repr=False)
    verification_uri_complete: str = field(repr=False)
    expires_in: float


Prompt = Callable[[DeviceCode], Awaitable[None] | None]


class OAuth(Credentials):
    """What both grants have in common: one token for each authorization server and set of scopes, fetched once."""

    flow: str
    """The flow of a card's OAuth 2.0 scheme that names this grant's endpoints."""

    def __init__(self, client: Client, scopes: Sequence[str], endpoints: Endpoints | None) -> None:
        self._client = client
        self._scopes = listed(scopes)
        self._endpoints = endpoints
        self._tokens: dict[tuple[str, tuple[str, ...]], _OneToken] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._client.id!r})"

    def meets(self, wanted: Wanted | None) -> bool:
        """See Credentials."""
        if self._endpoints is not None:
            return wanted is None or takes_bearer(wanted.scheme)
        if wanted is None:
            return False
        flows = wanted.scheme.oauth2_security_scheme.flows
        return flows.WhichOneof("flow") == self.flow or wanted.scheme.HasField("open_id_connect_security_scheme")

    async def access(self, wanted: Wanted | None, around: Surroundings) -> Access:
        """See Credentials."""
        return bearer(await self._token(wanted, around).get())

    async def renewed(self, wanted: Wanted | None, around: Surroundings, refused: Access) -> Access | None:
        """See Credentials."""
        return bearer(await self._token(wanted, around).get(refused.headers.get("authorization", "")))

    def _token(self, wanted: Wanted | None, around: Surroundings) -> "_OneToken":
        scopes = self._scopes or (wanted.scopes if wanted else ())
        # Also where there is a token already: the card of another agent may name a server that is not its own.
        where = self._endpoints.token if self._endpoints else _trusted(_address(_given(wanted), self.flow), around)
        found = self._tokens.get((where, scopes))
        if found is None:

            async def fetch(old: Token | None) -> Token:
                return await self._fetch(wanted, scopes, around, old)

            found = self._tokens[where, scopes] = _OneToken(fetch)
        return found

    async def _fetch(
        self, wanted: Wanted | None, scopes: tuple[str, ...], around: Surroundings, old: Token | None
    ) -> Token:
        endpoints = self._endpoints or await _endpoints(_given(wanted), self.flow, around)
        if old is not None and old.refresh:
            url = endpoints.refresh or endpoints.token
            form = {"grant_type": "refresh_token", "refresh_token": old.refresh}
            try:
                return token_in(await ask(url, self._client, form, around), url, old.refresh)
            except TokenRefusedError:
                pass  # its time may be over, too
        scope = {"scope": " ".join(scopes)} if scopes else {}
        return token_in(await self._grant(endpoints, scope, around), endpoints.token)

    @abstractmethod
    async def _grant(self, endpoints: Endpoints, scope: dict[str, str], around: Surroundings) -> dict[str, Any]:
        """The answer that holds a token. Raises: CredentialsError; UnavailableError."""


class ClientCredentials(OAuth):
    """Tokens for a program on its own behalf (RFC 6749, 4.4), fetched when needed and renewed before they end.

    The agent's card says where, in its OAuth 2.0 scheme with client credentials or its OpenID Connect scheme. The
    secret goes there only if that is https on the agent's own host, or a host in `allow_origins`; `token_url` says
    where instead of the card, whatever that names. `scopes` are those that the card requires unless given.
    """

    flow = "client_credentials"

    def __init__(
        self, client_id: str, client_secret: str, *, scopes: Sequence[str] = (), token_url: str | None = None
    ) -> None:
        super().__init__(Client(client_id, client_secret), scopes, Endpoints(check(token_url)) if token_url else None)

    async def _grant(self, endpoints: Endpoints, scope: dict[str, str], around: Surroundings) -> dict[str, Any]:
        return await ask(endpoints.token, self._client, {"grant_type": "client_credentials", **scope}, around)


class DeviceFlow(OAuth):
    """Tokens for a person, who signs in with a browser elsewhere (RFC 8628).

    `prompt` is called with a `DeviceCode` to be shown, and may be async; the call that needs the token waits until the
    person is done. Where the servers are is found as for `ClientCredentials`; `token_url` and `device_url` together say
    it instead of the card; one without the other raises InvalidArgumentError.
    """

    flow = "device_code"

    def __init__(
        self,
        client_id: str,
        prompt: Prompt,
        *,
        client_secret: str = "",
        scopes: Sequence[str] = (),
        token_url: str | None = None,
        device_url: str | None = None,
    ) -> None:
        if bool(token_url) != bool(device_url):
            raise InvalidArgumentError("token_url and device_url go together: one alone leaves the other to the card.")
        given = Endpoints(check(token_url), device=check(device_url)) if token_url and device_url else None
        super().__init__(Client(client_id, client_secret), scopes, given)
        self._prompt = prompt

    async def _grant(self, endpoints: Endpoints, scope: dict[str, str], around: Surroundings) -> dict[str, Any]:
        answer = await ask(endpoints.device, self._client, scope, around)
        code, lives = answer.get("device_code"), _seconds(answer.get("expires_in"), 600.0)
        if not isinstance(code, str):
            raise CredentialsError(f"{excerpt(endpoints.device)} has answered without a device code.")
        told = self._prompt(
            DeviceCode(
                str(answer.get("verification_uri", "")),
                str(answer.get("user_code", "")),
                str(answer.get("verification_uri_complete", "")),
                lives,
            )
        )
        if inspect.isawaitable(told):
            await told
        interval, until = _seconds(answer.get("interval"), _DEFAULT_INTERVAL), time.monotonic() + lives
        while time.monotonic() < until:
            await asyncio.sleep(interval)
            try:
                form = {"grant_type": _DEVICE_GRANT, "device_code": code}
                return await ask(endpoints.token, self._client, form, around)
            except TokenRefusedError as error:
                if error.code == "slow_down":
                    interval += _SLOWER
                elif error.code != "authorization_pending":
                    raise
            except UnavailableError:
                pass  # the person is still at it
        raise CredentialsError("Nobody has signed in in time.")


class _OneToken:
    """A token that is fetched when somebody wants it, by one request however many wait."""

    def __init__(self, fetch: Callable[[Token | None], Awaitable[Token]]) -> None:
        self._fetch = fetch
        self._token: Token | None = None
        self._fetching: asyncio.Task[Token] | None = None

    async def get(self, refused: str = "") -> str:
        """The token; another one where the agent has refused it, in this Authorization header."""
        token = self._token
        was_refused = token is not None and bearer(token.value).headers["authorization"] == refused
        usable = None if was_refused else token
        if usable is not None and usable.fresh:
            return usable.value
        fetching = self._fetching
        if fetching is None or fetching.done() or fetching.get_loop() is not asyncio.get_running_loop():
            fetching = self._fetching = asyncio.create_task(self._renew(token))
            # Where all who waited have left, nobody else looks at its failure.
            fetching.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            # Who stops waiting takes nothing away from the others, nor from a person who is signing in.
            return (await asyncio.shield(fetching)).value
        except UnavailableError:
            if usable is None or not usable.holds:
                raise
            return usable.value

    async def _renew(self, old: Token | None) -> Token:
        self._token = await self._fetch(old)
        return self._token


def _given(wanted: Wanted | None) -> Wanted:
    """What the card wants. Raises CredentialsError without a card."""
    if wanted is None:
        raise CredentialsError("Without a card of the agent, `token_url` has to say where tokens are.")
    return wanted


def _address(wanted: Wanted, flow: str) -> str:
    """The address in the card that leads to the authorization server."""
    scheme = wanted.scheme
    if scheme.HasField("open_id_connect_security_scheme"):
        return scheme.open_id_connect_security_scheme.open_id_connect_url
    return str(getattr(scheme.oauth2_security_scheme.flows, flow).token_url)


async def _endpoints(wanted: Wanted, flow: str, around: Surroundings) -> Endpoints:
    address, scheme = _trusted(_address(wanted, flow), around), wanted.scheme
    if scheme.HasField("open_id_connect_security_scheme"):
        found = await describe(address, around)
        token, device = (str(found.get(name) or "") for name in ("token_endpoint", "device_authorization_endpoint"))
        if not token or (flow == "device_code" and not device):
            raise CredentialsError(f"{excerpt(address)} names no endpoint for {flow}.")
        return Endpoints(check(token), device=check(device) if device else "")
    flows = getattr(scheme.oauth2_security_scheme.flows, flow)
    refresh, device = flows.refresh_url, flows.device_authorization_url if flow == "device_code" else ""
    return Endpoints(*(_trusted(url, around) if url else "" for url in (flows.token_url, refresh, device)))


def _trusted(url: str, around: Surroundings) -> str:
    check(url)
    if not around.trusted(url):
        raise CredentialsError(
            f"The agent's card sends for tokens to {excerpt(url)}, which is not on its own host. Where that is right, "
            "name it in allow_origins, or give token_url with the credentials."
        )
    return url


def _seconds(value: object, default: float) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else default
