"""Server processes as a platform runs them: two on one store, killed, stopped, started again, started wrongly."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil
import pytest

from tests.support.processes import runs
from tests.support.replica import ROOT, Pair, Replica, replica
from tests.support.waiting import wait_until

AGENT = "tests.process.echo_agent:agent"
pytestmark = pytest.mark.agent(AGENT)


async def send(http: httpx.AsyncClient, to: Replica, text: str) -> dict[str, object]:
    """The task that a blocking SendMessage gives."""
    message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}]}
    answer = await http.post(f"{to.http_url}/message:send", json={"message": message}, headers={"a2a-version": "1.0"})
    assert answer.status_code == httpx.codes.OK, answer.text
    task: dict[str, object] = answer.json()["task"]
    return task


async def get(http: httpx.AsyncClient, at: Replica, task_id: object) -> dict[str, object]:
    answer = await http.get(f"{at.http_url}/tasks/{task_id}", headers={"a2a-version": "1.0"})
    assert answer.status_code == httpx.codes.OK, answer.text
    task: dict[str, object] = answer.json()
    return task


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=10) as client:
        yield client


async def test_what_one_replica_did_the_other_one_knows(two_replicas: Pair, http: httpx.AsyncClient) -> None:
    one, other = two_replicas.replicas
    task = await send(http, one, "hello")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"  # type: ignore[index]
    assert await get(http, other, task["id"]) == await get(http, one, task["id"])


async def test_a_task_outlives_the_process_that_ran_it(two_replicas: Pair, http: httpx.AsyncClient) -> None:
    one, other = two_replicas.replicas
    task = await send(http, one, "hello")
    one.kill()
    assert not one.alive
    assert (await get(http, other, task["id"]))["artifacts"] == task["artifacts"]


async def test_a_killed_replica_and_a_killed_store_are_back_for_the_next_test(
    two_replicas: Pair, http: httpx.AsyncClient
) -> None:
    one, other = two_replicas.replicas
    task = await send(http, one, "kept")
    one.kill()
    two_replicas.store.kill()
    two_replicas.repair()
    assert (await get(http, one, task["id"]))["id"] == task["id"]
    assert (await get(http, other, task["id"]))["id"] == task["id"]


async def test_a_stopped_replica_answers_when_it_goes_on(two_replicas: Pair, http: httpx.AsyncClient) -> None:
    one, _ = two_replicas.replicas
    one.stop_signal()
    answer = asyncio.create_task(http.get(f"{one.http_url}/healthz"))
    done, _ = await asyncio.wait([answer], timeout=0.2)
    assert not done
    one.cont()
    assert (await answer).status_code == httpx.codes.OK


async def test_sigterm_ends_the_process_cleanly_and_its_store_with_it(http: httpx.AsyncClient) -> None:
    async with replica(agent=AGENT) as server:
        task = await send(http, server, "hello")
        children = psutil.Process(server.pid).children(recursive=True)
        assert any("valkey-server" in child.name() or "redis-server" in child.name() for child in children)
        server.terminate()
        assert await asyncio.to_thread(server.wait) == 0
        assert [child for child in children if runs(child)] == []
        await asyncio.to_thread(server.start)
        assert (await get(http, server, task["id"]))["id"] == task["id"]


async def test_a_second_process_on_the_same_data_says_what_to_do(tmp_path: Path) -> None:
    env = {"A2A_DATA_DIR": str(tmp_path / "data")}
    async with replica(agent=AGENT, env=env) as first:
        second = Replica(agent=AGENT, redis_url=None, env=env)
        second.start(wait=False)
        assert await asyncio.to_thread(second.wait) == 2
        assert (
            f"a2a-grpc: The data directory {tmp_path}/data is in use by another process (pid {first.pid}). "
            "Stop that one, or give this one its own directory with A2A_DATA_DIR"
        ) in second.log()
        assert "Traceback" not in second.log()
        second.close()


def test_wrong_settings_are_told_all_at_once_and_without_a_traceback() -> None:
    wrong = Replica(agent=AGENT, redis_url=None, env={"A2A_SHARDS": "0", "A2A_REDIS_URL": "http://u:pa55@h"})
    wrong.start(wait=False)
    assert wrong.wait() == 2
    lines = wrong.log().splitlines()
    assert [line.split()[:2] for line in lines] == [["a2a-grpc:", "A2A_REDIS_URL"], ["a2a-grpc:", "A2A_SHARDS"]]
    assert "pa55" not in wrong.log()
    wrong.close()


def test_config_prints_what_is_in_effect_and_no_secret() -> None:
    given = {"A2A_REDIS_URL": "redis://u:pa55@h:1", "A2A_TASK_TTL": "60"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("A2A_")}
    printed = subprocess.run(
        [sys.executable, "-m", "a2a_grpc.server", "config"],
        cwd=ROOT,
        env=kept | given,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert re.search(r"^A2A_TASK_TTL +environment +60$", printed, re.MULTILINE)
    assert re.search(r"^A2A_SHARDS +default +1$", printed, re.MULTILINE)
    assert re.search(r"^A2A_REDIS_URL +environment +redis://u:\*\*\*@h:1$", printed, re.MULTILINE)
    assert "pa55" not in printed


async def test_a_replica_does_not_outlive_the_tests_that_started_it(tmp_path: Path) -> None:
    program = (
        "import os, signal\n"
        "from tests.support.replica import Replica\n"
        f"server = Replica(agent={AGENT!r}, redis_url=None, env={{}})\n"
        "server.start()\n"
        "print(server.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", program]
    env = os.environ | {"TMPDIR": str(tmp_path)}  # nobody is left to remove what it makes there
    killed = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    await wait_until(lambda: gone(int(killed.stdout)), "the replica has ended")


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
