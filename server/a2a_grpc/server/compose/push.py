"""Webhooks: what keeps them, and what delivers to them."""

from typing import NamedTuple

from a2a_grpc.server.keys import SigningKeys
from a2a_grpc.server.push.configs import PushConfigs
from a2a_grpc.server.push.courier import Courier
from a2a_grpc.server.push.destinations import Destinations
from a2a_grpc.server.push.leases import Leases
from a2a_grpc.server.push.patience import Patience
from a2a_grpc.server.push.places import Places
from a2a_grpc.server.push.sealing import Sealer
from a2a_grpc.server.push.sender import PushSender
from a2a_grpc.server.push.teller import Teller
from a2a_grpc.server.settings import Settings
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.store.webhooks import Webhooks


class Push(NamedTuple):
    """What webhooks need."""

    configs: PushConfigs
    sender: PushSender


def compose_push(settings: Settings, store: TaskStore, signing: SigningKeys) -> Push:
    push = settings.push
    webhooks = Webhooks(store, letter_ttl=settings.store.dead_letter_ttl)
    configs = PushConfigs(webhooks, Sealer(settings.keys.encryption.keys), limit=push.max_configs)
    leases = Leases(webhooks, ttl=settings.engine.lease_ttl)
    teller = Teller(
        store,
        configs,
        Courier(destinations(settings), signing, timeout=push.timeout, connections=push.concurrency),
        leases,
        patience=Patience(
            attempts=push.attempts, limit=push.give_up, first=push.backoff, most=max(push.backoff, push.backoff_max)
        ),
        places=Places(push.concurrency, per_host=push.per_host),
    )
    sender = PushSender(webhooks, leases, teller, concurrency=push.concurrency)
    return Push(configs, sender)


def destinations(settings: Settings) -> Destinations:
    return Destinations(allowed=settings.push.allow, http=settings.push.http)
