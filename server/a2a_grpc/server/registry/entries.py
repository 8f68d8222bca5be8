"""Entries as callers see them."""

from typing import cast

from a2a_grpc.registry.v1 import registry_pb2 as pb
from a2a_grpc.server.core.events import set_timestamp
from a2a_grpc.server.registry.cards import shown
from a2a_grpc.server.store.registrations import Registration, Seen


def present(entry: Registration, detail: pb.Detail) -> pb.Agent:
    """The entry, as far as `detail` goes."""
    agent = pb.Agent(
        id=entry.id,
        detail=detail,
        card=shown(entry.card, whole=detail != pb.DETAIL_PUBLIC),
        health=_health(entry.health, owner=detail == pb.DETAIL_OWNER),
        public=entry.public,
        signature=cast("pb.SignatureState", entry.signature),
    )
    set_timestamp(agent.create_time, entry.created_ms)
    if detail == pb.DETAIL_PUBLIC:
        return agent
    agent.url = entry.url
    agent.signature_key_id = entry.key_id
    if detail == pb.DETAIL_OWNER:
        agent.lease.CopyFrom(lease_of(entry))
        agent.history.extend(_health(seen, owner=True) for seen in entry.history)
    return agent


def lease_of(entry: Registration) -> pb.Lease:
    """The lease of an entry."""
    lease = pb.Lease(ttl_seconds=entry.ttl_ms // 1000)
    set_timestamp(lease.expire_time, entry.expires_ms)
    set_timestamp(lease.renew_time, entry.renewed_ms)
    return lease


def _health(seen: Seen, *, owner: bool) -> pb.Health:
    health = pb.Health(state=cast("pb.HealthState", seen.state))
    set_timestamp(health.state_time, seen.since_ms)
    if seen.checked_ms:
        set_timestamp(health.check_time, seen.checked_ms)
    if owner:
        health.reason = seen.reason
    return health
