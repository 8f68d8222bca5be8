"""Artifacts with a schema: the service writes nothing that does not match, and the client takes nothing of the kind."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from a2a_grpc.client import (
    A2AClient,
    ArtifactSchemas,
    Completed,
    Failed,
    InvalidAgentResponseError,
    InvalidArtifactError,
    RemoteAgent,
    message,
)
from a2a_grpc.client.states import TERMINAL
from a2a_grpc.client.transports.base import Numbered
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, ArtifactMismatchError, Reader, Turn
from a2a_grpc.server.agents.schemas import ArtifactChecks, compile_schemas
from a2a_grpc.server.card.extended import ExtendedCards
from a2a_grpc.server.card.interfaces import with_interfaces
from a2a_grpc.wire import protojson
from a2a_grpc.wire.artifact_schemas import ARTIFACT_SCHEMAS, declare_schemas, reason_in, schemas_in
from tests.agents.schema_agents import BAD, GOOD, REPORT
from tests.client.peers import Request, answer_to, card, http_peer, task
from tests.support.replica import Pair

pytestmark = pytest.mark.wide

AGENT = "tests.agents.schema_agents:agent"
MESSENGER = "tests.agents.schema_agents:messenger"
LIAR = "tests.agents.schema_agents:liar"
WHERE = "/candidates/1/score does not keep to maximum 100"
REFUSED = f"The agent answered with an artifact 'report' that does not match its schema: {WHERE}."
NO_DATA = "The agent answered with an artifact 'report' that does not match its schema: it has no data."

BINDINGS = ("GRPC", "HTTP+JSON", "JSONRPC")


@pytest.fixture(params=BINDINGS)
def bindings(request: pytest.FixtureRequest) -> list[str]:
    return [str(request.param)]


@pytest.fixture
async def screening(two_replicas: Pair) -> AsyncIterator[RemoteAgent]:
    async with await RemoteAgent.connect(two_replicas.replicas[0].http_url, bindings=["GRPC"]) as agent:
        yield agent


@pytest.mark.agent(AGENT)
async def test_the_card_says_what_is_in_the_artifacts_of_each_skill(screening: RemoteAgent) -> None:
    assert screening.card is not None
    assert schemas_in(screening.card) == {"screen": {"report": REPORT}, "count": {"total": {"type": "integer"}}}
    (extension,) = [one for one in screening.card.capabilities.extensions if one.uri == ARTIFACT_SCHEMAS]
    assert not extension.required


@pytest.mark.agent(AGENT)
@pytest.mark.parametrize("how", ["good", "streamed", "repaired"])
async def test_data_that_matches_is_written(screening: RemoteAgent, how: str) -> None:
    result = await screening.run(f"screen {how}")
    assert isinstance(result, Completed)
    assert result.data == [GOOD]


@pytest.mark.agent(AGENT)
async def test_artifacts_without_a_schema_hold_what_they_like(screening: RemoteAgent) -> None:
    result = await screening.run("screen unknown")
    assert isinstance(result, Completed)
    assert result.data == [BAD]


@pytest.mark.agent(AGENT)
@pytest.mark.parametrize(
    ("how", "said", "left"),
    [
        ("bad", REFUSED, ["kept"]),
        ("streamed-bad", REFUSED, [GOOD]),
        ("no-data", NO_DATA, []),
        ("no-end", NO_DATA, ["It was fine."]),
        ("no-end-said", NO_DATA, ["It was fine."]),
    ],
)
async def test_data_that_does_not_match_ends_the_task_and_is_seen_by_nobody(
    two_replicas: Pair, bindings: list[str], how: str, said: str, left: list[Any]
) -> None:
    async with await RemoteAgent.connect(two_replicas.replicas[0].http_url, bindings=bindings) as agent:
        result = await agent.run(f"screen {how}")
        assert isinstance(result, Failed)
        assert result.text == said
        assert result.data + [part.text for part in parts(result.task) if part.HasField("text")] == left
        assert "180" not in result.text
        assert result.reason == "INVALID_AGENT_RESPONSE"
        message = (await agent.client.get_task(a2a_pb2.GetTaskRequest(id=result.task_id))).status.message
    for told in (message, result.task.status.message):
        assert list(told.extensions) == ["urn:a2a-grpc:extension:artifact-schemas:v1"]
        assert protojson.to_dict(told)["metadata"] == {
            "urn:a2a-grpc:extension:artifact-schemas:v1": {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "INVALID_AGENT_RESPONSE",
                "domain": "a2a-protocol.org",
            }
        }
    log = two_replicas.replicas[0].log()
    assert f"task {result.task_id}: what the agent wrote is refused" in log
    if said == REFUSED:
        assert "/properties/candidates/items/properties/score/maximum of its schema" in log


@pytest.mark.agent(AGENT)
async def test_a_task_that_waits_for_its_caller_is_not_complete_yet(screening: RemoteAgent) -> None:
    session = screening.session()
    asked = await session.run("screen asks")
    assert asked.text == "By how much?"
    result = await session.run("much")
    assert isinstance(result, Completed)
    assert result.data == [GOOD]


@pytest.mark.agent(AGENT)
async def test_a_name_means_the_same_whichever_skill_answers(screening: RemoteAgent) -> None:
    assert isinstance(await screening.run("count good"), Completed)
    refused = await screening.run("count bad")
    assert isinstance(refused, Failed)
    assert refused.text == REFUSED
    assert refused.data == [3]


@pytest.mark.agent(LIAR)
async def test_a_remote_agent_takes_no_data_that_its_card_rules_out(two_replicas: Pair, bindings: list[str]) -> None:
    async with await RemoteAgent.connect(two_replicas.replicas[0].http_url, bindings=bindings) as agent:
        good = await agent.run("good")
        assert isinstance(good, Completed)
        assert good.data == [BAD, GOOD]
        with pytest.raises(InvalidArtifactError) as refused:
            await agent.run("bad")
        assert refused.value.message == f"The artifact 'report' does not match its schema: {WHERE}."


@pytest.mark.agent(LIAR)
async def test_the_task_of_refused_data_is_named_and_can_be_canceled(two_replicas: Pair, bindings: list[str]) -> None:
    """What is canceled holds the data, too, so that its answer is refused in its turn."""
    url = two_replicas.replicas[0].http_url
    async with (
        await RemoteAgent.connect(url, bindings=bindings) as agent,
        await A2AClient.connect(url) as trusting,
    ):
        session = agent.session()
        with pytest.raises(InvalidArtifactError) as refused:
            await session.run("bad and on")
        place = refused.value.continuation
        assert place is not None and refused.value.task_id == place.task_id == session.task_id
        assert place.context_id == session.context_id != ""
        get = a2a_pb2.GetTaskRequest(id=refused.value.task_id)
        assert (await trusting.get_task(get)).status.state not in TERMINAL
        with pytest.raises(InvalidArtifactError) as again:
            await agent.result(place)
        assert again.value.continuation is not None and again.value.continuation.task_id == place.task_id
        with pytest.raises(InvalidArtifactError) as canceled:
            await agent.cancel(place.task_id)
        assert canceled.value.task_id == place.task_id
        assert (await trusting.get_task(get)).status.state == a2a_pb2.TASK_STATE_CANCELED


async def test_a_task_whose_first_news_is_the_refused_data_is_named() -> None:
    """An agent that does not stream answers at once with all of it."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        done = task(a2a_pb2.TASK_STATE_COMPLETED, "t1", artifact("a", 6))
        writer.write(answer_to(request, a2a_pb2.SendMessageResponse(task=done)))

    async with http_peer(respond) as peer:
        found = card(("HTTP+JSON", "1.0", peer.url), streaming=False)
        declare_schemas(found, "do", {"a": {"maximum": 5}})
        async with await RemoteAgent.connect(found) as agent:
            with pytest.raises(InvalidArtifactError, match="maximum 5") as refused:
                await agent.run("go")
    assert refused.value.task_id == "t1"
    assert refused.value.continuation is not None and refused.value.continuation.task_id == "t1"


@pytest.mark.agent(LIAR)
async def test_a_client_checks_if_it_is_asked_to(two_replicas: Pair, bindings: list[str]) -> None:
    url = two_replicas.replicas[0].http_url
    request = a2a_pb2.SendMessageRequest(message=message("bad"))
    async with await A2AClient.connect(url, bindings=bindings) as trusting:
        task = (await trusting.send_message(request)).task
        assert task.status.state == a2a_pb2.TASK_STATE_COMPLETED
        assert trusting.card is not None
        with pytest.raises(InvalidAgentResponseError, match="/candidates/1/score"):
            ArtifactSchemas(trusting.card).check_task(task)
    get = a2a_pb2.GetTaskRequest(id=task.id)
    async with await A2AClient.connect(url, bindings=bindings, check_artifacts=True) as careful:
        with pytest.raises(InvalidAgentResponseError, match="/candidates/1/score"):
            await careful.send_message(request)
        with pytest.raises(InvalidAgentResponseError, match="/candidates/1/score"):
            await careful.get_task(get)
        with pytest.raises(InvalidAgentResponseError, match="/candidates/1/score"):
            await careful.list_tasks(a2a_pb2.ListTasksRequest(include_artifacts=True))
        seen: list[str] = []
        with pytest.raises(InvalidAgentResponseError, match="/candidates/1/score"):
            await _read(careful.send_streaming_message(request), seen)
        assert seen == ["", "The report: "]


async def _read(events: AsyncIterator[a2a_pb2.StreamResponse], seen: list[str]) -> None:
    async for event in events:
        seen += [part.text for part in event.artifact_update.artifact.parts]


def parts(task: a2a_pb2.Task) -> list[a2a_pb2.Part]:
    return [part for artifact in task.artifacts for part in artifact.parts]


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({"type": "strin"}, "/type: 'strin' is not valid under any of the given schemas"),
        (
            {"properties": {"a": {"$ref": "https://e.example/s"}}},
            "/properties/a/$ref: https://e.example/s is elsewhere",
        ),
        ({"$ref": "#/$defs/none"}, "/: there is no #/$defs/none in it"),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#"},
            "/$schema: must be https://json-schema.org/draft/2020",
        ),
        ({"pattern": r"(a)\1"}, "\\1, which is not supported"),
        ({"default": object()}, "/: is no JSON"),
        ({"description": "x" * 65536}, "/: is larger than 65536 bytes"),
        ("report.json", "/: must be an object"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_where_it_is_declared(schema: Any, problem: str) -> None:
    agent = Agent(name="A", description="A.", version="1")
    with pytest.raises(ValueError, match="skill 'do': the schema of the artifact 'report' cannot be used: ") as refused:
        agent.skill(id="do", name="Do", description="Does.", tags=["x"], artifacts={"report": schema})(nothing)
    assert problem in str(refused.value)


def test_a_skill_that_is_hidden_hides_its_schemas_too() -> None:
    agent = Agent(name="A", description="A.", version="1")
    agent.skill(id="all", name="All", description="All.", tags=["x"], artifacts={"a": {"type": "string"}})(nothing)
    agent.skill(
        id="few", name="Few", description="Few.", tags=["x"], scopes=["few"], artifacts={"b": {"type": "string"}}
    )(nothing)
    assert schemas_in(agent.card) == {"all": {"a": {"type": "string"}}}
    assert agent.skills["few"].artifacts == {"b": {"type": "string"}}


def test_artifacts_that_several_skills_declare_match_one_of_their_schemas_at_the_client() -> None:
    agent = Agent(name="A", description="A.", version="1")
    for id_, kind in (("one", "string"), ("two", "number")):
        agent.skill(id=id_, name="X", description="X.", tags=["x"], artifacts={"a": {"type": kind}})(nothing)
    schemas = ArtifactSchemas(agent.card)
    for value in ("text", 3.5):
        schemas.check(artifact("a", value))
    with pytest.raises(
        InvalidAgentResponseError, match=r"'a' does not match its schema: the data is not of type string"
    ):
        schemas.check(artifact("a", True))
    schemas.check(artifact("b", True))


def test_a_bad_schema_of_a_stranger_hinders_only_who_meets_it() -> None:
    card = a2a_pb2.AgentCard()
    extension = card.capabilities.extensions.add(uri=ARTIFACT_SCHEMAS)
    extension.params.update({"do": {"good": {"type": "string"}, "bad": {"$ref": "https://e.example/s"}}})
    schemas = ArtifactSchemas(card)
    schemas.check(artifact("good", "text"))
    with pytest.raises(InvalidAgentResponseError, match="schema of the artifact 'bad' cannot be used: /"):
        schemas.check(artifact("bad", "text"))


def artifact(name: str, value: Any) -> a2a_pb2.Artifact:
    made = a2a_pb2.Artifact(artifact_id="1", name=name)
    part = made.parts.add()
    match value:
        case bool():
            part.data.bool_value = value
        case str():
            part.data.string_value = value
        case _:
            part.data.number_value = value
    return made


async def nothing(turn: Turn) -> None:
    """Does nothing."""


def test_a_card_from_a_file_has_its_schemas_itself(tmp_path: Path) -> None:
    file = tmp_path / "card.yaml"
    file.write_text(
        "name: A\n"
        "skills: [{id: all, name: X, description: X., tags: [x]}, {id: few, name: X, description: X., tags: [x]}]\n"
        "capabilities:\n"
        "  extensions:\n"
        f"    - uri: {ARTIFACT_SCHEMAS}\n"
        "      params: {all: {a: {type: string}}, few: {b: {type: number}}, none: {c: {}}}\n"
    )
    agent = Agent.from_card(file)
    agent.skill(id="all")(nothing)
    # Callers without the scope don't read of the skill, and so not of its artifacts.
    agent.skill(id="few", scopes=["few"])(nothing)
    assert schemas_in(agent.card) == {"all": {"a": {"type": "string"}}, "none": {"c": {}}}
    assert agent.skills["few"].artifacts == {"b": {"type": "number"}}
    with pytest.raises(ValueError, match="skill 'none': its card has schemas of artifacts already"):
        agent.skill(id="none", name="X", description="X.", tags=["x"], artifacts={"c": {}})(nothing)


async def test_who_sees_a_hidden_skill_sees_its_schemas() -> None:
    agent = Agent(name="A", description="A.", version="1")
    agent.skill(id="all", name="X", description="X.", tags=["x"], artifacts={"a": {"type": "string"}})(nothing)
    agent.skill(id="few", name="X", description="X.", tags=["x"], scopes=["few"], artifacts={"b": {"type": "number"}})(
        nothing
    )
    cards = ExtendedCards(agent, with_interfaces(agent.card, "localhost:1", ""), lambda card: card)
    for scopes, seen in ((["few"], {"all", "few"}), ([], {"all"})):
        card = await cards.read(Reader(name="alice", scopes=frozenset(scopes)))
        assert card is not None
        assert set(schemas_in(card)) == seen


def chunk(
    value: float | None, *, name: str = "", append: bool = False, last_chunk: bool = False
) -> a2a_pb2.TaskArtifactUpdateEvent:
    part_of = artifact(name, value) if value is not None else a2a_pb2.Artifact(artifact_id="1", name=name)
    return a2a_pb2.TaskArtifactUpdateEvent(artifact=part_of, append=append, last_chunk=last_chunk)


def test_a_later_chunk_belongs_to_the_artifact_of_its_id_also_one_of_an_earlier_turn() -> None:
    own = compile_schemas("do", {"a": {"maximum": 5}})
    before = [a2a_pb2.Artifact(artifact_id="1", name="a")]
    for checks in (ArtifactChecks(own, {}, before), ArtifactChecks(own, {})):
        if not checks._names:
            checks.take(chunk(1, name="a"))
        checks.take(chunk(2, append=True))
        with pytest.raises(ArtifactMismatchError, match="'a' that does not match its schema: the data does not keep"):
            checks.take(chunk(6, append=True))
        checks.complete()


def test_an_artifact_that_is_begun_again_needs_data_again() -> None:
    checks = ArtifactChecks(compile_schemas("do", {"a": {"maximum": 5}}), {})
    checks.take(chunk(1, name="a", last_chunk=True))
    checks.complete()
    checks.take(chunk(None, name="a"))
    with pytest.raises(ArtifactMismatchError, match="it has no data"):
        checks.complete()
    # Under another name it is another artifact, which may hold what it likes.
    checks.take(chunk(9, name="b"))
    checks.complete()


def test_data_does_not_slip_past_a_schema_under_another_name() -> None:
    checks = ArtifactChecks(compile_schemas("do", {"a": {"maximum": 5}}), {})
    checks.take(chunk(9, name="b"))
    with pytest.raises(ArtifactMismatchError, match="'a' that does not match its schema: it was begun under another"):
        checks.take(chunk(None, name="a", append=True))


async def test_data_of_an_agent_does_not_slip_past_its_card_under_another_name() -> None:
    agent = Agent(name="A", description="A.", version="1")
    agent.skill(id="do", name="X", description="X.", tags=["x"], artifacts={"a": {"maximum": 5}})(nothing)

    async def events() -> AsyncGenerator[Numbered, None]:
        for update in (chunk(9, name="b"), chunk(None, name="a", append=True)):
            yield Numbered(0, a2a_pb2.StreamResponse(artifact_update=update))

    with pytest.raises(InvalidAgentResponseError, match="'a' got its name after its data"):
        async for _ in ArtifactSchemas(agent.card).checked(events()):
            pass


@pytest.mark.agent(MESSENGER)
async def test_where_there_is_no_task_the_call_ends_with_the_reason(two_replicas: Pair, bindings: list[str]) -> None:
    async with await A2AClient.connect(two_replicas.replicas[0].http_url, bindings=bindings) as client:
        with pytest.raises(InvalidAgentResponseError) as refused:
            await client.send_message(a2a_pb2.SendMessageRequest(message=message("screen")))
    assert refused.value.message == REFUSED


@pytest.mark.parametrize("value", [None, "INVALID_AGENT_RESPONSE", {"domain": "a2a-protocol.org"}, {"reason": 5}, []])
def test_a_reason_that_is_none_is_left_out(value: Any) -> None:
    """Anybody may write into metadata. To look at it changes nothing."""
    said, nothing_said = a2a_pb2.Message(), a2a_pb2.Message()
    said.metadata.update({ARTIFACT_SCHEMAS: value})
    before = said.SerializeToString(deterministic=True)
    assert reason_in(said) == reason_in(nothing_said) == ""
    assert said.SerializeToString(deterministic=True) == before and nothing_said == a2a_pb2.Message()
