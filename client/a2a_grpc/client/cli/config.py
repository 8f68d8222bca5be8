"""`a2a-grpc config show`: the settings of the commands that call agents, and where each comes from."""

from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from a2a_grpc.client.cli import options
from a2a_grpc.client.cli.invocation import Invocation, Parser, run
from a2a_grpc.client.cli.options import OPTIONS, Option
from a2a_grpc.client.cli.output import write_json
from a2a_grpc.client.cli.settings import Settings
from a2a_grpc.client.cli.text import TextPrinter
from a2a_grpc.client.cli.tokens import entries


def show(argv: Sequence[str]) -> int:
    """Print the settings in effect. Returns the exit code."""
    return run(build, argv)


def build(settings: Settings) -> ArgumentParser:
    parser = Parser(
        prog="a2a-grpc config show",
        description="Print the settings of the commands that call agents, and where each comes from, secrets hidden.",
    )
    names = tuple(name for name, option in OPTIONS.items() if option.configurable)
    options.add(parser, names, settings)
    parser.set_defaults(action=_show)
    return parser


async def _show(run: Invocation) -> int:
    rows = {name: _row(run, OPTIONS[name]) for name in run.args.options}
    for name in run.settings.unknown(iter((*OPTIONS, "config"))):
        run.say(f"{name} is no setting")
    signed_in = entries()
    if isinstance(run.printer, TextPrinter):
        for name, (value, source) in rows.items():
            run.printer.field(name, f"{value} ({source})")
        for entry in signed_in:
            run.printer.field("signed-in", f"{entry.agent} ({entry.file})")
    else:
        found: dict[str, Any] = {name: {"value": value, "source": source} for name, (value, source) in rows.items()}
        found["signed-in"] = [{"value": entry.agent, "source": str(entry.file)} for entry in signed_in]
        write_json(found, run.out)
    return 0


def _row(run: Invocation, option: Option) -> tuple[Any, str]:
    if option.dest in run.args.flags:
        value = getattr(run.args, option.dest)
        return ("(hidden)" if option.secret else _text(value)), "flag"
    if (found := run.settings.get(option.name)) is not None:
        return options.shown(option, found), found.source
    return option.shown or str(option.default), "built in"


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
