"""The command `a2a-grpc`: picks the sub-command, and imports only what that one needs.

It belongs to neither side, since it starts both: the server under `serve`, `gateway` and `config`, else the client.
"""

import gc
import importlib
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Final, NamedTuple

PROGRAM: Final = "a2a-grpc"


class Command(NamedTuple):
    """Where a sub-command is: `function` of `module` takes the arguments after its name and returns the exit code."""

    module: str
    function: str
    summary: str


_SERVER: Final = "a2a_grpc.server.main"
_CLIENT: Final = "a2a_grpc.client.cli"
_ADMIN: Final = "a2a_grpc.client.admin.cli"

COMMANDS: Final = {
    "serve": Command(_SERVER, "serve", "run an agent over gRPC and HTTP"),
    "gateway": Command(_SERVER, "gateway", "serve HTTP in front of a gRPC server"),
    "registry": Command(_SERVER, "registry", "keep a registry of agents"),
    "config": Command(_SERVER, "config", "print the settings that are in effect"),
    "send": Command(_CLIENT, "send", "send a message and print the answer"),
    "stream": Command(_CLIENT, "stream", "send a message and print what happens, as it happens"),
    "get": Command(_CLIENT, "get", "print a task"),
    "list": Command(_CLIENT, "list_tasks", "print your tasks"),
    "cancel": Command(_CLIENT, "cancel", "cancel a task"),
    "subscribe": Command(_CLIENT, "subscribe", "print what happens to a task, as it happens"),
    "card": Command(_CLIENT, "card", "print what an agent says about itself"),
    "tasks": Command(_ADMIN, "tasks", "for operators: the tasks of all callers"),
    "dead-letters": Command(_ADMIN, "dead_letters", "for operators: turns that were given up"),
    "replicas": Command(_ADMIN, "replicas", "for operators: the replicas that share the store"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sub-command that the first argument names; 2 if there is none."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments else ""
    if name in ("-h", "--help", "help"):
        sys.stdout.write(_usage())
        return 0
    if name == "--version":
        from importlib.metadata import version  # noqa: PLC0415 - slow, and wanted here only

        sys.stdout.write(f"{PROGRAM} {version(PROGRAM)}\n")
        return 0
    command = COMMANDS.get(name)
    if command is None:
        problem = f"there is no command {name[:64]!r}" if name else "a command is needed"
        sys.stderr.write(f"{PROGRAM}: {problem}\n\n{_usage()}")
        return 2
    function: Callable[[Sequence[str]], int] = getattr(_load(command.module), command.function)
    return function(arguments[1:])


def _load(name: str) -> ModuleType:
    """Import a module that stays: to look for garbage meanwhile, and in it later, is time lost at every start."""
    if name in sys.modules:
        return sys.modules[name]
    gc.disable()
    module = importlib.import_module(name)
    gc.freeze()
    gc.enable()
    return module


def _usage() -> str:
    rows = "".join(f"  {name:<14}{command.summary}\n" for name, command in COMMANDS.items())
    return f"usage: {PROGRAM} COMMAND …\n\n{rows}\n{PROGRAM} COMMAND --help says more.\n"
