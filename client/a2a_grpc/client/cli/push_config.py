"""`a2a-grpc task push-config`: where an agent posts what happens to a task (specification 3.1.7 to 3.1.10)."""

from argparse import ArgumentParser
from collections.abc import Callable

from a2a_grpc.client.cli.agent import connected
from a2a_grpc.client.cli.invocation import Action, Invocation
from a2a_grpc.client.client import A2AClient
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import PushNotificationNotSupportedError

Add = Callable[[str, Action, str], ArgumentParser]


def add(add_action: Add) -> None:
    """Give a parser the four actions."""
    created = add_action("create", _create, "have what happens to a task posted to a URL")
    created.add_argument("task", metavar="TASK_ID", help="the task")
    created.add_argument("--url", required=True, metavar="URL", help="where to post it")
    created.add_argument("--id", default="", metavar="ID", help="the name of the configuration (default: the agent's)")
    created.add_argument("--token", default="", metavar="TOKEN", help="what every post brings along (default: none)")
    for name, action, summary in (
        ("get", _get, "print one configuration"),
        ("delete", _delete, "have nothing posted any more; one that is gone is no error"),
    ):
        added = add_action(name, action, summary)
        added.add_argument("task", metavar="TASK_ID", help="the task")
        added.add_argument("config_id", metavar="CONFIG_ID", help="the configuration")
    add_action("list", _list, "print all configurations of a task").add_argument(
        "task", metavar="TASK_ID", help="the task"
    )


async def _create(run: Invocation) -> int:
    args = run.args
    request = a2a_pb2.TaskPushNotificationConfig(task_id=args.task, id=args.id, url=args.url, token=args.token)
    async with connected(run) as client:
        _check(client)
        run.printer.show(await client.create_task_push_notification_config(request))
    return 0


async def _get(run: Invocation) -> int:
    request = a2a_pb2.GetTaskPushNotificationConfigRequest(task_id=run.args.task, id=run.args.config_id)
    async with connected(run) as client:
        _check(client)
        run.printer.show(await client.get_task_push_notification_config(request))
    return 0


async def _list(run: Invocation) -> int:
    request = a2a_pb2.ListTaskPushNotificationConfigsRequest(task_id=run.args.task)
    async with connected(run) as client:
        _check(client)
        run.printer.show(await client.list_task_push_notification_configs(request))
    return 0


async def _delete(run: Invocation) -> int:
    request = a2a_pb2.DeleteTaskPushNotificationConfigRequest(task_id=run.args.task, id=run.args.config_id)
    async with connected(run) as client:
        _check(client)
        await client.delete_task_push_notification_config(request)
    return 0


def _check(client: A2AClient) -> None:
    """Ask nothing of an agent that its card rules out (13.3). Raises: PushNotificationNotSupportedError."""
    if client.card is not None and not client.card.capabilities.push_notifications:
        raise PushNotificationNotSupportedError("The agent's card says that it sends no push notifications.")
