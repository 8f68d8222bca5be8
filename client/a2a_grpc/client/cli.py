"""The commands that call an agent: `a2a-grpc send`, `stream`, `get`, `list`, `cancel`, `subscribe`, `card`.

Each is a function of its arguments that returns the exit code: 0; 1 for an error; 2 for a wrong command line; 130 after
Ctrl-C. What the agent decided is no error: a task that failed is reported, and exits with 0 (a2a-cli specification 0.2,
6.6 and 11.6), with a warning on stderr.
"""

import argparse
import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from a2a_grpc.client import shell
from a2a_grpc.client.card import CardResolver, parse_card
from a2a_grpc.client.client import A2AClient, Events
from a2a_grpc.client.errors import StreamBrokenError
from a2a_grpc.client.interfaces import BINDINGS, GRPC, HTTP_JSON
from a2a_grpc.client.messages import message
from a2a_grpc.client.printing import JsonPrinter, Printer, TextPrinter, plain
from a2a_grpc.client.states import state_in
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import A2AError, DeadlineExceededError, InvalidArgumentError, excerpt

if TYPE_CHECKING:
    from a2a_grpc.client.verifying import CardVerifier

_TRANSPORTS: Final[dict[str | None, Sequence[str]]] = {"grpc": (GRPC,), "http": (HTTP_JSON,), None: BINDINGS}
_UNHAPPY: Final[dict[a2a_pb2.TaskState | None, str]] = {
    a2a_pb2.TASK_STATE_FAILED: "failed",
    a2a_pb2.TASK_STATE_REJECTED: "was rejected",
    a2a_pb2.TASK_STATE_CANCELED: "was canceled",
}

Action = Callable[[argparse.Namespace, Printer], Coroutine[Any, Any, int]]


def send(argv: Sequence[str]) -> int:
    """Send a message and print what the agent answers."""
    parser = _parser("send", "Send a message to an agent and print its answer.", message=True)
    parser.add_argument("--no-wait", action="store_true", help="print the task as it is now instead of when it ends")
    return _run(parser, argv, _send)


def stream(argv: Sequence[str]) -> int:
    """Send a message and print what happens, as it happens."""
    parser = _parser("stream", "Send a message to an agent and print what happens, as it happens.", message=True)
    return _run(parser, argv, _stream)


def get(argv: Sequence[str]) -> int:
    """Print a task."""
    return _run(_parser("get", "Print a task: its artifacts and its state.", task=True), argv, _get)


def list_tasks(argv: Sequence[str]) -> int:
    """Print the caller's tasks."""
    parser = _parser("list", "Print your tasks, those that changed last first.")
    parser.add_argument("--context", default="", metavar="ID", help="only tasks of this context")
    parser.add_argument(
        "--state", choices=_states(), metavar="STATE", help=f"only tasks that are {', '.join(_states())}"
    )
    parser.add_argument("--all", action="store_true", help="every page instead of the first")
    return _run(parser, argv, _list)


def cancel(argv: Sequence[str]) -> int:
    """Cancel a task."""
    return _run(_parser("cancel", "Cancel a task.", task=True), argv, _cancel)


def subscribe(argv: Sequence[str]) -> int:
    """Print what happens to a task, as it happens."""
    parser = _parser("subscribe", "Print a task, then what happens to it until it ends.", task=True)
    return _run(parser, argv, _subscribe)


def card(argv: Sequence[str]) -> int:
    """Print an agent's card."""
    parser = _parser("card", "Print what an agent says about itself.")
    parser.add_argument(
        "--signed-by",
        metavar="KEYS",
        help="print it only if it is signed by one of these keys: a file with a JWK Set, or its URL",
    )
    return _run(parser, argv, _card)


async def _send(args: argparse.Namespace, printer: Printer) -> int:
    configuration = a2a_pb2.SendMessageConfiguration(return_immediately=args.no_wait)
    request = a2a_pb2.SendMessageRequest(message=_message(args), configuration=configuration)
    async with await _connect(args) as client:
        response = await client.send_message(request, timeout=args.timeout)
    printer.show(response)
    _warn(response.task.status.state)
    return 0


async def _stream(args: argparse.Namespace, printer: Printer) -> int:
    request = a2a_pb2.SendMessageRequest(message=_message(args))
    async with await _connect(args) as client:
        return await _follow(client.send_streaming_message(request, timeout=args.timeout), printer)


async def _get(args: argparse.Namespace, printer: Printer) -> int:
    async with await _connect(args) as client:
        printer.show(await client.get_task(a2a_pb2.GetTaskRequest(id=args.id), timeout=args.timeout))
    return 0


async def _list(args: argparse.Namespace, printer: Printer) -> int:
    request = a2a_pb2.ListTasksRequest(context_id=args.context, status=_states()[args.state] if args.state else None)
    async with await _connect(args) as client:
        while True:
            page = await client.list_tasks(request, timeout=args.timeout)
            printer.show(page)
            if not page.next_page_token:
                return 0
            if not args.all:
                sys.stderr.write(
                    f"These are {len(page.tasks)} of {page.total_size} tasks; --all prints the others too.\n"
                )
                return 0
            request.page_token = page.next_page_token


async def _cancel(args: argparse.Namespace, printer: Printer) -> int:
    async with await _connect(args) as client:
        printer.show(await client.cancel_task(a2a_pb2.CancelTaskRequest(id=args.id), timeout=args.timeout))
    return 0


async def _subscribe(args: argparse.Namespace, printer: Printer) -> int:
    request = a2a_pb2.SubscribeToTaskRequest(id=args.id)
    async with await _connect(args) as client:
        return await _follow(client.subscribe_to_task(request, timeout=args.timeout), printer)


async def _card(args: argparse.Namespace, printer: Printer) -> int:
    try:
        async with asyncio.timeout(args.timeout), AsyncExitStack() as stack:
            verifier = None
            if args.signed_by:
                verifier = await stack.enter_async_context(_verifier(args.signed_by, args.ca_file))
            if "://" not in args.url:
                data = await asyncio.to_thread(_bytes, args.url)
                if verifier is not None:
                    await verifier.verify(data)
                printer.show(parse_card(data, args.url))
                return 0
            resolver = CardResolver(headers=dict(args.header), ca_file=args.ca_file, verifier=verifier)
            printer.show(await (await stack.enter_async_context(resolver)).resolve(args.url))
    except TimeoutError as error:
        raise DeadlineExceededError(f"No agent card within {args.timeout:g} seconds.") from error
    return 0


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidArgumentError(
            f"{excerpt(path)!r} is no agent: give its URL (http or https), or the URL or the file of its card."
        ) from error


def _verifier(keys: str, ca_file: Path | None) -> "CardVerifier":
    # It takes cryptography along, which nothing else here needs.
    from a2a_grpc.client.verifying import CardVerifier  # noqa: PLC0415

    if "://" in keys:
        return CardVerifier(jwks_urls=[keys], ca_file=ca_file)
    try:
        return CardVerifier(jwks=Path(keys).read_bytes())
    except OSError as error:
        raise InvalidArgumentError(f"The keys in {keys} cannot be read: {error.strerror}.") from error


async def _follow(events: Events, printer: Printer) -> int:
    state: a2a_pb2.TaskState | None = None
    async with aclosing(events):
        async for event in events:
            printer.show(event)
            state = state_in(event) or state
    _warn(state)
    return 0


async def _connect(args: argparse.Namespace) -> A2AClient:
    return await A2AClient.connect(
        args.url, headers=dict(args.header), bindings=_TRANSPORTS[args.transport], ca_file=args.ca_file
    )


def _message(args: argparse.Namespace) -> a2a_pb2.Message:
    return message(args.text, task_id=args.task, context_id=args.context)


def _warn(state: a2a_pb2.TaskState | None) -> None:
    if state in _UNHAPPY:
        sys.stderr.write(f"a2a-grpc: the task {_UNHAPPY[state]}\n")


def _run(parser: argparse.ArgumentParser, argv: Sequence[str], action: Action) -> int:
    args = shell.parse(parser, argv)
    if isinstance(args, int):
        return args
    printer = JsonPrinter(sys.stdout) if args.json else TextPrinter(sys.stdout)

    def advice(error: A2AError) -> str:
        if isinstance(error, StreamBrokenError) and error.task_id:
            return f"a2a-grpc subscribe {args.url} {plain(error.task_id)} shows how it goes on."
        return ""

    return shell.run(action(args, printer), advice)


def _parser(command: str, description: str, *, message: bool = False, task: bool = False) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"a2a-grpc {command}", description=description, allow_abbrev=False)
    where = "base URL of the agent, or URL or file of its card"
    if command != "card":
        where += ", or grpc://host:port"
    parser.add_argument("url", metavar="URL", help=where)
    if message:
        parser.add_argument("text", metavar="TEXT", help="what to say")
        parser.add_argument("--task", default="", metavar="ID", help="the task to continue")
        parser.add_argument("--context", default="", metavar="ID", help="the context of the message")
    if task:
        parser.add_argument("id", metavar="ID", help="the task")
    parser.add_argument("--json", action="store_true", help="print ProtoJSON, one message a line")
    parser.add_argument(
        "--header", action="append", default=[], type=_header, metavar="NAME=VALUE", help="send this header; repeatable"
    )
    parser.add_argument("--transport", choices=["grpc", "http"], help="use this binding only")
    parser.add_argument(
        "--timeout", type=shell.seconds, metavar="SECONDS", help="give up after this time; default: never"
    )
    parser.add_argument(
        "--ca-file", type=Path, metavar="FILE", help="trust these certificates (PEM) instead of the public ones"
    )
    return parser


def _header(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError("a header is NAME=VALUE")
    return name, value


def _states() -> dict[str, str]:
    names = a2a_pb2.TaskState.keys()[1:]  # all but UNSPECIFIED
    return {name.removeprefix("TASK_STATE_").lower().replace("_", "-"): name for name in names}
