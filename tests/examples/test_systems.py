"""The small systems of the examples: each does what it says, all of them as tenants of one service."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest

from a2a_grpc.client import (
    A2AClient,
    ArtifactChunk,
    Canceled,
    Completed,
    InputRequired,
    RemoteAgent,
    Reply,
    StatusUpdate,
    UnauthenticatedError,
    message,
)
from a2a_grpc.pb import a2a_pb2 as pb
from tests.auth.issuer import jwk, private_key
from tests.support.replica import ROOT, Replica

pytestmark = pytest.mark.wide

KEY = private_key("EC")
AGENTS = """
agents:
  echo: {agent: examples.echo:agent, auth: anonymous}
  thermostat: {agent: examples.thermostat:agent, auth: anonymous}
  routes: {agent: examples.routes:agent, auth: anonymous}
  historian: {agent: examples.historian.agent:agent, auth: anonymous}
  review:
    agent: examples.code_review.agent:agent
    auth: {jwt: {issuer: https://login.example.com, audience: review, jwks_file: keys.json}}
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    folder = tmp_path_factory.mktemp("examples")
    (folder / "agents.yaml").write_text(AGENTS)
    (folder / "keys.json").write_text(json.dumps({"keys": [jwk("one", KEY)]}))
    replica = Replica(agent=str(folder / "agents.yaml"), redis_url=None, env={"THERMOSTAT_SECONDS": "0.05"})
    try:
        replica.start()
        yield replica
    finally:
        replica.close()


async def run(command: str, *arguments: str, said: str = "", env: dict[str, str] | None = None) -> tuple[int, str]:
    """The exit code and the output of a program of the examples."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", command, *arguments),
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    out, _ = await asyncio.wait_for(process.communicate(said.encode()), 30)
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_the_echo_is_a_message_with_the_same_parts(service: Replica) -> None:
    async with await RemoteAgent.connect(f"{service.http_url}/echo") as agent:
        reply = await agent.run("hello")
        tasks = await agent.client.list_tasks()
    assert isinstance(reply, Reply) and reply.text == "hello" and not tasks.tasks


async def test_the_thermostat_settles_by_messages_what_it_then_does_in_a_task(service: Replica) -> None:
    async with await RemoteAgent.connect(f"{service.http_url}/thermostat") as agent:
        session = agent.session()
        warm, asked = await session.run("how warm is it"), await session.run("heat")
        assert isinstance(warm, Reply) and warm.text == "It is 19 °C."
        assert isinstance(asked, Reply) and "25 °C is the most" in asked.text and not session.task_id
        updates = [update async for update in session.run_stream("heat to 22")]
        done = updates[-1]
        assert isinstance(done, Completed) and done.text == "It is 22 °C." and done.context_id == asked.context_id
        told = [update.text for update in updates if isinstance(update, StatusUpdate)]
        assert told == ["19 °C", "20 °C", "21 °C", "It is 22 °C."]
        too_warm = await session.run("heat to 30")
        assert (too_warm.finish_reason, too_warm.text) == ("rejected", "25 °C is the most.")


async def test_the_thermostat_can_be_stopped(service: Replica) -> None:
    async with await RemoteAgent.connect(f"{service.http_url}/thermostat") as agent:
        session = agent.session()
        async for update in session.run_stream("heat to 25"):
            if isinstance(update, StatusUpdate):
                break
        result = await agent.cancel(session.task_id)
    assert isinstance(result, Canceled) and result.artifacts[0].parts[0].text == "The heating is off."


async def test_a_route_is_a_page_and_data(service: Replica) -> None:
    async with await RemoteAgent.connect(f"{service.http_url}/routes") as agent:
        near = await agent.run("plan my route from Sunnyvale to Mountain View")
        assert isinstance(near, Completed) and near.data == [{"minutes": 12, "stops": ["Sunnyvale", "Mountain View"]}]
        [page] = near.artifacts[0].parts
        assert page.media_type == "text/html"
        assert page.text == "<ol><li>Sunnyvale</li><li>Mountain View</li></ol><p>12 minutes</p>"

        far = await agent.run("what's the commute time from Sunnyvale to San Francisco at 9AM")
        stops = ["Sunnyvale", "Mountain View", "Palo Alto", "San Mateo", "San Francisco"]
        assert isinstance(far, Completed) and far.data == [{"minutes": 2 * (12 + 10 + 22 + 25), "stops": stops}]

        session = agent.session()
        asked = await session.run("a route from San Jose, please")
        answered = await session.run("to Palo Alto")
    assert isinstance(asked, InputRequired) and "Mountain View, Palo Alto" in asked.text
    assert isinstance(answered, Completed) and answered.data[0]["minutes"] == 15 + 12 + 10


async def test_a_talk_with_the_historian(service: Replica) -> None:
    said = "How did Qi begin?\nAnd how did it end?\nWhat of Lu?\n:q\n"
    code, printed = await run("examples.historian.chat", f"{service.http_url}/historian", said=said)
    assert code == 0
    assert [line.removeprefix("$ (:q to quit): ") for line in printed.splitlines()] == [
        "Qi lay by the sea. Its first lord let customs be, and let trade grow. That made it strong.",
        "In Qi the house of Tian grew, and took the throne of the house of Jiang. Qin took the rest.",
        "Lu kept the rites of Zhou. Its order was firm. It was slow to change.",
        "",
    ]


async def test_the_historian_streams_asks_back_and_remembers(service: Replica) -> None:
    async with await RemoteAgent.connect(f"{service.http_url}/historian") as agent:
        session = agent.session()
        asked = await session.run("How did it end?")
        assert isinstance(asked, InputRequired)
        updates = [update async for update in session.run_stream("That of Lu.")]
        chunks = [update.text for update in updates if isinstance(update, ArtifactChunk)]
        assert chunks == ["Lu kept the rites of Zhou.", " Its order was firm.", " It was slow to change."]
        later = await session.run("And its end?")
        assert isinstance(later, Completed) and later.text.endswith("Chu ended it.")
        strange = await agent.run("And its end?")
        assert isinstance(strange, InputRequired), "another conversation knows nothing of this one"


PYTHON = "def f(x, seen=[]):\n    try:\n        return x\n    except:\n        pass\n"
TYPESCRIPT = "let a: number = 1;\nvar b: any = a;\nif (a == b) {}\n"


def token(**claims: object) -> str:
    now = int(time.time())
    given = {"iss": "https://login.example.com", "aud": "review", "sub": "ci", "iat": now, "exp": now + 60, **claims}
    return jwt.encode(given, KEY, "ES256", headers={"kid": "one"})


async def test_code_is_reviewed_by_the_skill_that_its_name_asks_for(service: Replica, tmp_path: Path) -> None:
    """Discover, send without waiting, ask for the task until it has ended, read the artifact; with a bearer token."""
    url, names = f"{service.http_url}/review", ("bad.py", "bad.ts", "broken.py", "good.py")
    for name, text in zip(names, (PYTHON, TYPESCRIPT, "def", "x = 1\n"), strict=True):
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in names]

    code, printed = await run("examples.code_review.client", url, *files, env={"REVIEW_TOKEN": token()})

    assert code == 1
    assert printed.replace(f"{tmp_path}/", "").splitlines() == [
        "bad.py:1: a default that can change is shared by all calls",
        "bad.py:4: a bare except also catches Ctrl-C",
        "bad.ts:2: any switches the type checker off",
        "bad.ts:2: let or const says how long a name lives",
        "bad.ts:3: === compares without conversion",
        "broken.py:1: this is no Python",
    ]
    assert await run("examples.code_review.client", url, files[3], env={"REVIEW_TOKEN": token()}) == (0, "")


async def test_the_card_of_the_reviewer_says_what_it_needs(service: Replica) -> None:
    async with await A2AClient.connect(f"{service.http_url}/review") as client:
        assert client.card is not None
        assert not client.card.capabilities.streaming
        assert [skill.id for skill in client.card.skills] == ["review-python", "review-typescript"]
        schemes = {scheme.WhichOneof("scheme") for scheme in client.card.security_schemes.values()}
        assert schemes == {"http_auth_security_scheme"}
        declared = [
            one.params for one in client.card.capabilities.extensions if one.uri.endswith("artifact-schemas:v1")
        ]
        assert len(declared) == 1 and set(declared[0].fields) == {"review-python", "review-typescript"}
        with pytest.raises(UnauthenticatedError):
            await client.send_message(pb.SendMessageRequest(message=message("x = 1")))
