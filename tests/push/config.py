"""Push notification configs, and the operations on them in the words of the tests."""

from typing import Any

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import Caller
from tests.support.receiver import Receiver


def config(hook: Receiver, path: str = "/hook", **fields: Any) -> pb.TaskPushNotificationConfig:
    """A webhook at `hook`."""
    return pb.TaskPushNotificationConfig(url=hook.url + path, **fields)


async def create(caller: Caller, task_id: str, given: pb.TaskPushNotificationConfig) -> pb.TaskPushNotificationConfig:
    """CreateTaskPushNotificationConfig."""
    request = pb.TaskPushNotificationConfig(task_id=task_id)
    request.MergeFrom(given)
    made: pb.TaskPushNotificationConfig = (await caller.answer("CreateTaskPushNotificationConfig", request)).message
    return made


async def get(caller: Caller, task_id: str, config_id: str) -> pb.TaskPushNotificationConfig:
    """GetTaskPushNotificationConfig."""
    request = pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
    found: pb.TaskPushNotificationConfig = (await caller.answer("GetTaskPushNotificationConfig", request)).message
    return found


async def listed(caller: Caller, task_id: str, **page: Any) -> pb.ListTaskPushNotificationConfigsResponse:
    """ListTaskPushNotificationConfigs."""
    request = pb.ListTaskPushNotificationConfigsRequest(task_id=task_id, **page)
    found: pb.ListTaskPushNotificationConfigsResponse = (
        await caller.answer("ListTaskPushNotificationConfigs", request)
    ).message
    return found


async def delete(caller: Caller, task_id: str, config_id: str) -> None:
    """DeleteTaskPushNotificationConfig."""
    request = pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
    await caller.answer("DeleteTaskPushNotificationConfig", request)
