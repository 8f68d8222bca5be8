"""A continuation is a word that any process can go on with (B113)."""

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from a2a_grpc.client import (
    Completed,
    Continuation,
    InvalidArgumentError,
    RemoteAgent,
    StillRunningError,
    TaskNotFoundError,
)
from a2a_grpc.client.portable import portable
from a2a_grpc.client.session import Session
from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.wire.sequence import EVENT_SEQUENCE
from tests.client.peers import card
from tests.client.test_resuming import numbers
from tests.support.replica import ROOT, Pair, Replica, replica
from tests.support.servers import fresh_store_server
from tests.support.waiting import wait_until

AGENT = "tests.client.agent:agent"
pytestmark = pytest.mark.agent(AGENT)


# -- another process ---------------------------------------------------------------------------------------------------


async def elsewhere(token: str, url: str = "", attached: Callable[[], object] = lambda: None) -> list[tuple[str, str]]:
    """What another process is told that has nothing but the token (and a URL); it is `attached` when it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.client.reattach", *([url] if url else [])),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    async with asyncio.timeout(30):
        process.stdin.write(token.encode())
        process.stdin.close()
        first = await process.stdout.readline()
        attached()
        rest, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return [(line["kind"], line["text"]) for line in map(json.loads, (first + rest).decode().splitlines())]


def pieces(lines: list[tuple[str, str]]) -> str:
    return "".join(text for kind, text in lines if kind == "ArtifactChunk")


async def cut_off(agent: RemoteAgent, text: str, seconds: float) -> Continuation:
    """The place of a run that was given up after so many seconds."""
    with pytest.raises(StillRunningError) as caught:
        await agent.run(text, timeout=seconds)
    return caught.value.continuation


async def test_another_process_is_told_the_rest(two_replicas: Pair, tmp_path: Path) -> None:
    """At the other replica: what the first process knows comes as the task, what it missed piece by piece."""
    go = tmp_path / "go"
    async with await RemoteAgent.connect(two_replicas.replicas[0].http_url) as agent:
        place = await cut_off(agent, f"halves 25 {go}", 1.0)
    assert place.target == two_replicas.replicas[0].http_url and place.cursor > 1

    lines = await elsewhere(place.to_token(), two_replicas.replicas[1].http_url, go.touch)

    (kind, known), *_, result = lines
    assert kind == "TaskUpdate" and known and known + pieces(lines) == numbers(25)
    assert len(lines) == 1 + 25 - known.count(" ") + 2, "each piece once, the end, the result"
    assert result == ("Completed", numbers(25))
    again = await elsewhere(place.to_token())
    assert again[-1] == ("Completed", numbers(25)), "it has ended meanwhile, and the token says where it is"


async def test_the_replica_that_worked_is_killed_while_another_process_holds_the_continuation(
    tmp_path: Path,
) -> None:
    """The task is run again elsewhere; whoever holds the token is told its end."""
    go = tmp_path / "go"
    with fresh_store_server() as store:
        one, two = (Replica(agent="tests.cases.agents:agent", redis_url=store.url, env=ENV) for _ in range(2))
        try:
            for started in (one, two):
                await asyncio.to_thread(started.start)
            async with await RemoteAgent.connect(one.http_url) as agent:
                begun = await agent.start(f"after {go} 8 100")
                assert isinstance(begun, Continuation)
                reattached = asyncio.create_task(elsewhere(begun.to_token(), two.http_url, go.touch))
                await wait_until(lambda: _has_artifacts(agent, begun.task_id), "it has begun", 30)
            one.kill()
            lines = await reattached
        finally:
            for started in (one, two):
                await asyncio.to_thread(started.close)
    assert lines[0] == ("TaskUpdate", "") and lines[-1] == ("Completed", numbers(8))
    assert pieces(lines).endswith(numbers(8)) and pieces(lines).startswith("1 ")


ENV = {"A2A_LEASE_TTL": "1"}


async def _has_artifacts(agent: RemoteAgent, task_id: str) -> bool:
    return bool((await agent.client.get_task(pb.GetTaskRequest(id=task_id))).artifacts)


async def test_what_was_trimmed_stands_in_the_task_and_what_was_erased_is_not_found() -> None:
    env = {"A2A_LOG_EVENTS": "100", "A2A_TASK_TTL": "2"}
    async with replica(agent=AGENT, env=env) as server, await RemoteAgent.connect(server.http_url) as agent:
        place = await agent.start("chunks 3000")
        assert isinstance(place, Continuation)
        whole = await agent.result(place)
        assert isinstance(whole, Completed)

        updates = [update async for update in agent.resume(place)]

        first, last = updates[0], updates[-1]
        assert isinstance(last, Completed) and last.artifacts == whole.artifacts
        assert len(updates) < 300 and getattr(first, "task", pb.Task()).artifacts, "the beginning is gone"

        async def is_gone() -> bool:
            try:
                await agent.result(place)
            except TaskNotFoundError:
                return True
            return False

        await wait_until(is_gone, "it is erased", 15)


# -- tokens ------------------------------------------------------------------------------------------------------------


def test_a_token_gives_back_what_it_was_made_of() -> None:
    places = [
        Continuation(target="https://agent.example.com/a", task_id="t1"),
        Continuation(
            target="grpc://127.0.0.1:50051",
            task_id="t1-é",
            context_id="c1",
            cursor=17,
            state=pb.TASK_STATE_AUTH_REQUIRED,
            changed_at="2026-01-01T00:00:00.001Z",
        ),
        Continuation(target=card(("GRPC", "1.0", "host:1", "tenant")), task_id="t1"),
        Continuation(target=pb.AgentInterface(url="host:1", protocol_binding="GRPC"), task_id="t1"),
    ]
    for place in places:
        token = place.to_token()
        assert Continuation.from_token(f" {token}\n") == place
        assert token.isascii() and token.replace("-", "").replace("_", "").isalnum()


def forged(change: Callable[[dict[str, Any]], object]) -> str:
    """A token with another content."""
    token = Continuation(target="http://localhost", task_id="t1").to_token()
    values = json.loads(base64.urlsafe_b64decode(token + "=="))
    change(values)
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


BAD = {
    "empty": "",
    "words": "this is no token",
    "a part of one": forged(lambda values: values)[:-20],
    "no object": base64.urlsafe_b64encode(b"[1]").decode(),
    "nested": base64.urlsafe_b64encode(b"[" * 100_000).decode(),
    "long": "A" * 300_000,
    "no text": base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    "a letter that is none": "é" + forged(lambda values: values),
    "another version": forged(lambda values: values.update(version=2)),
    "another kind": forged(lambda values: values.update(kind="session")),
    "no kind": forged(lambda values: values.update(kind=["continuation"])),
    "no task": forged(lambda values: values.pop("task")),
    "a task that is none": forged(lambda values: values.update(task=3)),
    "no agent": forged(lambda values: values.pop("agent")),
    "an agent that is none": forged(lambda values: (values.pop("agent"), values.update(card={"skills": 3}))),
    "a cursor before the first": forged(lambda values: values.update(cursor=-1)),
    "a cursor that is none": forged(lambda values: values.update(cursor=True)),
    "a cursor beyond all": forged(lambda values: values.update(cursor=10**18)),
    "half a letter": forged(lambda values: values.update(task="\ud800")),
    "no state": forged(lambda values: values.update(state="TASK_STATE_LOST")),
}


@pytest.mark.parametrize("token", BAD.values(), ids=BAD)
def test_what_is_no_token_is_refused_with_a_sentence(token: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^This is no token of a continuation that can be used: .*\.$"):
        Continuation.from_token(token)


def test_the_sentence_says_what_is_wrong() -> None:
    with pytest.raises(InvalidArgumentError, match="it has version 2, and this client reads version 1"):
        Continuation.from_token(BAD["another version"])
    with pytest.raises(InvalidArgumentError, match="it is one of a session"):
        Continuation.from_token(BAD["another kind"])


def test_a_token_holds_no_credentials() -> None:
    """Those of a URL are left out, and so is everything of a card that is not needed to connect."""
    known = card(("HTTP+JSON", "1.0", "https://user:secret@agent.example.com/a?key=secret"))
    known.capabilities.extensions.add(uri=EVENT_SEQUENCE)
    known.capabilities.extensions[0].params.update({"key": "secret"})
    first = known.supported_interfaces[0]

    assert portable("https://user:secret@agent.example.com/a?key=secret#x", known, first) == (
        "https://agent.example.com/a"
    )
    for target in (portable("", known, first), portable("", None, first)):
        place = Continuation(target=target, task_id="t1")
        assert "secret" not in str(target)
        assert b"secret" not in base64.urlsafe_b64decode(place.to_token() + "===")
    reduced = portable("", known, first)
    assert isinstance(reduced, pb.AgentCard) and reduced.capabilities.streaming and not reduced.skills
    assert [extension.uri for extension in reduced.capabilities.extensions] == [EVENT_SEQUENCE]


async def test_nor_do_those_of_an_agent_that_was_given_some(two_replicas: Pair) -> None:
    url, secret = two_replicas.replicas[0].http_url, "a-secret-of-alice"
    async with await RemoteAgent.connect(url, headers={"authorization": f"Bearer {secret}"}) as agent:
        session = agent.session()
        begun = await session.start("echo x")
        assert isinstance(begun, Continuation) and isinstance(session, Session)
        for token in (begun.to_token(), session.to_token()):
            assert secret.encode() not in base64.urlsafe_b64decode(token + "===")
        assert secret not in repr(begun)
