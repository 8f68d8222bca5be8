"""The replicas that share the store."""

from a2a_grpc.admin.v1 import admin_pb2
from a2a_grpc.server.core.events import set_timestamp
from a2a_grpc.server.store.registry import Registry, ReplicaRow


async def list_replicas(registry: Registry) -> admin_pb2.ListReplicasResponse:
    """Those that are there and those that were lost a moment ago, by name. Raises: StoreUnavailableError."""
    census = await registry.census()
    found = {name: admin_pb2.Replica(name=name, lost=True) for name in census.condemned}
    found |= {row.name: _shown(row, census.now_ms) for row in census.replicas}
    return admin_pb2.ListReplicasResponse(replicas=[found[name] for name in sorted(found)])


def _shown(row: ReplicaRow, now_ms: int) -> admin_pb2.Replica:
    shown = admin_pb2.Replica(name=row.name, turns=row.turns, max_turns=row.max_turns, version=row.version)
    set_timestamp(shown.start_time, row.started_ms)
    shown.beat_age.FromMilliseconds(now_ms - row.beat_ms)
    return shown
