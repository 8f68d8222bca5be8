"""The parts of a message, as the command line says them in order (a2a-cli specification 0.2, 10.2)."""

import argparse
import json
import mimetypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from a2a_grpc.client.cli.failures import USAGE, CommandError
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import A2AError, excerpt

_KINDS: Final = ("text", "file", "data")
_STDIN: Final = "-"


class PartAction(argparse.Action):
    """Collects `--text`, `--file`, `--data` in order; `--media-type` is of the one before it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        del option_string
        parts: list[tuple[str, str, str]] = [*(getattr(namespace, "parts", None) or [])]
        if self.dest in _KINDS:
            parts.append((self.dest, str(values), ""))
        elif not parts or parts[-1][2]:
            parser.error("--media-type follows the part that it is of: --text, --file or --data")
        else:
            parts[-1] = (*parts[-1][:2], str(values))
        namespace.parts = parts


def add(parser: argparse.ArgumentParser) -> None:
    """Give a parser the options for parts."""
    parser.add_argument("--text", action=PartAction, default=argparse.SUPPRESS, help="a part of text; repeatable")
    parser.add_argument(
        "--file",
        action=PartAction,
        default=argparse.SUPPRESS,
        metavar="PATH|URL",
        help="a part with a file, or with the URL of one, which the agent fetches; repeatable",
    )
    parser.add_argument(
        "--data",
        action=PartAction,
        default=argparse.SUPPRESS,
        metavar="PATH|-",
        help="a part of JSON, read from a file or (-) from stdin; repeatable",
    )
    parser.add_argument(
        "--media-type",
        action=PartAction,
        default=argparse.SUPPRESS,
        metavar="TYPE",
        help="the media type of the part before it (default: by the name of the file)",
    )
    parser.set_defaults(parts=None)


def read(texts: Sequence[str], options: Sequence[tuple[str, str, str]] | None) -> list[a2a_pb2.Part]:
    """The parts: the texts that stand alone, then those of options. Raises CommandError."""
    parts = [a2a_pb2.Part(text=_stdin().rstrip("\n") if text == _STDIN else text) for text in texts]
    if not parts and not options:
        raise CommandError(USAGE, "There is nothing to send: give TEXT, --text, --file or --data.")
    for kind, said, media_type in options or ():
        part = {"text": _text, "file": _file, "data": _data}[kind](said)
        if media_type:
            part.media_type = media_type
        parts.append(part)
    return parts


def _text(said: str) -> a2a_pb2.Part:
    return a2a_pb2.Part(text=said)


def _file(said: str) -> a2a_pb2.Part:
    guessed = mimetypes.guess_type(said.partition("?")[0], strict=False)[0] or ""
    if "://" in said:
        return a2a_pb2.Part(url=said, media_type=guessed)
    return a2a_pb2.Part(raw=_bytes(said), filename=Path(said).name, media_type=guessed)


def _data(said: str) -> a2a_pb2.Part:
    text = _stdin() if said == _STDIN else _bytes(said).decode(errors="replace")
    try:
        return protojson.from_dict({"data": json.loads(text)}, a2a_pb2.Part)
    except (ValueError, RecursionError, A2AError) as error:
        raise CommandError(USAGE, f"{'stdin' if said == _STDIN else excerpt(said)} holds no JSON: {error}.") from error


def _stdin() -> str:
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError as error:
        raise CommandError(USAGE, f"What is on stdin is no text: {error}.") from error
    if not text:
        raise CommandError(USAGE, "There is nothing on stdin.")
    return text


def _bytes(said: str) -> bytes:
    try:
        return Path(said).read_bytes()
    except OSError as error:
        raise CommandError(USAGE, f"The file {excerpt(said)} cannot be read: {error.strerror}.") from error
