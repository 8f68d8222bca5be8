"""What `--executor` and `--card` take, and what is said of what they don't."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from a2a.server.agent_execution import AgentExecutor

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Answers
from a2a_grpc.server.agents.executor import from_executor, load_executor
from tests.agents.executors import Dispatch, HelloWorld, agent_card

HERE = "tests.agents.executors"
ITSELF = "tests.agents.test_executor_loading"

made = HelloWorld()
no_executor = 3
not_a_card = "card"


class Wanting(HelloWorld):
    """Cannot be made without an argument."""

    def __init__(self, model: str) -> None:
        self.model = model


def factory() -> AgentExecutor:
    return Wanting("small")


@pytest.mark.parametrize("reference", [f"{HERE}:HelloWorld", f"{ITSELF}:made", f"{ITSELF}:factory"])
def test_a_class_an_object_and_a_function_are_executors(reference: str) -> None:
    agent = load_executor(reference, f"{HERE}:agent_card")
    assert agent.card.name == "Executors"
    assert list(agent.skills) == ["all"]


def test_an_executor_may_have_its_card_itself() -> None:
    assert load_executor(f"{HERE}:Dispatch", None).card.name == "Executors"


def test_a_card_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "card.json"
    file.write_text('{"name": "Filed", "skills": [{"id": "a", "name": "A", "description": "A.", "tags": ["x"]}]}')
    assert load_executor(f"{HERE}:HelloWorld", str(file)).card.name == "Filed"


@pytest.mark.parametrize(
    ("reference", "card", "problem"),
    [
        ("executors", None, "name the executor as MODULE:ATTR, such as my_agent:MyExecutor"),
        (f"{HERE}:Nobody", None, "'Nobody' is nothing, not an AgentExecutor of a2a-sdk"),
        (f"{ITSELF}:no_executor", None, "'no_executor' is a int, not an AgentExecutor of a2a-sdk"),
        (f"{ITSELF}:Wanting", None, "cannot be made without arguments"),
        (f"{HERE}:HelloWorld", None, "has no agent_card; name the card with --card"),
        (f"{HERE}:HelloWorld", f"{ITSELF}:not_a_card", "is no AgentCard; name the card with --card"),
        (f"{HERE}:HelloWorld", "nowhere.yaml", "nowhere.yaml: cannot be read"),
        (f"{HERE}:HelloWorld", "card", "name the card as MODULE:ATTR, such as card.yaml"),
    ],
)
def test_what_is_no_executor_or_no_card_is_said_in_a_sentence(reference: str, card: str | None, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        load_executor(reference, card)


def test_a_card_without_a_skill_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one skill"):
        from_executor(made, a2a_pb2.AgentCard(name="A"))


def test_what_may_run_once_only_always_has_a_task() -> None:
    card = a2a_pb2.AgentCard()
    card.ParseFromString(agent_card.SerializeToString())
    once = from_executor(Dispatch(), card, attempts=1).skills["all"]
    assert (once.attempts, once.answers) == (1, Answers.TASK)
    usual = from_executor(Dispatch(), card).skills["all"]
    assert (usual.attempts, usual.answers) == (None, Answers.MIXED)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["my_agent:agent", "--executor", "a:B"], "name an agent or an --executor, not both"),
        (["--card", "card.yaml"], "--card goes with --executor"),
    ],
)
def test_the_command_says_what_does_not_go_together(arguments: list[str], problem: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "a2a_grpc.server", "serve", *arguments], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert problem in ended.stderr


@pytest.mark.wide
def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    """The package is hidden from the process, as if it were not installed."""
    hiding = (
        "import sys; sys.modules['a2a'] = None; from a2a_grpc.server.main import serve; sys.exit(serve(sys.argv[1:]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", hiding, "--executor", "my_agent:MyExecutor"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == "a2a-grpc: --executor needs a2a-sdk: pip install 'a2a-grpc[executor]'"
