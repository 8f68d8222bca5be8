"""One run of a command: its arguments, its output, and how it ends."""

import argparse
import asyncio
import inspect
import io
import os
import re
import shlex
import sys
import traceback
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn, TextIO

from a2a_grpc.client.cli import options
from a2a_grpc.client.cli.failures import INTERNAL, INTERRUPTED, USAGE, CommandError, Failure, failure_of
from a2a_grpc.client.cli.options import OPTIONS
from a2a_grpc.client.cli.output import Printer, printer_for, write_json
from a2a_grpc.client.cli.settings import SECRET_OPTIONS, Settings, environment, load
from a2a_grpc.client.printing import plain
from a2a_grpc.client.states import INTERRUPTED as WAITING
from a2a_grpc.client.states import TERMINAL
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import A2AError, DeadlineExceededError, UnauthenticatedError, UnavailableError

REGISTERED: Final = "registry:"
"""What the name of an agent in a registry begins with."""

_MIN_SECRET: Final = 4
"""Shorter ones are no secrets, and to hide each of their letters would hide everything."""
_HIDDEN: Final = "[hidden]"

_OUTCOMES: Final[dict[a2a_pb2.TaskState, str]] = {
    a2a_pb2.TASK_STATE_FAILED: "the task failed",
    a2a_pb2.TASK_STATE_REJECTED: "the task was rejected",
    a2a_pb2.TASK_STATE_CANCELED: "the task was canceled",
    a2a_pb2.TASK_STATE_INPUT_REQUIRED: "the task waits for an answer",
    a2a_pb2.TASK_STATE_AUTH_REQUIRED: "the task waits for an authorization",
}


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are failures like others."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, **kwargs)
        self.set_defaults(prog=self.prog)

    def error(self, message: str) -> NoReturn:
        message = _without_values(message)
        raise CommandError(USAGE, f"{message[0].upper()}{message[1:].rstrip('.')}.", f"{self.prog} --help says more.")


@dataclass(slots=True)
class Seen:
    """What a command has heard of a task: enough to find it again when the command ends early."""

    task_id: str = ""
    context_id: str = ""
    state: a2a_pb2.TaskState | None = None

    def take(self, answer: a2a_pb2.Task | a2a_pb2.StreamResponse | a2a_pb2.SendMessageResponse) -> None:
        """Note what an answer says."""
        if isinstance(answer, a2a_pb2.Task):
            self._note(answer.id, answer.context_id, answer.status.state)
        elif isinstance(answer, a2a_pb2.SendMessageResponse):
            if answer.HasField("task"):
                self.take(answer.task)
        elif answer.HasField("task"):
            self.take(answer.task)
        elif answer.HasField("status_update"):
            update = answer.status_update
            self._note(update.task_id, update.context_id, update.status.state)

    def _note(self, task_id: str, context_id: str, state: a2a_pb2.TaskState) -> None:
        self.task_id, self.context_id, self.state = task_id, context_id, state


@dataclass(slots=True)
class Invocation:
    """What the code of a command works with."""

    args: argparse.Namespace
    settings: Settings
    printer: Printer
    seen: Seen = field(default_factory=Seen)
    tokens: set[str] = field(default_factory=set, repr=False)
    """What was got by signing in, then or now, and is shown to the agent or to its authorization server."""

    @property
    def out(self) -> TextIO:
        """Where results go."""
        return sys.stdout

    def say(self, text: str) -> None:
        """A line for people, on stderr, without credentials and without what a terminal would obey."""
        sys.stderr.write(f"a2a-grpc: {plain(self.hide(text))}\n")
        sys.stderr.flush()

    def debug(self, text: str) -> None:
        """As `say`, under `--debug` only."""
        if self.args.debug:
            self.say(text)

    def hide(self, text: str) -> str:
        """The text without the credentials of this run."""
        for secret in self._secrets():
            text = text.replace(secret, _HIDDEN)
        return text

    def warn_of_outcome(self) -> None:
        """Name an outcome that is no success (6.6): it has no exit code of its own."""
        if self.seen.state in _OUTCOMES:
            self.say(_OUTCOMES[self.seen.state])

    def command(self, words: str, *arguments: str) -> str:
        """A command line that can be pasted; it names the agent as this one does."""
        args = self.args
        given = [*arguments]
        if "agent_card" in args.flags:
            given += ["--agent-card", _without_user(args.agent_card)]
        # The id of an agent says nothing without its registry, which other names of agents have no use for.
        if "registry" in args.flags and str(args.agent_card).startswith(REGISTERED):
            given += ["--registry", _without_user(args.registry)]
        return " ".join(["a2a-grpc", words, *(shlex.quote(plain(one)) for one in given)])

    def resume(self) -> str:
        """How to go on with the task that was seen; "" where none was."""
        seen = self.seen
        if not seen.task_id:
            return ""
        if seen.state in WAITING:
            return f'{self.command("send", "--task-id", seen.task_id)} "REPLY"'
        if seen.state in TERMINAL:
            return f'{self.command("send", "--context-id", seen.context_id)} "MESSAGE"' if seen.context_id else ""
        return self.command("task get", seen.task_id, "--wait")

    def forget(self) -> None:
        """There is no task any more that could be gone on with."""
        self.seen = Seen()

    def has_credentials(self) -> bool:
        """Whether somebody is shown any; what a service parameter is for is not known here."""
        names = ({*SECRET_OPTIONS} - {"svc-param"} | {"client-cert"}) & {*self.args.options}
        return bool(self.tokens) or any(getattr(self.args, OPTIONS[name].dest) for name in names)

    def streaming_printer(self) -> Printer:
        """The form of output that the arguments ask for, for events as they come."""
        return printer_for(self.args, sys.stdout, lines=True)

    def _secrets(self) -> list[str]:
        given = [*self.tokens]
        for name in self.args.options:
            value = getattr(self.args, OPTIONS[name].dest) if name in SECRET_OPTIONS else None
            given += [one for _, one in value] if isinstance(value, list) else [value or ""]
        return sorted((one for one in given if len(one) >= _MIN_SECRET), key=len, reverse=True)


Action = Callable[[Invocation], Coroutine[Any, Any, int] | int]
Build = Callable[[Settings], argparse.ArgumentParser]


def run(build: Build, argv: Sequence[str]) -> int:
    """Run the command that `build` describes, and return the exit code.

    The parser that `build` makes has a default `action`: the function, mostly a coroutine function, that does the work.
    """
    _prepare_streams()
    form = _output(argv) or environment("output")
    try:
        settings = load(_named_file(argv))
        form = form or (found.text if (found := settings.get("output")) else None)
        parser = build(settings)
        try:
            args = _parsed(parser, argv)
        except SystemExit as leaving:  # 0 after --help
            return int(leaving.code or 0)
        options.resolve(args, settings)
        _check_text(args)
    except CommandError as error:
        return _report(failure_of(error), as_json=form == "json")
    invocation = Invocation(args, settings, printer_for(args, sys.stdout, lines=getattr(args, "stream", False)))
    for warning in settings.warnings:
        invocation.say(warning)
    return _ended(invocation)


def _prepare_streams() -> None:
    # One that the caller has closed is None.
    sys.stdin = sys.stdin or Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - for good
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for good
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - for good
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an agent's letter must not end a command
    if isinstance(sys.stdin, io.TextIOWrapper):
        # In some locales bytes that are no text would pass, up to where a message is made of them.
        sys.stdin.reconfigure(errors="replace" if sys.stdin.isatty() else "strict")


def _ended(invocation: Invocation) -> int:
    args = invocation.args
    try:
        if inspect.iscoroutinefunction(args.action):
            return asyncio.run(_limited(invocation))
        code: int = args.action(invocation)
    except (A2AError, CommandError) as error:
        failure = failure_of(error, hint=_hint(error, invocation), credentials=invocation.has_credentials())
        hidden = Failure(
            failure.code, invocation.hide(failure.message), invocation.hide(failure.hint), failure.a2a_code
        )
        return _report(hidden, as_json=args.output == "json")
    except BrokenPipeError:
        _give_up_stdout()
        return 1
    except KeyboardInterrupt:
        if (how := invocation.resume()) and invocation.seen.state not in TERMINAL:
            invocation.say(f"the task goes on: {how}")
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told in the form that was asked for (11.4)
        invocation.debug(traceback.format_exc())
        what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        failure = Failure(INTERNAL, invocation.hide(what), "" if args.debug else "--debug shows where it comes from.")
        return _report(failure, as_json=args.output == "json")
    return code


async def _limited(invocation: Invocation) -> int:
    seconds = getattr(invocation.args, "timeout", None)
    try:
        async with asyncio.timeout(seconds):
            code: int = await invocation.args.action(invocation)
    except TimeoutError as error:
        raise DeadlineExceededError(f"It took longer than {seconds:g} s.") from error
    return code


def _hint(error: A2AError | CommandError, invocation: Invocation) -> str:
    if isinstance(error, CommandError):
        return f"{invocation.args.prog} --help says more." if error.code == USAGE else ""
    if isinstance(error, UnavailableError | DeadlineExceededError) and invocation.seen.state not in TERMINAL:
        return invocation.resume()
    if isinstance(error, UnauthenticatedError) and invocation.tokens:
        return "`a2a-grpc auth login` gets another token."
    if getattr(invocation.args, "task_id", None) and not invocation.args.debug:
        return "--debug shows what was exchanged with the agent."
    return ""


def _report(failure: Failure, *, as_json: bool) -> int:
    """Print a failure: as JSON where results would be, else as lines on stderr."""
    if as_json:
        try:
            write_json(failure.envelope(), sys.stdout)
        except OSError:  # nobody reads it, or the disk is full
            _give_up_stdout()
        else:
            return failure.exit
    lines = [f"a2a-grpc: {plain(failure.message)} ({failure.code})", *([plain(failure.hint)] if failure.hint else [])]
    sys.stderr.write("\n".join(lines) + "\n")
    return failure.exit


def _give_up_stdout() -> None:
    """Python flushes it once more at exit, which must not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _output(argv: Sequence[str]) -> str | None:
    """The form of output that a command line asks for, which is perhaps wrong otherwise."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-o", "--output")
    try:
        found: str | None = parser.parse_known_args(argv)[0].output
    except (argparse.ArgumentError, SystemExit):
        return None
    return found


def _named_file(argv: Sequence[str]) -> Path | None:
    for at, word in enumerate(argv):
        if word == "--config" and at + 1 < len(argv):
            return Path(argv[at + 1])
        if word.startswith("--config="):
            return Path(word.partition("=")[2])
    named = environment("config")
    return Path(named) if named else None


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """The arguments. Options may only be mixed freely with the words of the one positional, `intermixed`, if any."""
    words = parser.get_default("intermixed")
    if words is None:
        return parser.parse_args(argv)
    # argparse loses what stands behind -- when it mixes.
    end = argv.index("--") if "--" in argv else len(argv)
    args = parser.parse_intermixed_args(argv[:end])
    setattr(args, words, [*getattr(args, words), *argv[end + 1 :]])
    return args


def _without_values(complaint: str) -> str:
    """A complaint of argparse without what may be a credential: that of an option that is misspelled, or misplaced."""
    unknown, separator, words = complaint.partition("unrecognized arguments: ")
    if not separator:
        return re.sub(r"invalid choice: .* \(choose", "invalid choice (choose", complaint, flags=re.DOTALL)
    said = words.split(" ")
    first = next((at for at, word in enumerate(said) if word.startswith("-")), len(said))
    names = [word.partition("=")[0] for word in said[first:] if word.startswith("-")]
    return f"{unknown}{separator}{' '.join(said[:first] + names)}"


def _check_text(args: argparse.Namespace) -> None:
    """Raises CommandError where an argument holds bytes that are no text: no message could carry them."""
    waiting = list(vars(args).values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, list | tuple | set):
            waiting += value
        elif isinstance(value, str) and not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value):
            raise CommandError(USAGE, "An argument is no text in UTF-8.")


def _without_user(agent: str) -> str:
    scheme, separator, rest = agent.partition("://")
    if not separator:
        return agent
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
