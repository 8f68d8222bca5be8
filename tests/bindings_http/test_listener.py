"""The listener by itself: binding, unary calls whose caller leaves, and stopping."""

import asyncio
import contextlib
import errno
import json
import signal
import socket

import pytest
from google.protobuf.message import Message

from a2a_grpc.server.bindings.asgi.listener import HttpListener
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.core.events import Event
from tests.support.http_bindings import (
    TASK,
    ScriptedHandler,
    answering,
    compose,
    connected,
    emitting,
    http_request,
    listening,
    snapshot,
)
from tests.support.waiting import wait_until

GET = http_request("GET", "/tasks/t1")


def held(until: asyncio.Event) -> ScriptedHandler:
    """A handler whose unary calls wait."""

    async def answer(method: str, request: Message, call: Call) -> Message:
        await until.wait()
        return TASK

    return ScriptedHandler(answer)


async def test_a_port_in_use_is_named() -> None:
    async with listening(compose(ScriptedHandler())) as (_, port):
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use") as caught:
            await HttpListener(compose(ScriptedHandler()), "127.0.0.1", port).start()
    assert caught.value.errno == errno.EADDRINUSE


async def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(OSError, match=r"cannot listen on 203\.0\.113\.1:0"):
        await HttpListener(compose(ScriptedHandler()), "203.0.113.1", 0).start()


async def test_every_address_of_a_host_gets_the_same_port() -> None:
    listener = HttpListener(compose(ScriptedHandler()), "localhost", 0)
    port = await listener.start()
    try:
        for *_, address in socket.getaddrinfo("localhost", port, type=socket.SOCK_STREAM):
            reader, writer = await asyncio.open_connection(str(address[0]), port)
            writer.write(http_request("GET", "/healthz"))
            assert await reader.read(12) == b"HTTP/1.1 200"
            writer.close()
            await writer.wait_closed()
    finally:
        await listener.stop(grace=0.0)


@pytest.mark.parametrize("turns", range(4))
async def test_a_connection_that_is_accepted_as_the_certificate_changes_is_served(turns: int) -> None:
    async with listening(compose(ScriptedHandler(answering(TASK)))) as (listener, port):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as peer:
            peer.sendall(GET)
            for _ in range(turns):
                await asyncio.sleep(0)
            await listener._accept()  # what a new certificate leads to
            assert (await asyncio.to_thread(peer.recv, 12)) == b"HTTP/1.1 200"


async def test_responses_carry_a_date_and_name_no_product() -> None:
    async with listening(compose(ScriptedHandler())) as (_, port), connected(port) as raw:
        await raw.send(http_request("GET", "/healthz"))
        _, headers, _ = await raw.response()
    assert headers["date"].endswith(" GMT")
    assert "server" not in headers


async def test_signals_are_left_to_their_owner() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with listening(compose(ScriptedHandler())):
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


async def test_a_caller_that_leaves_is_not_waited_for() -> None:
    """The wait ends; what the call has started is not the binding's to stop (3.2.2)."""
    handler = held(asyncio.Event())
    async with listening(compose(handler)) as (listener, port), connected(port) as raw:
        await raw.send(GET)
        await wait_until(lambda: handler.running == 1, "the call runs")
        raw.reset()
        await wait_until(lambda: handler.running == 0, "the call is given up", timeout=1.0)
        await wait_until(lambda: not listener._state.tasks, "no task is left")
    assert handler.ended == ["cancelled"]


async def test_a_caller_that_waits_gets_its_answer() -> None:
    """Longer than it takes until the caller is watched."""
    until = asyncio.Event()
    async with listening(compose(held(until))) as (_, port), connected(port) as raw:
        await raw.send(GET)
        await asyncio.sleep(0.4)
        until.set()
        assert (await raw.response())[0] == 200
        await raw.send(GET)
        assert (await raw.response())[0] == 200


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with listening(compose(ScriptedHandler(answering(TASK)))) as (_, port), connected(port) as raw:
        await raw.send(GET + http_request("GET", "/healthz") + http_request("GET", "/nothing"))
        assert [(await raw.response())[0] for _ in range(3)] == [200, 200, 404]


async def test_a_running_call_may_end_within_the_grace() -> None:
    until = asyncio.Event()
    handler = held(until)
    async with listening(compose(handler)) as (listener, port), connected(port) as raw, connected(port) as idle:
        await raw.send(GET)
        await wait_until(lambda: handler.running == 1, "the call runs")
        stopping = asyncio.create_task(listener.stop(grace=10.0))
        assert await idle.at_end()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        until.set()
        code, _, _ = await raw.response()
        assert code == 200
        async with asyncio.timeout(1):
            await stopping
        assert await raw.at_end()


async def test_a_call_that_outlasts_the_grace_is_told() -> None:
    handler = held(asyncio.Event())
    async with listening(compose(handler)) as (listener, port), connected(port) as raw:
        await raw.send(GET)
        await wait_until(lambda: handler.running == 1, "the call runs")
        async with asyncio.timeout(2):
            await listener.stop(grace=0.1)
        code, _, body = await raw.response()
        assert code == 503
        assert json.loads(body)["error"]["details"][0]["reason"] == "UNAVAILABLE"
        assert await raw.at_end()
    assert handler.ended == ["cancelled"]


async def test_stopping_leaves_nothing_behind() -> None:
    before = asyncio.all_tasks()
    async with listening(compose(held(asyncio.Event()))) as (listener, port), contextlib.AsyncExitStack() as stack:
        for request in (GET, b"", b"GET / HT", http_request("POST", "/message:send", b"{", content_length="9")):
            raw = await stack.enter_async_context(connected(port))
            await raw.send(request)
        await wait_until(lambda: len(listener._state.connections) == 4, "all are connected")
        async with asyncio.timeout(2):
            await listener.stop(grace=0.1)
            await listener.stop(grace=0.1)
        assert not listener._state.connections
    assert asyncio.all_tasks() == before


# Leaving in two steps


async def test_whoever_is_told_to_leave_is_served_first() -> None:
    """From `retire` on each response closes its connection; new ones are still taken."""
    async with listening(compose(ScriptedHandler(answering(TASK)))) as (listener, port), connected(port) as raw:
        await raw.send(GET)
        code, headers, _ = await raw.response()
        assert (code, "connection" in headers) == (200, False)
        listener.retire()
        for caller in (raw, None):
            async with connected(port) as fresh:
                asking = caller or fresh
                await asking.send(GET)
                code, headers, _ = await asking.response()
                assert (code, headers["connection"]) == (200, "close")
                assert await asking.at_end()


async def test_a_request_that_has_begun_to_come_is_answered() -> None:
    """Idle connections are closed at once; one that carries the first bytes of a request, or of its body, is not."""
    post = http_request("POST", "/message:send", b'{"message": {}}', content_type="application/json")
    async with (
        listening(compose(ScriptedHandler(answering(TASK)))) as (listener, port),
        contextlib.AsyncExitStack() as s,
    ):
        idle, head, part = [await s.enter_async_context(connected(port)) for _ in range(3)]
        await head.send(GET[:20])
        await part.send(post[:-5])
        await wait_until(lambda: len(listener._state.tasks) == 1, "the head of a request is there")
        await wait_until(lambda: sum(one._in_head for one in listener._connections()) == 1, "so is part of another one")
        await listener.leave()
        assert await idle.at_end()
        for raw, rest in ((head, GET[20:]), (part, post[-5:])):
            await raw.send(rest)
            code, headers, _ = await raw.response()
            assert (code, headers["connection"]) == (200, "close")
            assert await raw.at_end()


async def test_answers_are_waited_for_and_streams_are_not() -> None:
    until = asyncio.Event()
    handler = held(until)
    handler.on_stream = emitting(Event(1, snapshot()), wait=asyncio.Event())
    async with listening(compose(handler)) as (listener, port), contextlib.AsyncExitStack() as stack:
        stream, raw = [await stack.enter_async_context(connected(port)) for _ in range(2)]
        await stream.send(http_request("GET", "/tasks/t1:subscribe"))
        await stream.head()
        async with asyncio.timeout(1):
            await listener.answered()
        await raw.send(GET)
        await wait_until(lambda: handler.running == 1, "the call runs")
        answered = asyncio.create_task(listener.answered())
        assert not (await asyncio.wait({answered}, timeout=0.1))[0]
        until.set()
        async with asyncio.timeout(1):
            await answered
        assert (await raw.response())[0] == 200
