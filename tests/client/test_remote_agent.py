"""A remote agent called like a local one: every outcome has its type, and nothing is lost or repeated on the way.

B111, B113 and B115 of the field reports.
"""

# ruff: noqa: ARG002 - a method of a servicer takes what gRPC gives it

import asyncio
import inspect
import random
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

import grpc
import pytest

from a2a_grpc.client import (
    A2AClient,
    ArtifactChunk,
    AuthRequired,
    Canceled,
    Completed,
    Continuation,
    DeadlineExceededError,
    Failed,
    FinishReason,
    InputRequired,
    InvalidAgentResponseError,
    InvalidArgumentError,
    NotConnectedError,
    OutcomeError,
    Rejected,
    RemoteAgent,
    Reply,
    Result,
    StatusUpdate,
    StillRunningError,
    StreamBrokenError,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskUpdate,
    Update,
    message,
)
from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.wire.sequence import EVENT_SEQUENCE, set_sequence
from tests.client.peers import Context, Relay, card, grpc_peer, relay, status_event, task, task_event
from tests.client.test_resuming import address_of, interface, numbers, tasks_of
from tests.support.replica import Pair, Replica, replica
from tests.support.waiting import wait_until

pytestmark = pytest.mark.agent("tests.client.agent:agent")

WORKING = pb.TASK_STATE_WORKING
COMPLETED = pb.TASK_STATE_COMPLETED
INPUT_REQUIRED = pb.TASK_STATE_INPUT_REQUIRED
AUTH_REQUIRED = pb.TASK_STATE_AUTH_REQUIRED


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture
async def agent(two_replicas: Pair, binding: str) -> AsyncIterator[RemoteAgent]:
    async with await RemoteAgent.connect(two_replicas.replicas[0].http_url, bindings=[binding]) as agent:
        assert agent.client.interface.protocol_binding == binding
        yield agent


@asynccontextmanager
async def through_relay(replica: Replica, binding: str) -> AsyncIterator[tuple[RemoteAgent, Relay]]:
    """An agent whose connections can be cut, and led elsewhere."""
    async with (
        relay(address_of(replica, binding)) as between,
        await RemoteAgent.connect(interface(between.address, binding)) as agent,
    ):
        yield agent, between


async def told(updates: AsyncIterator[Update | Result]) -> list[Update | Result]:
    return [update async for update in updates]


def chunks(updates: Sequence[Update | Result]) -> str:
    return "".join(update.text for update in updates if isinstance(update, ArtifactChunk))


# -- outcomes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "reason", "said"),
    [
        ("echo hello", Completed, FinishReason.COMPLETED, "hello"),
        ("msg hello", Reply, FinishReason.REPLIED, "hello"),
        ("ask", InputRequired, FinishReason.INPUT_REQUIRED, "What is your name?"),
        ("auth 60000", AuthRequired, FinishReason.AUTH_REQUIRED, "Approve it at https://example.com/approve."),
        ("fail", Failed, FinishReason.FAILED, "It broke."),
        ("reject", Rejected, FinishReason.REJECTED, "I do not do that."),
    ],
)
async def test_every_outcome_has_its_type_and_its_words(
    agent: RemoteAgent, text: str, kind: type[Result], reason: FinishReason, said: str
) -> None:
    """B115."""
    streamed = (await told(agent.run_stream(text)))[-1]
    waited = await agent.run(text)

    for result in (streamed, waited):
        assert type(result) is kind and isinstance(result, Result)
        assert result.finish_reason == reason and result.text == said
        if isinstance(result, Completed | Reply):
            assert result.raise_for_outcome() is result
        else:
            with pytest.raises(OutcomeError, match=r"gave no answer \(" + reason.replace("_", " ")) as caught:
                result.raise_for_outcome()
            assert caught.value.result is result and said in str(caught.value)
        if isinstance(result, Failed):
            assert result.reason == "", "what the agent says itself is no defect of its answer"


async def test_a_task_that_somebody_cancels_is_canceled(agent: RemoteAgent) -> None:
    """B115: by another caller while one waits; and by the caller, who gets the end as the answer."""
    session = agent.session()
    waiting = asyncio.create_task(session.run("hang"))
    await wait_until(lambda: session.state == WORKING, "the agent works")
    canceled = await agent.cancel(session.task_id)

    assert type(canceled) is Canceled and canceled.finish_reason == FinishReason.CANCELED
    result = await waiting
    assert type(result) is Canceled and result.task_id == canceled.task_id and session.state == pb.TASK_STATE_CANCELED
    with pytest.raises(OutcomeError):
        result.raise_for_outcome()
    with pytest.raises(TaskNotCancelableError):
        await agent.cancel(result.task_id)


async def test_a_result_is_the_task_with_its_artifacts_merged(agent: RemoteAgent) -> None:
    result = await agent.run("chunks 4")

    assert isinstance(result, Completed)
    assert result.task == await agent.client.get_task(pb.GetTaskRequest(id=result.task_id))
    assert [part.text for part in result.artifacts[0].parts] == ["0 ", "1 ", "2 ", "3 "] and result.text == "0 1 2 3 "
    assert result.artifact("count") == result.artifacts[0] and result.artifact("other") is None


async def test_a_stream_tells_what_happens_and_then_how_it_went(agent: RemoteAgent) -> None:
    updates = await told(agent.run_stream("chunks 3"))

    assert [type(update) for update in updates] == [
        TaskUpdate,
        StatusUpdate,
        ArtifactChunk,
        ArtifactChunk,
        ArtifactChunk,
        StatusUpdate,
        Completed,
    ]
    assert [(update.state, update.text) for update in updates if isinstance(update, StatusUpdate)] == [
        (WORKING, "counting"),
        (COMPLETED, ""),
    ]
    first, *_, last = (update for update in updates if isinstance(update, ArtifactChunk))
    assert (first.name, first.text, first.append) == ("count", "0 ", False)
    assert (last.artifact_id, last.text, last.append) == (first.artifact_id, "2 ", True)


async def test_a_message_with_configuration_goes_as_it_is(agent: RemoteAgent) -> None:
    context_id = uuid.uuid4().hex
    request = pb.SendMessageRequest(message=message("echo x", context_id=context_id))
    request.configuration.history_length = 0

    result = await agent.run(request)

    assert isinstance(result, Completed) and result.context_id == context_id and not result.task.history
    again = await agent.run(request.message)
    assert isinstance(again, Completed) and again.task_id == result.task_id, "the message id is the caller's"


# -- connections that break --------------------------------------------------------------------------------------------


async def test_a_run_whose_connection_is_killed_five_times_runs_once(two_replicas: Pair, binding: str) -> None:
    """B111: the helper that waits survives whatever cuts its calls; each piece comes once."""
    context_id = uuid.uuid4().hex
    async with through_relay(two_replicas.replicas[0], binding) as (agent, between):
        session = agent.session(context_id)
        seen: list[Update | Result] = []
        async with aclosing(session.run_stream("tick 24 40")) as updates:
            cut = 0
            async for update in updates:
                seen.append(update)
                if cut < 5 and f"{3 * (cut + 1)} " in chunks(seen):
                    cut += 1
                    between.target = address_of(two_replicas.replicas[cut % 2], binding)
                    between.reset()
        assert cut == 5
    result = seen[-1]
    assert isinstance(result, Completed) and result.text == numbers(24) == chunks(seen)
    [only] = await tasks_of(two_replicas.replicas[1], context_id)
    assert only.id == result.task_id


async def test_many_runs_at_once_over_connections_that_break(two_replicas: Pair) -> None:
    """Cut at random, now to the one replica and now to the other: nothing is lost, and nothing is done twice."""
    context_id, chance = uuid.uuid4().hex, random.Random(11)
    async with AsyncExitStack() as stack:
        paths = [await stack.enter_async_context(through_relay(two_replicas.replicas[0], one)) for one in BINDINGS]

        async def cut() -> None:
            while True:
                await asyncio.sleep(chance.uniform(0.05, 0.2))
                at = chance.randrange(len(paths))
                _, between = paths[at]
                between.target = address_of(chance.choice(two_replicas.replicas), BINDINGS[at])
                between.reset()

        cutting = asyncio.create_task(cut())
        runs = [agent.session(context_id).run("tick 12 60") for agent, _ in paths for _ in range(8)]
        results = await asyncio.gather(*runs)
        cutting.cancel()
    assert [result.text for result in results] == [numbers(12)] * len(runs)
    found = {one.id for one in await tasks_of(two_replicas.replicas[1], context_id)}
    assert found == {result.task_id for result in results if isinstance(result, Completed)} and len(found) == len(runs)


async def test_runs_share_a_connection(two_replicas: Pair, binding: str) -> None:
    """B119: what ends leaves its connection to the next, whatever the outcome."""
    async with through_relay(two_replicas.replicas[0], binding) as (agent, between):
        for text in ("echo x", "msg x", "ask", "fail") * 3:
            await agent.run(text)
        assert between.accepted == 1


async def test_a_run_is_no_long_call(two_replicas: Pair, binding: str) -> None:
    """B111: a proxy that lets no call live longer than 0.3 s; the one that waits does not notice."""
    context_id = uuid.uuid4().hex
    async with through_relay(two_replicas.replicas[0], binding) as (agent, between):

        async def cut() -> None:
            while True:
                await asyncio.sleep(0.3)
                between.reset()

        cutting = asyncio.create_task(cut())
        result = await agent.session(context_id).run("tick 15 100")
        cutting.cancel()
    assert isinstance(result, Completed) and result.text == numbers(15)
    assert [one.id for one in await tasks_of(two_replicas.replicas[1], context_id)] == [result.task_id]


class Forgetful:
    """An agent that numbers no events, over gRPC. Each stream is what is said here; an Exception cuts it."""

    def __init__(self, *streams: Sequence[pb.StreamResponse | None]) -> None:
        self.streams = list(streams)
        self.calls: list[str] = []

    async def _next(self, name: str, context: Context) -> AsyncIterator[pb.StreamResponse]:
        self.calls.append(name)
        for event in self.streams.pop(0):
            if event is None:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "on its way out")
            else:
                yield event

    async def send_streaming_message(
        self, request: pb.SendMessageRequest, context: Context
    ) -> AsyncIterator[pb.StreamResponse]:
        async for event in self._next("send", context):
            yield event

    async def subscribe_to_task(
        self, request: pb.SubscribeToTaskRequest, context: Context
    ) -> AsyncIterator[pb.StreamResponse]:
        assert request.id == "t1"
        async for event in self._next("subscribe", context):
            yield event


def chunk(text: str, *, append: bool) -> pb.StreamResponse:
    artifact = pb.Artifact(artifact_id="a", parts=[pb.Part(text=text)])
    update = pb.TaskArtifactUpdateEvent(task_id="t1", context_id="c1", artifact=artifact, append=append)
    return pb.StreamResponse(artifact_update=update)


@asynccontextmanager
async def agent_of(servicer: object, *, streaming: bool = True, patience: float = 30.0) -> AsyncIterator[RemoteAgent]:
    async with (
        grpc_peer(servicer) as address,
        await RemoteAgent.connect(card(("GRPC", "1.0", address), streaming=streaming), patience=patience) as agent,
    ):
        yield agent


async def test_a_task_of_an_agent_without_numbers_is_looked_for_again() -> None:
    """B111: its message is not sent twice; what was missed stands in the Task with which it goes on."""
    known = pb.Artifact(artifact_id="a", parts=[pb.Part(text="1 "), pb.Part(text="2 ")])
    servicer = Forgetful(
        [task_event(WORKING), chunk("1 ", append=False), None],
        [None],
        [pb.StreamResponse(task=task(WORKING, "t1", known)), chunk("3 ", append=True), status_event(COMPLETED)],
    )
    async with agent_of(servicer) as agent:
        updates = await told(agent.run_stream("go"))

    assert servicer.calls == ["send", "subscribe", "subscribe"]
    kinds = [TaskUpdate, ArtifactChunk, TaskUpdate, ArtifactChunk, StatusUpdate, Completed]
    assert [type(update) for update in updates] == kinds
    assert isinstance(updates[-1], Completed) and updates[-1].text == "1 2 3 "


async def test_what_an_agent_without_numbers_tells_twice_is_put_right_at_the_end() -> None:
    """Its subscription begins with a chunk that the Task holds already, which nobody can see; its task says what is."""

    class Twice(Forgetful):
        async def get_task(self, request: pb.GetTaskRequest, context: Context) -> pb.Task:
            return task(COMPLETED, "t1", made("1 ", "2 ", "3 "))

    servicer = Twice(
        [task_event(WORKING), chunk("1 ", append=False), None],
        [
            pb.StreamResponse(task=task(WORKING, "t1", made("1 ", "2 "))),
            chunk("2 ", append=True),
            chunk("3 ", append=True),
            status_event(COMPLETED),
        ],
    )
    async with agent_of(servicer) as agent:
        updates = await told(agent.run_stream("go"))

    *_, end, corrected, result = updates
    assert isinstance(end, StatusUpdate) and isinstance(corrected, TaskUpdate) and isinstance(result, Completed)
    assert list(corrected.task.artifacts) == list(result.artifacts) == [made("1 ", "2 ", "3 ")]


def made(*texts: str) -> pb.Artifact:
    return pb.Artifact(artifact_id="a", parts=[pb.Part(text=text) for text in texts])


async def test_what_an_agent_no_longer_has_comes_as_the_task() -> None:
    """The agent numbers its events, and has cut off those in the middle: nothing is counted twice."""
    known = pb.Artifact(artifact_id="a", parts=[pb.Part(text="1 "), pb.Part(text="2 "), pb.Part(text="3 ")])
    gap = pb.StreamResponse(task=task(WORKING, "t1", known))
    servicer = Forgetful(
        [numbered(1, task_event(WORKING)), numbered(2, chunk("1 ", append=False)), None],
        [numbered(4, gap), numbered(5, chunk("4 ", append=True)), numbered(6, status_event(COMPLETED))],
    )
    async with grpc_peer(servicer) as address:
        declared = card(("GRPC", "1.0", address))
        declared.capabilities.extensions.add(uri=EVENT_SEQUENCE)
        async with await RemoteAgent.connect(declared) as agent:
            updates = await told(agent.run_stream("go"))

    kinds = [TaskUpdate, ArtifactChunk, TaskUpdate, ArtifactChunk, StatusUpdate, Completed]
    assert [type(update) for update in updates] == kinds
    assert isinstance(updates[-1], Completed) and updates[-1].text == "1 2 3 4 "


def numbered(seq: int, event: pb.StreamResponse) -> pb.StreamResponse:
    set_sequence(event, seq)
    return event


async def test_an_agent_that_stays_away_is_an_error_that_keeps_the_task() -> None:
    servicer = Forgetful([task_event(WORKING), None], *([None] for _ in range(20)))
    async with agent_of(servicer, patience=0.5) as agent:
        with pytest.raises(StreamBrokenError) as caught:
            await agent.run("go")
        assert caught.value.task_id == "t1" and caught.value.continuation is not None
        assert set(servicer.calls[1:]) == {"subscribe"}
        servicer.streams[0] = [task_event(COMPLETED)]
        assert isinstance(await agent.result(caught.value.continuation), Completed)


async def test_a_message_without_an_answer_is_not_sent_again_to_an_agent_that_may_do_it_twice() -> None:
    servicer = Forgetful([None], [None])
    async with agent_of(servicer) as agent:
        with pytest.raises(Exception, match="on its way out"):
            await agent.run("go")
    assert servicer.calls == ["send"]


@pytest.mark.parametrize("state", [WORKING, pb.TASK_STATE_UNSPECIFIED])
async def test_a_stream_that_ends_without_an_outcome_is_no_success(state: pb.TaskState) -> None:
    servicer = Forgetful([task_event(state)], *([task_event(state)] for _ in range(20)))
    async with agent_of(servicer, patience=0.3) as agent:
        with pytest.raises((StreamBrokenError, InvalidAgentResponseError)):
            await agent.run("go")


async def test_a_state_that_nobody_knows_is_no_success_and_stands_in_no_token() -> None:
    unknown: pb.TaskState = 77  # type: ignore[assignment]  # of a later version of the protocol
    servicer = Forgetful(*([task_event(unknown)] for _ in range(20)))
    async with agent_of(servicer, patience=0.3) as agent:
        session = agent.session()
        with pytest.raises(StreamBrokenError, match="in state 77") as broken:
            await session.run("go")
        assert broken.value.continuation is not None
        place = Continuation.from_token(broken.value.continuation.to_token())
        assert (place.task_id, place.state) == ("t1", None)
        assert agent.session(token=session.to_token()).task_id == "t1"


@pytest.mark.parametrize(
    "other",
    [task_event(COMPLETED, "t2"), status_event(COMPLETED, "t2")],
    ids=["task", "status"],
)
async def test_what_is_of_another_task_is_not_taken_for_the_result(other: pb.StreamResponse) -> None:
    async with agent_of(Forgetful([task_event(WORKING), other])) as agent:
        session = agent.session()
        with pytest.raises(InvalidAgentResponseError, match="an event of another task"):
            await session.run("go")
        assert session.task_id == "t1"


async def test_an_event_of_no_kind_is_no_success() -> None:
    async with agent_of(Forgetful([pb.StreamResponse()])) as agent:
        with pytest.raises(InvalidAgentResponseError, match="nothing in it"):
            await agent.run("go")


class Polled:
    """An agent that does not stream, and is away now and then."""

    def __init__(self) -> None:
        self.sent: list[pb.SendMessageRequest] = []
        self.looks = 0

    async def send_message(self, request: pb.SendMessageRequest, context: Context) -> pb.SendMessageResponse:
        self.sent.append(request)
        return pb.SendMessageResponse(task=task(WORKING))

    async def get_task(self, request: pb.GetTaskRequest, context: Context) -> pb.Task:
        self.looks += 1
        if self.looks in (1, 3):
            await context.abort(grpc.StatusCode.UNAVAILABLE, "on its way out")
        made = pb.Artifact(artifact_id="a", parts=[pb.Part(text="made")])
        return task(COMPLETED if self.looks > 4 else WORKING, "t1", made)


async def test_an_agent_that_does_not_stream_is_asked_for_its_task_again_and_again() -> None:
    """B111: with `returnImmediately`, and so without a long call."""
    servicer = Polled()
    async with agent_of(servicer, streaming=False) as agent:
        result = await agent.run("go")

    assert [request.configuration.return_immediately for request in servicer.sent] == [True]
    assert isinstance(result, Completed) and result.text == "made" and servicer.looks > 4


async def test_the_service_without_streaming() -> None:
    async with (
        replica(agent="tests.conformance.agent:min") as server,
        await RemoteAgent.connect(server.http_url) as agent,
    ):
        assert agent.card is not None and not agent.card.capabilities.streaming
        done, asked, auth, failed = [await agent.run(text) for text in ("echo x", "ask", "auth 1", "fail")]
        assert isinstance(done, Completed) and done.text == "x"
        assert isinstance(asked, InputRequired) and isinstance(failed, Failed)
        assert isinstance(auth, AuthRequired) and isinstance(await agent.result(auth.continuation), Completed)
        with pytest.raises(StillRunningError) as caught:
            await agent.run("slow 1", timeout=0.4)
        assert isinstance(await agent.result(caught.value.continuation), Completed)


# -- time --------------------------------------------------------------------------------------------------------------


async def test_when_the_time_is_over_the_task_is_kept(agent: RemoteAgent) -> None:
    """B115: a typed error that names the task; nothing is sent again, and the task goes on."""
    with pytest.raises(StillRunningError) as caught:
        await agent.run("tick 8 100", timeout=0.3)

    assert isinstance(caught.value, DeadlineExceededError) and caught.value.task_id in caught.value.message
    assert caught.value.task_id == caught.value.continuation.task_id
    result = await agent.result(caught.value.continuation.to_token())
    assert isinstance(result, Completed) and result.task_id == caught.value.task_id and result.text == numbers(8)


async def test_a_time_that_is_over_before_there_is_a_task() -> None:
    class Silent:
        async def send_streaming_message(
            self, request: pb.SendMessageRequest, context: Context
        ) -> AsyncIterator[pb.StreamResponse]:
            await asyncio.Event().wait()
            yield pb.StreamResponse()

    async with agent_of(Silent()) as agent:
        with pytest.raises(DeadlineExceededError, match=r"No result within the 0\.2 seconds") as caught:
            await agent.run("go", timeout=0.2)
        assert not isinstance(caught.value, StillRunningError)


# -- in the background -------------------------------------------------------------------------------------------------


async def test_a_background_run_is_told_from_its_beginning(agent: RemoteAgent) -> None:
    begun = await agent.start("tick 6 50")
    assert isinstance(begun, Continuation) and begun.task_id and begun.context_id
    await wait_until(lambda: _artifacts(agent, begun), "it has begun")

    updates = await told(agent.resume(begun))

    assert isinstance(updates[0], TaskUpdate) and not updates[0].task.artifacts
    assert chunks(updates) == numbers(6) and isinstance(updates[-1], Completed)


async def _artifacts(agent: RemoteAgent, begun: Continuation) -> int:
    return len((await agent.client.get_task(pb.GetTaskRequest(id=begun.task_id))).artifacts)


async def test_an_agent_that_answers_at_once_has_answered(agent: RemoteAgent) -> None:
    begun = await agent.start("msg hello")

    assert isinstance(begun, Reply) and begun.text == "hello"


@pytest.mark.parametrize(
    ("text", "kind"), [("echo x", Completed), ("ask", InputRequired), ("fail", Failed), ("reject", Rejected)]
)
async def test_a_task_that_ended_meanwhile_still_gives_its_result(
    agent: RemoteAgent, text: str, kind: type[Result]
) -> None:
    """B113."""
    begun = await agent.start(text)
    assert isinstance(begun, Continuation)
    first = await agent.result(begun)
    again = await agent.result(begun)

    assert type(first) is type(again) is kind and first == again


async def test_after_auth_required_one_waits_until_the_agent_goes_on(agent: RemoteAgent) -> None:
    result = await agent.run("auth 500")
    assert isinstance(result, AuthRequired)

    updates = await told(agent.resume(result.continuation))

    assert isinstance(updates[0], TaskUpdate) and updates[0].task.status.state == AUTH_REQUIRED
    assert isinstance(updates[-1], Completed) and updates[-1].text == "done"


async def test_a_task_that_is_not_there_is_not_found(agent: RemoteAgent) -> None:
    place = Continuation(target="http://localhost", task_id="no such task", cursor=3)
    with pytest.raises(TaskNotFoundError):
        await agent.result(place)
    with pytest.raises(InvalidArgumentError):
        agent.resume("no token")


# -- connecting --------------------------------------------------------------------------------------------------------


async def test_it_connects_as_the_client_does(two_replicas: Pair) -> None:
    mine, theirs = (dict(inspect.signature(kind.connect).parameters) for kind in (RemoteAgent, A2AClient))
    assert (mine.pop("check_artifacts").default, theirs.pop("check_artifacts").default) == (True, False)
    assert mine == theirs
    async with await RemoteAgent.connect(two_replicas.replicas[0].http_url) as agent:
        assert agent.name == "Client test agent" and agent.card == agent.client.card
    async with await RemoteAgent.connect(f"grpc://{two_replicas.replicas[0].grpc_addr}") as agent:
        assert agent.name == "" and agent.card is None
    with pytest.raises(NotConnectedError):
        await RemoteAgent.connect("grpc://127.0.0.1:1", patience=0)
    with pytest.raises(RuntimeError, match="closed"):
        await agent.run("echo x")
