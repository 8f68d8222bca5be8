"""Streams and messages that outlive their connections: each event once, the work once.

B001, B089, B105, B107 and B113 of the field reports, from the side of the caller.
"""

# ruff: noqa: ARG002 - a method of a servicer takes what gRPC gives it

import asyncio
import random
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from a2a_grpc.client import (
    A2AClient,
    DeadlineExceededError,
    InternalError,
    NotConnectedError,
    ResourceExhaustedError,
    StreamBrokenError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
    message,
)
from a2a_grpc.client.interfaces import BINDINGS, GRPC, HTTP_JSON, JSONRPC
from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.wire.sequence import EVENT_SEQUENCE, set_sequence
from tests.client.peers import (
    Context,
    HttpPeer,
    Relay,
    Request,
    answer_to,
    card,
    data,
    grpc_peer,
    http_peer,
    message_event,
    operation_of,
    params_of,
    refuse,
    relay,
    rpc,
    status_event,
    task,
    task_event,
)
from tests.conformance.test_streaming import merged
from tests.support.replica import Pair, Replica, replica
from tests.support.servers import fresh_store_server
from tests.support.waiting import wait_until

AGENT = "tests.client.agent:agent"
pytestmark = pytest.mark.agent(AGENT)

SUBMITTED = pb.TASK_STATE_SUBMITTED
WORKING = pb.TASK_STATE_WORKING
COMPLETED = pb.TASK_STATE_COMPLETED
INPUT_REQUIRED = pb.TASK_STATE_INPUT_REQUIRED


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


async def received(events: AsyncIterator[pb.StreamResponse]) -> list[pb.StreamResponse]:
    return [event async for event in events]


# -- the service, through connections that break -----------------------------------------------------------------------


def say(text: str, *, context_id: str = "", task_id: str = "") -> pb.SendMessageRequest:
    return pb.SendMessageRequest(message=message(text, context_id=context_id, task_id=task_id))


def ticks(events: Sequence[pb.StreamResponse]) -> str:
    return "".join(part.text for event in events for part in event.artifact_update.artifact.parts)


def numbers(count: int) -> str:
    return "".join(f"{number} " for number in range(1, count + 1))


def interface(address: str, binding: str) -> pb.AgentInterface:
    url = address if binding == "GRPC" else f"http://{address}"
    return pb.AgentInterface(url=url, protocol_binding=binding, protocol_version="1.0")


def address_of(replica: Replica, binding: str) -> str:
    return replica.grpc_addr if binding == "GRPC" else replica.http_url.removeprefix("http://")


@asynccontextmanager
async def through_relay(replica: Replica, binding: str) -> AsyncIterator[tuple[A2AClient, Relay]]:
    """A client of `replica` whose connections can be cut, and led elsewhere."""
    async with (
        relay(address_of(replica, binding)) as between,
        await A2AClient.connect(interface(between.address, binding)) as client,
    ):
        yield client, between


async def tasks_of(replica: Replica, context_id: str) -> list[pb.Task]:
    async with await A2AClient.connect(f"grpc://{replica.grpc_addr}") as client:
        return list((await client.list_tasks(pb.ListTasksRequest(context_id=context_id))).tasks)


async def test_a_stream_that_is_cut_five_times_brings_each_event_once(two_replicas: Pair, binding: str) -> None:
    """B001, B089: each time it goes on at the other replica; the message runs once."""
    context_id = uuid.uuid4().hex
    async with through_relay(two_replicas.replicas[0], binding) as (client, between):
        events = client.send_streaming_message(say("tick 24 40", context_id=context_id))
        seen = [await anext(events)]
        for cut in range(1, 6):
            while f"{3 * cut} " not in ticks(seen):
                seen.append(await anext(events))
            between.target = address_of(two_replicas.replicas[cut % 2], binding)
            between.reset()
        seen += await received(events)
    assert [event.WhichOneof("payload") for event in seen] == ["task", *["artifact_update"] * 24, "status_update"]
    assert ticks(seen) == numbers(24) and seen[-1].status_update.status.state == COMPLETED
    [only] = await tasks_of(two_replicas.replicas[1], context_id)
    assert only.id == seen[0].task.id
    assert EVENT_SEQUENCE not in str(seen), "what the client asks for itself is not the caller's"


async def test_a_subscription_that_is_cut_brings_each_event_once(two_replicas: Pair, binding: str) -> None:
    """Cut at any time, also before its first event and while it is opened again."""
    chance = random.Random(5)
    async with through_relay(two_replicas.replicas[0], binding) as (client, between):
        begun = say("tick 20 40")
        begun.configuration.return_immediately = True
        started = (await client.send_message(begun)).task

        async def cut() -> None:
            while True:
                await asyncio.sleep(chance.uniform(0.0, 0.15))
                between.target = address_of(chance.choice(two_replicas.replicas), binding)
                between.reset()

        cutting = asyncio.create_task(cut())
        seen = await received(client.subscribe_to_task(pb.SubscribeToTaskRequest(id=started.id)))
        cutting.cancel()
        done = await client.get_task(pb.GetTaskRequest(id=started.id))
    assert [event.WhichOneof("payload") for event in seen].count("task") == 1
    before = "".join(part.text for artifact in seen[0].task.artifacts for part in artifact.parts)
    assert before + ticks(seen) == numbers(20)
    assert seen[-1].status_update.status == done.status


async def test_a_message_is_carried_out_once_however_often_it_is_sent(two_replicas: Pair, binding: str) -> None:
    """B089: the connection breaks before anything came back; it is sent again and finds its task."""
    context_id = uuid.uuid4().hex
    async with through_relay(two_replicas.replicas[0], binding) as (client, between):
        call = asyncio.create_task(client.send_message(say("tick 8 100", context_id=context_id)))
        for cut in range(3):
            between.carried.clear()
            await asyncio.wait_for(between.carried.wait(), 5)
            if cut == 0:
                await wait_until(lambda: tasks_of(two_replicas.replicas[1], context_id), "the message has arrived")
            between.target = address_of(two_replicas.replicas[(cut + 1) % 2], binding)
            between.reset()
        done = (await call).task
    assert done.status.state == COMPLETED
    assert "".join(part.text for part in done.artifacts[0].parts) == numbers(8)
    assert [one.id for one in await tasks_of(two_replicas.replicas[0], context_id)] == [done.id]


async def test_a_stream_of_a_follow_up_goes_on_up_to_its_own_end(two_replicas: Pair, binding: str) -> None:
    """It ends at the next question, although what it goes on with is a subscription, which would stay."""
    async with through_relay(two_replicas.replicas[0], binding) as (client, between):
        async with asyncio.timeout(20):
            asked = await received(client.send_streaming_message(say("ask")))
            assert asked[-1].status_update.status.state == INPUT_REQUIRED
            events = client.send_streaming_message(say("again 300", task_id=asked[0].task.id))
            first = await anext(events)
            between.target = address_of(two_replicas.replicas[1], binding)
            between.reset()
            rest = await received(events)
    assert first.task.status.state == WORKING
    assert [event.WhichOneof("payload") for event in rest] == ["artifact_update", "status_update"]
    assert rest[-1].status_update.status.state == INPUT_REQUIRED


@asynccontextmanager
async def replicas(**env: str) -> AsyncIterator[list[Replica]]:
    """Two replicas of an agent that always answers with tasks, on one store; the first runs one turn at a time."""
    with fresh_store_server() as store:
        started = [
            Replica(agent="tests.cases.agents:agent", redis_url=store.url, env={**env, "A2A_MAX_TURNS": turns})
            for turns in ("1", "100")
        ]
        try:
            for one in started:
                one.start(wait=False)
            for one in started:
                await asyncio.to_thread(one.wait_ready)
            yield started
        finally:
            for one in started:
                await asyncio.to_thread(one.close)


async def test_a_stream_goes_on_at_another_replica_when_its_own_is_killed() -> None:
    """SIGKILL; the work is done at the other one. The client knows both addresses, each over another binding."""
    async with replicas() as (first, second):
        known = card(("GRPC", "1.0", first.grpc_addr), ("HTTP+JSON", "1.0", second.http_url))
        known.capabilities.extensions.add(uri=EVENT_SEQUENCE)
        async with await A2AClient.connect(known) as client:
            busy = say("hang")
            busy.configuration.return_immediately = True
            await client.send_message(busy)
            events = client.send_streaming_message(say("tick 12 100"))
            seen = [await anext(events), await anext(events)]
            first.kill()
            seen += await received(events)
            assert client.interface.url == second.http_url
    assert [event.WhichOneof("payload") for event in seen[-13:]] == [*["artifact_update"] * 12, "status_update"]
    assert [event.WhichOneof("payload") for event in seen[:-13]] in (["task"], ["task", "status_update"])
    assert ticks(seen) == numbers(12)


@pytest.mark.parametrize("binding", [GRPC, HTTP_JSON, pytest.param(JSONRPC, marks=pytest.mark.slow)])
async def test_a_stream_goes_on_when_the_turn_moves_to_another_replica(binding: str) -> None:
    """B005: SIGKILL of the replica that does the work; the second attempt is part of the same stream."""
    async with replicas(A2A_LEASE_TTL="1") as (first, second):
        addresses = [(binding, "1.0", address_of(one, binding)) for one in (first, second)]
        known = card(*((over, version, interface(address, over).url) for over, version, address in addresses))
        known.capabilities.extensions.add(uri=EVENT_SEQUENCE)
        async with await A2AClient.connect(known) as client, asyncio.timeout(30):
            events = client.send_streaming_message(say("tick 6 100"))
            seen = [await anext(events) for _ in range(4)]
            first.kill()
            seen += await received(events)
            done = await client.get_task(pb.GetTaskRequest(id=seen[0].task.id))
    assert [event.HasField("task") for event in seen] == [True] + [False] * (len(seen) - 1)
    states = [event.status_update.status.state for event in seen if event.HasField("status_update")]
    assert states == [WORKING, WORKING, WORKING, COMPLETED], (
        "the start, the news that it starts again, the start, the end"
    )
    assert ticks(seen).endswith(numbers(6)) and ticks(seen).startswith("1 2 ")
    assert merged(seen).artifacts == done.artifacts and merged(seen).status == done.status


async def test_b105_a_stream_outlasts_the_age_that_connections_may_reach() -> None:
    """No call may take longer than 1 s here; the user sees one stream, and has the answer to a longer message."""
    age = {"A2A_GRPC_MAX_CONNECTION_AGE": "1", "A2A_GRPC_MAX_CONNECTION_AGE_GRACE": "1"}
    async with replica(agent=AGENT, env=age) as server, through_relay(server, "GRPC") as (client, between):
        streamed, answered = await asyncio.gather(
            received(client.send_streaming_message(say("tick 30 110"))), client.send_message(say("tick 30 110"))
        )
        assert between.accepted >= 2
    assert [event.WhichOneof("payload") for event in streamed] == ["task", *["artifact_update"] * 30, "status_update"]
    assert ticks(streamed) == numbers(30)
    assert "".join(part.text for part in answered.task.artifacts[0].parts) == numbers(30)


@pytest.mark.slow
async def test_b107_a_silent_connection_is_given_up_and_the_stream_goes_on(two_replicas: Pair) -> None:
    """Nothing comes through and nothing is closed; a ping tells, 20 s later at most with these settings."""
    async with (
        relay(two_replicas.replicas[0].grpc_addr) as between,
        await A2AClient.connect(f"grpc://{between.address}", keepalive=10) as client,
    ):
        events = client.send_streaming_message(say("tick 3 8000"))
        await anext(events)
        between.stall()
        rest = asyncio.create_task(received(events))
        await wait_until(lambda: between.accepted > 1, "the client looks for another connection", 25)
        between.flow()
        assert ticks(await asyncio.wait_for(rest, 20)) == numbers(3)


# -- agents that answer exactly what a test wants ----------------------------------------------------------------------


Answer = (
    float
    | tuple[int, pb.StreamResponse]
    | UnavailableError
    | InternalError
    | ResourceExhaustedError
    | TaskNotFoundError
    | UnsupportedOperationError
)


class Agent:
    """Gives one list of answers a call: numbered events, seconds of silence, an error that ends the stream."""

    def __init__(self, *answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, str, str]] = []
        """Of each call: the operation, the id of its message or task, and `last-event-id`."""
        self.at: list[float] = []
        """When they came."""
        self.final = task(COMPLETED)

    def next(self, method: str, named: str, after: str) -> Sequence[Answer]:
        self.calls.append((method, named, after))
        self.at.append(asyncio.get_running_loop().time())
        return self.answers.pop(0) if self.answers else [UnavailableError("No more.")]

    async def _stream(self, method: str, named: str, context: Context) -> AsyncIterator[pb.StreamResponse]:
        metadata = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
        assert metadata["a2a-extensions"] == EVENT_SEQUENCE
        for answer in self.next(method, named, metadata.get("last-event-id", "")):
            if isinstance(answer, float):
                await asyncio.sleep(answer)
            elif isinstance(answer, Exception):
                await refuse(context, answer)
            else:
                seq, event = answer
                numbered = pb.StreamResponse()
                numbered.CopyFrom(event)
                if seq:
                    set_sequence(numbered, seq)
                yield numbered

    async def send_streaming_message(
        self, request: pb.SendMessageRequest, context: Context
    ) -> AsyncIterator[pb.StreamResponse]:
        async for event in self._stream("send", request.message.message_id, context):
            yield event

    async def subscribe_to_task(
        self, request: pb.SubscribeToTaskRequest, context: Context
    ) -> AsyncIterator[pb.StreamResponse]:
        async for event in self._stream("subscribe", request.id, context):
            yield event

    async def send_message(self, request: pb.SendMessageRequest, context: Context) -> pb.SendMessageResponse:
        for answer in self.next("message", request.message.message_id, ""):
            if isinstance(answer, float):
                await asyncio.sleep(answer)
            elif isinstance(answer, Exception):
                await refuse(context, answer)
        return pb.SendMessageResponse(task=self.final)

    async def get_task(self, request: pb.GetTaskRequest, context: Context) -> pb.Task:
        return self.final

    async def over_http(self, request: Request, writer: asyncio.StreamWriter) -> None:
        """The same as an HTTP server."""
        operation = operation_of(request)
        if operation == "GetTask":
            writer.write(answer_to(request, self.final))
            return
        after = request.headers.get("last-event-id", "")
        if operation == "SubscribeToTask":
            found = rpc(request)
            path = request.target.removeprefix("/tasks/").removesuffix(":subscribe")
            answers = self.next("subscribe", found["params"]["id"] if found else path, after)
        else:
            method = "send" if operation == "SendStreamingMessage" else "message"
            answers = self.next(method, params_of(request, pb.SendMessageRequest).message.message_id, after)
        begun = False
        for answer in answers:
            if isinstance(answer, float):
                await writer.drain()
                await asyncio.sleep(answer)
            elif isinstance(answer, Exception) and begun:
                writer.write(_chunk(b"event: error\ndata: " + data(request, answer) + b"\n\n"))
            elif isinstance(answer, Exception):
                writer.write(answer_to(request, answer))
                return
            elif operation == "SendMessage":
                writer.write(answer_to(request, pb.SendMessageResponse(task=self.final)))
                return
            else:
                if not begun:
                    writer.write(HEAD)
                begun = True
                seq, event = answer
                number = b"id: %d\n" % seq if seq else b""
                writer.write(_chunk(number + b"data: " + data(request, event) + b"\n\n"))
        writer.write(b"0\r\n\r\n")


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _chunk(text: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(text), text)


@asynccontextmanager
async def client_of(
    agent: Agent, binding: str, *, patience: float = 30.0, known: bool = True
) -> AsyncIterator[A2AClient]:
    """A client of `agent`, whose card says that it numbers its events where it is `known` to."""
    async with AsyncExitStack() as stack:
        if binding == "GRPC":
            found = ("GRPC", "1.0", await stack.enter_async_context(grpc_peer(agent)))
        else:
            peer: HttpPeer = await stack.enter_async_context(http_peer(agent.over_http))
            found = (binding, "1.0", peer.url)
        declared = card(found)
        if known:
            declared.capabilities.extensions.add(uri=EVENT_SEQUENCE)
        yield await stack.enter_async_context(await A2AClient.connect(declared, patience=patience))


SEND = pb.SendMessageRequest(message=message("hello"))
SENT = SEND.message.message_id
SUBSCRIBE = pb.SubscribeToTaskRequest(id="t1")
CUT = UnavailableError("Cut.")
BEGINNING = [task_event(SUBMITTED), status_event(WORKING)]
BEGUN: list[Answer] = list(enumerate(BEGINNING, 1))


async def test_what_a_stream_goes_on_with_is_left_out(binding: str) -> None:
    """The task as it stood is known already; a message is never sent again once there is a task."""
    agent = Agent([*BEGUN, CUT], [(2, task_event(WORKING)), (5, status_event(COMPLETED))])
    async with client_of(agent, binding) as client:
        seen = await received(client.send_streaming_message(SEND))
    assert seen == [task_event(SUBMITTED), status_event(WORKING), status_event(COMPLETED)]
    assert agent.calls == [("send", SENT, ""), ("subscribe", "t1", "2")]


async def test_a_stream_that_ends_without_an_outcome_goes_on_too(binding: str) -> None:
    """As a proxy ends one that has lasted too long for it, politely."""
    agent = Agent(BEGUN, [(2, task_event(WORKING))], [(2, task_event(WORKING)), (3, status_event(COMPLETED))])
    async with client_of(agent, binding) as client:
        seen = await received(client.send_streaming_message(SEND))
    assert seen == [task_event(SUBMITTED), status_event(WORKING), status_event(COMPLETED)]


async def test_a_stream_that_has_not_begun_is_sent_again_as_it_was(binding: str) -> None:
    agent = Agent([CUT], [CUT], [*BEGUN, (3, status_event(COMPLETED))])
    async with client_of(agent, binding) as client:
        request = pb.SendMessageRequest()
        request.CopyFrom(SEND)
        events = client.send_streaming_message(request)
        request.message.message_id = "changed by its owner meanwhile"
        assert len(await received(events)) == 3
    assert agent.calls == [("send", SENT, "")] * 3


async def test_a_gap_shows_as_a_second_task(binding: str) -> None:
    """Also where the agent has lost events that the caller has: what stands in the task is what counts."""
    for number in (9, 1):
        agent = Agent(
            [*BEGUN, CUT],
            [(number, task_event(WORKING)), CUT],
            [(number, task_event(WORKING)), (number + 1, status_event(COMPLETED))],
        )
        async with client_of(agent, binding) as client:
            seen = await received(client.send_streaming_message(SEND))
        assert seen == [task_event(SUBMITTED), status_event(WORKING), task_event(WORKING), status_event(COMPLETED)]
        assert agent.calls[1:] == [("subscribe", "t1", "2"), ("subscribe", "t1", str(number))]


async def test_a_question_is_the_end_of_a_message_and_not_of_a_subscription(binding: str) -> None:
    """What came before the cut is not waited for again; after it, the subscription is left at the question."""
    asked, answered = (3, status_event(INPUT_REQUIRED)), (4, status_event(WORKING))
    agent = Agent([*BEGUN, asked, CUT])
    async with client_of(agent, binding) as client:
        assert (await received(client.send_streaming_message(SEND)))[-1] == asked[1]
    assert len(agent.calls) == 1
    agent = Agent([*BEGUN, CUT], [(2, task_event(WORKING)), asked, answered, CUT])
    async with client_of(agent, binding) as client:
        assert (await received(client.send_streaming_message(SEND)))[-1] == asked[1]
    agent = Agent(
        [(3, task_event(INPUT_REQUIRED))], [(3, task_event(INPUT_REQUIRED)), answered, (5, status_event(COMPLETED))]
    )
    async with client_of(agent, binding) as client:
        assert (await received(client.subscribe_to_task(SUBSCRIBE)))[1:] == [
            answered[1],
            status_event(COMPLETED),
        ]


async def test_a_question_from_before_the_message_is_not_its_end(binding: str) -> None:
    """The stream began with it: the message that was sent is still to be answered."""
    agent = Agent(
        [(7, task_event(INPUT_REQUIRED)), CUT],
        [(7, task_event(INPUT_REQUIRED)), (8, status_event(WORKING)), (9, status_event(INPUT_REQUIRED)), CUT],
    )
    async with client_of(agent, binding) as client:
        assert len(await received(client.send_streaming_message(SEND))) == 3
    assert agent.calls[1] == ("subscribe", "t1", "7")


async def test_a_task_that_has_ended_and_is_not_told_any_more_gives_its_end(binding: str) -> None:
    """B113: the agent has nothing after what the caller has; the task says how it went."""
    for stream in ("send", "subscribe"):
        agent = Agent([*BEGUN, CUT], [UnsupportedOperationError("It has ended.")])
        async with client_of(agent, binding) as client:
            events = client.send_streaming_message(SEND) if stream == "send" else client.subscribe_to_task(SUBSCRIBE)
            assert (await received(events))[2:] == [task_event(COMPLETED)]


async def test_what_the_agent_refuses_is_not_tried_again(binding: str) -> None:
    for error in (TaskNotFoundError("Gone."), InternalError("Broken.")):
        agent = Agent([*BEGUN, CUT], [error])
        async with client_of(agent, binding) as client:
            with pytest.raises(type(error)):
                await received(client.send_streaming_message(SEND))
        agent = Agent([*BEGUN, InternalError("Broken.")])
        async with client_of(agent, binding) as client:
            with pytest.raises(InternalError):
                await received(client.send_streaming_message(SEND))
        assert len(agent.calls) == 1


async def test_an_answer_that_is_a_message_is_complete(binding: str) -> None:
    agent = Agent([(0, message_event("hi")), CUT])
    async with client_of(agent, binding) as client:
        assert await received(client.send_streaming_message(SEND)) == [message_event("hi")]
    assert len(agent.calls) == 1


@pytest.mark.parametrize("known", [True, False])
async def test_where_events_have_no_numbers_a_cut_is_an_error(binding: str, known: bool) -> None:
    """Nothing could tell what was missed."""
    agent = Agent([(0, task_event(WORKING)), CUT])
    async with client_of(agent, binding, known=known) as client:
        with pytest.raises(StreamBrokenError) as caught:
            await received(client.send_streaming_message(SEND))
    assert caught.value.task_id == "t1" and len(agent.calls) == 1


async def test_to_an_agent_that_may_do_it_twice_nothing_is_sent_twice(binding: str) -> None:
    agent = Agent([CUT], [CUT], [*BEGUN, CUT])
    async with client_of(agent, binding, known=False) as client:
        with pytest.raises(UnavailableError):
            await received(client.send_streaming_message(SEND))
        with pytest.raises(UnavailableError):
            await client.send_message(SEND)
        with pytest.raises(StreamBrokenError):
            await received(client.send_streaming_message(SEND))
    assert [method for method, _, _ in agent.calls] == ["send", "message", "send"]


async def test_a_message_is_sent_again_under_its_id(binding: str) -> None:
    agent = Agent([CUT], [CUT], [(0, task_event(COMPLETED))])
    async with client_of(agent, binding) as client:
        assert (await client.send_message(SEND)).task == agent.final
    assert agent.calls == [("message", SENT, "")] * 3


async def test_other_failures_of_a_message_are_not_tried_again(binding: str) -> None:
    agent = Agent([InternalError("Broken.")])
    async with client_of(agent, binding) as client:
        with pytest.raises(InternalError):
            await client.send_message(SEND)
    assert len(agent.calls) == 1


async def test_the_time_that_the_agent_asks_for_is_given(binding: str) -> None:
    """RetryInfo, or Retry-After. Where it is more than the caller's patience, there is no point in waiting."""
    agent = Agent(
        [*BEGUN, UnavailableError("Cut.", retry_after=1.0)], [(2, task_event(WORKING)), (3, status_event(COMPLETED))]
    )
    async with client_of(agent, binding) as client:
        await received(client.send_streaming_message(SEND))
    assert 1.0 <= agent.at[1] - agent.at[0] < 3
    agent = Agent([UnavailableError("Later.", retry_after=60.0)])
    async with client_of(agent, binding) as client, asyncio.timeout(5):
        with pytest.raises(UnavailableError, match="Later"):
            await client.send_message(SEND)


async def test_the_waits_grow_and_end(binding: str) -> None:
    """Without news for the time of `patience` the failure is raised, with the task that goes on."""
    agent = Agent([*BEGUN, CUT], *[[CUT]] * 20)
    async with client_of(agent, binding, patience=1.0) as client:
        events = client.send_streaming_message(SEND)
        assert [await anext(events), await anext(events)] == BEGINNING
        with pytest.raises(StreamBrokenError, match=r"Cut\. The task goes on") as caught:
            await anext(events)
    assert caught.value.task_id == "t1"
    assert 3 <= len(agent.calls) <= 6
    waits = [later - earlier for earlier, later in zip(agent.at, agent.at[1:], strict=False)]
    # The last try begins within the patience and may arrive after it; one more would come after 1.55 s.
    assert sum(waits) < 1.3 and waits[0] < 0.2 < waits[-1]


async def test_news_give_new_patience(binding: str) -> None:
    """A stream that moves is followed for as long as that takes."""
    steps: list[list[Answer]] = [
        [(seq, task_event(WORKING)), (seq + 1, status_event(WORKING)), CUT] for seq in range(2, 20)
    ]
    agent = Agent([*BEGUN, CUT], *steps, [(20, task_event(WORKING)), (21, status_event(COMPLETED))])
    async with client_of(agent, binding, patience=0.5) as client:
        assert len(await received(client.send_streaming_message(SEND))) == 2 + 18 + 1
    assert agent.at[-1] - agent.at[0] > 0.5


@pytest.mark.parametrize("binding", [GRPC, HTTP_JSON, pytest.param(JSONRPC, marks=pytest.mark.slow)])
async def test_a_stream_that_is_idle_is_not_given_up(binding: str) -> None:
    """What cuts it each time, as some balancers do, is no failure of the agent: it stood meanwhile."""
    idle: list[Answer] = [(2, task_event(WORKING)), 1.1, CUT]
    agent = Agent([*BEGUN, CUT], idle, idle, [(2, task_event(WORKING)), (3, status_event(COMPLETED))])
    async with client_of(agent, binding, patience=1.5) as client:
        assert len(await received(client.send_streaming_message(SEND))) == 3


async def test_no_patience_is_no_second_try(binding: str) -> None:
    agent = Agent([*BEGUN, CUT], [CUT])
    async with client_of(agent, binding, patience=0) as client:
        with pytest.raises(StreamBrokenError):
            await received(client.send_streaming_message(SEND))
        with pytest.raises(UnavailableError):
            await client.send_message(SEND)
    assert len(agent.calls) == 2


async def test_a_timeout_is_for_all_tries_together(binding: str) -> None:
    agent = Agent(*[[CUT]] * 50)
    async with client_of(agent, binding) as client, asyncio.timeout(5):
        with pytest.raises(DeadlineExceededError):
            await client.send_message(SEND, timeout=0.5)
        with pytest.raises(DeadlineExceededError):
            await received(client.send_streaming_message(SEND, timeout=0.5))


async def test_closing_ends_a_stream_that_waits_to_go_on(binding: str) -> None:
    agent = Agent([*BEGUN, UnavailableError("Cut.", retry_after=20.0)])
    async with client_of(agent, binding) as client, asyncio.timeout(5):
        events = client.send_streaming_message(SEND)
        assert [await anext(events), await anext(events)] == BEGINNING
        rest = asyncio.create_task(received(events))
        call = asyncio.create_task(client.send_message(SEND))
        await wait_until(lambda: len(agent.calls) == 2, "both were asked")
        await client.aclose()
        for waiting in (rest, call):
            with pytest.raises(UnavailableError, match="client was closed"):
                await waiting


async def test_an_interface_that_refuses_is_left_for_the_next(binding: str) -> None:
    """A replica that is about to stop answers UNAVAILABLE for a while; another one takes over."""
    leaving, staying = (
        Agent([*BEGUN, CUT], *[[CUT]] * 9),
        Agent([(2, task_event(WORKING)), (3, status_event(COMPLETED))]),
    )
    async with client_of(leaving, binding) as one, client_of(staying, binding) as two:
        both = card()
        both.supported_interfaces.extend([one.interface, two.interface])
        both.capabilities.extensions.add(uri=EVENT_SEQUENCE)
        async with await A2AClient.connect(both) as client:
            assert len(await received(client.send_streaming_message(SEND))) == 3
    assert len(leaving.calls) <= 3 and staying.calls == [("subscribe", "t1", "2")]


async def test_who_asks_for_the_numbers_finds_them_in_the_events() -> None:
    agent = Agent([*BEGUN, CUT], [(2, task_event(WORKING)), (3, status_event(COMPLETED))])
    async with (
        grpc_peer(agent) as address,
        await A2AClient.connect(f"grpc://{address}", extensions=[EVENT_SEQUENCE]) as client,
    ):
        seen = await received(client.send_streaming_message(SEND))
    assert [event.status_update.metadata[EVENT_SEQUENCE] for event in seen[1:]] == [2, 3]


async def test_where_nobody_listens_any_more_the_failure_says_so() -> None:
    agent = Agent([*BEGUN, CUT])
    async with AsyncExitStack() as stack:
        address = await stack.enter_async_context(grpc_peer(agent))
        async with await A2AClient.connect(f"grpc://{address}", patience=2) as client:
            events = client.send_streaming_message(SEND)
            assert await anext(events) == task_event(SUBMITTED)
            await stack.aclose()
            with pytest.raises(StreamBrokenError) as caught:
                await received(events)
            assert isinstance(caught.value.__cause__, NotConnectedError)
