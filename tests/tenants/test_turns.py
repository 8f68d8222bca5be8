"""Whose agent runs a turn that another replica began, and who is served first."""

from pathlib import Path

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import Caller, Connect, say, state
from tests.support.replica import Replica
from tests.support.servers import StoreServer
from tests.support.waiting import wait_until
from tests.tenants.conftest import INITECH

pytestmark = pytest.mark.parametrize("binding", ["GRPC"])

FILE = """
agents:
  acme: {{agent: tests.tenants.agents:red, auth: anonymous}}
  {other}: {{agent: tests.tenants.agents:blue, auth: anonymous}}
"""


def written(folder: Path, other: str) -> str:
    path = folder / f"{other}.yaml"
    path.write_text(FILE.format(other=other))
    return str(path)


def by(task: pb.Task) -> str:
    return task.artifacts[0].parts[0].text


async def test_a_turn_of_a_lost_replica_is_run_again_by_the_agent_of_its_tenant(
    connect: Connect, one_store_server: StoreServer, tmp_path: Path
) -> None:
    file = written(tmp_path, INITECH.name)
    env = {"A2A_LEASE_TTL": "1"}
    first = Replica(agent=file, redis_url=one_store_server.url, env=env)
    second = Replica(agent=file, redis_url=one_store_server.url, env=env)
    try:
        first.start()
        callers = {name: await connect(first, tenant=name) for name in ("acme", INITECH.name)}
        begun = {name: await one.task("run", return_immediately=True) for name, one in callers.items()}
        for name, one in callers.items():
            await at_work(one, begun[name].id)
        first.kill()
        second.start()
        for name, agent in (("acme", "red"), (INITECH.name, "blue")):
            caller = await connect(second, tenant=name)
            assert by(await ended(caller, begun[name].id)) == f"{agent} for {name} 2"
    finally:
        first.close()
        second.close()


async def at_work(caller: Caller, task_id: str) -> None:
    async def working() -> bool:
        return state((await caller.get(task_id)).status.state) == "WORKING"

    await wait_until(working, f"{task_id} is at work")


async def ended(caller: Caller, task_id: str) -> pb.Task:
    async def over() -> bool:
        return state((await caller.get(task_id)).status.state) in {"COMPLETED", "FAILED"}

    await wait_until(over, f"{task_id} has ended", 10)
    return await caller.get(task_id)


async def test_tenants_are_served_in_turn(connect: Connect, one_store_server: StoreServer, tmp_path: Path) -> None:
    """One place for turns, and a tenant that has sent five before the other sends one."""
    replica = Replica(agent=written(tmp_path, INITECH.name), redis_url=one_store_server.url, env={"A2A_MAX_TURNS": "1"})
    try:
        replica.start()
        acme, initech = [await connect(replica, tenant=name) for name in ("acme", INITECH.name)]
        many = [(await acme.send(say("run", return_immediately=True))).task for _ in range(5)]
        (await initech.send(say("hi"))).task  # noqa: B018 - answered when it has ended
        states = [state((await acme.get(task.id)).status.state) for task in many]
        assert states.count("SUBMITTED") >= 2, states
    finally:
        replica.close()


async def test_a_turn_of_a_tenant_that_is_not_known_here_waits_for_who_knows_it(
    connect: Connect, one_store_server: StoreServer, tmp_path: Path
) -> None:
    """A new file reaches one replica after the other: who has the old one must not fail what is new."""
    new = Replica(agent=written(tmp_path, "newcomer"), redis_url=one_store_server.url, env={"A2A_DRAIN_GRACE": "0"})
    old = Replica(agent=written(tmp_path, INITECH.name), redis_url=one_store_server.url, env={})
    try:
        old.start()
        new.start()
        newcomer = await connect(new, tenant="newcomer")
        task = await newcomer.task("run", return_immediately=True)
        await at_work(newcomer, task.id)
        # It gives back what runs; only the other replica is there to take it.
        new.terminate()
        new.wait()
        await wait_until(lambda: "there is no tenant 'newcomer' here" in old.log(), "the old replica has met it", 10)
        acme = await connect(old, tenant="acme")
        assert by(await acme.task("hi")) == "red for acme 1"
        new.start()
        again = await connect(new, tenant="newcomer")
        assert by(await ended(again, task.id)) == "blue for newcomer 1"
    finally:
        new.close()
        old.close()
