"""What each step does, within the pipeline as it is."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.store.errors import StoreUnavailableError
from a2a_grpc.server.store.records import Scope
from a2a_grpc.wire.errors import (
    A2AError,
    DeadlineExceededError,
    ExtensionSupportRequiredError,
    InternalError,
    InvalidArgumentError,
    PushNotificationNotSupportedError,
    QuotaExceededError,
    TaskNotFoundError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedOperationError,
    VersionNotSupportedError,
    Violation,
)
from a2a_grpc.wire.rules import OPERATIONS
from tests.calls.pipelines import REQUEST, answering, call, pipeline, raising
from tests.support.metrics import measuring

TASK = a2a_pb2.Task(id="task")


async def sleeps(_: object, __: object) -> Message:
    await asyncio.Event().wait()
    return TASK


async def refused(given: Any, kind: type[A2AError], *, request: Message = REQUEST, by: Any = None) -> A2AError:
    """The error that a call is refused with; the operation must not be reached."""

    async def never(_: object, __: object) -> Message:
        raise AssertionError("the operation was reached")

    async def never_streams(_: object, __: object) -> AsyncGenerator[Event, None]:
        yield Event(0, a2a_pb2.StreamResponse())

    served = by(never, never_streams) if by else pipeline(never, never_streams)
    streams = given.method in {"SendStreamingMessage", "SubscribeToTask"}
    answer = (
        anext(served.stream(given.method, request, given)) if streams else served.unary(given.method, request, given)
    )
    with pytest.raises(kind) as caught:
        await answer
    return caught.value


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        ValueError("hunter2"),
        KeyError("hunter2"),
        TypeError("hunter2"),
        AssertionError("hunter2"),
        OSError(5, "hunter2"),
        TimeoutError("hunter2"),
        StopAsyncIteration("hunter2"),
        RecursionError("hunter2"),
        ExceptionGroup("hunter2", [ValueError("hunter2")]),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_defect_is_an_internal_error_without_program_text(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    given = call(x_request_id="req-7")
    with pytest.raises(InternalError) as caught:
        await pipeline(raising(error)).unary("GetTask", REQUEST, given)
    assert caught.value.message == "The server failed; its log says more under the request id req-7."
    public = f"{caught.value.message} {caught.value.metadata} {caught.value.violations}"
    assert "hunter2" not in public
    assert type(error).__name__ not in public
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "req-7" in record.message
    assert record.exc_info is not None and record.exc_info[1] is error


async def test_a_defect_in_a_stream_is_an_internal_error_too() -> None:
    async def operation(_: object, __: object) -> AsyncGenerator[Event, None]:
        yield Event(1, a2a_pb2.StreamResponse(task=TASK))
        raise ValueError("hunter2")

    stream = pipeline(stream=operation).stream(
        "SubscribeToTask", a2a_pb2.SubscribeToTaskRequest(id="task"), call("SubscribeToTask")
    )
    await anext(stream)
    with pytest.raises(InternalError) as caught:
        await anext(stream)
    assert "hunter2" not in caught.value.message


async def test_a_store_that_is_away_is_unavailable_and_says_to_try_again(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnavailableError) as caught:
        await pipeline(raising(StoreUnavailableError("10.0.0.1:6379 hunter2"))).unary("GetTask", REQUEST, call())
    assert caught.value.message == "The task store does not answer at the moment; send the same call again."
    assert caught.value.retry_after == 1.0
    assert "hunter2" in caplog.text


async def test_an_error_of_the_protocol_is_left_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    error = TaskNotFoundError("There is no such task.")
    with pytest.raises(TaskNotFoundError) as caught:
        await pipeline(raising(error)).unary("GetTask", REQUEST, call())
    assert caught.value is error
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_limit_that_the_operation_notices_is_counted_and_on_record(caplog: pytest.LogCaptureFixture) -> None:
    """As one of the caller: by whose it is and what it limits, and in the audit trail."""
    error = QuotaExceededError("One too many.", quotas=[Violation("task:webhooks", "The limit is 1.")])
    served = pipeline(raising(error))
    with measuring() as meters, caplog.at_level(logging.INFO, "a2a_grpc.audit"):
        for _ in range(2):
            with pytest.raises(QuotaExceededError):
                await served.unary("GetTask", REQUEST, call())
        labels = {"a2a_tenant": "", "a2a_limit_of": "task", "a2a_limit": "webhooks"}
        assert meters.read().of("a2a_limit_refusals_total", **labels) == 2
        assert meters.read().of("a2a_limit_refusals_total") == 2
    (record,) = [record for record in caplog.records if record.name == "a2a_grpc.audit"]
    assert record.getMessage().startswith("limit-reached") and "limit='task:webhooks'" in record.getMessage()


# -- deadline --------------------------------------------------------------------------------------------------------


async def test_a_caller_whose_time_is_up_hears_of_it_and_the_operation_is_left() -> None:
    left = asyncio.Event()

    async def operation(_: object, __: object) -> Message:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return TASK

    began = asyncio.get_running_loop().time()
    with pytest.raises(DeadlineExceededError) as caught:
        await pipeline(operation).unary("GetTask", REQUEST, call(timeout=0.05))
    assert asyncio.get_running_loop().time() - began < 5
    assert "GetTask" in caught.value.message
    assert left.is_set()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_deadline_that_is_kept_changes_nothing() -> None:
    assert await pipeline(answering(TASK)).unary("GetTask", REQUEST, call(timeout=5.0)) == TASK
    error = TaskNotFoundError("x")
    with pytest.raises(TaskNotFoundError):
        await pipeline(raising(error)).unary("GetTask", REQUEST, call(timeout=5.0))
    with pytest.raises(InternalError):
        await pipeline(raising(TimeoutError("the operation's own"))).unary("GetTask", REQUEST, call(timeout=5.0))
    await asyncio.sleep(0)


async def test_a_deadline_in_the_past_is_over_at_once() -> None:
    for timeout in (0.0, -1.0):
        with pytest.raises(DeadlineExceededError):
            await pipeline(sleeps).unary("GetTask", REQUEST, call(timeout=timeout))


async def test_a_caller_that_leaves_before_its_deadline_is_no_missed_deadline() -> None:
    running = asyncio.create_task(pipeline(sleeps).unary("GetTask", REQUEST, call(timeout=5.0)))
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_stream_has_no_deadline() -> None:
    async def operation(_: object, __: object) -> AsyncGenerator[Event, None]:
        await asyncio.sleep(0.05)
        yield Event(1, a2a_pb2.StreamResponse(task=TASK))

    request = a2a_pb2.SubscribeToTaskRequest(id="task")
    given = call("SubscribeToTask", timeout=0.01)
    assert len([event async for event in pipeline(stream=operation).stream("SubscribeToTask", request, given)]) == 1


# -- version ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.0", "1.0.7", "1.0.0", " 1.0 "])
async def test_this_version_with_any_patch_number_is_served(version: str) -> None:
    assert await pipeline(answering(TASK)).unary("GetTask", REQUEST, call(a2a_version=version)) == TASK


@pytest.mark.parametrize(
    "version", ["", " ", "0.2", "0.3", "1.1", "1.9", "2.0", "99.0", "1", "v1.0", "1.0-x", "junk" * 99]
)
@pytest.mark.parametrize("method", OPERATIONS)
async def test_another_version_is_refused_before_anything_happens_on_every_operation(method: str, version: str) -> None:
    """Whatever else is wrong: credentials, capabilities, the request (3.6.2)."""

    def served(unary: Any, stream: Any) -> Any:
        return pipeline(
            unary, stream, keys={"alice": "k"}, extensions={"urn:x": True}, capabilities=a2a_pb2.AgentCapabilities()
        )

    request = OPERATIONS[method].request()
    error = await refused(call(method, a2a_version=version), VersionNotSupportedError, request=request, by=served)
    assert error.metadata == {"supported_versions": "1.0"}
    assert "a2a-version: 1.0" in error.message
    assert len(error.message) < 400


async def test_callers_that_cannot_send_a_version_may_be_assumed_to_mean_this_one() -> None:
    served = pipeline(answering(TASK), assumed="1.0")
    assert await served.unary("GetTask", REQUEST, call(a2a_version="")) == TASK
    with pytest.raises(VersionNotSupportedError):
        await served.unary("GetTask", REQUEST, call(a2a_version="0.3"))


# -- authentication --------------------------------------------------------------------------------------------------

KEYS = {"alice": "alices key", "bob": "bobs key"}


async def caller_of(given: Any, request: Message = REQUEST, **settings: Any) -> Caller:
    callers: list[Caller] = []

    async def operation(_: object, caller: Caller) -> Message:
        callers.append(caller)
        return TASK

    await pipeline(operation, **settings).unary(given.method, request, given)
    return callers[0]


async def test_a_key_says_who_calls_and_the_request_for_which_tenant() -> None:
    request = a2a_pb2.GetTaskRequest(id="task", tenant="acme")
    for name, key in KEYS.items():
        found = await caller_of(call(x_api_key=key), request, keys=KEYS)
        assert found == Caller(scope=Scope("acme", name), authenticated=True, extensions=())
    anonymous = await caller_of(call(), request)
    assert anonymous == Caller(scope=Scope("acme", ""), authenticated=False, extensions=())


@pytest.mark.parametrize("key", ["", "wrong", "alices key ", "ALICES KEY", "alice"])
async def test_without_a_known_key_nobody_learns_anything(key: str) -> None:
    """Not even that the request is malformed, or that the agent does not stream (13.1)."""

    def served(unary: Any, stream: Any) -> Any:
        return pipeline(unary, stream, keys=KEYS, extensions={"urn:x": True}, capabilities=a2a_pb2.AgentCapabilities())

    for method, operation in OPERATIONS.items():
        given = call(method, x_api_key=key)
        await refused(given, UnauthenticatedError, request=operation.request(), by=served)
        assert given.response_parameters["www-authenticate"] == 'ApiKey header="x-api-key"'


# -- extensions ------------------------------------------------------------------------------------------------------

DECLARED = {"urn:needed": True, "urn:known": False, "urn:other:v1": False}


async def test_extensions_that_both_sides_know_are_active_and_named_in_the_answer() -> None:
    given = call(a2a_extensions="urn:unknown, urn:known,urn:needed ,urn:other:v2")
    found = await caller_of(given, extensions=DECLARED)
    assert found.extensions == ("urn:known", "urn:needed")
    assert given.response_parameters["a2a-extensions"] == "urn:known,urn:needed"
    given = call(a2a_extensions="urn:unknown")
    assert (await caller_of(given)).extensions == ()
    assert "a2a-extensions" not in given.response_parameters


@pytest.mark.parametrize("sent", ["", "urn:known", "urn:needed:v2", "URN:NEEDED"])
async def test_a_required_extension_that_is_missing_is_named(sent: str) -> None:
    error = await refused(
        call(a2a_extensions=sent),
        ExtensionSupportRequiredError,
        by=lambda unary, stream: pipeline(unary, stream, extensions=DECLARED),
    )
    assert "urn:needed" in error.message
    assert error.metadata == {"required_extensions": "urn:needed"}


# -- capabilities ----------------------------------------------------------------------------------------------------

PUSH = [method for method in OPERATIONS if "PushNotificationConfig" in method]


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("SendStreamingMessage", UnsupportedOperationError),
        ("SubscribeToTask", UnsupportedOperationError),
        ("GetExtendedAgentCard", UnsupportedOperationError),
        *((method, PushNotificationNotSupportedError) for method in PUSH),
    ],
)
async def test_what_the_card_does_not_offer_is_refused_whatever_else_is_wrong(
    method: str, kind: type[A2AError]
) -> None:
    await refused(
        call(method),
        kind,
        request=OPERATIONS[method].request(),
        by=lambda unary, stream: pipeline(unary, stream, capabilities=a2a_pb2.AgentCapabilities()),
    )


async def test_there_are_four_operations_on_push_configs() -> None:
    assert len(PUSH) == 4


async def test_a_push_config_inside_a_message_is_refused_where_there_is_no_push() -> None:
    request = a2a_pb2.SendMessageRequest(message=a2a_pb2.Message())
    request.configuration.task_push_notification_config.url = "https://example.com"
    await refused(call("SendMessage"), PushNotificationNotSupportedError, request=request)
    await refused(call("SendStreamingMessage"), PushNotificationNotSupportedError, request=request)


# -- request id and log ----------------------------------------------------------------------------------------------


async def test_a_request_id_is_kept_and_given_back() -> None:
    given = call(x_request_id="abc-123")
    await pipeline(answering(TASK)).unary("GetTask", REQUEST, given)
    assert given.response_parameters["x-request-id"] == "abc-123"


@pytest.mark.parametrize("sent", ["", "has space", "x" * 129, "new\nline", "ümlaut"])
async def test_another_request_id_is_made_where_none_can_be_used(sent: str) -> None:
    given = call(x_request_id=sent)
    await pipeline(answering(TASK)).unary("GetTask", REQUEST, given)
    assert "x-request-id" not in given.response_parameters
    given = call(x_request_id=sent)
    with pytest.raises(InternalError) as caught:
        await pipeline(raising(ValueError())).unary("GetTask", REQUEST, given)
    made = given.response_parameters["x-request-id"]
    assert made != sent
    assert made in caught.value.message


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(None, "OK"), (TaskNotFoundError("x"), "TASK_NOT_FOUND"), (ValueError(), "INTERNAL_ERROR")],
)
async def test_each_call_is_one_record_with_its_public_outcome(
    error: Exception | None, outcome: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "a2a_grpc.access")
    operation = answering(TASK) if error is None else raising(error)
    await asyncio.gather(
        pipeline(operation).unary("GetTask", REQUEST, call(x_request_id="id-1")), return_exceptions=True
    )
    (record,) = [record for record in caplog.records if record.name == "a2a_grpc.access"]
    assert record.message.startswith(f"GetTask over GRPC from 127.0.0.1:1: {outcome} in ")
    assert "id-1" in record.message


async def test_a_request_that_is_not_well_formed_is_refused_last() -> None:
    error = await refused(call(), InvalidArgumentError, request=a2a_pb2.GetTaskRequest())
    assert [violation.field for violation in error.violations] == ["id"]


@pytest.mark.parametrize(("sent", "number"), [("", None), ("0", 0), ("7", 7), ("x", "refused"), ("9" * 19, "refused")])
async def test_a_stream_knows_where_to_go_on(sent: str, number: int | str | None) -> None:
    seen = []

    async def operation(_: Any, caller: Caller) -> AsyncGenerator[Event, None]:
        seen.append(caller.last_event_id)
        yield Event(1, a2a_pb2.StreamResponse(task=TASK))

    subscribe = a2a_pb2.SubscribeToTaskRequest(id="t")
    stream = pipeline(stream=operation).stream(
        "SubscribeToTask", subscribe, call("SubscribeToTask", last_event_id=sent)
    )
    if number == "refused":
        with pytest.raises(InvalidArgumentError) as caught:
            await anext(stream)
        assert [violation.field for violation in caught.value.violations] == ["last-event-id"]
        number = None
    else:
        await anext(stream)
        assert seen == [number]
    # It means nothing to calls that stream nothing.
    await pipeline(answering(TASK)).unary("GetTask", REQUEST, call(last_event_id=sent))
