"""The official clients for Go and Java, unchanged, against this service.

Each is a program beside this module that plays scenarios and prints what came back; the judgement is here. A release
that departs from the specification has a row below that says how; the row fails once a better one takes its place.

Go: github.com/a2aproject/a2a-go/v2 v2.0.0, the first release for protocol 1.0.
Java: io.github.a2asdk 1.0.0.Alpha3, made from a draft of 1.0. The final releases, org.a2aproject.sdk, were asked for in
the versions 1.0.0.Final, 1.2.0.Final and 1.3.2.Final, and the registry had none of them.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.docs.documents import ROOT
from tests.polyglot.toolchain import BUILD_TIMEOUT, build, need, run
from tests.support.replica import Replica

HERE = Path(__file__).parent
BUILD = ROOT / "build" / "polyglot"
RUN_TIMEOUT = 120
"""Seconds for all scenarios of a process."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(BUILD_TIMEOUT + RUN_TIMEOUT)]

Outcomes = dict[str, list[str]]

NOT_FOUND, NOT_CANCELABLE = "TaskNotFoundError", "TaskNotCancelableError"
UNSUPPORTED, INVALID = "UnsupportedOperationError", "InvalidParamsError"

RIGHT: Final[Outcomes] = {
    "send": ["task TASK_STATE_COMPLETED", "artifact Generated text content"],
    "message": ["message Direct message response"],
    "stream": [
        "task TASK_STATE_SUBMITTED",
        "status TASK_STATE_WORKING",
        "artifact chunk-1 ",
        "artifact chunk-2",
        "status TASK_STATE_COMPLETED",
    ],
    "conversation": [
        "task TASK_STATE_INPUT_REQUIRED",
        "task TASK_STATE_COMPLETED",
        "user ask",
        "user the answer",
    ],
    "cancel": ["task TASK_STATE_CANCELED", NOT_CANCELABLE],
    "subscribe": ["same task true", "status TASK_STATE_COMPLETED"],
    # Newest first, in pages of two (3.1.4).
    "list": ["total 3", "task 3", "task 2", "task 1"],
    # GetTask, CancelTask, SubscribeToTask, SendMessage.
    "unknown": [NOT_FOUND, NOT_FOUND, NOT_FOUND, NOT_FOUND],
    "ended": [UNSUPPORTED],
    "invalid": [INVALID],
}

# What the Java client has no way to say.
RIGHT_OF_GO: Final[Outcomes] = {
    **RIGHT,
    "push": ["made https://example.com/hook", "got secret", "left 0"],
    "empty": [INVALID],
}

GO_DEPARTS: Final[dict[str, Outcomes]] = {
    # It looks for UNIMPLEMENTED; 5.4 has FAILED_PRECONDITION.
    "GRPC": {"ended": ["unknown"]},
    # It knows no reason INVALID_PARAMS, and nests the config inside another object, where the proto has it flat.
    "HTTP+JSON": {"invalid": ["unknown"], "empty": ["unknown"], "push": ["threw"]},
    # It takes `data` of an error for an object, where 9.5 has an array, so that every error is one of decoding; and it
    # reads an error that comes in place of a stream as a stream without events.
    "JSONRPC": {
        "cancel": ["task TASK_STATE_CANCELED", "unknown"],
        "unknown": ["unknown", "unknown", "unknown", "unknown"],
        "ended": ["unknown"],
        "invalid": ["unknown"],
        "empty": ["unknown"],
        "push": ["threw"],
    },
}

JAVA_DEPARTS: Final[dict[str, Outcomes]] = {
    # It reads the error object of the draft.
    "HTTP+JSON": {
        "cancel": ["task TASK_STATE_CANCELED", "unknown"],
        "unknown": ["unknown", "unknown", "unknown", "unknown"],
        "ended": ["unknown"],
        "invalid": ["unknown"],
    },
    # It never tells of an error that comes in place of a stream, and refuses a page that is not full.
    "JSONRPC": {
        "list": ["threw"],
        "unknown": [NOT_FOUND, NOT_FOUND, "unknown", NOT_FOUND],
    },
}


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    replica = Replica(agent="tests.conformance.agent:full", redis_url=None, env={})
    try:
        replica.start()
        yield replica.http_url
    finally:
        replica.close()


@pytest.fixture(scope="module")
def go_client() -> list[str]:
    need("go")
    build(f"go build -o {BUILD}/sdk-go .", HERE / "sdk_go")
    return [f"{BUILD}/sdk-go"]


@pytest.fixture(scope="module")
def java_client() -> list[str]:
    need("java", "javac", "mvn")
    build(f"mvn -q -B -Dbuild={BUILD}/sdk-java package", HERE / "sdk_java")
    return ["java", "-jar", f"{BUILD}/sdk-java/sdk.jar"]


def play(client: list[str], service: str, binding: str) -> Outcomes:
    """What a client says about each scenario. Of an error that it cannot name, only that it was one."""
    done = run([*client, service, binding], HERE, limit=RUN_TIMEOUT)
    assert done.returncode == 0, done.stderr
    print(done.stdout)  # pytest shows it with a failure, the texts of errors included
    outcomes: Outcomes = json.loads(done.stdout)
    return {
        name: [line.partition(":")[0] if line.startswith(("unknown:", "threw:")) else line for line in lines]
        for name, lines in outcomes.items()
    }


@pytest.mark.parametrize("binding", ["GRPC", "HTTP+JSON", "JSONRPC"])
def test_the_go_client(go_client: list[str], service: str, binding: str) -> None:
    assert play(go_client, service, binding) == {**RIGHT_OF_GO, **GO_DEPARTS[binding]}


@pytest.mark.parametrize("binding", ["HTTP+JSON", "JSONRPC"])
def test_the_java_client(java_client: list[str], service: str, binding: str) -> None:
    assert play(java_client, service, binding) == {**RIGHT, **JAVA_DEPARTS[binding]}


def test_the_java_client_of_the_draft_calls_another_grpc_service(java_client: list[str], service: str) -> None:
    """Its stubs say a2a.v1.A2AService; 1.0 has lf.a2a.v1.A2AService, so that no call reaches a method."""
    outcomes = play(java_client, service, "GRPC")

    assert {name: lines for name, lines in outcomes.items() if lines[0] not in ("threw", UNSUPPORTED)} == {}
