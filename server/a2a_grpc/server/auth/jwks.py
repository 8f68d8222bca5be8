"""Where the keys of an issuer come from, and for how long they are used.

Keys are fetched when they are first needed, again every few minutes while calls come, and at once when a token names a
key that is not there, or names none and its signature does not hold, though not more often than every few seconds:
whoever sends tokens with invented names or signatures must not make this service hammer its issuer. Nor must they make
it refuse a good token: what came after the last search began waits for the next one, since its key may be newer than
that. The event loop never waits; calls that need a key that is on its way do.
"""

import asyncio
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from a2a_grpc.wire.errors import UnavailableError
from a2a_grpc.wire.keys import PublicKey, read_key_set

log = logging.getLogger(__name__)

_TIMEOUT: Final = 5.0
"""Seconds for one document."""
_MAX_BYTES: Final = 512 * 1024
_MOST_WAITING: Final = 256
"""Calls that wait for the next search. Strangers can make them, and each holds a connection's stream meanwhile."""
_MOST_REFUSED: Final = 1024
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class _FetchError(Exception):
    """No keys, and why."""


class Keys:
    """The keys of one issuer."""

    def __init__(
        self,
        where: str,
        fetch: Callable[[], Awaitable[bytes]],
        *,
        refresh: float = 300.0,
        cooldown: float = 2.0,
        retry: float = 2.0,
        trusted: float = 86_400.0,
    ) -> None:
        """`where` names the source in the log; `fetch` gets a JWK Set. All times in seconds.

        Keys older than `refresh` are fetched anew in the background; where that fails, they are used up to the age of
        `trusted`. A key that is not there is looked for every `cooldown`, after a failure every `retry`; that is for
        how long `find` and `successor` may wait besides the time that a fetch takes.
        """
        self.generation = 0
        """Changes with the keys."""
        self._where = where
        self._fetch = fetch
        self._refresh, self._cooldown, self._retry, self._trusted = refresh, cooldown, retry, trusted
        self._data: bytes | None = None
        self._keys: tuple[PublicKey, ...] = ()
        self._withdrawn: frozenset[str] = frozenset()
        """Names of keys that were published before those that are now."""
        self._fetched = self._failed = self._searched = float("-inf")
        self._fetching: asyncio.Task[bool] | None = None
        self._searching: asyncio.Task[bool] | None = None
        self._waiting = 0
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        """Tokens for which a search has found no key: they wait for no other."""

    def keep(self) -> None:
        """Fetch the keys in the background where they are missing or old; to be called whenever they are relied on."""
        now = time.monotonic()
        if now - self._fetched > self._refresh and now - self._failed > self._retry and self._fetching is None:
            self._start()

    @property
    def trusted(self) -> bool:
        """There are keys that are not too old."""
        return time.monotonic() - self._fetched < self._trusted

    async def find(self, kid: str, algorithm: str, token: bytes) -> PublicKey | None:
        """The key `kid` for signatures of `algorithm`; with "" the only one that there is for those. None: no such key.

        `token` tells the tokens apart for which keys are looked for, so that each is looked for once in a while.

        Raises: UnavailableError where that cannot be known at the moment.
        """
        self.keep()
        if not self.trusted and not await self._again():
            raise _unavailable()
        known = partial(self._known, kid, algorithm)
        # A key that is no longer published is not on its way.
        return known() or await self._search(known, token, patient=kid not in self._withdrawn)

    async def successor(self, algorithm: str, token: bytes, *, of: int) -> PublicKey | None:
        """The only key for signatures of `algorithm` where the keys are others than in the generation `of`.

        For a token that names no key and whose signature does not hold: nothing else tells that its issuer has a new
        one. It is looked for as one that is not there. None: no such key.

        Raises: UnavailableError as `find`.
        """
        return await self._search(
            lambda: None if self.generation == of else self._known("", algorithm), token, patient=True
        )

    async def _search(self, found: Callable[[], PublicKey | None], token: bytes, *, patient: bool) -> PublicKey | None:
        """What is `found` once the keys were fetched; without `patient`, None where that could only be done later."""
        if self._fetching is not None:
            if not await self._again():
                raise _unavailable()
            if key := found():
                return key
            # They may have been on their way already when the issuer published this one.
        left = self._searched + self._cooldown - time.monotonic()
        if left >= 0 and (not patient or token in self._refused):
            return None
        if left >= 0 and self._waiting >= _MOST_WAITING:
            raise UnavailableError(
                "The token cannot be checked at the moment: too many tokens name keys that are not known.",
                retry_after=left,
            )
        if self._searching is None:
            self._searching = asyncio.create_task(self._look(left))
        self._waiting += 1
        try:
            if not await asyncio.shield(self._searching):
                raise _unavailable()
        finally:
            self._waiting -= 1
        key = found()
        if key is None:
            self._refused[token] = None
            if len(self._refused) > _MOST_REFUSED:
                self._refused.popitem(last=False)
        return key

    async def _look(self, wait: float) -> bool:
        """Whether the keys could be fetched, `wait` seconds from now."""
        try:
            if wait > 0:
                await asyncio.sleep(wait)
            self._searched = time.monotonic()
            if await self._again():
                return True
            # What is known may be right, so a search that is refused because of a failure a moment ago is none.
            self._searched = float("-inf")
            return False
        finally:
            self._searching = None

    def _known(self, kid: str, algorithm: str) -> PublicKey | None:
        fitting = [key for key in self._keys if algorithm in key.algorithms and kid in ("", key.kid)]
        return fitting[0] if len(fitting) == 1 or (kid and fitting) else None

    async def _again(self) -> bool:
        """Whether the keys could be fetched just now."""
        if self._fetching is None:
            if time.monotonic() - self._failed < self._retry:
                return False
            self._start()
        task = self._fetching
        return task is not None and await asyncio.shield(task)

    def _start(self) -> None:
        self._fetching = asyncio.create_task(self._run())

    async def _run(self) -> bool:
        try:
            data = await self._fetch()
            if data != self._data:
                before, self._keys = self._keys, await asyncio.to_thread(read_key_set, data)
                self._data = data
                self._withdrawn = frozenset(key.kid for key in before if key.kid) - {key.kid for key in self._keys}
                self.generation += 1
                log.info("%d keys from %s", len(self._keys), self._where)
            self._fetched = time.monotonic()
        except (_FetchError, OSError, ValueError) as error:
            self._failed = time.monotonic()
            log.warning("no keys from %s: %s", self._where, error or type(error).__name__)
            return False
        finally:
            self._fetching = None
        return True


def _unavailable() -> UnavailableError:
    return UnavailableError(
        "The token cannot be checked at the moment: its issuer does not hand out its keys.", retry_after=2.0
    )


def from_url(url: str) -> Keys:
    """Keys from the `jwks_uri` of an issuer."""
    return Keys(url, partial(_get, url))


def from_file(path: Path) -> Keys:
    """Keys from a file; one that is replaced is read again.

    Raises: ValueError where the file cannot be used.
    """
    try:
        read_key_set(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be used as a JWK Set: {error}") from None
    # To read a file costs next to nothing, so nobody need wait for it as long.
    return Keys(str(path), partial(asyncio.to_thread, path.read_bytes), refresh=30.0, cooldown=1.0)


def from_issuer(issuer: str, *, plaintext: bool) -> Keys:
    """Keys from where the discovery document of an issuer says (OpenID Connect Discovery 1.0, 4)."""
    return Keys(discovery_url(issuer), partial(_discover, issuer, plaintext=plaintext))


def discovery_url(issuer: str) -> str:
    """Where an issuer describes itself."""
    return issuer.rstrip("/") + "/.well-known/openid-configuration"


def check_source(url: str, *, plaintext: bool) -> str:
    """`url`, where keys may be fetched from: over TLS, or from this machine, or over plain HTTP where that is wanted.

    Raises: ValueError.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        raise ValueError("it is no URL") from None
    if not host or parts.scheme not in {"http", "https"} or parts.fragment or "@" in parts.netloc:
        raise ValueError("it must be a URL like https://issuer.example.com/keys")
    if parts.scheme == "http" and host not in _LOOPBACK and not plaintext:
        raise ValueError(
            "whoever can change what comes over plain HTTP could sign tokens, so it must begin with https:// "
            "(A2A_JWKS_PLAINTEXT=true where the network is trusted all the same)"
        )
    return url


async def _discover(issuer: str, *, plaintext: bool) -> bytes:
    try:
        document = json.loads(await _get(discovery_url(issuer)))
    except ValueError:
        raise _FetchError("the discovery document is not JSON") from None
    if not isinstance(document, dict) or document.get("issuer") != issuer:
        raise _FetchError(f"the discovery document is not one of the issuer {issuer}")
    try:
        return await _get(check_source(str(document.get("jwks_uri", "")), plaintext=plaintext))
    except ValueError as error:
        raise _FetchError(f"the jwks_uri of the discovery document cannot be used: {error}") from None


async def _get(url: str) -> bytes:
    import httpx  # noqa: PLC0415 - takes as long as a tenth of the service, and most services have no issuers

    local = urlsplit(url).hostname in _LOOPBACK
    # Loading the certificates of the world takes a while.
    context = await asyncio.to_thread(httpx.create_ssl_context)
    try:
        async with (
            asyncio.timeout(_TIMEOUT),
            httpx.AsyncClient(verify=context, trust_env=not local, timeout=_TIMEOUT) as client,
            client.stream("GET", url, headers={"accept": "application/json"}) as response,
        ):
            if response.status_code != httpx.codes.OK:
                raise _FetchError(f"HTTP status {response.status_code}")
            data = b""
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > _MAX_BYTES:
                    raise _FetchError(f"more than {_MAX_BYTES} bytes")
            return data
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _FetchError(f"{type(error).__name__}: {error}") from None
    except TimeoutError:
        raise _FetchError(f"no answer within {_TIMEOUT:g} s") from None
