"""`a2a-grpc serve --workers N`: several processes on the same ports, under one that looks after them."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.server.ports import reserve
from a2a_grpc.server.settings.values import Address
from tests.conformance.callers import BINDINGS, CALLERS, Caller, GrpcCaller, HttpCaller, state, texts
from tests.support.metrics import Reading, scrape
from tests.support.processes import runs
from tests.support.replica import ROOT, Replica, free_ports
from tests.support.servers import StoreServer, fresh_store_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wide

AGENT = "tests.process.busy_agent:agent"
SOON = 4.0
"""Seconds to the end of workers that wait for nothing."""
OVERDUE = 124
FREE = {
    "A2A_GRPC_ADDR": "127.0.0.1:0",
    "A2A_HTTP_ADDR": "127.0.0.1:0",
    "A2A_METRICS_ADDR": "127.0.0.1:0",
    # Where the system chooses the port somebody else has to say how the agent is called.
    "A2A_PUBLIC_GRPC_ADDR": "example.com:1",
    "A2A_PUBLIC_HTTP_URL": "http://example.com",
}


class Group(Replica):
    """A supervisor with two workers."""

    def __init__(self, *, agent: str = AGENT, redis_url: str | None = None, env: dict[str, str] | None = None) -> None:
        self.metrics_addr = f"127.0.0.1:{free_ports(1)[0]}"
        super().__init__(
            agent=f"--workers 2 {agent}",
            redis_url=redis_url,
            env={"A2A_METRICS_ADDR": self.metrics_addr, "A2A_LEASE_TTL": "1", "A2A_REPLICA": "pod", **(env or {})},
        )

    def workers(self) -> dict[int, int]:
        """The process of each worker, by its number."""
        started = re.findall(r"worker (\d+) is process (\d+)", self.log(lines=None))
        return {int(number): int(pid) for number, pid in started}

    async def both(self) -> None:
        """Wait until both workers take calls."""

        async def up() -> bool:
            return (await scrape(self.metrics_addr)).of("a2a_worker_up") == 2

        await wait_until(up, "both workers take calls", timeout=30)

    def family(self) -> list[psutil.Process]:
        """The supervisor and everything that it has started."""
        supervisor = psutil.Process(self.pid)
        return [supervisor, *supervisor.children(recursive=True)]


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [one for one in processes if runs(one)]


@contextlib.asynccontextmanager
async def group(*, redis_url: str | None = None, env: dict[str, str] | None = None) -> AsyncIterator[Group]:
    started = Group(redis_url=redis_url, env=env)
    try:
        await asyncio.to_thread(started.start)
        await started.both()
        yield started
    finally:
        await asyncio.to_thread(started.close)


@pytest.fixture(scope="module")
def store() -> Iterator[StoreServer]:
    with fresh_store_server() as server:
        yield server


@pytest.fixture(scope="module")
def started(store: StoreServer) -> Iterator[Group]:
    one = Group(redis_url=store.url)
    try:
        one.start()
        yield one
    finally:
        one.close()


@pytest.fixture
async def served(started: Group) -> Group:
    await started.both()
    return started


async def reached(caller: Caller, task_id: str, name: str) -> pb.Task:
    """The task, once it is in that state."""

    async def found() -> pb.Task | None:
        task = await caller.get(task_id)
        return task if state(task.status.state) == name else None

    task = await wait_until(found, f"the task is {name}", timeout=15)
    assert task is not None
    return task


async def busy(one: Group) -> int:
    """The number of the worker that runs a turn."""

    async def found() -> int:
        reading = await scrape(one.metrics_addr)
        return next((n for n in (1, 2) if reading.of("a2a_turns_active", worker=str(n))), 0)

    return await wait_until(found, "a worker runs the turn")


def calls(reading: Reading, binding: str, worker: int) -> float:
    return reading.of("rpc_server_call_duration_seconds_count", rpc_system_name=binding, worker=str(worker))


async def test_each_worker_serves_on_each_port_and_one_scrape_tells_of_both(served: Group) -> None:
    async def all_called() -> bool:
        # The kernel chooses the worker of each connection.
        for over in BINDINGS:
            async with CALLERS[over](served) as caller:
                assert texts(await caller.task("echo hi")) == ["hi"]
        reading = await scrape(served.metrics_addr)
        return all(calls(reading, binding, n) for binding in ("grpc", "http_json", "jsonrpc") for n in (1, 2))

    await wait_until(all_called, "each worker had a call over each binding", timeout=20)
    reading = await scrape(served.metrics_addr)
    names = {dict(labels)["worker"]: dict(labels)["service_instance_id"] for labels in reading.labels("target_info")}
    # The end is new with each start.
    assert {worker: name[:6] for worker, name in names.items()} == {"1": "pod-1-", "2": "pod-2-"}
    assert reading.kinds["a2a_turns_active"] == "gauge"
    assert reading.of("a2a_worker_replacements_total") == 0
    # Each line says whose it is.
    assert re.findall(r"INFO    \[(\d)\] \S+: serving Busy", served.log(lines=None)) == ["1", "2"]
    assert re.search(r"INFO    \[2\] a2a_grpc.access: .*SendMessage", served.log(lines=None))


async def test_a_killed_worker_is_replaced_and_its_turns_run_elsewhere(served: Group) -> None:
    before = served.workers()
    async with GrpcCaller(served) as caller:
        task = await caller.task("attempt 20", return_immediately=True)
        number = await busy(served)
        os.kill(before[number], signal.SIGKILL)
    # The connection may have been to it; and until the last of it is gone it is given new ones.
    await wait_until(lambda: served.workers()[number] != before[number], "another one takes its place", timeout=15)
    async with HttpCaller(served) as caller:
        done = await reached(caller, task.id, "COMPLETED")
    assert "2" in texts(done), "it was the second attempt"
    await served.both()
    after = served.workers()
    assert after[number] != before[number] and after[3 - number] == before[3 - number]
    assert (await scrape(served.metrics_addr)).of("a2a_worker_replacements_total", worker=str(number)) == 1


async def test_a_killed_worker_leaves_no_process_behind_that_has_its_ports(served: Group) -> None:
    """What an agent has forked still listens, and the kernel would give it connections."""
    async with HttpCaller(served) as caller:
        pid, forked = map(int, texts(await caller.task("fork"))[0].split())
    left = psutil.Process(forked)
    assert left.is_running()
    os.kill(pid, signal.SIGKILL)
    await wait_until(lambda: not living([left]), "it is gone as well")
    await served.both()


async def test_a_worker_that_stands_still_is_told_of_in_time(served: Group) -> None:
    pid = served.workers()[1]
    os.kill(pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(10):  # as long as Prometheus waits by default
            reading = await scrape(served.metrics_addr)
        assert (reading.of("a2a_worker_up", worker="1"), reading.of("a2a_worker_up", worker="2")) == (0, 1)
        assert {dict(labels)["worker"] for labels in reading.labels("a2a_turns_active")} == {"2"}
    finally:
        os.kill(pid, signal.SIGCONT)
    await served.both()


async def test_a_port_that_somebody_has_is_named(served: Group) -> None:
    """Also where those who have it would share it with anybody."""
    for arguments, taken in (
        (["--workers", "2"], "A2A_GRPC_ADDR"),
        (["--workers", "2"], "A2A_HTTP_ADDR"),
        (["--workers", "2"], "A2A_METRICS_ADDR"),
        ([], "A2A_GRPC_ADDR"),
        ([], "A2A_HTTP_ADDR"),
    ):
        env = {**served.env, **FREE, taken: served.env[taken]}
        said = await asyncio.to_thread(run, env, *arguments, AGENT)
        assert said.returncode == 2
        assert "Address already in use. " in said.stderr and f"Set {taken} to" in said.stderr
        assert "worker" not in said.stderr, "none was started"


def test_a_group_that_starts_on_the_same_port_is_noticed_before_it_listens() -> None:
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        addr = Address("127.0.0.1", reserve(Address("127.0.0.1", 0), first))
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{addr.port}: Address already in use"):
            reserve(addr, second)
        first.close()
        assert reserve(addr, second) == addr.port


def test_connections_of_a_service_that_has_just_ended_do_not_keep_its_port() -> None:
    [port] = free_ports(1)
    with socket.create_server(("127.0.0.1", port)) as service, socket.create_connection(("127.0.0.1", port)) as caller:
        service.accept()[0].close()
        assert caller.recv(1) == b""
    with contextlib.ExitStack() as stack, socket.socket() as worker:
        assert reserve(Address("127.0.0.1", port), stack) == port
        worker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        worker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        worker.bind(("127.0.0.1", port))
        worker.listen()


def run(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A service that does not start."""
    command = [sys.executable, "-m", "a2a_grpc.server", "serve", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=30, check=False)


# -- the end -----------------------------------------------------------------------------------------------------------


async def ended(one: Group, status: int = 0, within: float = SOON) -> None:
    """It has to end in time, and everything that it has started."""
    family = one.family()
    begun = time.monotonic()
    assert await asyncio.to_thread(one.wait) == status, one.log()
    assert time.monotonic() - begun < within
    assert not living(family)
    assert "Traceback" not in one.log()


@pytest.mark.parametrize("to", ["the supervisor", "all", "a terminal that goes away"])
async def test_turns_that_can_end_do_so_before_the_workers_leave(to: str) -> None:
    """A platform may send the signal to each process: the one that is passed on is not the second then.

    Nor is the one that a shell sends when its terminal has sent it already.
    """
    async with group(env={"A2A_DRAIN_GRACE": "10"}) as one, HttpCaller(one) as caller:
        family = one.family()
        waiting = asyncio.create_task(caller.task("count 15"))
        await busy(one)
        if to == "all":
            for process in family[1:]:
                if "--supervised" in process.cmdline():
                    process.terminate()
        if to == "a terminal that goes away":
            one.send(signal.SIGHUP)
            await wait_until(lambda: "SIGHUP: stopping" in one.log(), "it was heard")
            one.send(signal.SIGHUP)
        else:
            one.terminate()
        assert texts(await waiting) == ["".join(f"{number} " for number in range(1, 16))]
        assert await asyncio.to_thread(one.wait) == 0, one.log()
        assert not living(family)
        assert one.log().count("s after the signal") == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
async def test_who_leaves_the_terminal_skips_the_delay(number: signal.Signals) -> None:
    async with group(env={"A2A_DRAIN_DELAY": "12", "A2A_DRAIN_GRACE": "10"}) as one:
        one.send(number)
        await ended(one)


async def test_who_was_told_not_to_hang_up_does_not() -> None:
    one = NoHangUp()
    try:
        await asyncio.to_thread(one.start)
        one.send(signal.SIGHUP)
        await scrape(one.metrics_addr)  # it would have been heard by now
        one.terminate()
        await ended(one)
        assert "SIGHUP" not in one.log()
    finally:
        await asyncio.to_thread(one.close)


class NoHangUp(Group):
    """One that was started as nohup(1) does."""

    def spawn(self, log: int) -> subprocess.Popen[bytes]:
        return self.execute(["nohup", sys.executable, "-m", "a2a_grpc.server", *self.arguments()], log)


async def test_a_second_signal_ends_all_at_once() -> None:
    async with group(env={"A2A_DRAIN_DELAY": "12", "A2A_DRAIN_GRACE": "10"}) as one:
        one.terminate()
        await wait_until(lambda: one.log().count("drain: SIGTERM: stopping") == 2, "the signal was passed on")
        family = one.family()
        one.terminate()
        assert await asyncio.to_thread(one.wait, 1.5) == -signal.SIGTERM
        # The store's own guard ends it when it has noticed.
        await wait_until(lambda: not living(family), "all have ended", timeout=2)


async def test_a_worker_that_cannot_end_is_killed_when_its_time_is_over() -> None:
    """Stopped processes cannot keep their own deadline. The exit status tells."""
    async with group(env={"A2A_DRAIN_TIMEOUT": "2"}) as one:
        os.kill(one.workers()[2], signal.SIGSTOP)
        one.terminate()
        await ended(one, OVERDUE, within=SOON + 2)


@pytest.mark.parametrize("word", ["block", "regex"])
async def test_no_worker_outlives_a_killed_supervisor(word: str) -> None:
    """They end as if they were asked to, also where an agent keeps the event loop, or the whole interpreter."""
    alone = {"A2A_LEASE_TTL": "30"}  # or the other worker would soon take the turn over
    async with group(env={**alone, "A2A_DRAIN_TIMEOUT": "2"}) as one, HttpCaller(one) as caller:
        family = one.family()
        await caller.task(word, return_immediately=True)
        await wait_until(lambda: silent(one), "a worker stands still")
        one.kill()
        try:
            await wait_until(lambda: not living(family), "all have ended", timeout=SOON + 2)
        finally:
            for left in living(family):
                left.kill()
        assert one.log().count("SIGTERM: stopping") == 1, "that of the other worker"
        if word == "block":
            assert "not stopped within A2A_DRAIN_TIMEOUT (2 s)" in one.log()


async def silent(one: Group) -> bool:
    return (await scrape(one.metrics_addr)).of("a2a_worker_up") == 1


# -- the start ---------------------------------------------------------------------------------------------------------


async def test_what_is_wrong_is_said_once(served: Group) -> None:
    said = await asyncio.to_thread(run, {**served.env, "A2A_GRPC_ADDR": "127.0.0.1"}, "--workers", "2", AGENT)
    assert (said.returncode, said.stderr.count("A2A_GRPC_ADDR")) == (2, 1)
    said = await asyncio.to_thread(run, {**served.env, **FREE}, "--workers", "2", "--", "no.such:agent")
    assert (said.returncode, said.stderr.count("a2a-grpc: ")) == (2, 1)
    assert "no.such" in said.stderr and "Traceback" not in said.stderr


async def test_workers_that_end_as_soon_as_they_start_are_given_up(tmp_path: Path, served: Group) -> None:
    """With the status of the last one, after a pause between two tries."""
    (tmp_path / "dying.py").write_text("import os\nos._exit(7)\n")
    env = {**served.env, **FREE, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:{tmp_path}"}
    said = await asyncio.to_thread(run, env, "--workers", "2", "dying:agent")
    assert said.returncode == 7
    assert re.findall(r"worker (\d) is process", said.stderr) == ["1"] * 5
    assert "giving up" in said.stderr.splitlines()[-1]
