"""`a2a-grpc completion`: a script that lets a shell complete command lines."""

import argparse
import importlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from a2a_grpc.client.cli.invocation import Invocation, Parser, run
from a2a_grpc.client.cli.settings import Settings

SHELLS: Final = ("bash", "zsh")

_SCRIPT: Final = """\
_a2a_grpc() {{
    local word path="" i
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${{COMP_WORDS[i]}}
        case "${{path:+$path }}$word" in
            {paths}) path="${{path:+$path }}$word" ;;
        esac
    done
    local words
    case "$path" in
{cases}
        *) words="" ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _a2a_grpc a2a-grpc
"""
_ZSH: Final = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def completion(argv: Sequence[str], commands: Mapping[str, str]) -> int:
    """Print the script. `commands` are all that there are, with the modules of those that take options apart."""
    return run(lambda settings: _build(settings, commands), argv)


def _build(settings: Settings, commands: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = Parser(
        prog="a2a-grpc completion",
        description="Print a script that lets a shell complete command lines.",
    )
    parser.add_argument("shell", choices=SHELLS, help='bash: eval "$(a2a-grpc completion bash)"; zsh: the same')
    parser.set_defaults(action=_complete, options=(), output="text", verbose=False, debug=False)
    parser.set_defaults(words=lambda: dict(_all(settings, commands)))
    return parser


def _complete(run: Invocation) -> int:
    words: dict[str, list[str]] = run.args.words()
    paths = "|".join(f'"{path}"' for path in words if path)
    cases = "\n".join(f'        "{path}") words="{" ".join(found)}" ;;' for path, found in words.items())
    sys.stdout.write((_ZSH if run.args.shell == "zsh" else "") + _SCRIPT.format(paths=paths, cases=cases))
    return 0


def _all(settings: Settings, commands: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """What may come after each command, by its words."""
    yield "", sorted({name.split()[0] for name in commands} | {"help"})
    yield "help", sorted({name.split()[0] for name in commands})
    for name, module in commands.items():
        if " " in name:
            yield name.split()[0], [name.split()[1]]
        build = getattr(importlib.import_module(module), "build", None) if module else None
        if build is not None:
            yield from _of(name, build(settings))
        elif name == "completion":
            yield name, list(SHELLS)
        elif name not in {other.split()[0] for other in commands if " " in other}:
            yield name, ["--help"]


def _of(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    words: list[str] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list of them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            words += action.choices
            for name, below in action.choices.items():
                yield from _of(f"{path} {name}", below)
        else:
            words += [flag for flag in action.option_strings if flag.startswith("--")]
    yield path, sorted(words)
