"""`a2a-grpc serve MODULE:ATTR`: what an author gets wrong is said in a sentence that names the place."""

from pathlib import Path

import pytest

from a2a_grpc.server.agents.loading import load_agent

HEAD = 'from a2a_grpc.server.agents import Agent\nagent = Agent(name="A", description="d", version="1")\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own, whose modules are found and forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def refusal(reference: str) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is what the test looks at
        load_agent(reference)
    return str(caught.value)


def test_an_agent_of_the_working_directory(folder: Path) -> None:
    (folder / "good_one.py").write_text(
        HEAD + '@agent.skill(id="a", name="A", description="d", tags=["t"])\nasync def a(turn): ...\n'
    )

    assert load_agent("good_one:agent").card.name == "A"


@pytest.mark.parametrize(
    ("name", "code", "line", "text"),
    [
        ("no_async", '@agent.skill(id="a", name="A", description="d", tags=["t"])\ndef a(turn): ...\n', 3, "async def"),
        ("no_name", '@agent.skill(id="a")\nasync def a(turn): ...\n', 3, "give it a name, a description and at least"),
        ("no_answers", 'Agent(name="A", description="d", version="1", answers="never")\n', 3, "'task', 'message'"),
        ("no_file", 'Agent.from_card("nowhere.yaml")\n', 3, "nowhere.yaml: cannot be read"),
    ],
)
def test_what_the_agent_refuses_is_said_with_its_line(folder: Path, name: str, code: str, line: int, text: str) -> None:
    (folder / f"{name}.py").write_text(HEAD + code)

    said = refusal(f"{name}:agent")

    assert said.startswith(f"{folder / name}.py, line {line}: ")
    assert text in said


def test_what_the_module_itself_raises_keeps_its_traceback(folder: Path) -> None:
    (folder / "raises.py").write_text('int("nine")\n')

    with pytest.raises(RuntimeError, match="'raises:agent': the module failed") as caught:
        load_agent("raises:agent")

    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("some_agent", "name the agent as MODULE:ATTR"),
        ("no_such_module:agent", "there is no module 'no_such_module' here or on the Python path"),
        ("json:agent", "'agent' is nothing, not an Agent"),
        ("json:dumps", "'dumps' is a function, not an Agent"),
    ],
)
def test_what_is_no_agent(folder: Path, reference: str, text: str) -> None:
    assert text in refusal(reference)


def test_an_agent_that_does_nothing(folder: Path) -> None:
    (folder / "idle.py").write_text(HEAD)

    assert "has no skill" in refusal("idle:agent")


def test_a_card_that_promises_what_no_function_does(folder: Path) -> None:
    (folder / "promises.py").write_text(
        HEAD
        + 'agent.card.skills.add(id="b")\n'
        + '@agent.skill(id="a", name="A", description="d", tags=["t"])\nasync def a(turn): ...\n'
    )

    assert "the card describes b, but no function does it" in refusal("promises:agent")
