"""The command `a2a-grpc`, run in the process of a test."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from a2a_grpc.command import main


class Outcome(NamedTuple):
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


Run = Callable[..., Outcome]


def running(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs any command; what it prints is in its outcome."""

    def run(*argv: str) -> Outcome:
        code = main(argv)
        return Outcome(code, *capsys.readouterr())

    return run
