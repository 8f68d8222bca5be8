"""The eleven operations under their names, as the pipeline calls them."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

from google.protobuf.message import Message

from a2a_grpc.server.core.events import Event
from a2a_grpc.server.engine.engine import Engine
from a2a_grpc.server.hosting.hosts import Hosts
from a2a_grpc.server.push.configs import PushConfigs
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.cancel_task import CancelTask
from a2a_grpc.server.service.get_extended_agent_card import GetExtendedAgentCard
from a2a_grpc.server.service.get_task import GetTask
from a2a_grpc.server.service.intake import Inlet
from a2a_grpc.server.service.list_tasks import ListTasks
from a2a_grpc.server.service.push_configs import PushConfigOperations
from a2a_grpc.server.service.send_message import SendMessage
from a2a_grpc.server.service.send_streaming_message import SendStreamingMessage
from a2a_grpc.server.service.subscribe_to_task import SubscribeToTask
from a2a_grpc.server.service.watching import Watcher
from a2a_grpc.server.store.tail import LogTail
from a2a_grpc.server.store.tasks import TaskStore


class Operations:
    """What this service does: `unary` and `streams` map the name of an operation to its use case."""

    def __init__(
        self,
        hosts: Hosts,
        engine: Engine,
        store: TaskStore,
        tail: LogTail,
        configs: PushConfigs | None = None,
        *,
        dedupe_ttl: float,
        cancel_grace: float,
    ) -> None:
        """`dedupe_ttl` and `cancel_grace` in seconds. Without `configs` nobody may have webhooks."""
        inlet = Inlet(hosts, engine, store, configs, dedupe_ttl=dedupe_ttl)
        watcher = Watcher(store, tail)
        push = PushConfigOperations(store, configs)
        self.unary: Mapping[str, Callable[[Any, Caller], Awaitable[Message]]] = {
            "SendMessage": SendMessage(inlet, watcher, store).run,
            "GetTask": GetTask(store).run,
            "ListTasks": ListTasks(store).run,
            "CancelTask": CancelTask(store, watcher, cancel_grace=cancel_grace).run,
            "CreateTaskPushNotificationConfig": push.create,
            "GetTaskPushNotificationConfig": push.get,
            "ListTaskPushNotificationConfigs": push.page,
            "DeleteTaskPushNotificationConfig": push.delete,
            "GetExtendedAgentCard": GetExtendedAgentCard(hosts).run,
        }
        self.streams: Mapping[str, Callable[[Any, Caller], AsyncGenerator[Event, None]]] = {
            "SendStreamingMessage": SendStreamingMessage(inlet, watcher).run,
            "SubscribeToTask": SubscribeToTask(store, watcher).run,
        }
