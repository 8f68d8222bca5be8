"""3.3.2: whatever comes in is answered quickly, with the right error, and without anything of the inside."""

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import httpx
import pytest
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Value

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from tests.conformance.callers import (
    VERSION,
    Caller,
    CallError,
    Connect,
    HttpCaller,
    body,
    http_failure,
    jsonrpc_failure,
    refused,
    say,
    state,
)
from tests.conformance.expected import INVALID_ARGUMENT, PAYLOAD_TOO_LARGE
from tests.support.replica import Replica

MIB = 1024 * 1024
QUICKLY = 2.0
"""Seconds; far more than any of these needs, on a machine that may be busy."""


# -- size -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_a_message_that_is_too_large_is_refused(
    method: str, connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """DESIGN 7: above 4 MiB of protobuf, on every binding; nothing is stored."""
    caller = await connect(replicas[0], tenant=tenant)
    failure = await refused(PAYLOAD_TOO_LARGE, caller.call(method, say("x" * (4 * MIB + 1))))
    assert len(str(failure)) < 2_000
    assert (await caller.page()).total_size == 0


async def test_a_large_message_passes_on_every_binding(
    connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """DESIGN 7: 3.9 MB of bytes, which JSON has to write as 5.2 MB of base64, and text that JSON escapes."""
    caller, other = await connect(replicas[0], tenant=tenant), await connect(replicas[1], tenant=tenant)
    part = pb.Part(raw=bytes(range(256)) * (3_900_000 // 256), media_type="text/plain")
    sent = say(parts=[part], prefix="large")
    task = (await caller.send(sent)).task
    assert task.history[0].parts[0] == part
    if caller.binding != "GRPC":  # whose client takes 4 MiB and no more by default
        assert (await other.get(task.id)).history[0].parts[0] == part
    text = "я" * 1_500_000
    assert (await caller.task(text)).history[0].parts[0].text == text


@pytest.mark.parametrize("path", ["/message:send", "/"])
async def test_a_body_that_is_far_too_large_is_refused(path: str, http: httpx.AsyncClient) -> None:
    """B075: by its announced length, and while it comes; the connection can be given up, the next one works."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * MIB

    for content in (b" " * (20 * MIB), chunks()):
        begun = time.monotonic()
        try:
            response = await http.post(path, content=content, headers={"content-type": "application/json"})
        except httpx.WriteError:
            continue  # the answer may be lost where the server closes while the client still writes
        assert response.status_code == 413
        assert time.monotonic() - begun < QUICKLY
    assert (await http.get("/tasks?pageSize=1")).status_code == 200


# -- nesting ----------------------------------------------------------------------------------------------------------


def nested(levels: int) -> Value:
    """A list in a list in a list…; `levels` of them."""
    value = Value(list_value=ListValue())
    for _ in range(levels - 1):
        value = Value(list_value=ListValue(values=[value]))
    return value


async def test_what_is_nested_as_deeply_as_allowed_can_be_read_everywhere(caller: Caller, other: Caller) -> None:
    """B067: 32 levels; everything that is accepted is readable in every answer, by the stock parser."""
    part = pb.Part(data=nested(32), media_type="application/json")
    task = await caller.task(parts=[pb.Part(text="echo hi"), part])
    assert task.artifacts[0].parts[1] == part
    assert await other.get(task.id) == task
    assert list((await other.page(context_id=task.context_id, include_artifacts=True)).tasks) == [task]
    events = await caller.events(parts=[pb.Part(text="echo hi"), part], context_id=task.context_id)
    assert events[1].artifact_update.artifact.parts[1] == part


@pytest.mark.parametrize("levels", [33, 45])
@pytest.mark.parametrize("where", ["data", "metadata"])
async def test_what_is_nested_too_deeply_is_refused(
    where: str, levels: int, connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """B067: in a part and in metadata, at any place; nothing is stored."""
    caller = await connect(replicas[0], tenant=tenant)
    request = say("echo hi")
    if where == "data":
        request.message.parts.add(data=nested(levels), media_type="application/json")
    else:
        request.message.metadata.fields["deep"].CopyFrom(nested(levels))
    failure = await refused(INVALID_ARGUMENT, caller.send(request))
    assert "32" in failure.message or "32" in str(failure.violations)
    assert (await caller.page()).total_size == 0


@pytest.mark.parametrize("levels", [1_000, 100_000, 1_000_000])
async def test_json_of_any_depth_is_refused_quickly(levels: int, http: httpx.AsyncClient) -> None:
    """B067: before anything recurses."""
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        deep = opening * levels + "1" + closing * levels
        part = f'{{"message": {{"messageId": "m", "role": "ROLE_USER", "parts": [{{"data": {deep}}}]}}}}'
        envelope = f'{{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {part}}}'
        for path, content in (("/message:send", part), ("/message:send", deep), ("/", envelope), ("/", deep)):
            begun = time.monotonic()
            response = await http.post(path, content=content, headers={"content-type": "application/json"})
            assert time.monotonic() - begun < QUICKLY
            if path == "/":
                assert jsonrpc_failure(response, response.json()).jsonrpc in (-32602, -32700, -32600)
            else:
                assert response.status_code in (400, 413)
                http_failure(response, response.json())


# -- JSON -------------------------------------------------------------------------------------------------------------

PART = '{"message": {"messageId": "m", "role": "ROLE_USER", "parts": [%s]}}'
MESSAGE = '{"message": %s}'

BODIES: dict[str, str | bytes] = {
    "nothing": "",
    "null": "null",
    "an array": "[]",
    "a string": '"x"',
    "a number": "1",
    "cut off": '{"message": {"messageId": "m"',
    "two values": "{} {}",
    "a comma too much": '{"message": {},}',
    "single quotes": "{'message': {}}",
    "comments": "{/* hi */}",
    "not UTF-8": b'{"message": {"messageId": "\xff\xfe"}}',
    "UTF-16": '{"message": {}}'.encode("utf-16"),
    "a lone surrogate": PART % '{"text": "\\ud800"}',
    "a control character": PART % '{"text": "a\nb"}',
    "a name twice": '{"message": {"messageId": "m", "messageId": "n", "role": "ROLE_USER", "parts": [{"text": "x"}]}}',
    "NaN": PART % '{"data": NaN}',
    "Infinity": PART % '{"data": {"a": Infinity}}',
    "minus Infinity": PART % '{"data": [-Infinity]}',
    "overflow": PART % '{"data": 1e999}',
    "a leading zero": PART % '{"data": 01}',
    "a string for a message": MESSAGE % '"hello"',
    "an array for a message": MESSAGE % "[]",
    "an object for parts": MESSAGE % '{"messageId": "m", "role": "ROLE_USER", "parts": {"text": "x"}}',
    "a string for a part": PART % '"x"',
    "null for a part": PART % "null",
    "a number for a text": PART % '{"text": 5}',
    "two contents": PART % '{"text": "x", "url": "https://example.com"}',
    "bytes that are no base64": PART % '{"raw": "!!"}',
    "bytes cut off": PART % '{"raw": "a"}',
    "an unknown role": MESSAGE % '{"messageId": "m", "role": "ROLE_ADMIN", "parts": [{"text": "x"}]}',
    "a role in lower case": MESSAGE % '{"messageId": "m", "role": "user", "parts": [{"text": "x"}]}',
    "a string for metadata": PART % '{"text": "x", "metadata": "x"}',
    "a string for a boolean": '{"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}, '
    '"configuration": {"returnImmediately": "yes"}}',
    "a fraction for a length": '{"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}, '
    '"configuration": {"historyLength": 1.5}}',
    "too large a length": '{"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}, '
    '"configuration": {"historyLength": 2147483648}}',
}


def encoded(what: str) -> bytes:
    """The body of that name, as bytes."""
    content = BODIES[what]
    return content if isinstance(content, bytes) else content.encode()


@pytest.mark.parametrize("what", BODIES)
@pytest.mark.parametrize("path", ["/message:send", "/message:stream"])
async def test_json_that_is_no_message_is_refused(path: str, what: str, http: httpx.AsyncClient, tenant: str) -> None:
    """B075: 400 with a sentence, quickly, on a connection that can be used again, and nothing is stored."""
    begun = time.monotonic()
    response = await http.post(f"/{tenant}{path}", content=encoded(what), headers={"content-type": "application/json"})
    assert time.monotonic() - begun < QUICKLY
    failure = http_failure(response, response.json())
    assert response.status_code == 400 and response.headers["content-type"] == "application/json"
    for inside in ("Traceback", "json", "google", "Decode", ".py"):
        assert inside not in failure.message + str(failure.violations), failure
    assert (await http.get(f"/{tenant}/tasks")).json()["totalSize"] == 0


@pytest.mark.parametrize("what", BODIES)
async def test_json_that_is_no_message_is_refused_over_json_rpc(
    what: str, http: httpx.AsyncClient, tenant: str
) -> None:
    """9.5: -32700 for what is no JSON, -32602 for what is no message; the id comes back where it could be read."""
    content = b'{"jsonrpc": "2.0", "id": 9, "method": "SendMessage", "params": ' + encoded(what) + b"}"
    response = await http.post("/", content=content, headers={"content-type": "application/json"})
    answer = response.json()
    code = jsonrpc_failure(response, answer).jsonrpc
    if what in ("overflow", "a name twice"):  # JSON by its grammar, which parsers read differently
        assert (code, answer["id"]) in ((-32602, None), (-32602, 9))
    else:
        assert (code, answer["id"]) == ((-32602, 9) if is_json(content) else (-32700, None))


def is_json(content: bytes) -> bool:
    """Whether it is JSON (RFC 8259: without NaN) in UTF-8, of whole characters."""

    def no_constant(_: str) -> float:
        raise ValueError

    try:
        value = json.loads(content.decode("utf-8"), parse_constant=no_constant)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        return False
    return True


async def test_a_byte_order_mark_is_named(http: httpx.AsyncClient) -> None:
    """B075, RFC 8259 section 8.1: an editor puts it there, and nobody sees it."""
    response = await http.post("/message:send", content=b"\xef\xbb\xbf" + json.dumps(body("x")).encode())
    assert response.status_code == 400
    assert "byte order mark" in http_failure(response, response.json()).message


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("binding", ["GRPC"], indirect=True)
async def test_numbers_that_json_cannot_say_are_refused_over_grpc_too(
    value: float, binding: str, connect: Connect, replicas: tuple[Replica, Replica], tenant: str
) -> None:
    """DESIGN 7: otherwise no JSON binding could show the task; wherever they stand."""
    caller = await connect(replicas[0], tenant=tenant)
    in_part, in_metadata, in_request = say("x"), say("x"), say("x")
    in_part.message.parts.add(data=Value(list_value=ListValue(values=[Value(number_value=value)])))
    in_metadata.message.metadata.fields["n"].number_value = value
    in_request.metadata.fields["n"].number_value = value
    for request in (in_part, in_metadata, in_request):
        failure = await refused(INVALID_ARGUMENT, caller.send(request))
        assert failure.violations
    assert (await caller.page()).total_size == 0


# -- transport --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "text/xml"},
        {"content-type": "multipart/form-data; boundary=x"},
        {"content-type": "application/jsonp"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
async def test_bodies_of_other_media_types_are_refused(headers: dict[str, str], http: httpx.AsyncClient) -> None:
    """B061: 415, which is not the error for the media type of a part."""
    response = await http.post("/message:send", content=b"{}", headers=headers)
    failure = http_failure(response, response.json())
    assert response.status_code == 415
    assert failure.reason != "CONTENT_TYPE_NOT_SUPPORTED"


async def test_plain_http_on_the_grpc_port_harms_nobody(replicas: tuple[Replica, Replica]) -> None:
    """B109: refused at once, and calls on open and new connections go on."""
    async with grpc.aio.insecure_channel(replicas[0].grpc_addr) as channel:
        stub: Any = A2AServiceStub(channel)
        request = pb.ListTasksRequest(page_size=1)
        await stub.ListTasks(request, metadata=tuple(VERSION.items()))
        host, _, port = replicas[0].grpc_addr.partition(":")
        for words in (
            b"GET /tasks HTTP/1.1\r\nHost: x\r\n\r\n",
            b"POST /message:send HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
            b"\x00" * 64,
        ):
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(words)
            begun = time.monotonic()
            async with asyncio.timeout(QUICKLY):
                try:
                    answer = await reader.read()
                except ConnectionResetError:
                    answer = b""
            assert time.monotonic() - begun < QUICKLY
            assert b"HTTP/1.1 200" not in answer
            writer.close()
            page = await stub.ListTasks(request, metadata=tuple(VERSION.items()))
            assert page.page_size == 1


async def test_grpc_on_the_http_port_fails_quickly(replicas: tuple[Replica, Replica]) -> None:
    """B109, the other way round."""
    async with grpc.aio.insecure_channel(replicas[0].http_url.removeprefix("http://")) as channel:
        stub: Any = A2AServiceStub(channel)
        begun = time.monotonic()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.ListTasks(pb.ListTasksRequest(), metadata=tuple(VERSION.items()), timeout=10)
        assert time.monotonic() - begun < QUICKLY
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    async with HttpCaller(replicas[0]) as caller:
        assert state((await caller.task("x")).status.state) == "COMPLETED"


async def test_bytes_that_are_no_protobuf_are_refused(replicas: tuple[Replica, Replica]) -> None:
    """B101: INVALID_ARGUMENT with details, without words of Python."""
    async with grpc.aio.insecure_channel(replicas[0].grpc_addr) as channel:
        for content in (b"\xff", b"\x12\x05abc", b"\x0a\x02\xff\xfe"):
            for method in ("SendMessage", "GetTask", "ListTasks"):
                call: Any = channel.unary_unary(f"/lf.a2a.v1.A2AService/{method}")
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call(content, metadata=tuple(VERSION.items()), timeout=10)
                assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
                assert "Error" not in str(caught.value.details())


async def test_errors_echo_little_of_what_came(caller: Caller) -> None:
    """DESIGN 7: at most 256 characters of the input."""
    long = "y" * 8_000
    wrong: list[tuple[str, Message, dict[str, str]]] = [
        ("ListTasks", pb.ListTasksRequest(page_token=long), VERSION),
        ("ListTasks", pb.ListTasksRequest(context_id=long, page_size=1), VERSION),
        ("SendMessage", say(parts=[pb.Part(text="x", media_type=long)]), VERSION),
        ("SendMessage", say("x", task_id=long), VERSION),
        ("CancelTask", pb.CancelTaskRequest(id=long), VERSION),
        ("GetTask", pb.GetTaskRequest(id="y" * 256), VERSION),
        ("GetTask", pb.GetTaskRequest(id="x"), {"a2a-version": long}),
    ]
    for method, request, parameters in wrong:
        with pytest.raises(CallError) as caught:
            await caller.call(method, request, parameters=parameters)
        said = [caught.value.message, *caught.value.metadata.values(), *caught.value.violations.values()]
        assert all(text.count("y") <= 256 for text in said), (method, said)
