"""From A2A_REDIS_URL to the servers behind it."""

from a2a_grpc.server.store.cluster import Cluster
from a2a_grpc.server.store.connections import to_server
from a2a_grpc.server.store.errors import StoreMisconfiguredError
from a2a_grpc.server.store.location import Kind, Location
from a2a_grpc.server.store.nodes import Nodes, OneServer
from a2a_grpc.server.store.sentinel import SentinelMaster


def open_nodes(url: str, *, timeout: float, replicas: int = 0) -> Nodes:
    """The servers of the store at `url`; connections are made when the first call comes.

    `timeout`: seconds after which a call is given up. `replicas`: how many must have a write before it is acknowledged.

    Raises: StoreMisconfiguredError for a URL that cannot be used.
    """
    try:
        location = Location.parse(url)
    except ValueError as error:
        raise StoreMisconfiguredError(f"A2A_REDIS_URL cannot be used: {error}") from None
    match location.kind:
        case Kind.SERVER:
            return OneServer(to_server(url), timeout, replicas)
        case Kind.SENTINEL:
            return SentinelMaster(location, timeout, replicas)
        case Kind.CLUSTER:
            return Cluster(location, timeout, replicas)
