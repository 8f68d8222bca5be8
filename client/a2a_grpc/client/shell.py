"""What every command of the shell has in common: how it ends, and how its arguments are read."""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from a2a_grpc.client.printing import plain
from a2a_grpc.wire.errors import A2AError

_LONGEST = 1_000_000_000
_HIGHEST_NUMBER = 2**31 - 1


def parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace | int:
    """The arguments, or the exit code where argparse has said all there is to say."""
    try:
        return parser.parse_args(argv)
    except SystemExit as leaving:  # 0 after --help
        return int(leaving.code or 0)


def run(work: Coroutine[Any, Any, int], advice: Callable[[A2AError], str]) -> int:
    """Do the work of a command and return the exit code; `advice` says what to do about an error, or ""."""
    try:
        return asyncio.run(work)
    except A2AError as error:
        sys.stderr.write(f"a2a-grpc: {plain(error.message)} ({error.kind.reason})\n")
        if said := advice(error):
            sys.stderr.write(said + "\n")
        return 1
    except BrokenPipeError:
        # The reader has left. Python flushes stdout once more at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


def seconds(text: str) -> float:
    """An argument that is a time. Raises: ArgumentTypeError."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found <= _LONGEST:
        raise argparse.ArgumentTypeError(f"a time is a number of seconds above 0, and at most {_LONGEST}")
    return found


def number(text: str) -> int:
    """An argument that is the number of an event. Raises: ArgumentTypeError."""
    if not text.isascii() or not text.isdigit() or int(text) > _HIGHEST_NUMBER:
        raise argparse.ArgumentTypeError(f"a number of an event is a whole one from 0 to {_HIGHEST_NUMBER}")
    return int(text)
