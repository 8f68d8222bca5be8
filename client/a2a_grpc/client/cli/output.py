"""The two forms of output: text, and the protocol's own messages as JSON (a2a-cli specification 0.2, 11)."""

import argparse
import json
from typing import Any, Protocol, TextIO

from google.protobuf.message import Message

from a2a_grpc.client.cli.text import TextPrinter
from a2a_grpc.client.printing import UNSAFE
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson


class Printer(Protocol):
    """One form of output."""

    def show(self, message: Message) -> None:
        """Print a message of the protocol at once."""

    def resume(self, command: str) -> None:
        """Print how to go on, where that is part of the output."""


class JsonPrinter:
    """ProtoJSON: one document, or with `--stream` one object a line."""

    def __init__(self, out: TextIO, *, lines: bool) -> None:
        self._out = out
        self._lines = lines

    def show(self, message: Message) -> None:
        if self._lines and isinstance(message, a2a_pb2.ListTasksResponse):
            for task in message.tasks:
                self.show(task)
            return
        write_json(protojson.to_dict(message), self._out)

    def resume(self, command: str) -> None:
        """Nothing: the identifiers are in the messages."""


def printer_for(args: argparse.Namespace, out: TextIO, *, lines: bool) -> Printer:
    """The form of output that the arguments ask for; `lines`: an object for each event."""
    if args.output == "json":
        return JsonPrinter(out, lines=lines)
    return TextPrinter(out, verbose=args.verbose, history=getattr(args, "history", None) is not None)


def write_json(value: Any, out: TextIO) -> None:
    """Write a JSON value on one line, at once. What a terminal would obey is escaped, which is the same JSON.

    So is what the encoding of `out` might lack.
    """
    utf8 = (getattr(out, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not utf8)
    escapes = {code: f"\\u{code:04x}" for code in UNSAFE}
    out.write(text.translate(escapes) + "\n")
    out.flush()
