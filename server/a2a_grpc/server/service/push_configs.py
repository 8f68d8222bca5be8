"""The four operations on push notification configs (3.1.7 to 3.1.10)."""

from google.protobuf.empty_pb2 import Empty

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids, pages
from a2a_grpc.server.core.limits import limit_reached
from a2a_grpc.server.push.configs import PushConfigs
from a2a_grpc.server.push.sealing import SealedError
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.finding import find, not_found
from a2a_grpc.server.store.records import Outcome, StoredTask
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.store.webhooks import Hooked
from a2a_grpc.wire.errors import (
    InternalError,
    InvalidArgumentError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    Violation,
    excerpt,
)

DEFAULT_PAGE_SIZE = 50
MAX_PAGE_SIZE = 100


class PushConfigOperations:
    """The webhooks of a caller's tasks. A task of somebody else is no task (13.1)."""

    def __init__(self, store: TaskStore, configs: PushConfigs | None) -> None:
        """Without `configs` there are none, and the card says so (3.3.4): every operation is refused."""
        self._store = store
        self._given = configs

    @property
    def _configs(self) -> PushConfigs:
        if self._given is None:
            raise PushNotificationNotSupportedError(
                "This agent sends no push notifications; follow the task with SubscribeToTask or GetTask."
            )
        return self._given

    async def create(
        self, request: a2a_pb2.TaskPushNotificationConfig, caller: Caller
    ) -> a2a_pb2.TaskPushNotificationConfig:
        """Add a webhook to a task, or replace the one of the same id.

        Raises: TaskNotFoundError; QuotaExceededError where the task has as many as it may.
        """
        configs, stored = self._configs, await self._find(request.task_id, caller)
        outcome, config_id = await configs.put(stored, request)
        match outcome:
            case Outcome.GONE:
                raise not_found(request.task_id)
            case Outcome.HOOKED:
                raise limit_reached(
                    "The task has as many push notification configs as it may; delete one first.",
                    "task:webhooks",
                    f"{configs.limit} push notification configs",
                )
        made = a2a_pb2.TaskPushNotificationConfig()
        made.CopyFrom(request)
        made.id = config_id
        return made

    async def get(
        self, request: a2a_pb2.GetTaskPushNotificationConfigRequest, caller: Caller
    ) -> a2a_pb2.TaskPushNotificationConfig:
        """One webhook as it was given. Raises: TaskNotFoundError where there is no such task or no such webhook."""
        configs, stored = self._configs, await self._find(request.task_id, caller)
        try:
            found = await configs.get(stored, request.id)
        except SealedError as error:
            raise _unreadable() from error
        if found is None:
            raise TaskNotFoundError(
                "The task has no such push notification config.",
                metadata={"task_id": excerpt(request.task_id), "config_id": excerpt(request.id)},
            )
        return found

    async def page(
        self, request: a2a_pb2.ListTaskPushNotificationConfigsRequest, caller: Caller
    ) -> a2a_pb2.ListTaskPushNotificationConfigsResponse:
        """The webhooks of a task, the oldest first, page by page. Raises: TaskNotFoundError; InvalidArgumentError."""
        configs, stored = self._configs, await self._find(request.task_id, caller)
        bound_to = ids.scope(stored.scope.tenant, stored.scope.owner, stored.task_id).encode()
        hooks = sorted(await configs.all(stored), key=_place)
        after = _cursor(request.page_token, bound_to)
        if after is not None:
            hooks = [hook for hook in hooks if _place(hook) > after]
        size = min(request.page_size or DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)
        page = hooks[:size]
        response = a2a_pb2.ListTaskPushNotificationConfigsResponse(configs=self._opened(page, stored))
        if len(hooks) > size:
            response.next_page_token = pages.encode(_place(page[-1]), bound_to)
        return response

    async def delete(self, request: a2a_pb2.DeleteTaskPushNotificationConfigRequest, caller: Caller) -> Empty:
        """Remove a webhook; one that is not there is no error. Raises: TaskNotFoundError without such a task."""
        configs, stored = self._configs, await self._find(request.task_id, caller)
        await configs.remove(stored, request.id)
        return Empty()

    async def _find(self, task_id: str, caller: Caller) -> StoredTask:
        return await find(self._store, caller, task_id, artifacts=False)

    def _opened(self, page: list[Hooked], stored: StoredTask) -> list[a2a_pb2.TaskPushNotificationConfig]:
        try:
            return [self._configs.unpack(hook.content, stored.scope, stored.task_id, hook.id) for hook in page]
        except SealedError as error:
            raise _unreadable() from error


def _unreadable() -> InternalError:
    return InternalError("A push notification config of this task cannot be decrypted; the operator has to look at it.")


def _place(hook: Hooked) -> pages.Cursor:
    """Where a webhook stands in the listing: an id of the caller's may be too long for a token."""
    return pages.Cursor(hook.created_ms, ids.scope(hook.id))


def _cursor(token: str, bound_to: bytes) -> pages.Cursor | None:
    if not token:
        return None
    try:
        return pages.decode(token, bound_to)
    except ValueError as error:
        raise InvalidArgumentError(
            "The page token is not one of this listing.", violations=[Violation("page_token", str(error))]
        ) from error
