"""`a2a-grpc send`: a message, and what the agent answers."""

from argparse import ArgumentParser
from collections.abc import Sequence
from contextlib import aclosing

from a2a_grpc.client.cli import options, parts, waiting
from a2a_grpc.client.cli.agent import connected
from a2a_grpc.client.cli.failures import USAGE, CommandError
from a2a_grpc.client.cli.invocation import Invocation, Parser, run
from a2a_grpc.client.cli.settings import Settings
from a2a_grpc.client.client import A2AClient
from a2a_grpc.client.messages import message
from a2a_grpc.pb import a2a_pb2


def send(argv: Sequence[str]) -> int:
    """Send a message and print the answer. Returns the exit code."""
    return run(build, argv)


def build(settings: Settings) -> ArgumentParser:
    parser = Parser(prog="a2a-grpc send", description="Send a message to an agent and print what it answers.")
    parser.add_argument("words", metavar="TEXT", nargs="*", help="what to say; - reads it from stdin")
    parts.add(parser)
    names = ("async", "wait", "poll-interval", "context-id", "task-id", "metadata", "history")
    options.add(parser, (*options.AGENT, *names), settings)
    parser.set_defaults(action=_send, intermixed="words")
    return parser


async def _send(run: Invocation) -> int:
    args = run.args
    at_once = getattr(args, "async") and not args.wait
    if at_once and args.stream:
        raise CommandError(USAGE, "--async and --stream exclude each other.")
    request = _request(run)
    async with connected(run) as client:
        if args.stream:
            await _stream(run, client, request)
        elif at_once:
            request.configuration.return_immediately = True
            answer = await client.send_message(request)
            run.seen.take(answer)
            run.printer.show(answer)
        else:
            stream = waiting.sending(run, client, request)
            run.printer.show(await waiting.settled(run, client, stream, answering=bool(args.task_id)))
    run.printer.resume(run.resume())
    run.warn_of_outcome()
    return 0


async def _stream(run: Invocation, client: A2AClient, request: a2a_pb2.SendMessageRequest) -> None:
    if not waiting.streams(client):
        run.say("the agent does not stream: it is asked for the task again and again")
    stream = waiting.sending(run, client, request)
    async with aclosing(waiting.events(run, client, stream, answering=bool(run.args.task_id))) as events:
        async for event in events:
            run.printer.show(event)


def _request(run: Invocation) -> a2a_pb2.SendMessageRequest:
    args = run.args
    made = message("", task_id=args.task_id or "", context_id=args.context_id or "")
    del made.parts[:]
    made.parts.extend(parts.read(args.words, args.parts))
    request = a2a_pb2.SendMessageRequest(message=made)
    if args.metadata:
        request.metadata.update(args.metadata)
    if args.history is not None:
        request.configuration.history_length = args.history
    return request
