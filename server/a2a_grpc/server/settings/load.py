"""Reading and checking the settings at start: the only place that reads the environment."""

import os
from collections.abc import Iterator, Mapping
from itertools import combinations

from pydantic import ValidationError

from a2a_grpc.server.settings.source import SettingsError, problems_of
from a2a_grpc.server.settings.tree import Settings


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Reads and checks the settings. `environ` stands in for the environment of the process.

    Raises SettingsError with a sentence for every problem, all at once.
    """
    given = os.environ if environ is None else environ
    try:
        settings = Settings(given)
    except ValidationError as error:
        raise SettingsError(problems_of(error, Settings, given)) from None
    problems = list(_contradictions(settings))
    if problems:
        raise SettingsError(problems)
    return settings


def _contradictions(settings: Settings) -> Iterator[str]:
    """Values that are right one by one and wrong together."""
    store = settings.store
    listeners = {
        "A2A_GRPC_ADDR": settings.grpc.addr,
        "A2A_HTTP_ADDR": settings.http.addr,
        "A2A_ADMIN_ADDR": settings.admin.addr,
    }
    listening = [(name, addr) for name, addr in listeners.items() if addr is not None and addr.port]
    for (name, addr), (other_name, other) in combinations(listening, 2):
        if addr.port == other.port and (addr.host == other.host or addr.wildcard or other.wildcard):
            yield (
                f"{name} is {addr} and {other_name} is {other}, but two servers cannot share a port. "
                "Give one of them another port."
            )
    if store.patience and store.patience < store.timeout:
        yield (
            f"A2A_STORE_PATIENCE is {store.patience:g} s, less than a single call may take (A2A_STORE_TIMEOUT is "
            f"{store.timeout:g} s). Raise the first, set it to 0, or lower the second."
        )
    drain = settings.drain
    if drain.delay + drain.grace >= drain.timeout:
        yield (
            f"A2A_DRAIN_DELAY ({drain.delay:g} s) and A2A_DRAIN_GRACE ({drain.grace:g} s) together leave nothing of "
            f"A2A_DRAIN_TIMEOUT ({drain.timeout:g} s) for giving back what still runs then. "
            "Raise the last, or lower one of the others."
        )
    yield from settings.auth.problems()
    yield from settings.tls.problems()
    if settings.auth.mtls and not settings.tls.asks:
        yield (
            "A2A_MTLS lets callers in by their certificate, but no listener asks for one. Set A2A_TLS_CLIENT_CERT, or "
            "leave A2A_MTLS out."
        )
    if settings.card.jku and not settings.keys.signing.paths:
        yield (
            "A2A_CARD_JKU says where the keys are that check the card, but A2A_SIGNING_KEYS names none, so the card is "
            "not signed. Set it too, or leave A2A_CARD_JKU out."
        )
    if store.redis_url is None:
        try:
            store.data_dir.expanduser()
        except RuntimeError:
            yield (
                f"A2A_DATA_DIR is {store.data_dir}, but no home directory is known for this user. "
                "Set A2A_DATA_DIR to a directory that may be written to, or set A2A_REDIS_URL."
            )
