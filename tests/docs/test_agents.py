"""The examples of AGENTS.md and CLIENT.md about tests, schemas and executors, served and called as they stand there."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from a2a_grpc.client import Completed, Failed, RemoteAgent
from a2a_grpc.server.agents import Agent
from a2a_grpc.server.agents.card_file import load_card, read_fields
from a2a_grpc.wire.artifact_schemas import schemas_in
from tests.docs.documents import ROOT, Block, blocks
from tests.support.replica import Replica

pytestmark = pytest.mark.wide

AGENTS, CLIENT = ROOT / "docs" / "AGENTS.md", ROOT / "docs" / "CLIENT.md"
SCHEMAS, EXECUTORS, TRYING = "Artifacts with a schema", "Executors of a2a-sdk", "Trying it out"


def found(page: Path, heading: str, language: str) -> list[str]:
    def fits(block: Block) -> bool:
        return (block.heading, block.language) == (heading, language)

    return [block.text for block in blocks(page) if fits(block)]


@pytest.fixture(scope="module")
def screening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replica]:
    folder = tmp_path_factory.mktemp("screening")
    (folder / "editor.py").write_text(
        "\n".join(found(AGENTS, "Writing an agent", "python") + found(AGENTS, SCHEMAS, "python"))
    )
    with closing(Replica(agent="editor:agent", redis_url=None, env={"PYTHONPATH": str(folder)})) as service:
        service.start()
        yield service


async def test_an_agent_with_schemas_is_called_as_the_client_page_says(
    screening: Replica, capsys: pytest.CaptureFixture[str]
) -> None:
    [text] = found(CLIENT, SCHEMAS, "python")
    space: dict[str, Any] = {}
    exec(text.replace("https://agent.example.com", screening.http_url), space)  # noqa: S102
    await space["screened"]()
    assert capsys.readouterr().out.splitlines() == ["[{'scores': [30, 50]}]", "report"]


async def test_the_sentence_of_a_refusal_is_the_one_of_the_page(screening: Replica) -> None:
    [sentence] = found(AGENTS, SCHEMAS, "text")
    async with await RemoteAgent.connect(screening.http_url) as agent:
        result = await agent.run("screen Ada Bartholomew")
    assert isinstance(result, Failed)
    assert result.text == sentence.strip()


def test_the_card_file_of_the_page_holds_a_schema() -> None:
    [text] = found(AGENTS, SCHEMAS, "yaml")
    card, problems = read_fields(yaml.safe_load(text))
    assert problems == []
    assert schemas_in(card) == {"screen": {"report": {"type": "object", "required": ["scores"]}}}


def test_the_test_of_the_page_passes(tmp_path: Path) -> None:
    """As its reader runs it: pytest in a folder with the agent and the test, without the set-up of this repository."""
    (tmp_path / "my_agent.py").write_text(found(AGENTS, "Writing an agent", "python")[0])
    (tmp_path / "test_my_agent.py").write_text(found(AGENTS, TRYING, "python")[0])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("A2A_", "PYTEST_"))}

    ran = subprocess.run(
        [*command, "test_my_agent.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=60
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout


async def test_the_executor_of_the_page_is_served_by_its_command(tmp_path: Path) -> None:
    [code], [card], [commands] = (found(AGENTS, EXECUTORS, language) for language in ("python", "yaml", "bash"))
    (tmp_path / "hello.py").write_text(code)
    (tmp_path / "hello.yaml").write_text(card)
    arguments = (
        commands.splitlines()[1].removeprefix("a2a-grpc serve ").replace("hello.yaml", str(tmp_path / "hello.yaml"))
    )
    with closing(Replica(agent=arguments, redis_url=None, env={"PYTHONPATH": str(tmp_path)})) as service:
        service.start()
        async with await RemoteAgent.connect(service.http_url) as agent:
            result = await agent.run("Ada")
    assert isinstance(result, Completed)
    assert result.text == "Hello, Ada!"


def test_the_executor_of_the_page_is_an_agent_in_python_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from a2a_grpc.server.agents.executor import from_executor  # noqa: PLC0415 - with an extra

    [code], [card] = (found(AGENTS, EXECUTORS, language) for language in ("python", "yaml"))
    (tmp_path / "hello_again.py").write_text(code)
    (tmp_path / "hello.yaml").write_text(card)
    monkeypatch.syspath_prepend(str(tmp_path))
    import hello_again  # type: ignore[import-not-found]  # noqa: PLC0415

    agent = from_executor(hello_again.Hello(), load_card(tmp_path / "hello.yaml"))
    assert isinstance(agent, Agent)
    assert list(agent.skills) == ["greet"]
    del sys.modules["hello_again"]
