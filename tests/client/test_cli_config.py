"""Where settings come from (a2a-cli specification 0.2, 6.5, 7.2 and 8.3)."""

import json
from pathlib import Path

import pytest

from a2a_grpc.client.cli.options import OPTIONS
from tests.support.commands import Run, running

GLOBAL = Path(".config/a2a-cli/.env")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return running(capsys)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the user, and in it the folder in which the commands run."""
    found = tmp_path / "home"
    (found / "work" / "deep").mkdir(parents=True)
    (found / GLOBAL).parent.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(found))
    monkeypatch.chdir(found / "work" / "deep")
    return found


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a2acli_config_002_the_order_of_sources(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def effective(*argv: str) -> tuple[str, str]:
        done = run("config", "show", *argv, "-o", "json")
        assert (done.code, done.err) == (0, "")
        found = json.loads(done.out)["timeout"]
        return found["value"], found["source"]

    assert effective() == ("never", "built in")
    write(home / GLOBAL, "A2ACLI_TIMEOUT=1\nA2ACLI_POLL_INTERVAL=7s\n")
    assert effective() == ("1", str(home / GLOBAL))
    local = write(home / "work" / ".env", "# mine\nOTHER=x\nexport A2ACLI_TIMEOUT='2'\n")
    assert effective() == ("2", str(local))
    named = write(home / "other", 'A2ACLI_TIMEOUT="3"\n')
    assert effective("--config", str(named)) == ("3", str(named))
    monkeypatch.setenv("A2ACLI_TIMEOUT", "4")
    assert effective("--config", str(named)) == ("4", "environment")
    assert effective("--config", str(named), "--timeout", "5s") == ("5.0", "flag")

    shown = run("config", "show").fields
    assert shown["timeout"] == ["4 (environment)"]
    assert shown["poll-interval"] == [f"7s ({home / GLOBAL})"]


def test_a2acli_config_002_an_agent_has_a_file_of_its_own(run: Run, home: Path) -> None:
    write(home / "work" / ".env", "A2ACLI_AGENT_CARD=http://127.0.0.1:1\n")
    write(home / "other.env", "A2ACLI_AGENT_CARD=http://127.0.0.1:2\n")
    assert "127.0.0.1:1/" in run("card", "get").err
    assert "127.0.0.1:2/" in run("card", "get", "--config", str(home / "other.env")).err


def test_a2acli_config_001_secrets_are_hidden_and_files_watched(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / GLOBAL, "A2ACLI_BEARER=tell-nobody\nA2ACLI_SVC_PARAM=x-key:tell-nobody\n")
    monkeypatch.setenv("A2ACLI_API_KEY", "tell-nobody")
    done = run("config", "show", "--registry-bearer", "tell-nobody")
    assert (done.code, done.err) == (0, "")
    assert "tell-nobody" not in done.out
    for line in (
        f"bearer: (hidden) ({home / GLOBAL})",
        f"svc-param: (hidden) ({home / GLOBAL})",
        "api-key: (hidden) (environment)",
        "registry-bearer: (hidden) (flag)",
    ):
        assert line in done.lines

    (home / GLOBAL).chmod(0o644)
    assert "others may read it: chmod 600 it" in run("config", "show").err


def test_a2acli_config_001_nothing_is_written(run: Run, home: Path) -> None:
    before = sorted(home.rglob("*"))
    run("config", "show")
    run("card", "get", "-a", "http://127.0.0.1:1")
    run("send", "-a", "http://127.0.0.1:1", "hello")
    assert sorted(home.rglob("*")) == before


def test_a_file_that_others_may_write_sends_credentials_nowhere(run: Run, home: Path) -> None:
    local = write(home / "work" / ".env", "A2ACLI_AGENT_CARD=http://evil.example\n", 0o666)
    done = run("config", "show")
    assert f"{local} belongs to somebody else, or others may write it: it is not used" in done.err
    assert "agent-card: none (built in)" in done.lines
    assert "agent-card: http://evil.example" in run("config", "show", "--config", str(local)).out


def test_settings_without_a_meaning_are_told(run: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A2ACLI_TIMEOUTS", "5")
    assert "a2a-grpc: A2ACLI_TIMEOUTS is no setting" in run("config", "show").err
    monkeypatch.setenv("A2ACLI_TRANSPORT", "GRPC, pigeon")
    done = run("task", "get", "-a", "http://127.0.0.1:1", "x")
    assert done.code == 2
    assert "A2ACLI_TRANSPORT (environment): 'pigeon' is none of GRPC, HTTP+JSON, JSONRPC." in done.err
    monkeypatch.setenv("A2ACLI_TRANSPORT", "GRPC, jsonrpc")
    assert run("task", "get", "-a", "http://127.0.0.1:1", "x").code == 3


def test_a2acli_out_004_a_configured_form_of_output_is_that_of_errors_too(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def form(*argv: str) -> str:
        done = run("task", "get", *argv)
        assert done.code == 2
        assert (done.out == "") != (done.err == "")
        return "json" if done.out else "text"

    assert form() == "text"
    write(home / GLOBAL, "A2ACLI_OUTPUT=json\n")
    assert form() == form("-a", "x", "t", "--bogus") == "json"
    assert form("-o", "text") == "text"
    monkeypatch.setenv("A2ACLI_OUTPUT", "text")
    assert form() == "text"
    assert form("--output=json") == "json"


def test_every_option_but_the_stream_may_be_set_from_outside() -> None:
    assert {name for name, option in OPTIONS.items() if not option.configurable} == {"stream"}
