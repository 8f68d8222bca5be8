"""Services whose webhooks may be on this machine, and push notification configs in the words of the tests."""

from typing import Any

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import Caller
from tests.support.receiver import Receiver

AGENT = "tests.conformance.agent:full"
LOCAL = {"A2A_PUSH_ALLOW": "localhost", "A2A_PUSH_ALLOW_HTTP": "true"}
QUICK = {**LOCAL, "A2A_PUSH_BACKOFF": "0.05", "A2A_PUSH_BACKOFF_MAX": "0.2", "A2A_PUSH_TIMEOUT": "3"}
"""Repeats come soon."""


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
