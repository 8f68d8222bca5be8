"""What is on record, and that no secret ever is."""

import contextlib
import json
from typing import Any

import grpc.aio
import pytest

from a2a_grpc.admin.v1 import admin_pb2
from a2a_grpc.admin.v1.admin_pb2_grpc import AdminServiceStub
from a2a_grpc.server import audit
from tests.auth.conftest import API_KEYS, Connect, Everywhere, serving, trusting
from tests.auth.issuer import Issuer
from tests.conformance.callers import KEYS, CallError, say
from tests.support.leaks import secret
from tests.support.replica import Replica, free_ports
from tests.support.waiting import wait_until


async def recorded(service: Replica, count: int) -> list[dict[str, Any]]:
    """The audit trail once it has `count` records."""
    await wait_until(lambda: len(records(service)) >= count, "all is on record")
    return records(service)


def records(service: Replica) -> list[dict[str, Any]]:
    """The audit trail of a service that logs as JSON."""
    lines = [json.loads(line) for line in service.log().splitlines() if line.startswith("{")]
    return [line for line in lines if line["logger"] == "a2a_grpc.audit"]


async def test_refusals_and_ends_are_on_record_and_credentials_are_not(
    connect: Connect, issuer: Issuer, binding: str
) -> None:
    secrets = {"wrong": secret("wrong"), "alice": KEYS["alice"], "bob": KEYS["bob"]}
    good, poor = issuer.token(scope="tasks"), issuer.token(sub="carol")
    expired = issuer.token(exp=1)
    env = trusting(issuer, A2A_API_KEYS=API_KEYS, A2A_JWT_SCOPES="tasks", A2A_LOG_LEVEL="debug")
    with serving(**env) as service:
        for credentials in ({}, {"key": secrets["wrong"]}, {"token": expired}, {"token": "nonsense.and.more"}):
            with pytest.raises(CallError):
                await (await connect(service, tenant="acme", **credentials)).task("ask")
        with pytest.raises(CallError):
            await (await connect(service, token=poor, x_request_id="poor-one")).get("unknown")
        caller = await connect(service, token=good, x_request_id="good-one")
        task = await caller.task("ask")
        await caller.cancel(task.id)
        found = await recorded(service, 6)
        log = service.log()

    assert [record["event"] for record in found] == [*["authentication-failed"] * 4, "denied", "task-canceled"]
    for record in found:
        assert record["binding"] == binding
        assert record["peer"].startswith("127.0.0.1:")
        assert record["request_id"]
    assert [record["reason"] for record in found[1:5]] == [
        "The API key in the header x-api-key is not known.",
        "The token has expired.",
        "The bearer token is no JSON Web Token.",
        "Your credentials do not include what this needs: the scope tasks.",
    ]
    assert found[4]["request_id"] == "poor-one"
    assert found[4]["principal"] == f"{issuer.url}#carol"
    canceled = found[5]
    assert (canceled["principal"], canceled["task_id"]) == (f"{issuer.url}#alice", task.id)
    assert canceled["request_id"] == "good-one"
    for sent in (*secrets.values(), good, poor, expired, good.split(".")[2], "nonsense.and.more"):
        assert sent not in log


async def test_the_trail_is_there_whatever_the_level(connect: Connect, issuer: Issuer) -> None:
    with serving(**trusting(issuer), A2A_LOG_LEVEL="error") as service:
        with pytest.raises(CallError):
            await (await connect(service)).send(say("ask"))
        (record,) = await recorded(service, 1)
        assert (record["event"], record["level"]) == ("authentication-failed", "info")
        assert json.loads(service.log().splitlines()[-1])["logger"] == "a2a_grpc.audit"


async def test_a_limit_that_is_reached_is_on_record_once_for_each_caller(everywhere: Everywhere) -> None:
    """However often; over whichever binding; and once more when some seconds have passed."""
    with serving(A2A_API_KEYS=API_KEYS, A2A_LIMIT_CALLER_RATES="read=0.01:1") as service:
        for name in ("alice", "bob"):
            for caller in await everywhere(service, key=KEYS[name]):
                for _ in range(5):
                    with contextlib.suppress(CallError):
                        await caller.get("unknown")
        found = await recorded(service, 2)
    assert [(one["event"], one["principal"], one["limit"]) for one in found] == [
        ("limit-reached", "alice", "caller:rate:read"),
        ("limit-reached", "bob", "caller:rate:read"),
    ]
    assert [(one["binding"], one["method"]) for one in found] == [("GRPC", "GetTask")] * 2


async def test_what_is_seldom_comes_again_after_its_time() -> None:
    seldom = audit.Seldom(0.05)
    assert [seldom.first(kind) for kind in ("a", "b", "a", "b")] == [True, True, False, False]
    await wait_until(lambda: seldom.first("a"), "it is put on record again")
    assert not seldom.first("a")


async def test_what_operators_do_is_on_record(issuer: Issuer) -> None:
    (port,) = free_ports(1)
    with serving(A2A_ADMIN_ADDR=f"127.0.0.1:{port}") as service:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = AdminServiceStub(channel)
            await stub.ListTasks(admin_pb2.ListTasksRequest())
            with pytest.raises(grpc.aio.AioRpcError):
                await stub.DeleteTask(admin_pb2.DeleteTaskRequest(id="of-a-task"))
            await stub.PurgeDeadLetters(admin_pb2.PurgeDeadLettersRequest(all=True))
        found = await recorded(service, 3)
        assert [(record["event"], record["method"], record["outcome"]) for record in found] == [
            ("admin", "ListTasks", "OK"),
            ("admin", "DeleteTask", "TASK_NOT_FOUND"),
            ("admin", "PurgeDeadLetters", "OK"),
        ]
        assert found[1]["task_id"] == "of-a-task"
        assert all(record["peer"].startswith("127.0.0.1:") for record in found)
