"""Webhooks: what keeps them, and what delivers to them."""

from typing import NamedTuple

from a2a_grpc.server.keys import SigningKeys
from a2a_grpc.server.push.configs import PushConfigs
from a2a_grpc.server.push.courier import Courier
from a2a_grpc.server.push.destinations import Destinations
from a2a_grpc.server.push.sealing import Sealer
from a2a_grpc.server.push.sender import Patience, PushSender
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
    courier = Courier(destinations(settings), signing, timeout=push.timeout, connections=push.concurrency)
    sender = PushSender(
        store,
        webhooks,
        configs,
        courier,
        patience=Patience(
            attempts=push.attempts, limit=push.give_up, first=push.backoff, most=max(push.backoff, push.backoff_max)
        ),
        lease_ttl=settings.engine.lease_ttl,
        concurrency=push.concurrency,
        per_host=push.per_host,
    )
    return Push(configs, sender)


def destinations(settings: Settings) -> Destinations:
    return Destinations(allowed=settings.push.allow, http=settings.push.http)
