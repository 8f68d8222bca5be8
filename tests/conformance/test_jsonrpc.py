"""Section 9, the JSON-RPC binding itself."""

import json
from typing import Any

import httpx
import pytest

from tests.conformance.callers import body, server_sent


def envelope(method: str, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, **members}


IDS: list[Any] = [1, 0, -5, 2**53, 1.5, "", "a", "é\u2028", None]


@pytest.mark.parametrize("identifier", IDS)
async def test_9_3_the_id_comes_back_as_it_was(identifier: Any, http: httpx.AsyncClient) -> None:
    """9.1, JSON-RPC 2.0 section 5: same type and value, in results and errors, and in each event of a stream."""
    for method, content in (("ListTasks", {"pageSize": 1}), ("GetTask", {"id": "unknown"}), ("Nothing", {})):
        answer = (await http.post("/", json=envelope(method, id=identifier, params=content))).json()
        assert answer["id"] == identifier and type(answer["id"]) is type(identifier)
        assert answer["jsonrpc"] == "2.0"
        assert ("result" in answer) is (method == "ListTasks")
        assert ("error" in answer) is not (method == "ListTasks")
    sent = envelope("SendStreamingMessage", id=identifier, params=body("echo hi"))
    async with http.stream("POST", "/", json=sent) as response:
        events = [json.loads(data) async for data in server_sent(response)]
    assert len(events) == 3
    for event in events:
        assert (event["jsonrpc"], event["id"], set(event)) == ("2.0", identifier, {"jsonrpc", "id", "result"})
        assert type(event["id"]) is type(identifier)


async def test_9_1_answers_are_application_json(http: httpx.AsyncClient) -> None:
    """9.1: with status 200 where it was a JSON-RPC request, errors too."""
    for content_type in ("application/json", "application/json; charset=utf-8", "application/a2a+json"):
        for method in ("ListTasks", "Nothing"):
            content = json.dumps(envelope(method, id=1))
            response = await http.post("/", content=content, headers={"content-type": content_type})
            assert (response.status_code, response.headers["content-type"]) == (200, "application/json")


async def test_9_4_2_a_stream_is_an_event_stream(http: httpx.AsyncClient) -> None:
    """9.4.2, B023: that no proxy buffers; an error before the first event is no stream (3.1.6)."""
    sent = envelope("SendStreamingMessage", id=1, params=body("echo hi"))
    async with http.stream("POST", "/", json=sent, headers={"accept-encoding": "gzip"}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert "no-cache" in response.headers["cache-control"]
        assert response.headers["x-accel-buffering"] == "no"
        assert not {"content-encoding", "content-length"} & set(response.headers)
    response = await http.post("/", json=envelope("SubscribeToTask", id=1, params={"id": "unknown"}))
    assert response.headers["content-type"] == "application/json"
    assert response.json()["error"]["code"] == -32001


@pytest.mark.parametrize("extra", [{}, {"params": None}, {"params": {}}])
async def test_9_4_8_params_may_be_absent(extra: dict[str, Any], http: httpx.AsyncClient) -> None:
    """9.4.8 shows a request without params."""
    answer = (await http.post("/", json=envelope("ListTasks", id=1, **extra))).json()
    assert answer["result"]["pageSize"] == 50
    answer = (await http.post("/", json=envelope("GetExtendedAgentCard", id=1, **extra))).json()
    assert answer["error"]["code"] == -32010


async def test_9_3_a_request_without_an_id_is_carried_out_and_not_answered(
    http: httpx.AsyncClient, tenant: str
) -> None:
    """JSON-RPC 2.0 section 4.1: a notification; nothing is said about errors either."""
    for method, content in (
        ("SendMessage", body("echo hi") | {"tenant": tenant}),
        ("SendMessage", {}),
        ("Nothing", {}),
        ("GetTask", {"id": "unknown"}),
    ):
        response = await http.post("/", json=envelope(method, params=content))
        assert (response.status_code, response.content) == (204, b""), method
    listed = await http.post("/", json=envelope("ListTasks", id=1, params={"tenant": tenant}))
    assert listed.json()["result"]["totalSize"] == 1


async def test_9_3_batches_are_refused(http: httpx.AsyncClient) -> None:
    """9.3 has single requests only: one error, and nothing is carried out."""
    answer = (await http.post("/", json=[envelope("ListTasks", id=1), envelope("ListTasks", id=2)])).json()
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)


async def test_5_7_unknown_members_are_ignored(http: httpx.AsyncClient) -> None:
    answer = (await http.post("/", json=envelope("ListTasks", id=1, extra=1, params={"new": 1}))).json()
    assert "result" in answer


async def test_5_5_params_may_be_spelled_as_in_the_proto(http: httpx.AsyncClient) -> None:
    """B069: ProtoJSON reads both."""
    task = (await http.post("/", json=envelope("SendMessage", id=1, params=body("ask")))).json()["result"]["task"]
    content = {"id": task["id"], "history_length": 0}
    assert "history" not in (await http.post("/", json=envelope("GetTask", id=1, params=content))).json()["result"]
    content = {"context_id": task["contextId"], "page_size": 5, "include_artifacts": True}
    page = (await http.post("/", json=envelope("ListTasks", id=1, params=content))).json()["result"]
    assert (page["pageSize"], page["totalSize"]) == (5, 1)


@pytest.mark.parametrize(
    ("verb", "headers", "status"),
    [
        ("GET", {}, 405),
        ("PUT", {}, 405),
        ("DELETE", {}, 405),
        ("POST", {"content-type": "text/plain"}, 415),
        ("POST", {"content-type": "application/x-www-form-urlencoded"}, 415),
        ("POST", {"content-type": "application/json", "content-encoding": "gzip"}, 415),
    ],
)
async def test_9_1_what_is_no_json_rpc_has_the_status_of_http(
    verb: str, headers: dict[str, str], status: int, http: httpx.AsyncClient
) -> None:
    """RFC 9110: the body says why, in the form of 9.5."""
    response = await http.request(verb, "/", content=json.dumps(envelope("ListTasks", id=1)), headers=headers)
    assert response.status_code == status
    assert response.json()["error"]["message"]
