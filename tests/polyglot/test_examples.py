"""The programs of examples/go, examples/node and examples/java, built and run with the commands of docs/POLYGLOT.md."""

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import grpc
import pytest

from tests.docs.documents import ROOT, blocks
from tests.polyglot.front import Front
from tests.polyglot.toolchain import BUILD_TIMEOUT, build, need, run
from tests.support.replica import Replica, free_ports, replica

RUN_TIMEOUT = 120
"""Seconds for one run. `go run` and `npm start` compile first."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * BUILD_TIMEOUT)]

SAID = """\
agent a2a-grpc demo 1.0.0
send TASK_STATE_COMPLETED
  summary: Some of them are slow. A2A lets them stream.
  statistics: 2 of 4 sentences
stream
  task
  TASK_STATE_WORKING
  summary: Some of them are slow.
  +: A2A lets them stream.
  statistics: 2 of 4 sentences
  TASK_STATE_COMPLETED
cancel TASK_STATE_CANCELED
  the stream ended with TASK_STATE_CANCELED
error NOT_FOUND TASK_NOT_FOUND a2a-protocol.org
error INVALID_ARGUMENT INVALID_PARAMS a2a-protocol.org message.parts
"""


class Language(NamedTuple):
    """Where a program stands, and what it needs on the machine."""

    heading: str
    folder: Path
    tools: tuple[str, ...]


LANGUAGES = (
    Language("Go", ROOT / "examples" / "go", ("make", "go")),
    Language("TypeScript", ROOT / "examples" / "node", ("make", "node", "npm")),
    Language("Java", ROOT / "examples" / "java", ("make", "java", "javac", "mvn")),
)


class Program(NamedTuple):
    """A program that was built."""

    command: str
    folder: Path

    async def run(self, url: str) -> tuple[int, str, str]:
        """Exit status, what it printed, and what it said on the way."""
        assert self.command.endswith(" http://localhost:8080")
        command = shlex.split(self.command.replace("http://localhost:8080", url))
        done = await asyncio.to_thread(run, command, self.folder, limit=RUN_TIMEOUT)
        # npm announces what it starts.
        said = "".join(f"{line}\n" for line in done.stdout.splitlines() if line and not line.startswith("> "))
        return done.returncode, said, done.stderr


@pytest.fixture(scope="module", params=LANGUAGES, ids=lambda language: language.heading)
def program(request: pytest.FixtureRequest) -> Program:
    """One program, made with the first two of its three commands."""
    language: Language = request.param
    need(*language.tools)
    [block] = [block for block in blocks(ROOT / "docs" / "POLYGLOT.md") if block.heading == language.heading]
    protos, prepare, command = block.text.splitlines()
    build(protos, language.folder)
    build(prepare, language.folder)
    return Program(command, language.folder)


@pytest.fixture(scope="module")
def demo() -> Iterator[Replica]:
    with contextlib.closing(Replica(agent=None, redis_url=None, env={})) as service:
        service.start()
        yield service


async def test_it_discovers_sends_streams_cancels_and_reads_errors(program: Program, demo: Replica) -> None:
    status, said, trouble = await program.run(demo.http_url)

    assert (status, said, trouble) == (0, SAID, "")


async def test_it_calls_for_the_tenant_that_the_card_names(program: Program, tmp_path: Path) -> None:
    """8.3.2. Nothing is there for a call that names none."""
    agents = tmp_path / "agents.yaml"
    agents.write_text("agents:\n  acme:\n    agent: a2a_grpc.server.agents.demo:agent\n    auth: anonymous\n")

    async with replica(agent=str(agents)) as service:
        status, said, trouble = await program.run(f"{service.http_url}/acme")

    assert (status, said, trouble) == (0, SAID, "")


@contextlib.asynccontextmanager
async def behind(front: Front, grpc_port: int) -> AsyncIterator[Replica]:
    """The demo agent, with a card that names the address of `front`."""
    address = await front.start()
    try:
        env = {"A2A_GRPC_ADDR": f"127.0.0.1:{grpc_port}", "A2A_PUBLIC_GRPC_ADDR": address}
        async with replica(env=env) as service:
            yield service
    finally:
        await front.close()


async def test_a_call_is_made_again_with_the_same_message_when_the_service_says(program: Program) -> None:
    """B101: the work is done once, since every attempt carries the message id of the first one."""
    [port] = free_ports(1)
    refusals = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
    front = Front(f"127.0.0.1:{port}", refusals=refusals, wait=1.5)
    async with behind(front, port) as service:
        status, said, trouble = await program.run(service.http_url)

    assert (status, said) == (0, SAID), trouble
    times, requests = zip(*front.sent[:3], strict=True)
    assert all(request == requests[0] for request in requests)
    # Left to itself a program would come back after 0.1 to 0.6 s.
    assert all(later - earlier >= 1.5 for earlier, later in pairwise(times))


async def test_a_connection_that_is_cut_five_times_costs_no_event(program: Program) -> None:
    """The stream has six events. Each part of it brings the task, which is known already, and one event more."""
    [port] = free_ports(1)
    front = Front(f"127.0.0.1:{port}", cuts=5)
    async with behind(front, port) as service:
        status, said, trouble = await program.run(service.http_url)

    assert (status, said) == (0, SAID), trouble
    assert front.cut == 5
    requests, numbers = zip(*front.streamed[:6], strict=True)
    assert all(request == requests[0] for request in requests)
    assert numbers[0] == "0"
    assert sorted(numbers, key=int) == list(numbers)


async def test_a_service_that_stays_away_is_reported(program: Program) -> None:
    """Nobody listens where the card says: the program tries six times, and then says why it gives up."""
    [nobody] = free_ports(1)
    async with replica(env={"A2A_PUBLIC_GRPC_ADDR": f"127.0.0.1:{nobody}"}) as service:
        status, said, trouble = await program.run(service.http_url)

    assert status != 0
    assert said == "agent a2a-grpc demo 1.0.0\n"
    lines = trouble.splitlines()
    assert [line.partition(",")[0] for line in lines[:5]] == ["UNAVAILABLE"] * 5
    # `go run` adds the status that the program ended with.
    assert [line for line in lines[5:] if not line.startswith("exit status")] == ["UNAVAILABLE"]
