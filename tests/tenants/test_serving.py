"""Several agents behind one endpoint: who runs what, and what nobody else sees."""

from collections.abc import AsyncIterator

import pytest
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import OPERATIONS, Caller, CallError, Connect, HttpCaller, JsonRpcCaller, refused, say
from tests.conformance.expected import PAYLOAD_TOO_LARGE, TASK_NOT_FOUND, UNAUTHENTICATED, VERSION_NOT_SUPPORTED, Row
from tests.conformance.test_versions import valid_request
from tests.support.replica import Pair
from tests.tenants.conftest import ACME, GLOBEX, INITECH, TENANTS, JsonRpcByPath, Tenant

NOT_FOUND = Row("NOT_FOUND", "NOT_FOUND", 404, -32012)


async def caller_of(connect: Connect, service: Pair, tenant: Tenant, replica: int = 0) -> Caller:
    return await connect(service.replicas[replica], tenant=tenant.name, key=tenant.key)


def by(task: pb.Task) -> str:
    """Which agent answered, and for whom."""
    return task.artifacts[0].parts[0].text


@pytest.mark.parametrize("tenant", TENANTS, ids=lambda tenant: tenant.name)
async def test_each_tenant_has_its_agent(tenant: Tenant, connect: Connect, service: Pair) -> None:
    for replica in (0, 1):
        caller = await caller_of(connect, service, tenant, replica)
        assert by(await caller.task("hi")) == f"{tenant.agent} for {tenant.name} 1"
        events = await caller.events("hi")
        (artifact,) = [event.artifact_update for event in events if event.HasField("artifact_update")]
        assert artifact.artifact.parts[0].text == f"{tenant.agent} for {tenant.name} 1"


@pytest.mark.parametrize("method", OPERATIONS)
async def test_a_tenant_that_is_not_there_is_not_found_before_anybody_is_asked_who_calls(
    method: str, connect: Connect, service: Pair
) -> None:
    """Without credentials, with those of another tenant; and nobody is served without a tenant."""
    for key in ("", ACME.key, "wrong"):
        for tenant in ("nope", "", "ACME", "acme ", "acme/"):
            stranger = await connect(service.replicas[0], tenant=tenant, key=key)
            failure = await refused(NOT_FOUND, stranger.call(method, valid_request(method, "unknown")))
            assert tenant.strip() in failure.message
            assert failure.binding != "JSONRPC" or failure.http == 404
    nobody = await connect(service.replicas[0], tenant="nope")
    await refused(VERSION_NOT_SUPPORTED, nobody.call(method, valid_request(method, "unknown"), parameters={}))


@pytest.mark.parametrize("method", OPERATIONS)
async def test_the_gate_is_that_of_the_tenant(method: str, connect: Connect, service: Pair) -> None:
    """Credentials of one tenant open no other, on any operation."""
    for tenant, key in ((ACME, ""), (ACME, INITECH.key), (INITECH, ACME.key), (INITECH, "wrong")):
        stranger = await connect(service.replicas[0], tenant=tenant.name, key=key)
        await refused(UNAUTHENTICATED, stranger.call(method, valid_request(method, "unknown")))


def on_a_task(task_id: str) -> dict[str, Message]:
    """A request of each operation that names a task."""
    return {
        "GetTask": pb.GetTaskRequest(id=task_id),
        "CancelTask": pb.CancelTaskRequest(id=task_id),
        "SubscribeToTask": pb.SubscribeToTaskRequest(id=task_id),
        "SendMessage": say("hi", task_id=task_id),
        "SendStreamingMessage": say("hi", task_id=task_id),
        "CreateTaskPushNotificationConfig": pb.TaskPushNotificationConfig(task_id=task_id, url="https://127.0.0.1/x"),
        "GetTaskPushNotificationConfig": pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id="c"),
        "ListTaskPushNotificationConfigs": pb.ListTaskPushNotificationConfigsRequest(task_id=task_id),
        "DeleteTaskPushNotificationConfig": pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id="c"),
    }


def without_ids(failure: CallError, *ids: str) -> str:
    """All that an error says, but for the ids that were asked for."""
    said = repr((failure.message, failure.reason, failure.grpc, failure.http, failure.jsonrpc, failure.metadata))
    for one in ids:
        said = said.replace(one, "ID")
    return said


async def test_no_operation_of_one_tenant_finds_a_task_of_another(connect: Connect, service: Pair) -> None:
    """B091, 13.1: also where both have a caller of the same name, and both have the same agent."""
    alice = await caller_of(connect, service, ACME)
    task = await alice.task("ask", context_id="shared")
    config = pb.TaskPushNotificationConfig(task_id=task.id, id="c", url="https://127.0.0.1/x")
    await alice.call("CreateTaskPushNotificationConfig", config)
    never = task.id[:-6] + ("000000" if task.id[-6:-2] != "0000" else "111111")[:4] + task.id[-2:]
    for other in (INITECH, GLOBEX):
        stranger = await caller_of(connect, service, other, 1)
        for method, request in on_a_task(task.id).items():
            theirs = await refused(TASK_NOT_FOUND, stranger.call(method, request))
            nobodys = await refused(TASK_NOT_FOUND, stranger.call(method, on_a_task(never)[method]))
            assert without_ids(theirs, task.id) == without_ids(nobodys, never), method
        for filters in ({}, {"context_id": "shared"}):
            assert task.id not in {found.id for found in (await stranger.page(**filters)).tasks}
        assert (await stranger.page(context_id="shared")).total_size == 0
    assert await alice.get(task.id) == task
    assert (await alice.page(context_id="shared")).total_size >= 1
    await alice.cancel(task.id)


async def test_one_message_id_in_two_tenants_is_two_messages(connect: Connect, service: Pair) -> None:
    """B089: the same Alice, the same id."""
    request = say("hi")
    tasks = [(await (await caller_of(connect, service, one)).send(request)).task for one in TENANTS]
    assert len({task.id for task in tasks}) == 3
    assert [by(task) for task in tasks] == ["red for acme 1", "blue for initech 1", "red for globex 1"]


async def test_the_path_of_http_wins_over_body_and_query(service: Pair) -> None:
    """B091: the task lands in the tenant of the path."""
    async with HttpCaller(service.replicas[0]) as caller:
        headers = {"a2a-version": "1.0"}
        body = {
            "tenant": "acme",
            "message": {"messageId": "path-wins", "role": "ROLE_USER", "parts": [{"text": "ask"}]},
        }
        made = await caller.http.post("/globex/message:send?tenant=acme", json=body, headers=headers)
        assert made.status_code == 200
        task_id = made.json()["task"]["id"]
        found = await caller.http.get(f"/globex/tasks/{task_id}?tenant=acme", headers=headers)
        assert found.status_code == 200
        # With a body and no tenant in the path, that of the body counts.
        assert (await caller.http.post("/message:send", json=body, headers=headers)).status_code == 401
        body["tenant"] = "globex"
        again = await caller.http.post("/message:send", json=body, headers=headers)
        assert again.json()["task"]["id"] == task_id


@pytest.fixture
async def at_acme(service: Pair) -> AsyncIterator[JsonRpcCaller]:
    headers = {"a2a-version": "1.0", "x-api-key": ACME.key}
    async with JsonRpcByPath(service.replicas[0], headers, "initech") as caller:
        yield caller


async def test_the_path_of_json_rpc_wins_over_the_params(at_acme: JsonRpcCaller) -> None:
    """B091: the params say initech."""
    task = await at_acme.task("hi")
    assert by(task) == "red for acme 1"
    assert task.id in {found.id for found in (await at_acme.page()).tasks}
    assert by_events(await at_acme.events("hi")) == ["red for acme 1"]


def by_events(events: list[pb.StreamResponse]) -> list[str]:
    return [event.artifact_update.artifact.parts[0].text for event in events if event.HasField("artifact_update")]


async def test_an_address_of_json_rpc_is_that_of_a_tenant_or_not_found(service: Pair) -> None:
    async with HttpCaller(service.replicas[0]) as caller:
        call = {"jsonrpc": "2.0", "id": "x", "method": "ListTasks", "params": {}}
        headers = {"a2a-version": "1.0"}
        nope = await caller.http.post("/nope/", json=call, headers=headers)
        assert nope.status_code == 404
        assert nope.json()["error"]["code"] == -32012
        # Asked for credentials by its own gate before the body is read, which is none here.
        closed = await caller.http.post("/acme/", content=b"no json", headers=headers)
        assert closed.status_code == 401
        # A slip with a slash is no tenant, nor is a path that is not UTF-8.
        for path in ("/tasks/", "/message:send/", "/extendedAgentCard/", "/%FF/"):
            slip = await caller.http.post(path, json=call, headers=headers)
            assert (slip.status_code, "jsonrpc" in slip.json()) == (404, False), path
        assert (await caller.http.get("/globex/", headers=headers)).status_code == 404
        options = await caller.http.options("/globex/")
        assert options.headers["allow"] == "POST, OPTIONS"


async def test_each_tenant_has_a_size_of_its_own(connect: Connect, service: Pair) -> None:
    big = say("x" * 4000)
    await refused(PAYLOAD_TOO_LARGE, (await caller_of(connect, service, ACME)).send(big))
    assert by((await (await caller_of(connect, service, GLOBEX)).send(big)).task) == "red for globex 1"
