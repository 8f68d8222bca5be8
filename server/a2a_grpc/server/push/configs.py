"""Push notification configs as callers know them, over the webhooks of the store."""

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids
from a2a_grpc.server.push.sealing import Sealer
from a2a_grpc.server.store.records import Outcome, Scope, StoredTask, Webhook
from a2a_grpc.server.store.webhooks import Hooked, Webhooks

Config = a2a_pb2.TaskPushNotificationConfig


class PushConfigs:
    """The configs of tasks. What asks the store raises StoreUnavailableError, what opens a config SealedError."""

    def __init__(self, webhooks: Webhooks, sealer: Sealer, *, limit: int) -> None:
        """A task may have so many as `limit`."""
        self._webhooks = webhooks
        self._sealer = sealer
        self.limit = limit

    def pack(self, config: Config, scope: Scope) -> Webhook:
        """`config` as it is stored, with an id of the server's where it has none (3.1.7)."""
        kept = Config()
        kept.CopyFrom(config)
        kept.id = config.id or ids.new_id()
        kept.ClearField("task_id")
        content = self._sealer.seal(kept.SerializeToString(), _belongs_to(scope, kept.id))
        return Webhook(id=kept.id, content=content, limit=self.limit)

    def unpack(self, content: bytes, scope: Scope, task_id: str, config_id: str) -> Config:
        """The config in what `pack` made."""
        config = Config.FromString(self._sealer.open(content, _belongs_to(scope, config_id)))
        config.task_id = task_id
        return config

    async def put(self, stored: StoredTask, config: Config) -> tuple[Outcome, str]:
        """Add `config` to a task, or replace the one of its id; its id, with OK, GONE or HOOKED (too many)."""
        webhook = self.pack(config, stored.scope)
        return await self._webhooks.put(stored, webhook), webhook.id

    async def get(self, stored: StoredTask, config_id: str) -> Config | None:
        """One config of a task, or None."""
        content = await self._webhooks.get(stored.task_id, config_id)
        return None if content is None else self.unpack(content, stored.scope, stored.task_id, config_id)

    async def all(self, stored: StoredTask) -> list[Hooked]:
        """All of a task, in no order, as they are stored."""
        return await self._webhooks.all(stored.task_id)

    async def remove(self, stored: StoredTask, config_id: str) -> None:
        """Remove one; nothing happens where there is none."""
        await self._webhooks.remove(stored.task_id, config_id)


def _belongs_to(scope: Scope, config_id: str) -> str:
    return ids.scope(scope.tenant, scope.owner, config_id)
