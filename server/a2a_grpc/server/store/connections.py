"""How the store is reached: one address, two kinds of connection."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from redis.asyncio import Redis
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from a2a_grpc.server.store.errors import StoreMisconfiguredError

_CONNECT_TIMEOUT = 1.0

# What the query of the URL may say. redis-py would take much more, also what this service sets itself.
_OPTIONS = (
    "db",
    "username",
    "password",
    "client_name",
    "ssl_ca_certs",
    "ssl_ca_path",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_keyfile",
    "ssl_password",
)


class _Once(Retry):
    """No second try, and nothing done in between.

    redis-py's own would open the connection anew before it raises, behind the back of whoever has to look for what was
    missed meanwhile.
    """

    def __init__(self) -> None:
        super().__init__(NoBackoff(), 0)

    async def call_with_retry(self, do: Callable[[], Awaitable[Any]], *_: Any, **__: Any) -> Any:
        return await do()


def call_pool(url: str) -> ConnectionPool:
    """Connections for short calls. They carry no timeout of their own: the pipeline bounds each call.

    Raises: StoreMisconfiguredError for a URL with options that cannot be used.
    """
    for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True):
        if name not in _OPTIONS:
            raise StoreMisconfiguredError(
                f"A2A_REDIS_URL has the option {name}, which this service does not take; remove it. "
                f"It may have {', '.join(_OPTIONS)}"
            )
    try:
        pool = ConnectionPool.from_url(url, **_settings())
    except ValueError as error:
        # redis-py names the option and does not repeat its value.
        raise StoreMisconfiguredError(f"A2A_REDIS_URL cannot be used: {error}") from None
    try:
        pool.make_connection()  # type: ignore[no-untyped-call]
    except TypeError:
        raise StoreMisconfiguredError(
            "A2A_REDIS_URL has options that an address of this kind does not take: ssl_… belongs to rediss://"
        ) from None
    except RedisError as error:
        raise StoreMisconfiguredError(f"A2A_REDIS_URL cannot be used: {error}") from None
    return pool


def follow_client(url: str) -> Redis:
    """A client for the one connection that waits for published events, for as long as it takes."""
    return Redis.from_url(url, **_settings())


def _settings() -> dict[str, Any]:
    return {
        "socket_timeout": None,
        "socket_connect_timeout": _CONNECT_TIMEOUT,
        "retry": _Once(),
        "protocol": 2,
    }
