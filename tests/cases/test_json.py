"""B065, B067, B069, B071, B073, B075: JSON as it comes and as it goes, where careless implementations differ."""

import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import httpx
import pytest
from google.protobuf import struct_pb2

from a2a_grpc.pb import a2a_pb2 as pb
from tests.cases.agents import nested_value
from tests.conformance.callers import (
    BINDINGS,
    VERSION,
    Caller,
    Connect,
    http_failure,
    refused,
    say,
    state,
)
from tests.conformance.expected import INVALID_ARGUMENT
from tests.support.http_bindings import connected, http_request
from tests.support.replica import Pair


@pytest.fixture
async def http(pair: Pair) -> AsyncIterator[httpx.AsyncClient]:
    """A plain HTTP client of the first replica that sends the version."""
    async with httpx.AsyncClient(base_url=pair.replicas[0].http_url, headers=VERSION, trust_env=False) as client:
        yield client


def message(text: str = "ask", **fields: Any) -> dict[str, Any]:
    """A message of a user in JSON."""
    return {"messageId": say().message.message_id, "role": "ROLE_USER", "parts": [{"text": text}], **fields}


async def send(http: httpx.AsyncClient, sent: dict[str, Any]) -> dict[str, Any]:
    """The task that comes of a message."""
    answer = await http.post("/message:send", json={"message": sent})
    assert answer.status_code == httpx.codes.OK, answer.text
    task: dict[str, Any] = answer.json()["task"]
    return task


# -- B065 --------------------------------------------------------------------------------------------------------------


async def test_b065_required_zeros_are_there_and_empty_arrays_are_not(
    http: httpx.AsyncClient, connect: Connect, pair: Pair, tenant: str
) -> None:
    empty = {"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0}
    assert (await http.get(f"/{tenant}/tasks")).json() == empty
    call = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"tenant": tenant}}
    assert (await http.post("/", json=call)).json()["result"] == empty

    caller = await connect(pair.replicas[1], tenant=tenant)
    for text in ("echo x", "ask", "fail"):
        await caller.task(text)
    for query, artifacts in (("", 0), ("?includeArtifacts=false", 0), ("?includeArtifacts=true", 1)):
        page = (await http.get(f"/{tenant}/tasks{query}")).json()
        assert (len(page["tasks"]), page["nextPageToken"], page["totalSize"]) == (3, "", 3)
        assert sum("artifacts" in task for task in page["tasks"]) == artifacts
        assert all(task.get("history") != [] for task in page["tasks"])
    page = (await http.get(f"/{tenant}/tasks?historyLength=0&pageSize=1")).json()
    assert "history" not in page["tasks"][0]
    assert page["nextPageToken"] and page["pageSize"] == 1


# -- B067 --------------------------------------------------------------------------------------------------------------


async def read_everywhere(callers: list[Caller], task: pb.Task) -> None:
    """The task in every answer there is, over every binding; the drivers read JSON with the stock parser."""
    for caller in callers:
        assert await caller.get(task.id) == task
        [listed] = (await caller.page(context_id=task.context_id, include_artifacts=True)).tasks
        assert listed == task
        if state(task.status.state) == "INPUT_REQUIRED":
            async with caller.subscribe(task.id) as stream:
                assert (await anext(stream)).task == task


@pytest.mark.parametrize("levels", [1, 31, 32, 33, 40, 46, 47, 48, 49, 60, 1_000, 100_000])
async def test_b067_what_is_accepted_can_be_read_back(levels: int, pair: Pair, connect: Connect) -> None:
    """Up to 32 lists are taken and readable everywhere; deeper ones are refused quickly, on every binding."""
    callers = [await connect(pair.replicas[0], over=over) for over in BINDINGS]
    deep = "[" * levels + "]" * levels
    for over, caller in zip(BINDINGS, callers, strict=True):
        if levels <= 32:
            request = say(parts=[pb.Part(text="ask"), pb.Part(data=nested_value(levels))])
            await read_everywhere(callers, (await caller.send(request)).task)
            continue
        begun = time.monotonic()
        if over == "GRPC":
            if levels < 45:
                request = say(parts=[pb.Part(text="ask"), pb.Part(data=nested_value(levels))])
                await refused(INVALID_ARGUMENT, caller.send(request))
            else:
                async with grpc.aio.insecure_channel(pair.replicas[0].grpc_addr) as channel:
                    call: Any = channel.unary_unary("/lf.a2a.v1.A2AService/SendMessage")
                    content = in_bytes(levels)
                    begun = time.monotonic()
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await call(content, metadata=tuple(VERSION.items()), timeout=5)
                    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        else:
            body = '{"message":' + json.dumps(message()).replace('{"text": "ask"}', f'{{"data":{deep}}}') + "}"
            if over == "JSONRPC":
                body = f'{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{body}}}'
            async with httpx.AsyncClient(base_url=pair.replicas[0].http_url, headers=VERSION, trust_env=False) as http:
                path = "/" if over == "JSONRPC" else "/message:send"
                begun = time.monotonic()
                answer = await http.post(path, content=body, headers={"content-type": "application/json"})
            assert answer.json()["error"]["code"] in {400, -32602, -32700}
        assert time.monotonic() - begun < 2


def in_bytes(levels: int) -> bytes:
    """A request with data in so many lists, which stock protobuf cannot even build."""

    def head(number: int, length: int) -> bytes:
        size = b""
        while length > 0x7F:
            size, length = size + bytes([length & 0x7F | 0x80]), length >> 7
        return bytes([number << 3 | 2]) + size + bytes([length])

    heads: list[bytes] = []  # from the inside out
    length = 0
    for number in [1, 6] * levels:  # ListValue.values in Value.list_value
        heads.append(head(number, length))
        length += len(heads[-1])
    value = b"".join(reversed(heads))
    part = head(pb.Part.DESCRIPTOR.fields_by_name["data"].number, len(value)) + value
    sent = say("ask").message.SerializeToString()
    sent += head(pb.Message.DESCRIPTOR.fields_by_name["parts"].number, len(part)) + part
    return head(pb.SendMessageRequest.DESCRIPTOR.fields_by_name["message"].number, len(sent)) + sent


@pytest.mark.parametrize("where", ["artifact", "stream", "parts", "metadata", "status"])
async def test_b067_what_an_agent_writes_can_be_read_back(where: str, pair: Pair, connect: Connect) -> None:
    """An agent that nests deeper than anybody could read fails where it does so; its task stays readable."""
    callers = [await connect(replica, over=over) for over in BINDINGS for replica in pair.replicas]
    for levels, outcome in ((32, "COMPLETED"), (45, "COMPLETED"), (48, "FAILED"), (80, "FAILED"), (1_000, "FAILED")):
        task = await callers[0].task(f"nested {where} {levels}")
        assert state(task.status.state) == outcome, levels
        await read_everywhere(callers, task)


# -- B069 --------------------------------------------------------------------------------------------------------------


async def test_b069_both_spellings_are_read_and_one_is_written(http: httpx.AsyncClient) -> None:
    first = await send(http, message())
    sent = {
        "message_id": say().message.message_id,
        "context_id": first["contextId"],
        "role": 1,
        "parts": [{"text": "ask", "media_type": "text/plain"}],
    }
    answer = await http.post("/message:send", json={"message": sent, "configuration": {"history_length": 1}})
    task = answer.json()["task"]
    assert task["contextId"] == first["contextId"]
    assert task["history"][0]["messageId"] == sent["message_id"]
    assert task["history"][0]["role"] == "ROLE_USER"
    assert task["history"][0]["parts"] == [{"text": "ask", "mediaType": "text/plain"}]
    assert "_" not in "".join(task) + "".join(task["status"]) + "".join(task["history"][0])
    for query in ("pageSize=1", "page_size=1"):
        page = (await http.get(f"/tasks?contextId={first['contextId']}&{query}")).json()
        assert (page["pageSize"], len(page["tasks"])) == (1, 1)


TWICE = [
    {"message_id": "other"},
    {"context_id": "c", "contextId": "c"},
]


@pytest.mark.parametrize("more", TWICE)
async def test_b069_a_field_in_both_spellings_is_refused(more: dict[str, str], http: httpx.AsyncClient) -> None:
    answer = await http.post("/message:send", json={"message": message(**more)})
    assert http_failure(answer, answer.json()).is_of(INVALID_ARGUMENT)
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(**more)}}
    assert (await http.post("/", json=call)).json()["error"]["code"] == INVALID_ARGUMENT.jsonrpc
    answer = await http.get("/tasks?pageSize=1&page_size=2")
    assert http_failure(answer, answer.json()).is_of(INVALID_ARGUMENT)


# -- B071 --------------------------------------------------------------------------------------------------------------

RAW = {"-_-_": b"\xfb\xff\xbf", "+/+/": b"\xfb\xff\xbf", "aGVsbG8": b"hello", "aGVsbG8=": b"hello", "": b""}


@pytest.mark.parametrize("raw", RAW)
async def test_b071_bytes_arrive_whatever_the_alphabet(
    raw: str, http: httpx.AsyncClient, pair: Pair, connect: Connect
) -> None:
    task = await send(http, message(parts=[{"text": "ask"}, {"raw": raw, "mediaType": "text/plain"}]))
    written = task["history"][0]["parts"][1]["raw"]
    assert written == base64.b64encode(RAW[raw]).decode()
    assert (await (await connect(pair.replicas[1])).get(task["id"])).history[0].parts[1].raw == RAW[raw]


@pytest.mark.parametrize("raw", ["!!", "a", "a=", "aGVsbG8==", "aGVs bG8", "aGVsbG8\n", "====", 5, None, ["YQ=="]])
async def test_b071_what_is_no_base64_is_refused(raw: Any, http: httpx.AsyncClient) -> None:
    """It would be stored as something that nobody sent."""
    parts = [{"text": "ask"}, {"raw": raw, "mediaType": "text/plain"}]
    answer = await http.post("/message:send", json={"message": message(parts=parts)})
    failure = http_failure(answer, answer.json())
    assert failure.is_of(INVALID_ARGUMENT)
    assert any(path.startswith("message.parts[1]") for path in failure.violations), failure


# -- B073 --------------------------------------------------------------------------------------------------------------

NUMBERS = {
    "a": 3,
    "b": [1, 2],
    "c": True,
    "d": 3.5,
    "e": -7,
    "f": 1e21,
    "g": 0,
    "h": 9007199254740991,
    "i": {"j": [[4]]},
}


@pytest.mark.parametrize("over", ["HTTP+JSON", "JSONRPC"])
async def test_b073_whole_numbers_stay_whole(over: str, http: httpx.AsyncClient) -> None:
    """In metadata and data, in answers, in events and in what the agent gives back."""
    sent = message(parts=[{"text": "echo x"}, {"data": NUMBERS}], metadata=NUMBERS)
    request: dict[str, Any] = {"message": sent}
    path, body = ("/message:send", request) if over == "HTTP+JSON" else ("/", None)
    for method in ("SendMessage", "SendStreamingMessage"):
        sent["messageId"] = say().message.message_id
        if over == "HTTP+JSON":
            path, body = "/message:" + ("send" if method == "SendMessage" else "stream"), request
        else:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": request}
        text = (await http.post(path, json=body)).text
        assert '"a":3,' in text and "3.0," not in text and "9007199254740992" not in text
        assert text.count('"h":9007199254740991') >= 3
        for line in text.splitlines() if method == "SendStreamingMessage" else [f"data: {text}"]:
            if line.startswith("data: "):
                for found in data_in(json.loads(line[6:])):
                    assert found == NUMBERS
                    assert [type(found[name]) for name in "abcde"] == [int, list, bool, float, int]


def data_in(value: Any) -> Any:
    """Every `data` and `metadata` in a JSON value."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name in {"data", "metadata"}:
                yield item
            else:
                yield from data_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from data_in(item)


async def test_b073_a_number_that_a_double_cannot_hold_is_rounded_or_refused(http: httpx.AsyncClient) -> None:
    """Above 2^53 the nearest double comes back, as the type of the protocol says; what has no double is refused."""
    task = await send(http, message(parts=[{"text": "ask"}, {"data": {"e": 9007199254740993}}]))
    assert task["history"][0]["parts"][1]["data"] == {"e": 9007199254740992}
    for number in ("1e400", "-1e400", "NaN", "Infinity", '{"x":[1e999]}'):
        body = json.dumps({"message": message()}).replace('{"text": "ask"}', f'{{"data":{number}}}')
        answer = await http.post("/message:send", content=body, headers={"content-type": "application/json"})
        assert http_failure(answer, answer.json()).grpc == "INVALID_ARGUMENT"


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
async def test_b073_no_binding_takes_what_json_cannot_carry(number: float, pair: Pair, connect: Connect) -> None:
    """Neither from a caller over gRPC nor from an agent: the bindings would show different tasks."""
    one, other = await connect(pair.replicas[0]), await connect(pair.replicas[1], over="HTTP+JSON")
    request = say(parts=[pb.Part(text="ask"), pb.Part(data=struct_pb2.Value(number_value=number))])
    await refused(INVALID_ARGUMENT, one.send(request))
    for where in ("artifact", "parts", "metadata", "status"):
        task = await one.task(f"number {where} {number}")
        assert state(task.status.state) == "FAILED"
        assert await other.get(task.id) == task


# -- B075 --------------------------------------------------------------------------------------------------------------

VALID = json.dumps({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "ask"}]}}).encode()
BODIES: dict[str, tuple[bytes, set[int]]] = {
    "empty": (b"", {400}),
    "null": (b"null", {400}),
    "an array": (b"[]", {400}),
    "a string": (b'"x"', {400}),
    "a number": (b"1", {400}),
    "a message that is a string": (b'{"message":"str"}', {400}),
    "a byte order mark": (b"\xef\xbb\xbf" + VALID, {200, 400}),
    "UTF-16": (VALID.decode().encode("utf-16"), {400}),
    "a name twice": (VALID.replace(b'{"messageId"', b'{"messageId":"x","messageId"'), {400}),
    "half a surrogate": (VALID.replace(b"ask", b"\\ud800"), {400}),
    "invalid UTF-8": (VALID.replace(b"ask", b"\xff\xfe"), {400}),
    "cut off": (VALID[:-5], {400}),
    "something behind": (VALID + b"{}", {400}),
    "comments": (b"/* x */" + VALID, {400}),
    "single quotes": (VALID.replace(b'"', b"'"), {400}),
    "a zero byte": (VALID.replace(b"ask", b"a\x00k"), {400}),
    "blanks around": (b" \r\n" + VALID + b"\n\t ", {200}),
}


@pytest.mark.parametrize("body", BODIES)
async def test_b075_a_body_is_read_or_refused_and_the_connection_goes_on(body: str, pair: Pair, tenant: str) -> None:
    """Never a 500, on one connection: the odd request, and a good one after it."""
    content, statuses = BODIES[body]
    port = int(pair.replicas[0].http_url.rpartition(":")[2])
    headers = {"content_type": "application/json", "a2a_version": "1.0"}
    for path in ("/message:send", "/message:stream"):
        if path == "/message:stream" and httpx.codes.OK in statuses:
            continue  # the answer is a stream
        odd, good = (sent.replace(b'"m"', f'"{path} {tenant}"'.encode()) for sent in (content, VALID))
        async with connected(port) as raw:
            await raw.send(http_request("POST", path, odd, content_length=str(len(odd)), **headers))
            status, got, answer = await raw.response()
            assert status in statuses, answer
            if status != httpx.codes.OK:
                error = json.loads(answer)["error"]
                assert (error["code"], error["status"]) == (400, "INVALID_ARGUMENT")
                assert got["content-type"].partition(";")[0] in {"application/json", "application/a2a+json"}
                assert not any(word in error["message"] for word in ("Error", "Traceback", ".py"))
            await raw.send(http_request("POST", "/message:send", good, **headers))
            status, _, answer = await raw.response()
            assert status == httpx.codes.OK and json.loads(answer)["task"]["id"]


async def test_b075_sizes_lengths_and_codings_are_answered_cleanly(pair: Pair) -> None:
    """Too large, announced too short or too long, compressed: each has its status, and the next caller is served."""
    port = int(pair.replicas[0].http_url.rpartition(":")[2])
    headers = {"content_type": "application/json", "a2a_version": "1.0"}
    async with connected(port) as raw:
        await raw.send(http_request("POST", "/message:send", b"", content_length=str(20 * 1024 * 1024), **headers))
        assert (await raw.response())[0] == 413
    async with connected(port) as raw:
        await raw.send(http_request("POST", "/message:send", VALID, content_encoding="gzip", **headers))
        assert (await raw.response())[0] == 415
        await raw.send(http_request("GET", "/healthz"))
        assert (await raw.response())[0] == 200
    async with connected(port) as raw:  # announced too short: the rest of it is no request
        await raw.send(http_request("POST", "/message:send", VALID, content_length=str(len(VALID) - 5), **headers))
        assert (await raw.response())[0] == 400
    async with connected(port) as raw:  # announced too long, by a sender that hangs up
        await raw.send(http_request("POST", "/message:send", VALID, content_length=str(len(VALID) + 5), **headers))
        raw.reset()
    async with httpx.AsyncClient(base_url=pair.replicas[0].http_url, headers=VERSION, trust_env=False) as http:
        assert (await http.get("/tasks?pageSize=1")).status_code == httpx.codes.OK
