"""The command `a2a-grpc`, run in the process of a test."""

import json
import re
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
    def fields(self) -> dict[str, list[str]]:
        """What text output says under each label: fields and blocks, as a program takes them apart."""
        found: dict[str, list[str]] = {}
        label = ""
        block: list[str] | None = None
        for line in self.lines:
            if block is not None and line.startswith("  "):
                block.append(line[2:])
                continue
            if block is not None:
                assert line == "", f"a block ends with an empty line, not with {line!r}"
                found.setdefault(label, []).append("\n".join(block))
                block = None
                continue
            if not line:
                continue
            label, colon, value = line.partition(":")
            assert colon and re.fullmatch(r"[A-Za-z][A-Za-z0-9 -]*", label), f"{line!r} is no field"
            if value:
                assert value.startswith(" ") or value == "", line
                found.setdefault(label, []).append(value[1:])
            else:
                block = []
        assert block is None, "the last block is not closed"
        return found

    @property
    def json(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


Run = Callable[..., Outcome]


def running(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs any command; what it prints is in its outcome, but for which task it waits when that takes longer.

    On a busy machine anything may.
    """

    def run(*argv: str) -> Outcome:
        code = main(argv)
        out, err = capsys.readouterr()
        return Outcome(code, out, re.sub(r"^a2a-grpc: waiting for task .*\n", "", err, flags=re.MULTILINE))

    return run
