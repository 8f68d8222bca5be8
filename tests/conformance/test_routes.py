"""5.3, 11.3, 11.5: the paths of HTTP+JSON as anybody would type them, with tenants, queries and bodies."""

import json
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.conformance.callers import body, http_failure, say, server_sent
from tests.conformance.expected import (
    INVALID_ARGUMENT,
    TASK_NOT_CANCELABLE,
    TASK_NOT_FOUND,
    UNAUTHENTICATED,
    UNSUPPORTED_OPERATION,
)


async def make(http: httpx.AsyncClient, text: str, prefix: str = "", **fields: Any) -> dict[str, Any]:
    """A task, made by POST."""
    response = await http.post(f"{prefix}/message:send", json=body(text, **fields))
    assert response.status_code == 200, response.text
    task: dict[str, Any] = response.json()["task"]
    return task


@pytest.mark.parametrize("prefix", ["", "/acme", "/a%2Fb", "/caf%C3%A9", "/a:b"])
async def test_5_3_every_route_with_and_without_a_tenant(prefix: str, http: httpx.AsyncClient) -> None:
    """5.3, 11.3: all of them, each with what it does; a tenant is one segment, percent-encoded."""
    task = await make(http, "ask", prefix)
    assert state_of(task) == "INPUT_REQUIRED"
    path = f"{prefix}/tasks/{task['id']}"
    assert (await http.get(path)).json() == task
    assert task["id"] in {listed["id"] for listed in (await http.get(f"{prefix}/tasks")).json()["tasks"]}
    for verb in ("GET", "POST"):
        async with http.stream(verb, f"{path}:subscribe") as response:
            assert json.loads(await anext(server_sent(response))) == {"task": task}
    async with http.stream("POST", f"{prefix}/message:stream", json=body("x", taskId=task["id"])) as response:
        last = [json.loads(data) async for data in server_sent(response)][-1]
    assert state_of(last["statusUpdate"]) == "COMPLETED"
    for verb, below, row in (
        ("POST", ":cancel", TASK_NOT_CANCELABLE),
        ("POST", ":subscribe", UNSUPPORTED_OPERATION),
    ):
        response = await http.request(verb, path + below)
        assert http_failure(response, response.json()).is_of(row), (verb, below)
    config = (await http.post(f"{path}/pushNotificationConfigs", json={"url": "http://127.0.0.1:9/"})).json()
    assert (config["url"], config["taskId"]) == ("http://127.0.0.1:9/", task["id"])
    assert (await http.get(f"{path}/pushNotificationConfigs")).json() == {"configs": [config]}
    assert (await http.get(f"{path}/pushNotificationConfigs/{config['id']}")).json() == config
    response = await http.delete(f"{path}/pushNotificationConfigs/{config['id']}")
    assert (response.status_code, response.json()) == (200, {})
    assert (await http.get(f"{path}/pushNotificationConfigs")).json() == {}
    response = await http.get(f"{prefix}/extendedAgentCard")
    assert http_failure(response, response.json()).is_of(UNAUTHENTICATED)


def state_of(task: dict[str, Any]) -> str:
    """The state in a task or update, without its prefix."""
    value: str = task["status"]["state"]
    return value.removeprefix("TASK_STATE_")


async def test_5_3_the_tenant_of_the_path_is_never_overridden(http: httpx.AsyncClient, tenant: str) -> None:
    """13.1, B091: neither by the body nor by the query; a tenant in the body counts where the path has none."""
    sent = body("ask") | {"tenant": "evil"}
    task = (await http.post(f"/{tenant}/message:send", json=sent)).json()["task"]
    for path, status in (
        (f"/{tenant}/tasks/{task['id']}", 200),
        (f"/{tenant}/tasks/{task['id']}?tenant=evil", 200),
        (f"/tasks/{task['id']}?tenant={tenant}", 200),
        (f"/evil/tasks/{task['id']}", 404),
        (f"/evil/tasks/{task['id']}?tenant={tenant}", 404),
        (f"/tasks/{task['id']}", 404),
    ):
        assert (await http.get(path)).status_code == status, path
    assert (await http.get(f"/{tenant}/tasks?tenant=evil")).json()["totalSize"] == 1
    response = await http.post(f"/evil/tasks/{task['id']}:cancel", json={"tenant": tenant})
    assert http_failure(response, response.json()).is_of(TASK_NOT_FOUND)
    canceled = await http.post(f"/{tenant}/tasks/{task['id']}:cancel", json={"tenant": "evil"})
    assert state_of(canceled.json()) == "CANCELED"


@pytest.mark.parametrize(
    "content",
    [None, b"", b"{}", b"null", b' {"metadata": {"why": "x"}} ', b'{"id": "other"}', b'{"unknownField": [1]}'],
)
@pytest.mark.parametrize("content_type", [None, "application/json", "application/a2a+json"])
async def test_11_3_2_cancel_needs_no_body(
    content_type: str | None, content: bytes | None, http: httpx.AsyncClient
) -> None:
    """B043: whatever clients send where there is nothing to say; an id in it does not count."""
    task, other = await make(http, "ask"), await make(http, "ask", messageId="other-" + say().message.message_id)
    headers = {"content-type": content_type} if content_type else {}
    response = await http.post(f"/tasks/{task['id']}:cancel", content=content, headers=headers)
    assert (response.status_code, state_of(response.json())) == (200, "CANCELED")
    assert state_of((await http.get(f"/tasks/{other['id']}")).json()) == "INPUT_REQUIRED"


async def test_11_5_query_parameters_have_effect(http: httpx.AsyncClient, tenant: str) -> None:
    """11.5: camelCase; booleans, numbers, enums by name, timestamps; the last page says so."""
    first = await make(http, "echo one", f"/{tenant}", contextId="c 1")
    second = await make(http, "ask", f"/{tenant}", contextId="c/2")
    both = [second["id"], first["id"]]
    stamp = second["status"]["timestamp"]

    async def listed(query: str) -> list[str]:
        response = await http.get(f"/{tenant}/tasks{query}")
        assert response.status_code == 200, response.text
        return [task["id"] for task in response.json()["tasks"]]

    assert await listed("") == both
    assert await listed("?contextId=c%201") == await listed("?contextId=c+1") == both[1:]
    assert await listed(f"?contextId={quote('c/2', safe='')}") == await listed("?contextId=c/2") == both[:1]
    assert await listed("?status=TASK_STATE_COMPLETED") == both[1:]
    assert await listed("?status=TASK_STATE_UNSPECIFIED") == both
    assert await listed(f"?statusTimestampAfter={stamp}") == both[:1]
    assert await listed(f"?statusTimestampAfter={stamp.replace('Z', '%2B00:00')}") == both[:1]
    page = (await http.get(f"/{tenant}/tasks?pageSize=1")).json()
    assert (page["pageSize"], page["totalSize"], len(page["tasks"])) == (1, 2, 1)
    assert await listed(f"?pageSize=1&pageToken={quote(page['nextPageToken'])}") == both[1:]
    for query, shown in (("", False), ("?includeArtifacts=false", False), ("?includeArtifacts=true", True)):
        task = (await http.get(f"/{tenant}/tasks{query}")).json()["tasks"][1]
        assert ("artifacts" in task) is shown, query
    for path in (f"/{tenant}/tasks/{first['id']}?historyLength=0", f"/{tenant}/tasks?historyLength=0&contextId=c+1"):
        answer = (await http.get(path)).json()
        assert "history" not in (answer if "id" in answer else answer["tasks"][0])


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("pageSize=many", "pageSize"),
        ("pageSize=0", "pageSize"),
        ("pageSize=", "pageSize"),
        ("pageSize=99999999999", "pageSize"),
        ("historyLength=1.5", "historyLength"),
        ("status=WORKING", "status"),
        ("status=working", "status"),
        ("includeArtifacts=yes", "includeArtifacts"),
        ("statusTimestampAfter=yesterday", "statusTimestampAfter"),
        ("statusTimestampAfter=2025-13-01T00:00:00Z", "statusTimestampAfter"),
        ("pageToken=x", "pageToken"),
        ("pageSize=1&pageSize=2", "pageSize"),
    ],
)
async def test_11_5_wrong_query_parameters_are_named(query: str, field: str, http: httpx.AsyncClient) -> None:
    response = await http.get(f"/tasks?{query}")
    failure = http_failure(response, response.json())
    assert failure.is_of(INVALID_ARGUMENT) and set(failure.violations) == {field}


async def test_5_7_unknown_query_parameters_and_fields_are_ignored(http: httpx.AsyncClient) -> None:
    """5.7: forward compatibility; B027: `blocking` of 0.3 is such a field, and the call blocks."""
    assert (await http.get("/tasks?notYetInvented=1&pageSize=1")).json()["pageSize"] == 1
    sent = body("slow 0.2") | {"configuration": {"blocking": False, "new": {}}, "notYetInvented": [1]}
    sent["message"]["alsoNew"] = {"a": 1}
    response = await http.post("/message:send", json=sent)
    assert state_of(response.json()["task"]) == "COMPLETED"


async def test_5_5_both_spellings_are_read_and_one_is_written(http: httpx.AsyncClient) -> None:
    """B069: snake_case and numbers of enums are taken, as ProtoJSON says; both spellings at once are refused."""
    sent = {
        "message": {
            "message_id": say().message.message_id,
            "context_id": "c-snake",
            "role": 1,
            "parts": [{"text": "echo hi", "media_type": "text/plain"}],
        },
        "configuration": {"return_immediately": False, "history_length": 1},
    }
    task = (await http.post("/message:send", json=sent)).json()["task"]
    assert (task["contextId"], task["history"][0]["role"]) == ("c-snake", "ROLE_USER")
    both = body("x")
    both["message"]["message_id"] = both["message"]["messageId"]
    response = await http.post("/message:send", json=both)
    assert http_failure(response, response.json()).is_of(INVALID_ARGUMENT)


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("GET", "/tasks/"),
        ("GET", "/tasks//"),
        ("GET", "/task/x"),
        ("POST", "/message"),
        ("POST", "/message:sendMore"),
        ("POST", "/message:send/"),
        ("POST", "/v1/acme/message:send"),
        ("POST", "/tasks/x/pushNotificationConfigs/y/z"),
        ("GET", "/tasks/x/y"),
        ("GET", "/rpc"),
        ("GET", "/acme/tasks/x/pushNotificationConfigs/"),
        ("PATCH", "/nothing/here/at/all"),
    ],
)
async def test_11_3_other_paths_are_not_found(verb: str, path: str, http: httpx.AsyncClient) -> None:
    """3.3.2: the error has the form of all errors; it is not that of a task."""
    response = await http.request(verb, path)
    failure = http_failure(response, response.json())
    assert (failure.http, failure.grpc, failure.reason) == (404, "NOT_FOUND", "NOT_FOUND")


@pytest.mark.parametrize(
    ("verb", "path", "allowed"),
    [
        ("GET", "/message:send", {"POST"}),
        ("PUT", "/message:send", {"POST"}),
        ("GET", "/acme/message:stream", {"POST"}),
        ("POST", "/tasks", {"GET"}),
        ("DELETE", "/tasks/x", {"GET"}),
        ("PATCH", "/acme/tasks/x", {"GET"}),
        ("POST", "/tasks/x:", {"GET"}),
        ("GET", "/tasks/x:cancel", {"POST"}),
        ("PUT", "/tasks/x:subscribe", {"GET", "POST"}),
        ("PUT", "/tasks/x/pushNotificationConfigs", {"GET", "POST"}),
        ("POST", "/tasks/x/pushNotificationConfigs/y", {"GET", "DELETE"}),
        ("POST", "/extendedAgentCard", {"GET"}),
        ("DELETE", "/", {"POST"}),
    ],
)
async def test_11_3_other_verbs_are_not_allowed(
    verb: str, path: str, allowed: set[str], http: httpx.AsyncClient
) -> None:
    """RFC 9110 section 15.5.6: and the answer says which are."""
    response = await http.request(verb, path)
    assert response.status_code == 405
    assert allowed <= {item.strip() for item in response.headers["allow"].split(",")}


async def test_11_3_an_action_is_never_part_of_an_id(http: httpx.AsyncClient) -> None:
    """B063: nor is an encoded colon or slash an action or a segment."""
    response = await http.get("/tasks/abc:subscribe")
    failure = http_failure(response, response.json())
    assert failure.is_of(TASK_NOT_FOUND) and failure.metadata["taskId"] == "abc"
    for task_id in ("abc:subscribe", "a/b", "..", "tasks", "a?b#c", "%41"):
        response = await http.get(f"/tasks/{quote(task_id, safe='').replace('.', '%2E')}")
        failure = http_failure(response, response.json())
        assert failure.is_of(TASK_NOT_FOUND) and failure.metadata["taskId"] == task_id
    for path in ("/tasks/%", "/tasks/%zz", "/tasks/%FF"):
        response = await http.get(path)
        assert response.status_code in (400, 404), path
        assert http_failure(response, response.json()).is_of(INVALID_ARGUMENT), path


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content-type": "application/a2a+json"}, "application/a2a+json"),
        ({"content-type": "application/json"}, "application/json"),
        ({"content-type": "application/json; charset=utf-8"}, "application/json"),
        ({"content-type": "Application/JSON"}, "application/json"),
    ],
)
async def test_11_1_the_answer_has_the_media_type_of_the_request(
    headers: dict[str, str], expected: str, http: httpx.AsyncClient
) -> None:
    """11.1, 14.1, DESIGN 7: application/a2a+json, or application/json where the caller said that; errors too."""
    content = json.dumps(body("echo hi"))
    for path, sent in (("/message:send", content), ("/message:send", "{}")):
        response = await http.post(path, content=sent, headers=headers)
        assert response.headers["content-type"].partition(";")[0] == expected
    assert (await http.get("/tasks/unknown")).headers["content-type"] == "application/a2a+json"
