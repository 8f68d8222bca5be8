"""The commands against an agent of somebody else: a server of the official Python SDK, over each binding."""

import asyncio
import subprocess
import sys

import pytest

from a2a_grpc.client.interfaces import BINDINGS
from tests.client.test_sdk_server import sdk_server
from tests.support.commands import Outcome, Run, running
from tests.support.replica import ROOT


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return running(capsys)


@pytest.mark.parametrize("transport", BINDINGS)
async def test_a_day_with_another_agent(run: Run, transport: str) -> None:
    async with sdk_server() as url:

        async def command(*argv: str, code: int = 0) -> Outcome:
            done = await asyncio.to_thread(run, *argv, "-a", url, "--transport", transport, "--timeout", "20")
            assert done.code == code, done
            return done

        assert (await command("card", "get", "--validate")).fields["Name"] == ["Peer"]
        assert (await command("send", "msg hello")).fields["Text"] == ["hello"]
        sent = await command("send", "say a b c")
        assert sent.fields["State"] == ["COMPLETED"]
        assert sent.fields["Text"] == ["abc"]
        streamed = await command("send", "slow 3", "--stream")
        assert streamed.fields["State"][-1] == "COMPLETED"
        assert streamed.fields["Text"] == ["1 ", "2 ", "3 "]

        asked = await command("send", "ask")
        assert asked.fields["State"] == ["INPUT_REQUIRED"]
        assert asked.fields["Text"] == ["Who?"]
        (task_id,) = asked.fields["Task"]
        answered = await command("send", "say me", "--task-id", task_id)
        assert answered.fields["Task"] == [task_id]
        assert answered.fields["State"] == ["COMPLETED"]

        (hanging,) = (await command("send", "hang", "--async")).fields["Task"]
        assert (await command("task", "cancel", hanging)).fields["State"] == ["CANCELED"]
        assert (await command("task", "get", hanging, "--wait")).fields["State"] == ["CANCELED"]
        assert (await command("task", "subscribe", hanging)).fields["State"] == ["CANCELED"]
        assert "TaskNotFoundError" in (await command("task", "get", "nothing", code=1)).err
        assert (await command("send", "fail no luck")).fields["Text"] == ["no luck"]


async def test_a_chat_with_another_agent() -> None:
    def chat(url: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "a2a_grpc.command", "chat", url]
        said = "ask\nsay me\nslow 2\nmsg bye\n"
        return subprocess.run(command, input=said, cwd=ROOT, capture_output=True, text=True, timeout=40, check=False)

    async with sdk_server() as url:
        done = await asyncio.to_thread(chat, url)

    outcome = Outcome(done.returncode, done.stdout, done.stderr)
    assert (outcome.code, outcome.err) == (0, "")
    assert [state for state in outcome.fields["State"] if state not in ("SUBMITTED", "WORKING")] == [
        *("INPUT_REQUIRED", "COMPLETED", "COMPLETED")
    ]
    assert outcome.fields["Text"] == ["Who?", "me", "1 ", "2 ", "bye"]
    assert len(set(outcome.fields["Context"])) == 1
