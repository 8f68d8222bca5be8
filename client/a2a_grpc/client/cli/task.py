"""`a2a-grpc task`: get, list, cancel, subscribe."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, cast

from a2a_grpc.client.cli import download, options, push_config, waiting
from a2a_grpc.client.cli.agent import connected
from a2a_grpc.client.cli.invocation import Action, Invocation, Parser, run
from a2a_grpc.client.cli.settings import Settings
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import excerpt


def task(argv: Sequence[str]) -> int:
    """Do something with tasks. Returns the exit code."""
    return run(build, argv)


def build(settings: Settings) -> ArgumentParser:
    parser = Parser(prog="a2a-grpc task", description="Look at tasks, follow and cancel them.")
    actions = parser.add_subparsers(metavar="ACTION", required=True, parser_class=Parser)
    add = partial(_added, actions, settings)
    _one_task(add("get", _get, "print a task", "wait", "poll-interval", "history"))
    listed = add("list", _list, "print your tasks, those that changed last first", "context-id", "history")
    listed.add_argument(
        "--status", type=_state, metavar="STATE", help=f"only tasks in this state: {', '.join(_states())}"
    )
    listed.add_argument(
        "--page-size", type=options.count, metavar="N", help="so many tasks (default: as the agent likes)"
    )
    listed.add_argument("--page-token", default="", metavar="TOKEN", help="the page, as the one before it named it")
    listed.add_argument("--all", action="store_true", help="every page from there on (default: one page)")
    _one_task(add("cancel", _cancel, "cancel a task", "metadata"))
    _one_task(add("subscribe", _subscribe, "follow a task until it ends", "poll-interval"))
    download.add(add("download", download.download, "save the artifacts of a task as files"))
    hooks = actions.add_parser(
        "push-config", help="have tasks posted to URLs", description="Have what happens to tasks posted to URLs."
    )
    push_config.add(
        partial(_added, hooks.add_subparsers(metavar="ACTION", required=True, parser_class=Parser), settings)
    )
    return parser


def _added(actions: Any, settings: Settings, name: str, action: Action, summary: str, *names: str) -> ArgumentParser:
    added: ArgumentParser = actions.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    options.add(added, (*options.AGENT, *names), settings)
    added.set_defaults(action=action)
    return added


def _one_task(parser: ArgumentParser) -> None:
    parser.add_argument("id", metavar="TASK_ID", help="the task")


async def _get(run: Invocation) -> int:
    args = run.args
    run.seen.task_id = args.id
    async with connected(run) as client:
        if args.wait:
            found = (await waiting.settled(run, client, None)).task
        else:
            request = a2a_pb2.GetTaskRequest(id=args.id)
            if args.history is not None:
                request.history_length = args.history
            found = await client.get_task(request)
    return _shown(run, found)


async def _list(run: Invocation) -> int:
    args = run.args
    request = a2a_pb2.ListTasksRequest(context_id=args.context_id or "", status=args.status, page_token=args.page_token)
    if args.page_size is not None:
        request.page_size = args.page_size
    if args.history is not None:
        request.history_length = args.history
    async with connected(run) as client:
        page = await client.list_tasks(request)
        while args.all and page.next_page_token:
            request.page_token = page.next_page_token
            following = await client.list_tasks(request)
            page.tasks.extend(following.tasks)
            page.next_page_token = following.next_page_token
            page.page_size = len(page.tasks)
    run.printer.show(page)
    if page.next_page_token:
        run.say(f"these are {len(page.tasks)} of {page.total_size} tasks; --all prints the others too")
    return 0


async def _cancel(run: Invocation) -> int:
    request = a2a_pb2.CancelTaskRequest(id=run.args.id)
    if run.args.metadata:
        request.metadata.update(run.args.metadata)
    async with connected(run) as client:
        return _shown(run, await client.cancel_task(request))


async def _subscribe(run: Invocation) -> int:
    run.seen.task_id = run.args.id
    async with connected(run) as client:
        stream = waiting.following(run, client, run.args.id)
        if run.args.stream:
            async with aclosing(waiting.events(run, client, stream)) as events:
                async for event in events:
                    run.printer.show(event)
        else:
            run.printer.show((await waiting.settled(run, client, stream)).task)
    run.printer.resume(run.resume())
    run.warn_of_outcome()
    return 0


def _shown(run: Invocation, found: a2a_pb2.Task) -> int:
    run.seen.take(found)
    run.printer.show(found)
    run.printer.resume(run.resume())
    run.warn_of_outcome()
    return 0


def _states() -> dict[str, a2a_pb2.TaskState]:
    """The states by the names that they have here, all but the one that says nothing."""
    names = a2a_pb2.TaskState.keys()[1:]
    return {
        name.removeprefix("TASK_STATE_"): cast("a2a_pb2.TaskState", a2a_pb2.TaskState.Value(name)) for name in names
    }


def _state(text: str) -> a2a_pb2.TaskState:
    """A state by its name, here or in the protocol, in either case. Raises ArgumentTypeError."""
    found = _states().get(text.upper().replace("-", "_").removeprefix("TASK_STATE_"))
    if found is None:
        raise ArgumentTypeError(f"{excerpt(text, 32)!r} is none of {', '.join(_states())}")
    return found
