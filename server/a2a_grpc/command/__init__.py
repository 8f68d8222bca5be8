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
_INTERRUPTED: Final = 130
"""After Ctrl-C, as shells have it: 128 and the number of SIGINT."""


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
    "card": Command(f"{_CLIENT}.card", "card", "print what an agent says about itself"),
    "send": Command(f"{_CLIENT}.send", "send", "send a message and print the answer"),
    "task": Command(f"{_CLIENT}.task", "task", "get, list, cancel and follow your tasks"),
    "discover": Command(f"{_CLIENT}.discover", "discover", "print which agents there are"),
    "auth": Command(f"{_CLIENT}.auth", "auth", "sign in to an agent, and out again"),
    "chat": Command(f"{_CLIENT}.chat.command", "chat", "talk with an agent"),
    "completion": Command("a2a_grpc.command", "completion", "print a script for the completion of a shell"),
    "tasks": Command(_ADMIN, "tasks", "for operators: the tasks of all callers"),
    "dead-letters": Command(_ADMIN, "dead_letters", "for operators: turns that were given up"),
    "replicas": Command(_ADMIN, "replicas", "for operators: the replicas that share the store"),
}

# The settings of the service are `config`. Those of the commands that call agents stand where the a2a-cli specification
# has them.
_CONFIG_SHOW: Final = Command(f"{_CLIENT}.config", "show", "print the settings of the commands that call agents")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the sub-command that the first argument names; 2 if there is none."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments else ""
    if name == "help" and len(arguments) > 1:
        return main([*arguments[1:], "--help"])
    if name in ("-h", "--help", "help"):
        sys.stdout.write(_usage())
        return 0
    if name in ("-v", "--version"):
        from importlib.metadata import version  # noqa: PLC0415 - slow, and wanted here only

        sys.stdout.write(f"{PROGRAM} {version(PROGRAM)}\n")
        return 0
    if arguments[:2] == ["config", "show"]:
        return _run(_CONFIG_SHOW, arguments[2:])
    command = COMMANDS.get(name)
    if command is None:
        problem = f"there is no command {name[:64]!r}" if name else "a command is needed"
        sys.stderr.write(f"{PROGRAM}: {problem}\n\n{_usage()}")
        return 2
    return _run(command, arguments[1:])


def _run(command: Command, arguments: Sequence[str]) -> int:
    try:
        function: Callable[[Sequence[str]], int] = getattr(_load(command.module), command.function)
        return function(arguments)
    except KeyboardInterrupt:  # so early that no command could take it
        return _INTERRUPTED


def completion(argv: Sequence[str]) -> int:
    """`a2a-grpc completion SHELL`."""
    from a2a_grpc.client.cli.completion import completion as complete  # noqa: PLC0415 - see _load

    found = {**COMMANDS, "config show": _CONFIG_SHOW}
    ours = {name: command.module if command.module.startswith(f"{_CLIENT}.") else "" for name, command in found.items()}
    return complete(argv, ours)


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
    listed = {**COMMANDS, "config show": _CONFIG_SHOW}
    rows = "".join(f"  {name:<14}{command.summary}\n" for name, command in listed.items())
    return f"usage: {PROGRAM} COMMAND …\n\n{rows}\n{PROGRAM} COMMAND --help says more.\n"
