"""`a2a-grpc chat`: reads what a person (or a pipe) says, line by line."""

import asyncio
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from a2a_grpc.client.cli import options
from a2a_grpc.client.cli.agent import connect
from a2a_grpc.client.cli.chat.screens import PipeScreen, TerminalScreen
from a2a_grpc.client.cli.chat.talk import Talk
from a2a_grpc.client.cli.failures import INTERRUPTED, USAGE, CommandError, failure_of
from a2a_grpc.client.cli.invocation import Invocation, Parser, run
from a2a_grpc.client.cli.settings import Settings
from a2a_grpc.client.remote_agent import RemoteAgent
from a2a_grpc.client.results import Result
from a2a_grpc.client.states import TERMINAL
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import A2AError

_PIPE_PATIENCE: Final = 30.0
_OWN_PATIENCE: Final = 2.0
"""Seconds after which a person is told that the connection is lost."""

_HELP: Final = """\
/new     begin another conversation
/cancel  cancel the task
/wait    wait until the agent goes on with the task
/status  the task, its context, its state
/quit    leave (Ctrl-D, too); what runs goes on
//…      say something that begins with a slash
Ctrl-C while the agent works asks what to do with the task."""


def chat(argv: Sequence[str]) -> int:
    """Talk with an agent. Returns the exit code."""
    return run(build, argv)


def build(settings: Settings) -> ArgumentParser:
    parser = Parser(
        prog="a2a-grpc chat",
        description="Talk with an agent: on a terminal, or through pipes, a message on each line.",
    )
    parser.add_argument("ref", metavar="REF", nargs="?", help="the agent; see --agent-card")
    # A conversation has no end of its own, and is always shown as it happens.
    options.add(parser, tuple(name for name in options.AGENT if name not in ("timeout", "stream")), settings)
    parser.set_defaults(action=_chat)
    return parser


def _chat(run: Invocation) -> int:
    typed = sys.stdin.isatty()
    if typed and not sys.stdout.isatty():
        raise CommandError(USAGE, "Somebody would have to type without seeing anything: stdout is no terminal.")
    if typed and run.args.output == "json":
        raise CommandError(USAGE, "-o json is for pipes.")
    if run.args.ref is not None:
        run.args.agent_card = run.args.ref
        run.args.flags.add("agent_card")
    run.printer = run.streaming_printer()
    with asyncio.Runner() as runner:
        client = runner.run(connect(run, patience=_OWN_PATIENCE))
        agent = RemoteAgent(client, patience=_OWN_PATIENCE)
        person = _Person(run, runner, agent) if typed else None
        try:
            return person.talk() if person else _Pipe(run, runner, agent).talk()
        finally:
            if person:
                person.rest()
            runner.run(agent.aclose())


class _Pipe:
    """Lines in, fields and blocks (or JSON) out."""

    def __init__(self, run: Invocation, runner: asyncio.Runner, agent: RemoteAgent) -> None:
        self._run = run
        self._runner = runner
        self._talk = Talk(agent, PipeScreen(run), patience=_PIPE_PATIENCE)

    def talk(self) -> int:
        """Until the lines end. A failure ends it too."""
        try:
            for line in sys.stdin:
                said = line.rstrip("\r\n")
                if said == "/quit":
                    break
                self._do(said)
        except UnicodeDecodeError as error:
            raise CommandError(USAGE, f"What is on stdin is no text: {error}.") from error
        self._run.printer.resume(self._run.resume())
        self._run.warn_of_outcome()
        return 0

    def _do(self, said: str) -> None:
        match said:
            case "/new":
                self._talk.renew()
            case "/cancel":
                if not self._talk.runs:
                    raise CommandError(USAGE, "There is no task to cancel.")
                self._runner.run(self._talk.cancel())
            case "/wait":
                if not self._talk.runs:
                    raise CommandError(USAGE, "There is no task to wait for.")
                self._runner.run(self._talk.follow())
            case "":
                pass
            case _ if said.startswith("/") and not said.startswith("//"):
                raise CommandError(
                    USAGE, f"There is no {said.split(maxsplit=1)[0][:32]}; there are /new, /cancel, /wait, /quit."
                )
            case _:
                self._runner.run(
                    self._talk.say([a2a_pb2.Part(text=said.removeprefix("/") if said[0] == "/" else said)])
                )


class _Person:
    """Somebody at a terminal."""

    def __init__(self, run: Invocation, runner: asyncio.Runner, agent: RemoteAgent) -> None:
        self._run = run
        self._runner = runner
        self._agent = agent
        self._screen = TerminalScreen(run)
        self._talk = Talk(agent, self._screen, patience=float("inf"))

    def talk(self) -> int:
        """Until the person leaves."""
        _edit_lines()
        self._screen.greet(self._agent.card)
        while True:
            try:
                said = input("answer> " if self._talk.waits else "you> ").strip()
            except EOFError:
                sys.stdout.write("\n")
                return self._leave(0)
            except KeyboardInterrupt:
                sys.stdout.write("\n")
                return self._leave(INTERRUPTED)
            if said in ("/quit", "/exit"):
                return self._leave(0)
            try:
                self._do(said)
            except KeyboardInterrupt:
                return self._leave(INTERRUPTED)

    def rest(self) -> None:
        """Leave the terminal as it was."""
        self._screen.rest()

    def _do(self, said: str) -> None:
        match said:
            case "":
                if self._run.seen.state == a2a_pb2.TASK_STATE_AUTH_REQUIRED:
                    self._turn(self._talk.follow)
            case "/help":
                self._screen.note(_HELP)
            case "/new":
                self._talk.renew()
                self._run.forget()
                self._screen.note("Another conversation.")
            case "/status":
                self._status()
            case "/cancel" | "/wait" if not self._talk.runs:
                self._screen.note("There is no task that runs.")
            case "/cancel":
                self._turn(self._talk.cancel)
            case "/wait":
                self._turn(self._talk.follow)
            case _ if said.startswith("/") and not said.startswith("//"):
                self._screen.complain(f"There is no {_word(said)}. /help tells what there is.")
            case _:
                self._turn(lambda: self._talk.say([_part(said)]))

    def _turn(self, begin: Callable[[], Coroutine[Any, Any, Result]]) -> None:
        """Let the agent work. Raises KeyboardInterrupt where the person wants to leave."""
        while True:
            self._screen.wait()
            try:
                self._runner.run(begin())
            except A2AError as error:
                self._screen.rest()
                failure = failure_of(error, credentials=self._run.has_credentials())
                self._screen.complain(f"{failure.message} ({failure.code})")
                return
            except KeyboardInterrupt:
                self._screen.rest()
            else:
                self._screen.rest()
                self._guide()
                return
            if not self._talk.runs:
                self._screen.note("Given up; no task is known yet.")
                return
            begin = self._talk.cancel if self._ask() else self._talk.follow

    def _ask(self) -> bool:
        """What to do with the task that runs: whether to cancel it. Raises KeyboardInterrupt to leave."""
        while True:
            try:
                said = input("Cancel the task? y: yes, n: no, go on; l: leave it to itself > ").strip().lower()
            except EOFError:
                raise KeyboardInterrupt from None
            if said in ("l", "leave"):
                raise KeyboardInterrupt
            if said in ("y", "yes", "n", "no", ""):
                return said in ("y", "yes")

    def _guide(self) -> None:
        if self._run.seen.state == a2a_pb2.TASK_STATE_AUTH_REQUIRED and self._talk.waits:
            self._screen.note("Do that, then press Enter to wait until the agent goes on; or answer.")

    def _status(self) -> None:
        session = self._talk.session
        self._screen.note(f"task {session.task_id or 'none'}, context {session.context_id or 'none'}")
        if how := self._run.resume():
            self._screen.note(how)

    def _leave(self, code: int) -> int:
        if self._talk.runs and self._run.seen.state not in TERMINAL and (how := self._run.resume()):
            self._screen.note(f"The task goes on: {how}")
        return code


def _word(said: str) -> str:
    """The command that somebody has tried."""
    return said.split(maxsplit=1)[0][:32]


def _part(said: str) -> a2a_pb2.Part:
    """What is meant: //x says /x."""
    return a2a_pb2.Part(text=said.removeprefix("/") if said.startswith("//") else said)


def _edit_lines() -> None:
    """Give `input` a line that can be edited, and the lines before it, where the system has that."""
    try:
        import readline  # noqa: F401, PLC0415 - its import is its effect
    except ImportError:
        return
