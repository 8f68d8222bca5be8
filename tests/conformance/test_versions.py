"""3.6.2 versions, and 3.2.6 how service parameters travel (9.2, 10.2, 11.2)."""

from collections.abc import Mapping

import httpx
import pytest
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import (
    OPERATIONS,
    Caller,
    Connect,
    HttpCaller,
    JsonRpcCaller,
    http_failure,
    jsonrpc_failure,
    refused,
    say,
    server_sent,
    state,
)
from tests.conformance.expected import TASK_NOT_FOUND, VERSION_NOT_SUPPORTED
from tests.support.replica import Replica

REFUSED = ["0.2", "0.3", "1.9", "2.0", "99.0", "junk", "1", "1.0.0.0", "v1.0", "-1.0", ""]


def valid_request(method: str, task_id: str) -> Message:
    """A request that only the version is wrong with."""
    if method in ("SendMessage", "SendStreamingMessage"):
        return say("echo hi")
    request = OPERATIONS[method].request()
    fields = request.DESCRIPTOR.fields_by_name
    if "task_id" in fields:
        request.task_id = task_id  # type: ignore[attr-defined]
    if "id" in fields:
        request.id = "config" if "task_id" in fields else task_id  # type: ignore[attr-defined]
    if "url" in fields:
        request.url = "https://example.com/webhook"  # type: ignore[attr-defined]
    return request


@pytest.mark.parametrize("method", OPERATIONS)
async def test_3_6_2_other_versions_are_refused_before_anything_happens(
    method: str, connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """3.6.2: each operation, streaming or not (B059); a version that is empty or missing means 0.3."""
    caller = await connect(replicas[0], tenant=tenant)
    task = await caller.task("ask")
    request = valid_request(method, task.id)
    for version in REFUSED:
        failure = await refused(
            VERSION_NOT_SUPPORTED, caller.call(method, request, parameters={"a2a-version": version})
        )
        assert "1.0" in failure.message, "says what is supported"
    await refused(VERSION_NOT_SUPPORTED, caller.call(method, request, parameters={}))
    assert (await caller.page()).total_size == 1
    assert await caller.get(task.id) == task


@pytest.mark.parametrize("method", OPERATIONS)
async def test_3_6_2_the_version_comes_before_every_other_complaint(
    method: str, connect: Connect, replicas: tuple[Replica, Replica]
) -> None:
    """3.6.2: also where the task is unknown, a field is missing, a capability is off, or nobody knows the caller."""
    caller = await connect(replicas[0])
    wrong = OPERATIONS[method].request()
    if "id" in wrong.DESCRIPTOR.fields_by_name:
        wrong.id = "x" * 300  # type: ignore[attr-defined]
    if "task_id" in wrong.DESCRIPTOR.fields_by_name:
        wrong.task_id = "unknown"  # type: ignore[attr-defined]
    await refused(VERSION_NOT_SUPPORTED, caller.call(method, wrong, parameters={"a2a-version": "9.9"}))


async def test_3_6_2_patch_numbers_do_not_count(caller: Caller) -> None:
    for version in ("1.0", "1.0.7", "1.0.0"):
        answer = await caller.answer("SendMessage", say("echo hi"), parameters={"a2a-version": version})
        assert state(answer.message.task.status.state) == "COMPLETED"


# Bodies as callers of 0.3 send them.
OLD_PARTS = [{"kind": "text", "text": "hello"}]
OLD = {"message": {"role": "user", "messageId": "m-1", "kind": "message", "parts": OLD_PARTS}}


@pytest.mark.parametrize("parameters", [{}, {"a2a-version": "0.3"}])
async def test_3_6_2_a_caller_of_0_3_is_told_about_the_version(
    parameters: Mapping[str, str], replicas: tuple[Replica, Replica]
) -> None:
    """3.6.2, B027: although its messages look different, which is what it would be told about otherwise."""
    async with HttpCaller(replicas[0]) as caller:
        for path in ("/message:send", "/message:stream", "/v1/message:send"):
            response = await caller.http.post(path, json=OLD, headers=parameters)
            assert http_failure(response, response.json()).is_of(VERSION_NOT_SUPPORTED), path
        envelope = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": OLD}
        for method in ("message/send", "message/stream", "tasks/get", "SendMessage"):
            response = await caller.http.post("/", json=envelope | {"method": method}, headers=parameters)
            assert jsonrpc_failure(response, response.json()).is_of(VERSION_NOT_SUPPORTED), method


async def test_3_6_1_a_stream_can_be_read_with_nothing_but_a_url(replicas: tuple[Replica, Replica]) -> None:
    """3.6.1: an EventSource of a browser sets no headers; for it the proto's GET is of use (5.3)."""
    async with HttpCaller(replicas[0]) as caller:
        task = await caller.task("ask")
        async with caller.http.stream("GET", f"/tasks/{task.id}:subscribe?A2A-Version=1.0") as response:
            assert response.headers["content-type"] == "text/event-stream"
            assert task.id in await anext(server_sent(response))
        response = await caller.http.get(f"/tasks/{task.id}:subscribe?A2A-Version=0.3")
        assert http_failure(response, response.json()).is_of(VERSION_NOT_SUPPORTED)


async def post(caller: HttpCaller | JsonRpcCaller, query: str, headers: Mapping[str, str]) -> httpx.Response:
    """GetTask of an unknown task by POST or GET, with the version in the URL or in a header."""
    if isinstance(caller, HttpCaller):
        return await caller.http.get(f"/tasks/unknown{query}", headers=headers)
    envelope = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "unknown"}}
    return await caller.http.post(f"/{query}", json=envelope, headers=headers)


@pytest.mark.parametrize("binding", ["HTTP+JSON", "JSONRPC"], indirect=True)
async def test_3_6_1_the_version_may_be_a_query_parameter(binding: str, caller: Caller) -> None:
    """3.6.1: its name is case-insensitive there too (3.2.6); a header that says something comes first."""
    assert isinstance(caller, HttpCaller | JsonRpcCaller)
    read = http_failure if isinstance(caller, HttpCaller) else jsonrpc_failure
    for query, headers, row in (
        ("?A2A-Version=1.0", {}, TASK_NOT_FOUND),
        ("?a2a-version=1.0", {}, TASK_NOT_FOUND),
        ("?A2A-Version=1.0.3", {}, TASK_NOT_FOUND),
        ("?A2A-Version=0.3", {}, VERSION_NOT_SUPPORTED),
        ("?A2A-Version=", {}, VERSION_NOT_SUPPORTED),
        ("?A2A-Version=0.3", {"A2A-Version": "1.0"}, TASK_NOT_FOUND),
        ("?A2A-Version=1.0", {"A2A-Version": "0.3"}, VERSION_NOT_SUPPORTED),
    ):
        response = await post(caller, query, headers)
        assert read(response, response.json()).is_of(row), (query, headers)


@pytest.mark.parametrize("name", ["A2A-Version", "a2a-version", "A2A-VERSION", "a2A-vErSiOn"])
@pytest.mark.parametrize("binding", ["HTTP+JSON", "JSONRPC"], indirect=True)
async def test_3_2_6_parameter_names_are_case_insensitive(name: str, binding: str, caller: Caller) -> None:
    """9.2, 11.2; gRPC libraries send metadata keys in lower case and refuse to send others (10.2)."""
    answer = await caller.answer("SendMessage", say("echo hi"), parameters={name: "1.0"})
    assert state(answer.message.task.status.state) == "COMPLETED"


async def test_8_2_the_card_needs_no_version(replicas: tuple[Replica, Replica]) -> None:
    """8.2: who does not know the card cannot know the version."""
    async with HttpCaller(replicas[0]) as caller:
        assert (await caller.http.get("/.well-known/agent-card.json")).status_code == 200
        response = await caller.http.get("/.well-known/agent-card.json", headers={"A2A-Version": "0.3"})
        assert response.status_code == 200
        assert response.json()["supportedInterfaces"][0]["protocolVersion"] == "1.0"


async def test_3_6_2_pb_is_what_is_sent() -> None:
    """The requests above name every operation of the proto."""
    assert set(OPERATIONS) == {method.name for method in pb.DESCRIPTOR.services_by_name["A2AService"].methods}
