"""How a server of the store is reached."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from redis.asyncio.connection import AbstractConnection, ConnectionPool
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


Connect = Callable[[], Awaitable[AbstractConnection]]
"""Makes a connection: opened, greeted, and nothing sent on it that is not answered."""


def to_server(url: str) -> Connect:
    """Connections to the one server at `url`. They carry no timeout of their own: whoever opens one bounds it.

    Raises: StoreMisconfiguredError for a URL with options that cannot be used.
    """
    pool = _pool(url)

    async def connect() -> AbstractConnection:
        connection: AbstractConnection = pool.make_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    return connect


def to_master(connect: Connect) -> Connect:
    """Connections as `connect` makes them, to a server that takes itself for a master; another is an OSError."""

    async def connect_to_master() -> AbstractConnection:
        connection = await connect()
        try:
            await _confirm_master(connection)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    return connect_to_master


async def _confirm_master(connection: AbstractConnection) -> None:
    # ROLE would say the same, and is not for every user.
    await connection.send_command("HELLO")
    answer = await connection.read_response()
    if dict(zip(answer[::2], answer[1::2], strict=True))[b"role"] != b"master":
        raise ConnectionError("the server is not the master any more, or not yet")


def _pool(url: str) -> ConnectionPool:
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


def _settings() -> dict[str, Any]:
    return {
        "socket_timeout": None,
        "socket_connect_timeout": _CONNECT_TIMEOUT,
        "retry": _Once(),
        "protocol": 2,
    }
