"""HTTP+JSON: what is wrong with a request is said quickly, in the shape of 11.6, and the connection lives on."""

import asyncio
import gzip
import json
import time
from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.bindings.asgi.connection import ConnectionLimits
from a2a_grpc.server.calls.call import Call
from a2a_grpc.wire.errors import (
    ERRORS,
    A2AError,
    InvalidArgumentError,
    ResourceExhaustedError,
    TaskNotFoundError,
    UnauthenticatedError,
    Violation,
)
from tests.support.http_bindings import (
    MESSAGE_JSON,
    TASK,
    RawConnection,
    ScriptedHandler,
    answering,
    compose,
    connected,
    http_request,
    listening,
    raising,
    serving,
)
from tests.support.waiting import wait_until

VALID = json.dumps({"message": MESSAGE_JSON}).encode()


def info(body: Any) -> dict[str, Any]:
    """The ErrorInfo of an error body, whose shape is checked on the way (11.6)."""
    assert set(body) == {"error"}
    error = body["error"]
    assert isinstance(error["code"], int) and error["status"].isupper() and error["message"]
    infos = [d for d in error["details"] if d["@type"] == "type.googleapis.com/google.rpc.ErrorInfo"]
    assert len(infos) == 1 and infos[0]["domain"] == "a2a-protocol.org"
    found: dict[str, Any] = infos[0]
    return found


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.kind.name)
async def test_every_error_has_its_status_and_shape(error: type[A2AError]) -> None:
    """5.4: all of the one table."""
    async with serving(ScriptedHandler(raising(error("Something is wrong.")))) as client:
        response = await client.get("/tasks/t1")

    assert response.status_code == error.kind.http
    assert response.headers["content-type"] == "application/a2a+json"
    assert response.headers["cache-control"] == "no-store"
    assert info(response.json())["reason"] == error.kind.reason
    assert response.json()["error"]["code"] == error.kind.http
    assert response.json()["error"]["message"] == "Something is wrong."


async def test_the_example_of_the_specification() -> None:
    """11.6, but for the text and the timestamp."""
    error = TaskNotFoundError("There is no such task.", metadata={"task_id": "task-123"})
    async with serving(ScriptedHandler(raising(error))) as client:
        response = await client.get("/tasks/task-123")

    assert response.json() == {
        "error": {
            "code": 404,
            "status": "NOT_FOUND",
            "message": "There is no such task.",
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": "TASK_NOT_FOUND",
                    "domain": "a2a-protocol.org",
                    "metadata": {"taskId": "task-123"},
                }
            ],
        }
    }


async def test_violations_are_named_as_in_json() -> None:
    """B057, 6.5: field paths in the spelling of the binding."""
    error = InvalidArgumentError("Wrong.", violations=[Violation("message.parts[0].media_type", "is empty")])
    async with serving(ScriptedHandler(raising(error))) as client:
        response = await client.get("/tasks/t1")

    assert response.json()["error"]["details"][1] == {
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": "message.parts[0].mediaType", "description": "is empty"}],
    }


@pytest.mark.parametrize(("seconds", "header"), [(2.0, "2"), (0.1, "1"), (1.2, "2")])
async def test_retry_after(seconds: float, header: str) -> None:
    """Whole seconds, rounded up: never sooner than the error says."""
    async with serving(ScriptedHandler(raising(ResourceExhaustedError("Slow down.", retry_after=seconds)))) as client:
        response = await client.get("/tasks/t1")

    assert (response.status_code, response.headers["retry-after"]) == (429, header)


async def test_missing_credentials_are_challenged() -> None:
    """7.4, RFC 9110 section 11.6.1. What the pipeline leaves as a challenge replaces the general one."""

    async def own_challenge(method: str, request: Message, call: Call) -> Message:
        call.response_parameters["www-authenticate"] = 'Bearer realm="agents"'
        raise UnauthenticatedError("Who are you?")

    async with serving(ScriptedHandler(raising(UnauthenticatedError("Who are you?")))) as client:
        response = await client.get("/tasks/t1")
        assert (response.status_code, response.headers.get_list("www-authenticate")) == (401, ["Bearer"])
    async with serving(ScriptedHandler(own_challenge)) as client:
        response = await client.get("/tasks/t1")
        assert response.headers.get_list("www-authenticate") == ['Bearer realm="agents"']


async def test_a_defect_is_a_500_without_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(ScriptedHandler(raising(ZeroDivisionError("secret")))) as client:
        response = await client.get("/tasks/t1")

    assert response.status_code == 500 and info(response.json())["reason"] == "INTERNAL_ERROR"
    assert "secret" not in response.text and "ZeroDivision" not in response.text
    assert "ZeroDivisionError: secret" in caplog.text


BAD_BODIES = {
    "empty": b"",
    "white space": b" \n",
    "null": b"null",
    "array": b"[]",
    "text": b'"x"',
    "number": b"1",
    "a message that is text": b'{"message":"str"}',
    "byte order mark": b"\xef\xbb\xbf" + VALID,
    "a key twice": b'{"message":%b,"message":%b}'
    % (json.dumps(MESSAGE_JSON).encode(), json.dumps(MESSAGE_JSON).encode()),
    "half a character": b'{"message":{"messageId":"\\ud800","role":"ROLE_USER","parts":[{"text":"x"}]}}',
    "not UTF-8": VALID.replace(b"hello", b"\xff\xfe"),
    "truncated": VALID[:-3],
    "something behind": VALID + b"{}",
    "NaN": VALID.replace(b'"hello"', b"NaN"),
    "an unknown enum name": VALID.replace(b"ROLE_USER", b"ROLE_GOD"),
    "bad base64": VALID.replace(b'"text": "hello"', b'"raw": "!!"'),
    "deep lists": VALID.replace(b'"text": "hello"', b'"data": ' + b"[" * 100_000 + b"]" * 100_000),
    "deep objects": VALID.replace(b'"text": "hello"', b'"data": ' + b'{"a":' * 1000 + b"1" + b"}" * 1000),
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
async def test_bodies_that_are_no_request(body: bytes) -> None:
    """B067, B071, B075: 400 at once, nothing reaches the handler, and the same connection serves the next request."""
    handler = ScriptedHandler(answering(a2a_pb2.SendMessageResponse(task=TASK)))
    async with listening(compose(handler)) as (_, port), connected(port) as raw:
        begun = time.perf_counter()
        await raw.send(http_request("POST", "/message:send", body, content_type="application/json"))
        code, _, answer = await raw.response()
        assert time.perf_counter() - begun < 5
        assert code == 400, answer
        assert json.loads(answer)["error"]["status"] == "INVALID_ARGUMENT"
        info(json.loads(answer))
        assert handler.calls == []
        assert len(answer) < 3000
        await send_valid(raw)


async def send_valid(raw: RawConnection) -> None:
    """The connection is still good."""
    await raw.send(http_request("POST", "/message:send", VALID, content_type="application/json"))
    assert (await raw.response())[0] == 200


@pytest.mark.parametrize("how", ["declared", "chunked"])
async def test_a_body_that_is_too_large(how: str) -> None:
    """413 whether its size is known before or only while it comes; 20 MB as in B075."""
    handler = ScriptedHandler(answering(a2a_pb2.SendMessageResponse(task=TASK)))
    # White space makes a body larger, and not its message: only what is read can be counted.
    body = VALID + b" " * 20_000_000
    async with listening(compose(handler)) as (_, port), connected(port) as raw:
        if how == "declared":
            sending = http_request("POST", "/message:send", body, content_type="application/json")
        else:
            head = http_request("POST", "/message:send", transfer_encoding="chunked", content_type="application/json")
            sending = head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        sender = asyncio.create_task(raw.send(sending))
        code, _, answer = await raw.response()
        await sender
        assert code == 413 and info(json.loads(answer))["reason"] == "PAYLOAD_TOO_LARGE"
        assert handler.calls == []
        await send_valid(raw)


async def test_numbers_that_grow_are_measured_as_protobuf() -> None:
    """`1,` are two bytes of JSON and eleven of protobuf: the message is too large although its body is not."""
    handler = ScriptedHandler(answering(a2a_pb2.SendMessageResponse(task=TASK)))
    data = {**MESSAGE_JSON, "parts": [{"data": [1] * 20_000}]}
    async with serving(handler, max_message_bytes=100_000) as client:
        response = await client.post("/message:send", json={"message": data})

    assert response.status_code == 413 and info(response.json())["reason"] == "PAYLOAD_TOO_LARGE"
    assert handler.calls == []


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content-type": "text/xml"}, 415),
        ({"content-type": "application/xml; charset=utf-8"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
        ({"content-type": "application/json", "content-encoding": "br"}, 415),
        ({"content-type": "application/json", "content-encoding": "identity"}, 200),
    ],
)
async def test_types_and_codings_of_the_body(headers: Mapping[str, str], expected: int) -> None:
    """B061: never 500."""
    async with serving(ScriptedHandler(answering(a2a_pb2.SendMessageResponse(task=TASK)))) as client:
        response = await client.post("/message:send", content=VALID, headers=headers)

    assert response.status_code == expected
    if expected == 415:
        assert info(response.json())["reason"] == "UNSUPPORTED_MEDIA_TYPE"


async def test_gzip_is_refused_with_what_is_accepted() -> None:
    async with serving(ScriptedHandler()) as client:
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        response = await client.post("/message:send", content=gzip.compress(VALID), headers=headers)

    assert (response.status_code, response.headers["accept-encoding"]) == (415, "identity")


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("PUT", "/tasks/t1", {"GET", "HEAD", "OPTIONS"}),
        ("GET", "/message:send", {"POST", "OPTIONS"}),
        ("DELETE", "/tasks/t1:cancel", {"POST", "OPTIONS"}),
        ("PATCH", "/acme/tasks/t1:subscribe", {"GET", "HEAD", "POST", "OPTIONS"}),
        ("HEAD", "/tasks/t1:subscribe", {"GET", "HEAD", "POST", "OPTIONS"}),
        ("POST", "/extendedAgentCard", {"GET", "HEAD", "OPTIONS"}),
    ],
)
async def test_wrong_verbs(verb: str, path: str, allowed: set[str]) -> None:
    async with serving(ScriptedHandler()) as client:
        response = await client.request(verb, path)

    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == allowed
    if verb != "HEAD":
        assert info(response.json())["reason"] == "METHOD_NOT_ALLOWED"


@pytest.mark.parametrize(
    "path", ["/nothing", "/tasks/t1/", "/v1/message:send/x", "/message:send/", "/tasks/t1/x/y/z", "/%zz/x"]
)
async def test_wrong_paths(path: str) -> None:
    async with listening(compose(ScriptedHandler())) as (_, port), connected(port) as raw:
        await raw.send(http_request("GET", path))
        code, _, body = await raw.response()

    assert code in (404, 400) if "%zz" in path else code == 404
    info(json.loads(body))


async def test_an_id_that_is_an_action_is_no_task() -> None:
    """B063: GET /tasks/abc:subscribe is never "task abc:subscribe"."""
    handler = ScriptedHandler(answering(TASK))
    async with serving(handler) as client:
        response = await client.get("/tasks/abc:cancel")

    assert response.status_code == 405 and handler.calls == []


async def test_a_query_that_cannot_be_read() -> None:
    async with listening(compose(ScriptedHandler(answering(TASK)))) as (_, port), connected(port) as raw:
        for query in ("historyLength=x", "historyLength=%ff", "&".join(f"a{n}=1" for n in range(200)), "pageSize=5.5"):
            await raw.send(http_request("GET", f"/tasks?{query}"))
            code, _, body = await raw.response()
            assert code == 400, query
            info(json.loads(body))


# Below HTTP


async def test_a_body_shorter_than_announced_that_ends_there() -> None:
    """The caller hangs up in the middle: nothing is run, nothing is logged as a defect."""
    handler = ScriptedHandler(answering(a2a_pb2.SendMessageResponse(task=TASK)))
    async with listening(compose(handler)) as (listener, port):
        async with connected(port) as raw:
            await raw.send(http_request("POST", "/message:send", VALID[:10], content_length=str(len(VALID))))
            await wait_until(lambda: listener._state.tasks, "the request is being read")
            raw.reset()
            await wait_until(lambda: not listener._state.tasks, "the request is given up")
        assert handler.calls == []


async def test_a_body_shorter_than_announced_that_waits() -> None:
    """408 after the limit; uvicorn alone waits for ever."""
    limits = ConnectionLimits(body_timeout=0.2)
    async with listening(compose(ScriptedHandler()), limits) as (listener, port), connected(port) as raw:
        await raw.send(http_request("POST", "/message:send", VALID[:10], content_length=str(len(VALID))))
        code, headers, body = await raw.response()
        assert (code, headers["connection"]) == (408, "close")
        info(json.loads(body))
        assert await raw.at_end()
        await wait_until(lambda: not listener._state.tasks, "the request is given up")


async def test_a_body_longer_than_announced() -> None:
    """The rest is no request, and says so."""
    async with listening(compose(ScriptedHandler())) as (_, port), connected(port) as raw:
        await raw.send(http_request("POST", "/message:send", VALID, content_length=str(len(VALID) - 4)))
        code, _, body = await raw.response()
        assert code == 400
        info(json.loads(body))


async def test_a_slow_body_in_time_is_read() -> None:
    handler = ScriptedHandler(answering(a2a_pb2.SendMessageResponse(task=TASK)))
    async with listening(compose(handler)) as (listener, port), connected(port) as raw:
        request = http_request("POST", "/message:send", VALID, content_type="application/json")
        for cut in (20, -60, -30, -1):
            await raw.send(request[: cut if cut > 0 else len(request) + cut])
            request = request[cut if cut > 0 else len(request) + cut :]
            await asyncio.sleep(0)
        await wait_until(lambda: listener._state.tasks, "the request is being read")
        await raw.send(request)
        assert (await raw.response())[0] == 200


async def test_expect_100_continue() -> None:
    """The body is asked for when it is wanted, and not when the headers already say that it is not."""
    handler = ScriptedHandler(answering(a2a_pb2.SendMessageResponse(task=TASK)))
    async with listening(compose(handler)) as (_, port), connected(port) as raw:
        length = str(len(VALID))
        head = http_request("POST", "/message:send", expect="100-continue", content_length=length)
        await raw.send(head)
        assert (await raw.head())[0] == 100
        await raw.send(VALID)
        assert (await raw.response())[0] == 200
    async with listening(compose(handler)) as (_, port), connected(port) as raw:
        await raw.send(http_request("POST", "/message:send", expect="100-continue", content_length="99999999"))
        assert (await raw.response())[0] == 413


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,  # a TLS hello
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",  # a gRPC client
        b"hello\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost x\r\n\r\n",
    ],
)
async def test_bytes_that_are_not_http(data: bytes) -> None:
    async with listening(compose(ScriptedHandler())) as (_, port):
        async with connected(port) as raw:
            await raw.send(data)
            code, _, body = await raw.response()
            assert code in (400, 404)
            info(json.loads(body))
        async with connected(port) as raw:
            await raw.send(http_request("GET", "/healthz"))
            assert (await raw.response())[0] == 200


async def test_headers_that_do_not_end() -> None:
    limits = ConnectionLimits(head_timeout=0.2)
    async with listening(compose(ScriptedHandler()), limits) as (_, port), connected(port) as raw:
        await raw.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n")
        code, _, body = await raw.response()
        assert code == 408
        info(json.loads(body))
        assert await raw.at_end()


async def test_a_connection_that_says_nothing() -> None:
    limits = ConnectionLimits(head_timeout=0.2)
    async with listening(compose(ScriptedHandler()), limits) as (_, port), connected(port) as raw:
        assert await raw.at_end()


async def test_headers_that_are_too_large() -> None:
    async with listening(compose(ScriptedHandler())) as (_, port), connected(port) as raw:
        sender = asyncio.create_task(raw.send(b"GET /healthz HTTP/1.1\r\n" + b"x: y\r\n" * 20_000))
        code, _, body = await raw.response()
        assert code == 431
        info(json.loads(body))
        await asyncio.gather(sender, return_exceptions=True)


async def test_an_idle_connection_is_closed() -> None:
    limits = ConnectionLimits(keep_alive=0.2)
    async with listening(compose(ScriptedHandler()), limits) as (_, port), connected(port) as raw:
        await raw.send(http_request("GET", "/healthz"))
        assert (await raw.response())[0] == 200
        assert await raw.at_end()


async def test_a_connection_is_idle_too_after_a_body_that_nobody_wanted() -> None:
    limits = ConnectionLimits(keep_alive=0.2)
    async with listening(compose(ScriptedHandler()), limits) as (_, port), connected(port) as raw:
        body = b" " * 1_000_000
        await raw.send(http_request("POST", "/nothing", body[:-1], content_length=str(len(body))))
        assert (await raw.response())[0] == 404
        await raw.send(body[-1:])
        assert await raw.at_end()


async def test_more_connections_than_allowed() -> None:
    limits = ConnectionLimits(connections=1)
    async with listening(compose(ScriptedHandler()), limits) as (listener, port):
        async with connected(port) as first:
            await first.send(http_request("GET", "/healthz"))
            assert (await first.response())[0] == 200
            async with connected(port) as second:
                code, headers, body = await second.response()
                assert (code, headers["connection"]) == (503, "close")
                assert info(json.loads(body))["reason"] == "UNAVAILABLE"
            await first.send(http_request("GET", "/healthz"))
            assert (await first.response())[0] == 200
        await wait_until(lambda: not listener._state.connections, "both connections are gone")
        async with connected(port) as third:
            await third.send(http_request("GET", "/healthz"))
            assert (await third.response())[0] == 200


async def test_an_upgrade_to_http2_that_is_not_taken() -> None:
    """Java's HttpClient offers it with every first request; the request must be served as if it had not."""
    handler = ScriptedHandler(answering(a2a_pb2.SendMessageResponse(task=TASK)))
    async with listening(compose(handler)) as (_, port), connected(port) as raw:
        request = http_request(
            "POST",
            "/message:send",
            VALID,
            connection="Upgrade, HTTP2-Settings",
            upgrade="h2c",
            http2_settings="AAMAAABkAAQBAAAAAAIAAAAA",
            content_type="application/json",
        )
        await raw.send(request)
        assert (await raw.response())[0] == 200
        await send_valid(raw)
