"""How the store is reached: one address, two kinds of connection."""

from redis.asyncio import Redis
from redis.asyncio.connection import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

_CONNECT_TIMEOUT = 1.0


def call_pool(url: str) -> ConnectionPool:
    """Connections for short calls. They carry no timeout of their own: the pipeline bounds each call."""
    return ConnectionPool.from_url(
        url, socket_timeout=None, socket_connect_timeout=_CONNECT_TIMEOUT, retry=Retry(NoBackoff(), 0), protocol=2
    )


def follow_client(url: str) -> Redis:
    """A client for the one connection that waits for published events, for as long as it takes."""
    return Redis.from_url(
        url,
        socket_timeout=None,
        socket_connect_timeout=_CONNECT_TIMEOUT,
        retry=Retry(NoBackoff(), 0),
        protocol=2,
    )
