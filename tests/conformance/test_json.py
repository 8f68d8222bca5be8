"""5.5 and 5.6: JSON as it stands on the wire. Every answer that the other tests get goes through `shape` too."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance import shape
from tests.conformance.callers import body, say, server_sent

TIMESTAMP = re.compile(r"20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d\.\d{3}Z")


def walk(value: Any) -> Iterator[tuple[str, Any]]:
    """Every member of every object in `value`."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name, item
            yield from walk(item)
    elif isinstance(value, list):
        for item in value:
            yield from walk(item)


async def test_5_5_a_task_is_written_as_the_text_shows_it(http: httpx.AsyncClient) -> None:
    """5.5, 5.6.1: camelCase names, names of enums, UTC with milliseconds, and nothing that is not there."""
    sent = body("echo hi")
    task = (await http.post("/message:send", json=sent)).json()["task"]
    stamp = task["status"].pop("timestamp")
    assert TIMESTAMP.fullmatch(stamp)
    artifact = task["artifacts"][0]
    assert task == {
        "id": task["id"],
        "contextId": task["contextId"],
        "status": {"state": "TASK_STATE_COMPLETED"},
        "artifacts": [{"artifactId": artifact["artifactId"], "name": "echo", "parts": [{"text": "hi"}]}],
        "history": [sent["message"] | {"taskId": task["id"], "contextId": task["contextId"]}],
    }


async def test_5_5_events_are_written_alike(http: httpx.AsyncClient) -> None:
    """4.3.3, 3.2.3: exactly one of task, message, statusUpdate, artifactUpdate."""
    sent = body("x", messageId="tck-stream-artifact-chunked" + say().message.message_id)
    async with http.stream("POST", "/message:stream", json=sent) as response:
        events = [json.loads(data) async for data in server_sent(response)]
    assert [list(event) for event in events] == [
        ["task"],
        ["statusUpdate"],
        ["artifactUpdate"],
        ["artifactUpdate"],
        ["statusUpdate"],
    ]
    working, first, second = (event[next(iter(event))] for event in events[1:4])
    ids = {"taskId": events[0]["task"]["id"], "contextId": events[0]["task"]["contextId"]}
    assert TIMESTAMP.fullmatch(working["status"].pop("timestamp"))
    assert working == ids | {"status": {"state": "TASK_STATE_WORKING"}}
    artifact = {"artifactId": "output", "name": "output", "parts": [{"text": "chunk-1 "}]}
    assert first == ids | {"artifact": artifact}
    assert second == ids | {
        "artifact": {"artifactId": "output", "parts": [{"text": "chunk-2"}]},
        "append": True,
        "lastChunk": True,
    }


async def test_5_5_names_in_free_form_data_are_the_callers(http: httpx.AsyncClient) -> None:
    """5.5 is about the fields of the protocol; B073: and whole numbers stay whole."""
    data = {"snake_case": 3, "TASK_STATE": [1, 2.5, True, None], "n": 9007199254740991, "deep": {"a_b": -1}}
    sent = body("echo hi", metadata=data)
    sent["message"]["parts"].append({"data": data, "mediaType": "application/json"})
    response = await http.post("/message:send", json=sent)
    task = response.json()["task"]
    assert task["history"][0]["metadata"] == data
    assert task["artifacts"][0]["parts"][1] == {"data": data, "mediaType": "application/json"}
    assert "3.0" not in response.text and "e+" not in response.text


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        ("-_-_", "+/+/"),
        ("+/+/", "+/+/"),
        ("aGVsbG8", "aGVsbG8="),
        ("aGVsbG8=", "aGVsbG8="),
        ("", ""),
    ],
)
async def test_5_6_bytes_are_standard_base64(raw: str, written: str, http: httpx.AsyncClient) -> None:
    """B071: both alphabets are read, with and without padding; one is written."""
    sent = body("echo hi")
    sent["message"]["parts"].append({"raw": raw, "mediaType": "text/plain"})
    task = (await http.post("/message:send", json=sent)).json()["task"]
    assert task["history"][0]["parts"][1] == {"raw": written, "mediaType": "text/plain"}


async def test_5_5_errors_are_written_alike(http: httpx.AsyncClient) -> None:
    """11.6, 9.5: the one on the task that is not there, as the text shows it."""
    info = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": "TASK_NOT_FOUND",
        "domain": "a2a-protocol.org",
        "metadata": {"taskId": "unknown"},
    }
    error = (await http.get("/tasks/unknown")).json()["error"]
    message = error.pop("message")
    assert message
    assert error == {"code": 404, "status": "NOT_FOUND", "details": [info]}
    envelope = {"jsonrpc": "2.0", "id": "e", "method": "GetTask", "params": {"id": "unknown"}}
    answer = (await http.post("/", json=envelope)).json()
    assert answer == {"jsonrpc": "2.0", "id": "e", "error": {"code": -32001, "message": message, "data": [info]}}


async def test_5_5_text_comes_back_as_it_was(http: httpx.AsyncClient) -> None:
    """5.5: no character is lost or changed, on the way in and out, in answers and in events."""
    text = "".join(map(chr, range(0x20))) + '\x7f\x85\u2028\u2029\ufeff\ufffe\U0001f600\U0010ffff"\\/</script>'
    sent = body("echo " + text)
    task = (await http.post("/message:send", json=sent)).json()["task"]
    assert task["artifacts"][0]["parts"] == [{"text": text}]
    sent = body("echo " + text)
    async with http.stream("POST", "/message:stream", json=sent) as response:
        events = [json.loads(data) async for data in server_sent(response)]
    assert events[1]["artifactUpdate"]["artifact"]["parts"] == [{"text": text}]


WRONG: list[tuple[Any, str]] = [
    ({"id": "t", "status": {"state": "TASK_STATE_WORKING"}, "context_id": "c"}, "camelCase"),
    ({"id": "t", "status": {"state": 2}}, "no name of TaskState"),
    ({"id": "t", "status": {"state": "WORKING"}}, "no name of TaskState"),
    ({"id": "t", "status": {"state": "TASK_STATE_WORKING", "timestamp": "2025-10-28T10:30:00Z"}}, "milliseconds"),
    ({"id": "t", "status": {"state": "TASK_STATE_WORKING", "timestamp": "2025-10-28T10:30:00.000+00:00"}}, "UTC"),
    ({"status": {"state": "TASK_STATE_WORKING"}}, "id is required"),
    ({"id": "t", "status": {}}, "status.state is required"),
    ({"id": "t", "status": {"state": "TASK_STATE_WORKING"}, "artifacts": []}, "empty array"),
    ({"id": "t", "status": {"state": "TASK_STATE_WORKING"}, "metadata": {"a": [3.0]}}, "whole number"),
    ({"id": "t", "status": {"state": "TASK_STATE_WORKING"}, "history": None}, "no array"),
    ({"id": 5, "status": {"state": "TASK_STATE_WORKING"}}, "no str"),
    ([], "no object"),
]


@pytest.mark.parametrize(("value", "found"), WRONG)
def test_the_shape_of_json_is_really_looked_at(value: Any, found: str) -> None:
    """5.5 to 5.7: what `shape` is for; without this a checker that finds nothing would go unnoticed."""
    [problem] = shape.problems(value, pb.Task.DESCRIPTOR)
    assert found in problem


def test_required_fields_are_really_looked_at() -> None:
    task = pb.Task(id="t", history=[pb.Message(message_id="m", parts=[pb.Part(text="x")])])
    task.artifacts.add(artifact_id="a")
    assert list(shape.missing(task)) == ["status", "artifacts.parts", "history.role"]
    assert list(shape.missing(pb.ListTasksResponse())) == []


async def test_5_5_walks_find_no_snake_case_in_the_card(http: httpx.AsyncClient) -> None:
    """5.5: the card is JSON of the protocol as well."""
    card = (await http.get("/.well-known/agent-card.json")).json()
    assert [name for name, _ in walk(card) if "_" in name] == []
