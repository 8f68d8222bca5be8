"""Connections that are cut, delayed, reset and silent, and limits that are used up: what the caller sees of it.

B001, B101, B105, B107, B111 and B113 of the field reports, over a real proxy in front of the real service.
"""

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, formatdate
from pathlib import Path

import grpc
import pytest

from a2a_grpc.client import (
    A2AClient,
    DeadlineExceededError,
    ResourceExhaustedError,
    UnavailableError,
    message,
)
from a2a_grpc.client.interfaces import BINDINGS, GRPC, HTTP_JSON, JSONRPC
from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb import a2a_pb2_grpc
from a2a_grpc.wire.headers import A2A_VERSION
from a2a_grpc.wire.sequence import EVENT_SEQUENCE
from tests.bindings_grpc.frames import GOAWAY, HEADERS, PREFACE, RST_STREAM, SETTINGS, Wire
from tests.client.peers import Relay, Request, answer_to, card, http_peer, message_event, relay, response, task
from tests.client.test_resuming import CUT, Agent, client_of, interface, numbers, received, say, tasks_of, ticks
from tests.support.replica import Replica
from tests.support.waiting import wait_until

COMPLETED = pb.TASK_STATE_COMPLETED
TABLE = Path("/proc/net/tcp")
ESTABLISHED, KEEPALIVE = "01", "02"
SEND = pb.SendMessageRequest(message=message("hello"))
OVER_HTTP = pytest.mark.parametrize("binding", [HTTP_JSON, JSONRPC])


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture(scope="module")
def service() -> Iterator[Replica]:
    """Says that it is still there five times in a second."""
    one = Replica(agent="tests.client.agent:agent", redis_url=None, env={"A2A_SSE_HEARTBEAT": "0.2"})
    try:
        one.start()
        yield one
    finally:
        one.close()


def address_of(service: Replica, binding: str) -> str:
    return service.grpc_addr if binding == GRPC else service.http_url.removeprefix("http://")


@asynccontextmanager
async def through_relay(
    service: Replica, binding: str, *, patience: float = 30.0, idle_timeout: float | None = None
) -> AsyncIterator[tuple[A2AClient, Relay]]:
    """A client of `service` behind a proxy."""
    async with (
        relay(address_of(service, binding)) as between,
        await A2AClient.connect(
            interface(between.address, binding), patience=patience, idle_timeout=idle_timeout
        ) as client,
    ):
        yield client, between


async def test_b001_with_the_connection_killed_five_times_each_event_arrives_once_and_the_message_runs_once(
    service: Replica, binding: str
) -> None:
    """Each time another connection than the time before, and with some of them everything takes longer."""
    context_id = uuid.uuid4().hex
    async with through_relay(service, binding) as (client, between):
        events = client.send_streaming_message(say("tick 30 50", context_id=context_id))
        seen = [await anext(events)]
        for cut in range(1, 6):
            while f"{3 * cut} " not in ticks(seen) or between.accepted < cut:
                seen.append(await anext(events))
            between.delay = 0.05 * (cut % 2)
            between.reset()
        between.delay = 0.0
        seen += await received(events)
        accepted = between.accepted
    assert accepted >= 6
    assert [event.WhichOneof("payload") for event in seen] == ["task", *["artifact_update"] * 30, "status_update"]
    assert ticks(seen) == numbers(30) and seen[-1].status_update.status.state == COMPLETED
    assert [one.id for one in await tasks_of(service, context_id)] == [seen[0].task.id]


async def test_b101_a_message_without_a_time_limit_is_answered_when_somebody_cancels(
    service: Replica, binding: str
) -> None:
    context_id = uuid.uuid4().hex
    async with (
        await A2AClient.connect(service.http_url, bindings=[binding]) as one,
        await A2AClient.connect(service.http_url) as other,
    ):
        waiting = asyncio.create_task(one.send_message(say("hang", context_id=context_id)))
        [found] = await wait_until(lambda: tasks_of(service, context_id), "the task is there")
        await other.cancel_task(pb.CancelTaskRequest(id=found.id))
        answered = await asyncio.wait_for(waiting, 1)
    assert answered.task.status.state == pb.TASK_STATE_CANCELED


@asynccontextmanager
async def resets_the_first_call(code: int, address: str) -> AsyncIterator[Relay]:
    """A proxy to `address` whose first connection answers a call with RST_STREAM (RFC 9113, 7), and is closed."""

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PREFACE))
        wire = Wire(reader, writer)
        await wire.send(SETTINGS)
        call = await wire.read_until(HEADERS)
        if call is not None:
            between.target = address
            await wire.send(RST_STREAM, 0, call.stream, code.to_bytes(4))
            await wire.send(GOAWAY, 0, 0, call.stream.to_bytes(4) + bytes(4))
        writer.close()

    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    async with server, relay(f"127.0.0.1:{server.sockets[0].getsockname()[1]}") as between:
        yield between


@pytest.mark.parametrize("code", [0, 2, 8], ids=["NO_ERROR", "INTERNAL_ERROR", "CANCEL"])
async def test_b105_a_call_that_a_proxy_resets_in_its_own_way_is_made_again(service: Replica, code: int) -> None:
    """INTERNAL and CANCELLED is what gRPC makes of these; they are no answers of the agent."""
    for stream in (False, True):
        context_id = uuid.uuid4().hex
        async with (
            resets_the_first_call(code, service.grpc_addr) as between,
            await A2AClient.connect(f"grpc://{between.address}") as client,
        ):
            if stream:
                [*_, last] = await received(client.send_streaming_message(say("tick 2 10", context_id=context_id)))
                assert last.status_update.status.state == COMPLETED
            else:
                answered = await client.send_message(say("tick 2 10", context_id=context_id))
                assert answered.task.status.state == COMPLETED
            assert between.accepted == 2
        assert len(await tasks_of(service, context_id)) == 1


@OVER_HTTP
async def test_b107_a_stream_that_falls_silent_is_cut_and_goes_on(service: Replica, binding: str) -> None:
    """Nothing comes through and nothing is closed, not even to a second connection, until the route is back."""
    async with through_relay(service, binding, idle_timeout=0.6) as (client, between):
        events = client.send_streaming_message(say("tick 3 700"))
        seen = [await anext(events)]
        between.stall()
        began = time.monotonic()
        rest = asyncio.create_task(received(events))
        await wait_until(lambda: between.accepted > 2, "the client looks for another connection, twice")
        assert time.monotonic() - began >= 1.2
        between.flow()
        seen += await asyncio.wait_for(rest, 10)
    assert ticks(seen) == numbers(3) and seen[-1].status_update.status.state == COMPLETED


@OVER_HTTP
async def test_b107_heartbeats_keep_a_quiet_stream_alive(service: Replica, binding: str) -> None:
    async with through_relay(service, binding, idle_timeout=0.6) as (client, between):
        assert ticks(await received(client.send_streaming_message(say("tick 1 1500")))) == numbers(1)
        assert between.accepted == 1


async def test_b107_the_idle_time_is_40_s_with_agents_that_are_known_to_send_heartbeats(service: Replica) -> None:
    """Two heartbeats of 15 s may be late. Of other agents nothing is known, and a caller may say another time."""
    async with await A2AClient.connect(service.http_url) as client:
        assert client._options.idle_timeout == 40
    async with await A2AClient.connect(service.http_url, idle_timeout=5) as client:
        assert client._options.idle_timeout == 5
    stranger = card((HTTP_JSON, "1.0", "http://127.0.0.1:1"))
    async with await A2AClient.connect(stranger) as client:
        assert client._options.idle_timeout is None


@OVER_HTTP
async def test_b107_a_silent_stream_of_an_agent_that_numbers_nothing_is_an_error(binding: str) -> None:
    async def respond(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hello\n\n")
        await asyncio.Event().wait()

    async with (
        http_peer(respond) as peer,
        await A2AClient.connect(card((binding, "1.0", peer.url)), idle_timeout=0.2) as client,
    ):
        with pytest.raises(UnavailableError, match=r"Nothing came over the stream for 0\.2 s"):
            await received(client.send_streaming_message(SEND))


@OVER_HTTP
@pytest.mark.skipif(not TABLE.exists(), reason="only Linux says which timers run")
async def test_b107_the_system_watches_a_connection_while_an_answer_takes_long(binding: str) -> None:
    """Nothing else would tell a message that takes hours from one whose connection is dead: a question after 20 s."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        def timer() -> tuple[str, str] | None:
            rows = [line.split() for line in TABLE.read_text().splitlines()[1:]]
            [row] = [row for row in rows if row[3] == ESTABLISHED and int(row[2].partition(":")[2], 16) == peer.port]
            kind, _, left = row[5].partition(":")
            return (kind, left) if kind == KEEPALIVE else None

        found = await wait_until(timer, "the timer of the client's connection runs")
        assert found is not None and 10 < int(found[1], 16) / os.sysconf("SC_CLK_TCK") <= 20
        writer.write(answer_to(request, pb.SendMessageResponse(task=task(COMPLETED))))

    async with http_peer(respond) as peer, await A2AClient.connect(card((binding, "1.0", peer.url))) as client:
        assert (await client.send_message(SEND)).task.status.state == COMPLETED


async def test_b111_messages_and_streams_survive_a_proxy_that_cuts_what_takes_long(
    service: Replica, binding: str
) -> None:
    """A connection lives for 0.6 s and the work takes 1.6 s; a message that is sent again finds its task."""
    context_id = uuid.uuid4().hex
    async with through_relay(service, binding, patience=0.5) as (client, between):
        between.lifetime = 0.6
        between.reset()  # the connection from before
        answered, streamed = await asyncio.gather(
            client.send_message(say("tick 16 100", context_id=context_id)),
            received(client.send_streaming_message(say("tick 16 100"))),
        )
        assert between.accepted >= 3
    assert "".join(part.text for part in answered.task.artifacts[0].parts) == numbers(16)
    assert ticks(streamed) == numbers(16)
    assert [one.id for one in await tasks_of(service, context_id)] == [answered.task.id]


async def test_b111_a_message_that_is_cut_again_and_again_is_answered_by_its_stream(service: Replica) -> None:
    """Each connection lives for 1.1 s, the work takes 4 s, and sending it anew would be given up after 1.5 s."""

    async def over(binding: str) -> None:
        context_id = uuid.uuid4().hex
        async with through_relay(service, binding, patience=1.5) as (client, between):
            between.lifetime = 1.1
            between.reset()
            request = say("tick 40 100", context_id=context_id)
            request.configuration.history_length = 0
            answered = (await client.send_message(request)).task
        assert answered.status.state == COMPLETED and not answered.history
        assert "".join(part.text for part in answered.artifacts[0].parts) == numbers(40)
        assert [one.id for one in await tasks_of(service, context_id)] == [answered.id]

    await asyncio.gather(*(over(binding) for binding in BINDINGS))


async def test_b111_a_question_and_a_message_are_answers_too(binding: str) -> None:
    """What comes by the stream after the first attempt was held for a second and cut."""
    held: list[float | UnavailableError] = [1.0, CUT]
    asked, question = pb.StreamResponse(task=task(pb.TASK_STATE_WORKING)), pb.TASK_STATE_AUTH_REQUIRED
    stop = pb.StreamResponse(
        status_update=pb.TaskStatusUpdateEvent(task_id="t1", context_id="c1", status=pb.TaskStatus(state=question))
    )
    agent = Agent(held, [(1, asked), (2, stop), 30.0])
    async with client_of(agent, binding) as client, asyncio.timeout(10):
        assert (await client.send_message(SEND)).task == agent.final
    assert [method for method, _, _ in agent.calls] == ["message", "send"]
    agent = Agent(held, [(0, message_event("hi"))])
    async with client_of(agent, binding) as client:
        assert (await client.send_message(SEND)).message.parts[0].text == "hi"


@OVER_HTTP
@pytest.mark.parametrize("status", [504, 524])
async def test_b111_a_proxy_that_gives_up_in_its_own_name_is_asked_again(binding: str, status: int) -> None:
    """Its time is not the caller's: a page of HTML with 504 is no DEADLINE_EXCEEDED of the agent."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if len(peer.requests) == 1:
            writer.write(response(status, b"<html>gateway time-out</html>", "text/html"))
        else:
            writer.write(answer_to(request, pb.SendMessageResponse(task=task(COMPLETED))))

    async with http_peer(respond) as peer:
        known = card((binding, "1.0", peer.url))
        known.capabilities.extensions.add(uri=EVENT_SEQUENCE)
        async with await A2AClient.connect(known) as client:
            assert (await client.send_message(SEND)).task.status.state == COMPLETED
        assert len(peer.requests) == 2
        peer.requests.clear()
        async with await A2AClient.connect(card((binding, "1.0", peer.url))) as client:
            with pytest.raises(UnavailableError, match=f"HTTP status {status}"):
                await client.send_message(SEND)


@pytest.mark.slow
async def test_b111_no_time_limit_unless_the_caller_gives_one(service: Replica) -> None:
    """Httpx would give up after 5 s of silence by itself, so that the work here takes longer."""

    async def over(binding: str) -> None:
        async with await A2AClient.connect(service.http_url, bindings=[binding]) as client:
            answered, streamed, _ = await asyncio.gather(
                client.send_message(say("tick 1 5300")),
                received(client.send_streaming_message(say("tick 1 5300"))),
                given_up(client),
            )
        assert answered.task.status.state == COMPLETED
        assert streamed[-1].status_update.status.state == COMPLETED

    await asyncio.gather(*(over(binding) for binding in BINDINGS))


async def given_up(client: A2AClient) -> None:
    with pytest.raises(DeadlineExceededError):
        await client.send_message(say("tick 1 5000"), timeout=0.3)


async def final_state(client: A2AClient, task_id: str) -> pb.TaskState:
    """The last state that a subscription tells."""
    state = pb.TASK_STATE_UNSPECIFIED
    async for event in client.subscribe_to_task(pb.SubscribeToTaskRequest(id=task_id)):
        if event.HasField("task"):
            state = event.task.status.state
        elif event.HasField("status_update"):
            state = event.status_update.status.state
    return state


@pytest.mark.parametrize("runs", [30, pytest.param(500, marks=pytest.mark.slow)])
async def test_b113_subscribing_to_a_task_that_ends_at_the_same_time_gives_its_end(
    service: Replica, binding: str, runs: int
) -> None:
    """The task ends before, while or after it is subscribed to, within a few milliseconds."""

    async def one(client: A2AClient, number: int) -> pb.TaskState:
        request = say(f"tick 1 {number % 6}")
        request.configuration.return_immediately = True
        begun = (await client.send_message(request)).task
        return await final_state(client, begun.id)

    async with await A2AClient.connect(service.http_url, bindings=[binding]) as client, asyncio.timeout(50):
        for first in range(0, runs, 10):
            assert await asyncio.gather(*(one(client, first + at) for at in range(10))) == [COMPLETED] * 10


async def test_b113_a_task_that_has_ended_gives_its_end_and_the_stub_still_sees_the_error(
    service: Replica, binding: str
) -> None:
    async with await A2AClient.connect(service.http_url, bindings=[binding]) as client:
        done = (await client.send_message(say("echo hello"))).task
        events = await received(client.subscribe_to_task(pb.SubscribeToTaskRequest(id=done.id)))
        assert [event.task.status.state for event in events] == [COMPLETED]
        assert events[0].task.artifacts == done.artifacts
    async with grpc.aio.insecure_channel(service.grpc_addr) as channel:
        request = pb.SubscribeToTaskRequest(id=done.id)
        call = a2a_pb2_grpc.A2AServiceStub(channel).SubscribeToTask(request, metadata=((A2A_VERSION, "1.0"),))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION


# -- limits ------------------------------------------------------------------------------------------------------------


async def test_a_limit_that_says_when_there_is_room_is_waited_for(binding: str) -> None:
    """RetryInfo, over each binding: of a message and of a stream."""
    room = ResourceExhaustedError("Not now.", retry_after=0.5)
    agent = Agent([room], [(0, pb.StreamResponse(task=task(COMPLETED)))])
    async with client_of(agent, binding) as client:
        assert (await client.send_message(SEND)).task == agent.final
    assert len(agent.calls) == 2 and 0.5 <= agent.at[1] - agent.at[0] < 2
    agent = Agent([room], [(1, pb.StreamResponse(task=task(COMPLETED)))])
    async with client_of(agent, binding) as client:
        assert len(await received(client.send_streaming_message(SEND))) == 1
    assert len(agent.calls) == 2 and 0.5 <= agent.at[1] - agent.at[0] < 2


async def test_a_limit_that_does_not_say_when_or_not_soon_enough_is_an_error(binding: str) -> None:
    for refusal in (ResourceExhaustedError("No."), ResourceExhaustedError("No.", retry_after=60.0)):
        agent = Agent([refusal], [refusal])
        async with client_of(agent, binding) as client:
            with pytest.raises(ResourceExhaustedError):
                await client.send_message(SEND)
            with pytest.raises(ResourceExhaustedError):
                await received(client.send_streaming_message(SEND))
        assert len(agent.calls) == 2


async def test_what_takes_longer_than_the_caller_has_is_not_waited_for(binding: str) -> None:
    agent = Agent([ResourceExhaustedError("In a while.", retry_after=20.0)])
    async with client_of(agent, binding) as client:
        began = time.monotonic()
        with pytest.raises(ResourceExhaustedError, match="In a while"):
            await client.send_message(SEND, timeout=10)
        assert time.monotonic() - began < 5
    assert len(agent.calls) == 1


async def test_to_an_agent_that_may_do_it_twice_a_limit_is_not_waited_for(binding: str) -> None:
    agent = Agent([ResourceExhaustedError("Not now.", retry_after=0.1)])
    async with client_of(agent, binding, known=False) as client:
        with pytest.raises(ResourceExhaustedError):
            await client.send_message(SEND)
    assert len(agent.calls) == 1


@OVER_HTTP
@pytest.mark.parametrize(("status", "form"), [(429, "date"), (503, "seconds")])
async def test_retry_after_of_a_proxy_is_honoured(binding: str, status: int, form: str) -> None:
    """In either of its forms (RFC 9110, 10.2.3); a date has whole seconds."""
    at: list[float] = []

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        at.append(time.monotonic())
        if len(at) == 1:
            later = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
            writer.write(response(status, b"busy", "text/plain", {"retry-after": "1" if form == "seconds" else later}))
        else:
            writer.write(answer_to(request, pb.SendMessageResponse(task=task(COMPLETED))))

    async with http_peer(respond) as peer:
        known = card((binding, "1.0", peer.url))
        known.capabilities.extensions.add(uri=EVENT_SEQUENCE)
        async with await A2AClient.connect(known) as client:
            await client.send_message(SEND)
    assert 0.9 <= at[1] - at[0] < 3.5


@pytest.mark.parametrize("value", ["soon", "-1", "1.5", formatdate(0), ""])
async def test_a_retry_after_that_says_nothing_is_none(value: str) -> None:
    async def respond(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(response(503, b"busy", "text/plain", {"retry-after": value}))

    async with http_peer(respond) as peer, await A2AClient.connect(card((HTTP_JSON, "1.0", peer.url))) as client:
        with pytest.raises(UnavailableError) as caught:
            await client.send_message(SEND)
    assert not caught.value.retry_after


async def test_a_stream_that_is_resumed_waits_for_room(binding: str) -> None:
    """Once it has begun, a limit is one more reason why it cannot go on at once."""
    working = pb.StreamResponse(task=task(pb.TASK_STATE_WORKING))
    done = pb.StreamResponse(
        status_update=pb.TaskStatusUpdateEvent(task_id="t1", context_id="c1", status=pb.TaskStatus(state=COMPLETED))
    )
    agent = Agent([(1, working), CUT], [ResourceExhaustedError("Not now.", retry_after=0.3)], [(1, working), (2, done)])
    async with client_of(agent, binding) as client:
        assert await received(client.send_streaming_message(SEND)) == [working, done]
    agent = Agent([(1, working), CUT], [ResourceExhaustedError("Never.")])
    async with client_of(agent, binding) as client:
        with pytest.raises(ResourceExhaustedError, match="Never"):
            await received(client.send_streaming_message(SEND))


@OVER_HTTP
async def test_retry_after_beside_an_error_of_the_agent_is_honoured(binding: str) -> None:
    """The details of the error come first (RetryInfo); the header counts where they say nothing of a time."""
    said: list[ResourceExhaustedError] = []

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        answer = answer_to(request, said[-1])
        writer.write(answer.replace(b"\r\n\r\n", b"\r\nretry-after: 7\r\n\r\n", 1))

    async with http_peer(respond) as peer, await A2AClient.connect(card((binding, "1.0", peer.url))) as client:
        for refusal, expected in (
            (ResourceExhaustedError("Later."), 7.0),
            (ResourceExhaustedError("Soon.", retry_after=2.5), 2.5),
        ):
            said.append(refusal)
            with pytest.raises(ResourceExhaustedError, match=refusal.message) as caught:
                await client.send_message(SEND)
            assert caught.value.retry_after == expected
            with pytest.raises(ResourceExhaustedError, match=refusal.message) as caught:
                await received(client.send_streaming_message(SEND))
            assert caught.value.retry_after == expected
