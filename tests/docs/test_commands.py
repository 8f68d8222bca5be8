"""docs/COMMANDS.md: its examples, run as they stand there, its tables, and what it says of requirements."""

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from a2a_grpc.client.cli.failures import EXITS
from a2a_grpc.command import COMMANDS, main
from tests.docs.documents import ROOT, blocks, table
from tests.support.replica import Replica

PAGE = ROOT / "docs" / "COMMANDS.md"
PROGRAMS = Path(sys.executable).parent

# The identifiers of the a2a-cli specification 0.2, revision of 2026-08-17: area and the last number in it.
AREAS = {
    "CARD_GET": 5,
    "SEND": 6,
    "TASK_GET": 1,
    "TASK_CANCEL": 1,
    "TASK_LIST": 1,
    "TASK_SUBSCRIBE": 2,
    "TASK_POLL": 4,
    "INTERACT": 5,
    "OUT": 7,
    "EXIT": 2,
    "AUTH": 11,
    "TX": 5,
    "VER": 3,
    "DEFAULT": 1,
    "CONFIG": 2,
    "DOWNLOAD": 1,
    "PUSH": 2,
    "CHAT": 1,
    "CLI": 2,
    "CONFORM": 1,
    "DEMO_SERVER": 1,
    "SKILL": 2,
}
REQUIREMENTS = [f"A2ACLI_{area}_{number:03}" for area, last in AREAS.items() for number in range(1, last + 1)]

EXAMPLES = [
    (command.group(1), command.group(2).splitlines())
    for block in blocks(PAGE)
    if block.language == "console"
    for command in re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.text, re.MULTILINE)
]


@pytest.fixture(scope="module")
def demo() -> Iterator[Replica]:
    """The demo agent with an embedded store, as `make run` serves it."""
    with contextlib.closing(Replica(agent=None, redis_url=None, env={})) as service:
        service.start()
        yield service


def fits(lines: list[str], expected: list[str]) -> bool:
    """Whether this is what the page shows; … stands for anything in a line, and alone for any lines."""
    pattern = "".join(
        r"(?:.*\n)*"
        if line == "…"
        else ".*".join(map(re.escape, line.split("…"))) + (".*" if line.endswith("…") else "") + r"\n"
        for line in expected
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None


async def printed(command: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a command of the page prints: results, then what is for people."""
    if command.startswith("a2a-grpc ") and "|" not in command:
        await asyncio.to_thread(main, shlex.split(command)[1:])
        out, err = capsys.readouterr()
    else:
        process = await asyncio.create_subprocess_exec(
            *(shutil.which("bash") or "bash", "-c", command), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = (text.decode() for text in await asyncio.wait_for(process.communicate(), 30))
    return [*out.splitlines(), *err.splitlines()]


@pytest.mark.wide
async def test_the_examples(
    demo: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one go, since a later one lists the task of an earlier one. Errors are part of what is shown."""
    assert len(EXAMPLES) == 10
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{PROGRAMS}:{os.environ['PATH']}")
    address = demo.http_url.removeprefix("http://")
    for command, expected in EXAMPLES:
        lines = await printed(command.replace("localhost:8080", address), tmp_path, capsys)
        shown = [line.replace(address, "localhost:8080") for line in lines]
        assert fits(shown, expected), f"{command}\n" + "\n".join(shown)


def test_what_fits() -> None:
    assert fits(["a: 1", "b"], ["a: …", "b"])
    assert not fits(["a: 1", "b", "c"], ["a: …", "b"])
    assert not fits(["a: 1"], ["a: …", "b"])
    assert fits(["a", "x", "y", "b"], ["a", "…", "b"])


def test_every_command_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"`a2a-grpc {name}" not in text and f"`{name}`" not in text] == []


def test_the_codes_are_those_of_the_commands() -> None:
    rows = [
        row.strip("| ").split(" | ") for row in PAGE.read_text(encoding="utf-8").splitlines() if "`A2ACLI_ERR_" in row
    ]
    assert {code.strip("`"): int(exit_code) for code, exit_code in rows} == EXITS


def have_tests() -> set[str]:
    """The requirements whose identifiers are in the names of tests."""
    found: set[str] = set()
    for file in (ROOT / "tests" / "client").glob("test_cli*.py"):
        for area, number, more in re.findall(
            r"def test_a2acli_([a-z_]+?)_(\d{3})((?:_and_\d{3})*)_", file.read_text(encoding="utf-8")
        ):
            numbers = [number, *re.findall(r"\d{3}", more)]
            found |= {f"A2ACLI_{area.upper()}_{one}" for one in numbers}
    return found


def test_every_requirement_has_a_test_or_a_reason() -> None:
    rows = {cells[0]: cells[2] for row in table(PAGE, "requirement") if (cells := row.strip("| ").split(" | "))}

    assert sorted(rows) == sorted(REQUIREMENTS)
    assert len(REQUIREMENTS) == 39 + 15 + 12, "of the three tiers"
    assert {requirement for requirement, met in rows.items() if met == "yes"} == have_tests()
    assert all(re.fullmatch(r"no: .{10,}", met) for met in rows.values() if met != "yes")
