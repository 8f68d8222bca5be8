"""The commands for operators: `a2a-grpc dead-letters`, `tasks` and `replicas`.

They call the administration service of any replica, which answers for all of them. Exit codes are those of the other
commands; 2 also where something is to be erased and nobody has confirmed it.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, TypeVar

from google.protobuf.message import Message

from a2a_grpc.admin.v1 import admin_pb2
from a2a_grpc.client import shell
from a2a_grpc.client.admin.printing import JsonPrinter, Printer, TablePrinter
from a2a_grpc.client.errors import NotConnectedError
from a2a_grpc.client.transports.admin import AdminTransport
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import A2AError, DeadlineExceededError, UnimplementedError

DEFAULT_ADDR: Final = "127.0.0.1:50052"
_ADDR: Final = "A2A_ADMIN_ADDR"
_CONNECT_TIMEOUT: Final = 5.0
_PAGE: Final = 50
_LARGE_PAGE: Final = 500

R = TypeVar("R", bound=Message)
Action = Callable[[argparse.Namespace, AdminTransport, Printer], Coroutine[Any, Any, int]]


def dead_letters(argv: Sequence[str]) -> int:
    """Turns that were given up: list, show, send again, remove."""
    parser, add = _parser("dead-letters", "Turns that were given up: what was asked, and why it was not done.")
    found = add("list", _list_letters, "the dead letters, the latest first")
    _owner_filters(found)
    _whole(found)
    found = add("show", _show_letter, "a dead letter with its message")
    found.add_argument("id", metavar="ID", help="the dead letter")
    found = add("redrive", _redrive, "send the message again as a new task; twice gives the same task")
    found.add_argument("id", metavar="ID", help="the dead letter")
    found = add("purge", _purge, "remove dead letters for good; their tasks stay")
    which = found.add_mutually_exclusive_group(required=True)
    which.add_argument("id", nargs="?", metavar="ID", help="the dead letter")
    which.add_argument("--older-than", type=shell.seconds, metavar="SECONDS", help="those that died longer ago")
    which.add_argument("--all", action="store_true", help="every one")
    _confirmed(found)
    return _run(parser, argv)


def tasks(argv: Sequence[str]) -> int:
    """The tasks of all callers: list, show, follow, erase."""
    parser, add = _parser("tasks", "The tasks of all callers.")
    found = add("list", _list_tasks, "tasks; of one caller (--tenant and --owner) the latest first")
    _owner_filters(found)
    found.add_argument(
        "--state", choices=_states(), metavar="STATE", help=f"only tasks that are {', '.join(_states())}"
    )
    found.add_argument("--place", choices=_places(), help="only tasks that a replica runs, or that wait for one")
    _whole(found)
    found = add("show", _show_task, "a task and how it is run")
    found.add_argument("id", metavar="ID", help="the task")
    found = add("events", _events, "what happened to a task")
    found.add_argument("id", metavar="ID", help="the task")
    found.add_argument("--after", type=shell.number, default=0, metavar="N", help="only events with a higher number")
    found.add_argument("--follow", action="store_true", help="go on until the task ends")
    found = add("delete", _delete, "erase a task with everything that belongs to it, whatever its state")
    found.add_argument("id", metavar="ID", help="the task")
    _confirmed(found)
    return _run(parser, argv)


def replicas(argv: Sequence[str]) -> int:
    """The replicas that share the store."""
    parser = argparse.ArgumentParser(
        prog="a2a-grpc replicas", description="The replicas that share the store.", allow_abbrev=False
    )
    _common(parser)
    parser.set_defaults(action=_replicas)
    return _run(parser, argv)


# -- dead letters ------------------------------------------------------------------------------------------------------


async def _list_letters(args: argparse.Namespace, service: AdminTransport, printer: Printer) -> int:
    request = admin_pb2.ListDeadLettersRequest(tenant=args.tenant, owner=args.owner)

    async def page() -> tuple[Sequence[admin_pb2.DeadLetter], str]:
        answer = await service.unary(
            "ListDeadLetters", request, admin_pb2.ListDeadLettersResponse, timeout=args.timeout
        )
        return answer.letters, answer.next_page_token

    return await _pages(args, request, page, printer.letters)


async def _show_letter(args: argparse.Namespace, service: AdminTransport, printer: Printer) -> int:
    request = admin_pb2.GetDeadLetterRequest(id=args.id)
    printer.letter(await service.unary("GetDeadLetter", request, admin_pb2.GetDeadLetterResponse, timeout=args.timeout))
    return 0


async def _redrive(args: argparse.Namespace, service: AdminTransport, printer: Printer) -> int:
    request = admin_pb2.RedriveDeadLetterRequest(id=args.id)
    printer.redriven(
        await service.unary("RedriveDeadLetter", request, admin_pb2.RedriveDeadLetterResponse, timeout=args.timeout)
    )
    return 0


async def _purge(args: argparse.Namespace, service: AdminTransport, printer: Printer) -> int:
    request, question = admin_pb2.PurgeDeadLettersRequest(), ""
    if args.id:
        request.id = args.id
    elif args.all:
        request.all = True
        question = "Remove all dead letters?"
    else:
        request.older_than.FromMilliseconds(round(args.older_than * 1000))
        question = f"Remove all dead letters older than {args.older_than:g} seconds?"
    if question and not _sure(args, question):
        return 2
    printer.purged(
        await service.unary("PurgeDeadLetters", request, admin_pb2.PurgeDeadLettersResponse, timeout=args.timeout)
    )
    return 0


# -- tasks -------------------------------------------------------------------------------------------------------------


async def _list_tasks(args: argparse.Namespace, service: AdminTransport, printer: Printer) -> int:
    request = admin_pb2.ListTasksRequest(
        tenant=args.tenant,
        owner=args.owner,
        state=_states()[args.state] if args.state else "",
        place=_places()[args.place] if args.place else None,
    )

    async def page() -> tuple[Sequence[admin_pb2.TaskSummary], str]:
        answer = await service.unary("ListTasks", request, admin_pb2.ListTasksResponse, timeout=args.timeout)
        return answer.tasks, answer.next_page_token

    return await _pages(args, request, page, printer.tasks)


async def _show_task(args: argparse.Namespace, service: AdminTransport, printer: Printer) -> int:
    request = admin_pb2.GetTaskRequest(id=args.id)
    printer.task(await service.unary("GetTask", request, admin_pb2.GetTaskResponse, timeout=args.timeout))
    return 0


async def _events(args: argparse.Namespace, service: AdminTransport, printer: Printer) -> int:
    request = admin_pb2.ListTaskEventsRequest(id=args.id, after_seq=args.after, follow=args.follow)
    try:
        async with asyncio.timeout(args.timeout), aclosing(service.events(request)) as events:
            async for event in events:
                printer.event(event)
    except TimeoutError as error:
        raise DeadlineExceededError(f"The task has not ended within {args.timeout:g} seconds.") from error
    return 0


async def _delete(args: argparse.Namespace, service: AdminTransport, printer: Printer) -> int:
    if not _sure(args, f"Erase the task {args.id} with everything that belongs to it?"):
        return 2
    request = admin_pb2.DeleteTaskRequest(id=args.id)
    answer = await service.unary("DeleteTask", request, admin_pb2.DeleteTaskResponse, timeout=args.timeout)
    printer.deleted(args.id, answer)
    return 0


# -- replicas ----------------------------------------------------------------------------------------------------------


async def _replicas(args: argparse.Namespace, service: AdminTransport, printer: Printer) -> int:
    request = admin_pb2.ListReplicasRequest()
    answer = await service.unary("ListReplicas", request, admin_pb2.ListReplicasResponse, timeout=args.timeout)
    printer.replicas(answer.replicas)
    return 0


# -- what they share ---------------------------------------------------------------------------------------------------


async def _pages(
    args: argparse.Namespace,
    request: admin_pb2.ListDeadLettersRequest | admin_pb2.ListTasksRequest,
    page: Callable[[], Coroutine[Any, Any, tuple[Sequence[Any], str]]],
    show: Callable[[Sequence[Any]], None],
) -> int:
    """Print rows as they come: as many as a page has, or all."""
    shown = 0
    while True:
        request.page_size = _LARGE_PAGE if args.all else _PAGE - shown
        rows, request.page_token = await page()
        shown += len(rows)
        if rows or (not request.page_token and not shown):
            show(rows)
        if not request.page_token:
            return 0
        if not args.all and shown >= _PAGE:
            sys.stderr.write("There are more; --all prints the others too.\n")
            return 0


def _run(parser: argparse.ArgumentParser, argv: Sequence[str]) -> int:
    args = shell.parse(parser, argv)
    if isinstance(args, int):
        return args
    printer = JsonPrinter(sys.stdout) if args.json else TablePrinter(sys.stdout)
    addr = args.admin or os.environ.get(_ADDR) or DEFAULT_ADDR

    def advice(error: A2AError) -> str:
        if isinstance(error, NotConnectedError):
            return (
                f"Administration is off by default: set {_ADDR}={addr} on the replica and run this command there "
                "(kubectl exec), or give --admin the address of a tunnel (kubectl port-forward, ssh -L)."
            )
        if isinstance(error, UnimplementedError):
            return f"{addr} serves something else: --admin wants what {_ADDR} is on the replica."
        return ""

    async def work() -> int:
        async with _connected(addr) as service:
            code: int = await args.action(args, service, printer)
        return code

    return shell.run(work(), advice)


@asynccontextmanager
async def _connected(addr: str) -> AsyncIterator[AdminTransport]:
    service = AdminTransport(addr, connect_timeout=_CONNECT_TIMEOUT)
    try:
        yield service
    finally:
        await service.aclose()


def _sure(args: argparse.Namespace, question: str) -> bool:
    """Whether somebody says that it is to be done."""
    if args.yes:
        return True
    if not sys.stdin.isatty():
        sys.stderr.write("a2a-grpc: this cannot be undone, and there is nobody to ask: say --yes\n")
        return False
    sys.stderr.write(f"{question} This cannot be undone. [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _parser(
    command: str, description: str
) -> tuple[argparse.ArgumentParser, Callable[[str, Action, str], argparse.ArgumentParser]]:
    parser = argparse.ArgumentParser(prog=f"a2a-grpc {command}", description=description, allow_abbrev=False)
    actions = parser.add_subparsers(metavar="ACTION", required=True)

    def add(name: str, action: Action, summary: str) -> argparse.ArgumentParser:
        added = actions.add_parser(
            name, help=summary, description=summary[0].upper() + summary[1:] + ".", allow_abbrev=False
        )
        added.set_defaults(action=action)
        _common(added)
        return added

    return parser, add


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object a line")
    parser.add_argument(
        "--admin",
        metavar="HOST:PORT",
        help=f"where a replica listens for administration; default: {_ADDR}, else {DEFAULT_ADDR}",
    )
    parser.add_argument(
        "--timeout", type=shell.seconds, metavar="SECONDS", help="give up a call after this time; default: never"
    )


def _owner_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tenant", metavar="NAME", help='only of this tenant; "" is the one without a name')
    parser.add_argument("--owner", metavar="NAME", help='only of this caller; "" is the anonymous one')


def _whole(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help=f"all of them instead of the first {_PAGE}")


def _confirmed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do it without asking")


def _states() -> dict[str, str]:
    names = a2a_pb2.TaskState.keys()[1:]  # all but UNSPECIFIED
    return {name.removeprefix("TASK_STATE_").lower().replace("_", "-"): name for name in names}


def _places() -> dict[str, admin_pb2.Place]:
    places = (admin_pb2.PLACE_RUNNING, admin_pb2.PLACE_READY, admin_pb2.PLACE_LATER)
    return {admin_pb2.Place.Name(place).removeprefix("PLACE_").lower(): place for place in places}
