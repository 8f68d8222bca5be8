"""3.1.7 to 3.1.10, 3.3.4: without the capability every push operation has the same error, whatever else is wrong.

A2A_PUSH switches it off for a service, and the card of an agent for that agent.
"""

import pytest
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import Caller, Connect, refused, say
from tests.conformance.expected import PUSH_NOTIFICATION_NOT_SUPPORTED
from tests.support.replica import PairPool, Replica

URL = "https://example.com/webhook"


@pytest.fixture(scope="session")
def replicas(pair_pool: PairPool) -> tuple[Replica, Replica]:
    """Two replicas of a service that sends no push notifications."""
    return pair_pool.get("tests.conformance.agent:full", {"A2A_PUSH": "false"}).replicas


METHODS = [
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
]


def request(method: str, task_id: str) -> Message:
    match method:
        case "CreateTaskPushNotificationConfig":
            return pb.TaskPushNotificationConfig(task_id=task_id, url=URL)
        case "GetTaskPushNotificationConfig":
            return pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id="c")
        case "ListTaskPushNotificationConfigs":
            return pb.ListTaskPushNotificationConfigsRequest(task_id=task_id)
    return pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="c")


@pytest.mark.parametrize("method", METHODS)
async def test_3_3_4_push_operations_without_the_capability(method: str, caller: Caller, other: Caller) -> None:
    """3.1.7 to 3.1.10: for a task that is there and for one that is not."""
    task = await caller.task("ask")
    await refused(PUSH_NOTIFICATION_NOT_SUPPORTED, other.call(method, request(method, task.id)))
    await refused(PUSH_NOTIFICATION_NOT_SUPPORTED, other.call(method, request(method, "unknown")))


@pytest.mark.parametrize("method", METHODS)
async def test_3_3_4_push_is_off_in_the_minimal_profile_too(method: str, connect: Connect, minimal: Replica) -> None:
    caller = await connect(minimal)
    await refused(PUSH_NOTIFICATION_NOT_SUPPORTED, caller.call(method, request(method, "unknown")))


@pytest.mark.parametrize("url", [URL, ""])
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_3_3_4_a_config_inside_a_message_without_the_capability(
    method: str, url: str, connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """The same error as the operations have, valid or not, and no work is begun."""
    caller = await connect(replicas[0], tenant=tenant)
    message = say("echo hi", task_push_notification_config=pb.TaskPushNotificationConfig(url=url))
    await refused(PUSH_NOTIFICATION_NOT_SUPPORTED, caller.call(method, message))
    assert (await caller.page()).total_size == 0
