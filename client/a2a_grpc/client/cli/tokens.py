"""Tokens that outlive the command that got them (a2a-cli specification 0.2, 12.2).

Each agent has a file of its own, which only its user may read: for this agent, this flow, and the scheme that the card
had when the user signed in. The secret of a client is in none of them.
"""

import hashlib
import json
import os
import secrets
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from a2a_grpc.client.cli.settings import GLOBAL_FILE
from a2a_grpc.client.credentials import ClientCredentials, DeviceFlow
from a2a_grpc.client.credentials.base import Access, Surroundings, Wanted
from a2a_grpc.client.credentials.endpoint import Token
from a2a_grpc.client.credentials.oauth import Endpoints, OAuth, Prompt
from a2a_grpc.client.errors import CredentialsError

DEVICE: Final = "device"
CLIENT: Final = "client-credentials"
FLOWS: Final = (DEVICE, CLIENT)

_EARLY_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known without the token."""

    agent: str
    flow: str
    client_id: str
    scopes: tuple[str, ...]
    file: Path


class Store:
    """The file of one agent."""

    def __init__(self, agent: str, seen: set[str] | None = None) -> None:
        """`seen` gets each token that is read or written, so that whoever prints can hide it."""
        self.agent = agent
        self._seen = set() if seen is None else seen
        self.file = _folder() / f"{hashlib.sha256(agent.encode()).hexdigest()[:32]}.json"

    def entry(self) -> Entry | None:
        """What is kept for the agent; None: nothing."""
        kept = self._read()
        if not kept:
            return None
        scopes = tuple(str(kept.get("scopes") or "").split())
        return Entry(self.agent, str(kept.get("flow")), str(kept.get("client_id")), scopes, self.file)

    def load(self, wanted: Wanted | None) -> Token | None:
        """The token, where it was for the very scheme and scopes that are wanted."""
        kept = self._read()
        if not kept or kept.get("for") != _mark(wanted):
            return None
        left = float("inf") if kept.get("expires_at") is None else float(kept["expires_at"]) - time.time()
        until = time.monotonic() + left
        token = Token(str(kept["access_token"]), until - _EARLY_SECONDS, until, str(kept.get("refresh_token") or ""))
        self._note(token)
        return token

    def save(self, flow: str, client_id: str, scopes: Sequence[str], wanted: Wanted | None, token: Token) -> None:
        """Keep a token. The file is there as a whole or not at all, and never readable for others."""
        self._note(token)
        left = token.holds_until - time.monotonic()
        value = {
            "agent": self.agent,
            "flow": flow,
            "client_id": client_id,
            "scopes": " ".join(scopes),
            "for": _mark(wanted),
            "access_token": token.value,
            "refresh_token": token.refresh,
            "expires_at": None if left == float("inf") else round(time.time() + left),
        }
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new = self.file.with_suffix(f".{secrets.token_hex(8)}")
        with os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as opened:
            json.dump(value, opened)
        new.replace(self.file)

    def remove(self) -> bool:
        """Forget the token; whether there was one."""
        there = self.file.exists()
        self.file.unlink(missing_ok=True)
        return there

    def _note(self, token: Token) -> None:
        self._seen |= {token.value, token.refresh} - {""}

    def _read(self) -> dict[str, Any] | None:
        try:
            kept = json.loads(self.file.read_bytes())
        except (OSError, ValueError):
            return None
        return kept if isinstance(kept, dict) and kept.get("agent") == self.agent and "access_token" in kept else None


def entries() -> list[Entry]:
    """Of all agents, by their names."""
    found: list[Entry] = []
    for file in _folder().glob("*.json"):
        try:
            agent = str(json.loads(file.read_bytes())["agent"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if (entry := Store(agent).entry()) is not None:
            found.append(entry)
    return sorted(found, key=lambda entry: entry.agent)


class _NoOtherTokenError(CredentialsError):
    """There is no way to a token but to sign in again; the message says why, for whoever has none that holds."""


class _Kept(OAuth):
    """A flow whose token is kept in a file."""

    store: Store
    name: str
    client_id: str
    own_scopes: Sequence[str] = ()
    """Those that the user wanted in place of the card's."""
    anew = False
    """The user signs in again, whatever there is."""

    @property
    @abstractmethod
    def _may_ask(self) -> bool:
        """Whether there may be a token that nothing renews: nobody has to be asked for it, or somebody can be."""

    async def renewed(self, wanted: Wanted | None, around: Surroundings, refused: Access) -> Access | None:
        """See Credentials."""
        try:
            return await super().renewed(wanted, around, refused)
        except _NoOtherTokenError:
            return None  # the agent's refusal is what there is to tell: the time of the token need not be over

    async def _fetch(
        self, wanted: Wanted | None, scopes: tuple[str, ...], around: Surroundings, old: Token | None
    ) -> Token:
        if old is None and not self.anew:
            old = self.store.load(wanted)
            if old is not None and old.fresh:
                return old
            if old is None and not self._may_ask:
                raise _NoOtherTokenError(
                    "No token is kept for what the agent's card asks for now. `a2a-grpc auth login` gets one."
                )
        token = await super()._fetch(wanted, scopes, around, old)
        self.store.save(self.name, self.client_id, self.own_scopes, wanted, token)
        return token


class KeptDevice(_Kept, DeviceFlow):
    """The device flow. Without a `prompt` nobody is asked to sign in: a token that ended is refreshed, or missing."""

    name = DEVICE

    def __init__(
        self, store: Store, client_id: str, client_secret: str, scopes: Sequence[str], prompt: Prompt | None
    ) -> None:
        super().__init__(client_id, prompt or _nobody, client_secret=client_secret, scopes=scopes)
        self.store = store
        self.client_id = client_id
        self.own_scopes = scopes
        self.anew = prompt is not None

    @property
    def _may_ask(self) -> bool:
        return self.anew

    async def _grant(self, endpoints: Endpoints, scope: dict[str, str], around: Surroundings) -> dict[str, Any]:
        if not self._may_ask:
            raise _NoOtherTokenError("The time of the token is over. `a2a-grpc auth login` gets another one.")
        return await super()._grant(endpoints, scope, around)


class KeptClient(_Kept, ClientCredentials):
    """Client credentials. Without a secret a token that has ended is missing."""

    name = CLIENT

    def __init__(self, store: Store, client_id: str, client_secret: str, scopes: Sequence[str], *, anew: bool) -> None:
        super().__init__(client_id, client_secret, scopes=scopes)
        self.store = store
        self.client_id = client_id
        self.own_scopes = scopes
        self.anew = anew
        self._has_secret = bool(client_secret)

    @property
    def _may_ask(self) -> bool:
        return self._has_secret

    async def _grant(self, endpoints: Endpoints, scope: dict[str, str], around: Surroundings) -> dict[str, Any]:
        if not self._may_ask:
            raise _NoOtherTokenError("The time of the token is over, and there is no secret (A2ACLI_CLIENT_SECRET).")
        return await super()._grant(endpoints, scope, around)


def kept(agent: str, client_secret: str, seen: set[str]) -> OAuth | None:
    """What to show to an agent for which somebody has signed in before; None: nobody has. `seen`: see `Store`."""
    store = Store(agent, seen)
    entry = store.entry()
    if entry is None:
        return None
    if entry.flow == DEVICE:
        return KeptDevice(store, entry.client_id, client_secret, entry.scopes, None)
    return KeptClient(store, entry.client_id, client_secret, entry.scopes, anew=False)


def _nobody(_code: object) -> None:
    raise CredentialsError("Nobody can sign in here.")


def _mark(wanted: Wanted | None) -> str:
    if wanted is None:
        return ""
    parts = (wanted.name.encode(), wanted.scheme.SerializeToString(deterministic=True), *map(str.encode, wanted.scopes))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _folder() -> Path:
    return Path.home() / GLOBAL_FILE.parent / "tokens"
