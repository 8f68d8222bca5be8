"""Every failure becomes one status with details, at once, and without text of the program."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.core.events import Event
from a2a_grpc.wire.errors import (
    ERRORS,
    A2AError,
    InternalError,
    InvalidArgumentError,
    TaskNotFoundError,
    UnavailableError,
    Violation,
)
from tests.bindings_grpc.scripted import Scripted, calling, chunk
from tests.support.waiting import wait_until

GET = a2a_pb2.GetTaskRequest(id="t-1")
SUBSCRIBE = a2a_pb2.SubscribeToTaskRequest(id="t-1")
PUBLIC = "The server failed while it handled the call. The cause is in its log."


def details(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    value = error.trailing_metadata()["grpc-status-details-bin"]
    assert isinstance(value, bytes)
    return status_pb2.Status.FromString(value)


def error_info(error: grpc.aio.AioRpcError) -> error_details_pb2.ErrorInfo:
    status = details(error)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert info.domain == "a2a-protocol.org"
    return info


def raising(error: BaseException) -> Callable[..., Any]:
    async def unary(method: str, request: Message, call: Call) -> Message:
        raise error

    return unary


def failing_stream(error: BaseException, after: int = 0) -> Callable[..., AsyncIterator[Event]]:
    async def stream(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        for seq in range(1, after + 1):
            yield Event(seq, chunk(f"chunk {seq}"))
        raise error

    return stream


async def failure(rpc: Any) -> grpc.aio.AioRpcError:
    """How a call fails; a call that hangs fails the test."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async with asyncio.timeout(2):
            await rpc
    return caught.value


async def read_all(rpc: Any, responses: list[Any]) -> None:
    async for response in rpc:
        responses.append(response)  # noqa: PERF401  # what was read before a failure is kept


@pytest.mark.parametrize("cls", ERRORS, ids=lambda cls: cls.__name__)
async def test_each_error_has_its_code_message_and_reason(cls: type[A2AError]) -> None:
    async with calling(Scripted(unary=raising(cls("what went wrong")))) as stub:
        error = await failure(stub.GetTask(GET))
    assert error.code().value[0] == cls.kind.code
    assert error.details() == "what went wrong"
    assert (details(error).code, details(error).message) == (cls.kind.code, "what went wrong")
    assert error_info(error).reason == cls.kind.reason


async def test_an_error_before_the_first_event_is_the_answer_of_the_stream() -> None:
    responses: list[Any] = []
    async with calling(Scripted(stream=failing_stream(TaskNotFoundError("no such task")))) as stub:
        error = await failure(read_all(stub.SubscribeToTask(SUBSCRIBE), responses))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert error_info(error).reason == "TASK_NOT_FOUND"
    assert responses == []


async def test_an_error_after_two_events_follows_them() -> None:
    responses: list[Any] = []
    cut = UnavailableError("this replica is leaving", retry_after=1.5)
    async with calling(Scripted(stream=failing_stream(cut, after=2))) as stub:
        error = await failure(read_all(stub.SubscribeToTask(SUBSCRIBE), responses))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert len(responses) == 2
    retry = error_details_pb2.RetryInfo()
    assert details(error).details[1].Unpack(retry)
    assert retry.retry_delay.ToMilliseconds() == 1500


@pytest.mark.parametrize("cause", [ValueError("secret /etc/path"), KeyError("secret"), RecursionError("secret")])
async def test_an_unexpected_exception_stays_in_the_log(cause: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async with calling(Scripted(unary=raising(cause), stream=failing_stream(cause, after=1))) as stub:
        for rpc in (stub.GetTask(GET), read_all(stub.SubscribeToTask(SUBSCRIBE), [])):
            error = await failure(rpc)
            assert error.code() is grpc.StatusCode.INTERNAL
            assert error.details() == PUBLIC
            assert error_info(error).reason == "INTERNAL_ERROR"
            assert b"secret" not in details(error).SerializeToString()
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.exc_info[1] for record in logged if record.exc_info] == [cause, cause]


async def test_a_cancellation_from_inside_is_answered() -> None:
    """grpc.aio sends no status for it, and the peer would wait for ever (B101)."""

    async def awaits_a_cancelled_task(method: str, request: Message, call: Call) -> Message:
        inner = asyncio.create_task(asyncio.sleep(60))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner
        raise AssertionError

    for unary in (raising(asyncio.CancelledError()), awaits_a_cancelled_task):
        async with calling(Scripted(unary=unary, stream=failing_stream(asyncio.CancelledError(), after=1))) as stub:
            error = await failure(stub.GetTask(GET))
            assert (error.code(), error.details()) == (grpc.StatusCode.INTERNAL, PUBLIC)
            error = await failure(read_all(stub.SubscribeToTask(SUBSCRIBE), []))
            assert (error.code(), error.details()) == (grpc.StatusCode.INTERNAL, PUBLIC)


async def test_somebody_who_cancels_the_task_of_a_call_does_not_hang_its_caller() -> None:
    tasks: list[asyncio.Task[Any]] = []

    def note_task() -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)

    async def unary(method: str, request: Message, call: Call) -> Message:
        note_task()
        await asyncio.Event().wait()
        raise AssertionError

    async def stream(method: str, request: Message, call: Call) -> AsyncIterator[Event]:
        yield Event(1, chunk("x"))
        note_task()
        await asyncio.Event().wait()

    async with calling(Scripted(unary=unary, stream=stream)) as stub:
        for streams in (False, True):
            tasks.clear()
            rpc = read_all(stub.SubscribeToTask(SUBSCRIBE), []) if streams else stub.GetTask(GET)
            failing = asyncio.create_task(failure(rpc))
            await wait_until(lambda: tasks, "the call arrives")
            tasks[0].cancel()
            assert (await failing).code() is grpc.StatusCode.INTERNAL


async def test_long_input_in_an_error_does_not_overflow_the_trailers() -> None:
    """B055: above 8 kB of trailers the caller would see RESOURCE_EXHAUSTED instead of the error."""
    texts = ("x" * 20_000, "\u00e9\n" * 10_000, "\U0001f600" * 5_000)
    for text in texts:
        errors = (
            TaskNotFoundError(f"there is no task {text}", metadata={"task_id": text, "other": text}),
            InvalidArgumentError(text, violations=[Violation(f"message.parts[{i}]", text) for i in range(500)]),
            InternalError(text),
        )
        for cause in errors:
            async with calling(Scripted(unary=raising(cause))) as stub:
                error = await failure(stub.GetTask(GET))
            assert error.code().value[0] == cause.kind.code
            assert error_info(error).reason == cause.kind.reason
            assert on_the_wire(error) < 8000


def on_the_wire(error: grpc.aio.AioRpcError) -> int:
    """Bytes of the trailers: percent-encoded message, base64 of binary values, 32 bytes overhead each (RFC 9113)."""
    message = (error.details() or "").encode()
    size = 32 + len("grpc-message") + sum(1 if 0x20 <= byte <= 0x7E and byte != 0x25 else 3 for byte in message)
    size += 32 + len("grpc-status") + 2
    for key, value in error.trailing_metadata():
        size += 32 + len(key) + (-(-len(value) // 3) * 4 if isinstance(value, bytes) else len(value))
    return size


async def test_a_newline_and_an_accent_survive_in_a_message() -> None:
    async with calling(Scripted(unary=raising(TaskNotFoundError("there is no task \u00e9\nx")))) as stub:
        error = await failure(stub.GetTask(GET))
    assert error.details() == "there is no task \u00e9 x"
    assert details(error).message == error.details()
