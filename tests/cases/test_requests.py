"""B055, B057, B059, B061, B063: requests that are wrong, and the errors they get."""

from collections.abc import Iterator
from typing import Any

import grpc.aio
import httpx
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from tests.conformance.callers import (
    BINDINGS,
    OPERATIONS,
    VERSION,
    Connect,
    http_failure,
    refused,
    say,
    server_sent,
    state,
    texts,
)
from tests.conformance.expected import (
    CONTENT_TYPE_NOT_SUPPORTED,
    INVALID_ARGUMENT,
    TASK_NOT_FOUND,
    VERSION_NOT_SUPPORTED,
)
from tests.support.replica import Pair

# -- B055 --------------------------------------------------------------------------------------------------------------

HOSTILE = {
    "long": "x" * 20_000,
    "newlines": "no\r\nx-evil: 1\r\n" * 500,
    "accents": "\u00e9\U0001f600" * 5_000,
    "controls": "".join(map(chr, range(1, 32))) * 200,
}


def valid(method: str) -> Message:
    """A request whose ids are unknown, and that is right otherwise."""
    request: Any = OPERATIONS[method].request()
    if isinstance(request, pb.SendMessageRequest):
        request.CopyFrom(say("echo x"))
        return request
    for name in ("id", "task_id", "url"):
        if name in request.DESCRIPTOR.fields_by_name:
            setattr(request, name, "unknown")
    return request  # type: ignore[no-any-return]


def strings(message: Any) -> Iterator[tuple[Any, str]]:
    """Every text field that the messages in `message` have, and the message it belongs to."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.full_name.startswith("lf.a2a."):
            if field.is_repeated:
                for item in getattr(message, field.name) or [getattr(message, field.name).add()]:
                    yield from strings(item)
            else:
                yield from strings(getattr(message, field.name))
        elif field.type == field.TYPE_STRING and not field.is_repeated:
            yield message, field.name


def trailers_on_the_wire(error: grpc.aio.AioRpcError) -> int:
    """Bytes of the trailers: percent-encoded message, base64 of binary values, 32 bytes overhead each (RFC 9113)."""
    message = (error.details() or "").encode()
    size = 32 + len("grpc-message") + sum(1 if 0x20 <= byte <= 0x7E and byte != 0x25 else 3 for byte in message)
    for key, value in error.trailing_metadata() or ():
        size += 32 + len(key) + (-(-len(value) // 3) * 4 if isinstance(value, bytes) else len(value))
    return size


EXPECTED_CODES = {
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNAUTHENTICATED,
}


@pytest.mark.parametrize("hostile", HOSTILE)
@pytest.mark.parametrize("method", OPERATIONS)
async def test_b055_no_input_makes_an_error_too_large_for_its_trailers(method: str, hostile: str, pair: Pair) -> None:
    """Each text field of each request in turn: the error that is meant arrives, with its reason, below 8 kB."""
    async with grpc.aio.insecure_channel(pair.replicas[0].grpc_addr) as channel:
        stub: Any = A2AServiceStub(channel)
        fields = len(list(strings(valid(method))))
        assert fields >= 1
        for number in range(fields):
            request = valid(method)
            holder, name = list(strings(request))[number]
            setattr(holder, name, HOSTILE[hostile])
            call = getattr(stub, method)(request, metadata=tuple(VERSION.items()), timeout=10)
            try:
                await (call.read() if OPERATIONS[method].streams else call)
                if OPERATIONS[method].streams:
                    call.cancel()
                continue  # a text that may be anything
            except grpc.aio.AioRpcError as caught:
                error = caught
            assert error.code() in EXPECTED_CODES, (name, error)
            assert trailers_on_the_wire(error) < 8000
            details = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
            assert isinstance(details, bytes)
            info = error_details_pb2.ErrorInfo()
            assert status_pb2.Status.FromString(details).details[0].Unpack(info) and info.reason


@pytest.mark.parametrize("over", ["HTTP+JSON", "JSONRPC"])
async def test_b055_no_json_makes_an_error_too_large(over: str, pair: Pair) -> None:
    """What JSON adds: unknown enum names, wrong types, deep paths, names of members; and no line breaks in headers."""
    long = HOSTILE["long"]
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "echo x"}]}
    wrong: list[Any] = [
        {"message": {**message, "role": long}},
        {"message": {**message, "parts": long}},
        {"message": {**message, "parts": [{"raw": "!" + long}]}},
        {"message": {**message, "parts": [{}] * 500}},
        {"message": {**message, long: 1, "role": 7}},
        {"message": {**message, "metadata": {long: {"x": long}}, "taskId": 5}},
        {"message": {**message, "parts": [{"text": "x", "url": long}]}},
        {"message": {**message, "taskId": HOSTILE["newlines"]}},
        long,
    ]
    async with httpx.AsyncClient(base_url=pair.replicas[0].http_url, headers=VERSION, trust_env=False) as http:
        for request in wrong:
            if over == "JSONRPC":
                envelope = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": request}
                answer = await http.post("/", json=envelope)
                assert answer.json()["error"]["code"] in {-32602, -32001}
            else:
                answer = await http.post("/message:send", json=request)
                assert answer.status_code in {400, 404}
            assert len(answer.content) < 12_000
            assert sum(len(name) + len(value) for name, value in answer.headers.items()) < 2000
            assert "x-evil" not in answer.headers


# -- B057 --------------------------------------------------------------------------------------------------------------


def message(**fields: Any) -> pb.SendMessageRequest:
    right: dict[str, Any] = {"message_id": "m", "role": pb.ROLE_USER, "parts": [pb.Part(text="echo x")]}
    return pb.SendMessageRequest(message=pb.Message(**(right | fields)))


INCOMPLETE = {
    "message": pb.SendMessageRequest(),
    "message.messageId": message(message_id=""),
    "message.role": message(role=pb.ROLE_UNSPECIFIED),
    "message.role ": message(role=pb.ROLE_AGENT),
    "message.parts": message(parts=[]),
    "message.parts[0].content": message(parts=[pb.Part()]),
    "message.parts[1].content": message(parts=[pb.Part(text="echo x"), pb.Part(media_type="text/plain")]),
}


@pytest.mark.parametrize("over", BINDINGS)
async def test_b057_what_is_required_is_asked_for_by_name(over: str, pair: Pair, connect: Connect, tenant: str) -> None:
    """Over both methods that send, for new tasks and parked ones; nothing is stored and nothing changes."""
    one, other = [await connect(replica, over=over, tenant=tenant) for replica in pair.replicas]
    parked = await one.task("ask")
    for field, request in INCOMPLETE.items():
        name = field.strip().replace("messageId", "message_id") if over == "GRPC" else field.strip()
        for method in ("SendMessage", "SendStreamingMessage"):
            for task_id in ("", parked.id) if request.HasField("message") else ("",):
                sent = pb.SendMessageRequest()
                sent.CopyFrom(request)
                if task_id:
                    sent.message.task_id = task_id
                failure = await refused(INVALID_ARGUMENT, other.call(method, sent))
                assert set(failure.violations) == {name}, failure
    assert [task.id for task in (await other.page()).tasks] == [parked.id]
    assert await one.get(parked.id) == parked


# -- B059 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", BINDINGS)
async def test_b059_every_operation_looks_at_the_version_first(
    over: str, pair: Pair, connect: Connect, tenant: str
) -> None:
    """All eleven, before any event, and before anything is looked up or begun."""
    caller = await connect(pair.replicas[0], over=over, tenant=tenant)
    for method in OPERATIONS:
        for request in (valid(method), OPERATIONS[method].request()):
            if over == "HTTP+JSON" and not any(request.ListFields()) and "{" in OPERATIONS[method].path:
                continue  # its path would be another one
            failure = await refused(
                VERSION_NOT_SUPPORTED, caller.call(method, request, parameters={"a2a-version": "9.9"})
            )
            if over != "GRPC":
                assert "event-stream" not in failure.parameters["content-type"]
    assert (await caller.page()).total_size == 0


# -- B061 --------------------------------------------------------------------------------------------------------------

PARTS = {
    "image as raw": (pb.Part(raw=b"\x89PNG", media_type="image/png"), False),
    "image by url": (pb.Part(url="https://example.com/a.png", media_type="IMAGE/PNG"), False),
    "text without a type": (pb.Part(text="x"), True),
    "text with parameters": (pb.Part(text="x", media_type="TEXT/PLAIN; charset=utf-8"), True),
    "data": (pb.Part(data={"string_value": "x"}), True),
    "text that says it is XML": (pb.Part(text="<a/>", media_type="text/xml"), False),
    "a type with spaces": (pb.Part(text="x", media_type=" text/plain ;x=y"), True),
    "no type at all": (pb.Part(text="x", media_type="plain"), False),
}


@pytest.mark.parametrize("over", BINDINGS)
async def test_b061_parts_have_to_be_of_types_that_the_agent_takes(
    over: str, pair: Pair, connect: Connect, tenant: str
) -> None:
    """Whatever holds the part, wherever it stands in the message, in new tasks and follow-ups."""
    one, other = [await connect(replica, over=over, tenant=tenant) for replica in pair.replicas]
    parked = await one.task("ask")
    for name, (part, taken) in PARTS.items():
        for task_id in ("", parked.id):
            request = say(parts=[pb.Part(text="ask"), part], task_id=task_id)
            if taken:
                assert state((await other.send(request)).task.status.state) == "INPUT_REQUIRED", name
            else:
                await refused(CONTENT_TYPE_NOT_SUPPORTED, other.send(request))
    assert (await other.page()).total_size == 1 + sum(taken for _, taken in PARTS.values())


CONTENT_TYPES = {
    "application/json": 200,
    "application/a2a+json": 200,
    "application/a2a+json; charset=utf-8": 200,
    "APPLICATION/JSON;charset=UTF-8": 200,
    "text/xml": 415,
    "application/x-www-form-urlencoded": 415,
    "application/grpc": 415,
    "application/json5": 415,
    "json": 415,
}


@pytest.mark.parametrize("path", ["/message:send", "/message:stream", "/"])
async def test_b061_a_request_of_another_type_is_told_from_a_part_of_another_type(path: str, pair: Pair) -> None:
    request = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "echo x"}]}}
    method = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": request}
    async with httpx.AsyncClient(base_url=pair.replicas[0].http_url, headers=VERSION, trust_env=False) as http:
        for number, (content_type, status) in enumerate(CONTENT_TYPES.items()):
            request["message"]["messageId"] = f"{path}-{number}"
            content = httpx.Request("POST", "http://x", json=method if path == "/" else request).content
            answer = await http.post(path, content=content, headers={"content-type": content_type})
            assert answer.status_code == status, content_type
            if status != httpx.codes.OK:
                assert answer.json()["error"]["message"]


# -- B063 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "/{tenant}"])
@pytest.mark.parametrize("verb", ["GET", "POST"])
async def test_b063_both_verbs_subscribe(verb: str, prefix: str, pair: Pair, connect: Connect, tenant: str) -> None:
    """With and without a body and a tenant; neither is ever taken for reading a task whose id ends in `:subscribe`."""
    one = await connect(pair.replicas[0], tenant=tenant if prefix else "")
    prefix = prefix.format(tenant=tenant)
    async with httpx.AsyncClient(base_url=pair.replicas[1].http_url, headers=VERSION, trust_env=False) as http:
        for content in (None, b"", b"{}") if verb == "POST" else (None,):
            task = await one.task("ask")
            request = http.stream(
                verb,
                f"{prefix}/tasks/{task.id}:subscribe",
                content=content,
                headers={"content-type": "application/json"},
            )
            async with request as response:
                assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
                events = server_sent(response)
                assert task.id in await anext(events)
                await one.task("echo done", task_id=task.id)
                rest = [data async for data in events]
            assert "TASK_STATE_COMPLETED" in rest[-1]
            assert texts(await one.get(task.id)) == ["done"]
        for unknown in ("abc", "abc:subscribe"):
            answer = await http.request(verb, f"{prefix}/tasks/{unknown}:subscribe")
            failure = http_failure(answer, answer.json())
            assert failure.is_of(TASK_NOT_FOUND) and failure.metadata == {"taskId": unknown}
        quoted = await http.request(verb, f"{prefix}/tasks/abc%3Asubscribe")
        assert quoted.status_code in {404, 405}
