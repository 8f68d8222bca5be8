"""B091, B093, B095, B097, B099: whose data it is, where the service is, and what the card promises."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import httpx
import pytest

from a2a_grpc.client import A2AClient
from a2a_grpc.pb import a2a_pb2 as pb
from tests.cases.conftest import AGENT, ENV
from tests.cases.reading import chunks
from tests.conformance.callers import (
    BINDINGS,
    KEYS,
    VERSION,
    Caller,
    CallError,
    Connect,
    http_failure,
    kinds,
    refused,
    say,
    state,
)
from tests.conformance.expected import (
    EXTENDED_AGENT_CARD_NOT_CONFIGURED,
    PUSH_NOTIFICATION_NOT_SUPPORTED,
    TASK_NOT_FOUND,
    UNAUTHENTICATED,
    UNSUPPORTED_OPERATION,
)
from tests.support.http_bindings import connected
from tests.support.replica import Pair, Replica

CARD = "/.well-known/agent-card.json"
OLD_CARD = "/.well-known/agent.json"
PUBLIC = [ENV["A2A_PUBLIC_GRPC_ADDR"], ENV["A2A_PUBLIC_HTTP_URL"], ENV["A2A_PUBLIC_HTTP_URL"] + "/"]


@pytest.fixture
async def https(pair: Pair) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """A plain HTTP client of each replica that sends the version."""
    one, other = (
        httpx.AsyncClient(base_url=replica.http_url, headers=VERSION, trust_env=False) for replica in pair.replicas
    )
    async with one, other:
        yield one, other


def addresses(card: dict[str, Any]) -> list[str]:
    """Where a card says the service is."""
    return [entry["url"] for entry in card["supportedInterfaces"]]


def started(agent: str, **env: str) -> Iterator[Replica]:
    """A ready replica with a store of its own, for a fixture."""
    replica = Replica(agent=agent, redis_url=None, env=env)
    try:
        replica.start()
        yield replica
    finally:
        replica.close()


@pytest.fixture(scope="module")
def without_capabilities() -> Iterator[Replica]:
    """Streaming, push notifications and the extended card are off."""
    yield from started("tests.conformance.agent:min")


@pytest.fixture(scope="module")
def declaring() -> Iterator[Replica]:
    """An extended card is declared, and there is none."""
    yield from started("tests.conformance.agent:extdecl")


@pytest.fixture(scope="module")
def guarded() -> Iterator[Replica]:
    """A service with an extended card that knows its callers."""
    digests = {name: hashlib.sha256(key.encode()).hexdigest() for name, key in KEYS.items()}
    known = ",".join(f"{name}:{digest}" for name, digest in digests.items())
    yield from started("tests.conformance.agent:full", A2A_API_KEYS=known, **ENV)


# -- B091 --------------------------------------------------------------------------------------------------------------


async def test_b091_the_tenant_of_the_path_is_the_tenant(
    https: tuple[httpx.AsyncClient, httpx.AsyncClient], connect: Connect, pair: Pair, tenant: str
) -> None:
    """Neither a body nor a query moves a request into another tenant; each operation, with its verbs."""
    one, other = https
    mine = await connect(pair.replicas[1], tenant=tenant)
    evil = await connect(pair.replicas[1], tenant=f"{tenant}-evil")
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "ask"}]}
    answer = await one.post(f"/{tenant}/message:send", json={"tenant": evil.tenant, "message": message})
    if answer.status_code == httpx.codes.OK:
        task_id = answer.json()["task"]["id"]
    else:
        assert answer.status_code == httpx.codes.BAD_REQUEST
        task_id = (await mine.task("ask")).id
    assert [task.id for task in (await mine.page()).tasks] == [task_id]
    assert (await evil.page()).total_size == 0

    ours, theirs = f"/{tenant}/tasks", f"/{evil.tenant}/tasks"
    for path, query, found in (
        (ours, f"?tenant={evil.tenant}", True),
        (theirs, f"?tenant={tenant}", False),
    ):
        assert [task["id"] for task in (await other.get(path + query)).json()["tasks"]] == [task_id] * found
        got = await other.get(f"{path}/{task_id}{query}")
        assert got.status_code == (httpx.codes.OK if found else httpx.codes.NOT_FOUND)
    for path in (f"{theirs}/{task_id}:cancel", f"{theirs}/{task_id}:subscribe"):
        answer = await other.post(path, json={"tenant": tenant})
        assert http_failure(answer, answer.json()).is_of(TASK_NOT_FOUND)
    answer = await other.post(
        f"/{evil.tenant}/message:stream", json={"tenant": tenant, "message": {**message, "taskId": task_id}}
    )
    assert http_failure(answer, answer.json()).is_of(TASK_NOT_FOUND)
    assert state((await mine.get(task_id)).status.state) == "INPUT_REQUIRED"


@pytest.mark.parametrize("over", BINDINGS)
async def test_b091_a_task_of_another_tenant_is_no_task(over: str, pair: Pair, connect: Connect, tenant: str) -> None:
    """On each operation that takes a task, on both replicas; also where the names are easily confused."""
    one, other = [await connect(replica, over=over, tenant=tenant) for replica in pair.replicas]
    task = await one.task("ask")
    strangers = ["", f"{tenant} ", tenant.upper(), tenant[:-1], f"{tenant}/x", f"{tenant}:1", "../" + tenant]
    for stranger in strangers:
        them = await connect(pair.replicas[1], over=over, tenant=stranger)
        for call in (
            them.get(task.id),
            them.cancel(task.id),
            them.call("SubscribeToTask", pb.SubscribeToTaskRequest(id=task.id)),
            them.send(say("echo x", task_id=task.id)),
        ):
            await refused(TASK_NOT_FOUND, call)
        assert task.id not in {found.id for found in (await them.page(context_id=task.context_id)).tasks}
    assert await other.get(task.id) == task


async def test_b091_cards_fetched_side_by_side_are_all_the_same(
    https: tuple[httpx.AsyncClient, httpx.AsyncClient],
) -> None:
    """100 at once, each with a prefix of its own: nothing of one request gets into the answer of another."""
    headers = [{"x-forwarded-prefix": f"/p{number}", "x-forwarded-host": f"h{number}.example"} for number in range(100)]
    answers = await asyncio.gather(*(https[at % 2].get(CARD, headers=header) for at, header in enumerate(headers)))
    assert {answer.content for answer in answers} == {answers[0].content}
    assert addresses(answers[0].json()) == PUBLIC


# -- B093 --------------------------------------------------------------------------------------------------------------

SPOOFED = [
    {"host": "evil.example"},
    {"host": "evil.example:1", "x-forwarded-proto": "gopher", "x-forwarded-host": "evil.example"},
    {"forwarded": "for=1.2.3.4;host=evil.example;proto=https"},
    {"x-forwarded-for": "127.0.0.1", "x-forwarded-port": "1", "x-forwarded-server": "evil.example"},
    {"x-original-url": "/evil", "x-rewrite-url": "/evil", "origin": "https://evil.example"},
]


@pytest.mark.parametrize("headers", SPOOFED)
async def test_b093_addresses_come_from_the_settings(
    headers: dict[str, str], https: tuple[httpx.AsyncClient, httpx.AsyncClient], guarded: Replica
) -> None:
    """In the card, in its old place, and in the extended card; a request decides nothing that others get to see."""
    for path in (CARD, OLD_CARD):
        answer = await https[0].get(path, headers=headers)
        assert addresses(answer.json()) == PUBLIC
        assert "evil" not in answer.text + str(answer.headers)
    async with httpx.AsyncClient(base_url=guarded.http_url, headers=VERSION, trust_env=False) as http:
        answer = await http.get("/extendedAgentCard", headers={**headers, "x-api-key": KEYS["alice"]})
        assert addresses(answer.json()) == PUBLIC
        assert "evil" not in answer.text


async def test_b093_neither_a_whole_url_nor_a_missing_host_matters(pair: Pair) -> None:
    port = int(pair.replicas[0].http_url.rpartition(":")[2])
    for request in (
        f"GET http://evil.example{CARD} HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        f"GET {CARD} HTTP/1.0\r\n\r\n",
    ):
        async with connected(port) as raw:
            await raw.send(request.encode())
            status, _, body = await raw.response()
            assert status in {200, 400, 404}
            assert b"evil" not in body
            if status == httpx.codes.OK:
                assert addresses(json.loads(body)) == PUBLIC


async def test_b093_a_service_that_does_not_know_its_address_says_so() -> None:
    """It warns at the start what to set, and the card names no address that only the server can bind to."""
    replica = Replica(agent=AGENT, redis_url=None, env={})
    ports = [address.rpartition(":")[2] for address in (replica.grpc_addr, replica.http_url)]
    replica.env |= {"A2A_GRPC_ADDR": f"0.0.0.0:{ports[0]}", "A2A_HTTP_ADDR": f"[::]:{ports[1]}"}
    try:
        await asyncio.to_thread(replica.start)
        async with httpx.AsyncClient(trust_env=False) as http:
            card = (await http.get(replica.http_url + CARD, headers={"host": "evil.example"})).json()
        said = replica.log()
    finally:
        await asyncio.to_thread(replica.close)
    assert addresses(card) == [
        f"localhost:{ports[0]}",
        f"http://localhost:{ports[1]}",
        f"http://localhost:{ports[1]}/",
    ]
    for name in ("A2A_PUBLIC_GRPC_ADDR", "A2A_PUBLIC_HTTP_URL"):
        assert f"WARNING a2a_grpc.server: {name} is not set" in said


# -- B095 --------------------------------------------------------------------------------------------------------------


async def test_b095_a_card_is_cached_and_asked_for_again_by_its_tag(
    https: tuple[httpx.AsyncClient, httpx.AsyncClient],
) -> None:
    """The tag is that of the content, so every replica knows it, whoever gave it out."""
    one, other = https
    for path in (CARD, OLD_CARD):
        known = await one.get(path)
        tag = known.headers["etag"]
        assert "max-age=" in known.headers["cache-control"] and known.headers["last-modified"]
        assert (await other.get(path)).headers["etag"] == tag
        for asked in (tag, f"W/{tag}", f'"a", {tag}', f'"a","b" ,W/{tag}', "*"):
            for verb in ("GET", "HEAD"):
                answer = await other.request(verb, path, headers={"if-none-match": asked})
                assert (answer.status_code, answer.content) == (304, b""), asked
                assert answer.headers["etag"] == tag and "max-age=" in answer.headers["cache-control"]
        for asked in ('"a"', '"a", "b"', tag.strip('"'), f'"{tag}"', ""):
            assert (await other.get(path, headers={"if-none-match": asked})).status_code == httpx.codes.OK, asked
        head = await other.head(path)
        assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)
        assert head.headers["content-length"] == str(len(known.content))
        preflight = {"origin": "https://page.example", "access-control-request-method": "GET"}
        assert (await other.options(path, headers=preflight)).is_success


# -- B097 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", BINDINGS)
async def test_b097_the_extended_card_has_three_outcomes(
    over: str, connect: Connect, pair: Pair, without_capabilities: Replica, declaring: Replica, guarded: Replica
) -> None:
    """Not declared, declared and absent, there; and then it needs a key, also where the service knows none."""
    method = "GetExtendedAgentCard"
    for replica, key, row in (
        (without_capabilities, "", UNSUPPORTED_OPERATION),
        (without_capabilities, KEYS["alice"], UNSUPPORTED_OPERATION),
        (declaring, "", EXTENDED_AGENT_CARD_NOT_CONFIGURED),
        (pair.replicas[0], "", UNAUTHENTICATED),
        (pair.replicas[1], KEYS["alice"], UNAUTHENTICATED),
        (guarded, "", UNAUTHENTICATED),
        (guarded, "wrong", UNAUTHENTICATED),
        (guarded, KEYS["alice"][:-1], UNAUTHENTICATED),
        (guarded, KEYS["alice"], None),
    ):
        caller = await connect(replica, over=over, key=key)
        if row is None:
            assert "secret" in {skill.id for skill in (await caller.answer(method)).message.skills}
            continue
        failure = await refused(row, caller.call(method))
        if row is UNAUTHENTICATED and over == "HTTP+JSON":
            # Where there are no keys, no challenge applies.
            assert failure.http == 401 and ("www-authenticate" in failure.parameters) is (replica is guarded)


async def test_b097_the_extended_card_is_for_its_caller_alone(guarded: Replica) -> None:
    """No cache may keep it for others, and nothing of it is in the public card, at any path."""
    async with httpx.AsyncClient(base_url=guarded.http_url, headers=VERSION, trust_env=False) as http:
        answer = await http.get("/extendedAgentCard", headers={"x-api-key": KEYS["bob"]})
        assert answer.status_code == httpx.codes.OK and "secret" in answer.text
        assert "private" in answer.headers["cache-control"]
        for path in (CARD, OLD_CARD):
            public = await http.get(path, headers={"x-api-key": KEYS["bob"]})
            assert public.status_code == httpx.codes.OK
            assert "secret" not in public.text and public.json()["capabilities"]["extendedAgentCard"]


# -- B099 --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("over", BINDINGS)
async def test_b099_what_the_card_denies_is_not_there(
    over: str, connect: Connect, without_capabilities: Replica
) -> None:
    """For tasks that exist, that don't, and for requests that are wrong besides: the same error, before any event."""
    caller = await connect(without_capabilities, over=over)
    task = await caller.task("ask")
    done = await caller.task("echo x")
    for task_id in (task.id, done.id, "no-such-task", "x" * 300):
        await refused(UNSUPPORTED_OPERATION, caller.call("SubscribeToTask", pb.SubscribeToTaskRequest(id=task_id)))
    for request in (say("echo x"), say("echo x", task_id="no-such-task"), pb.SendMessageRequest()):
        await refused(UNSUPPORTED_OPERATION, caller.call("SendStreamingMessage", request))
    assert await caller.get(task.id) == task
    assert len((await caller.page(context_id=task.context_id)).tasks) == 1
    await push_is_refused(caller, task)


async def push_is_refused(caller: Caller, task: pb.Task) -> None:
    requests: dict[str, Any] = {
        "CreateTaskPushNotificationConfig": pb.TaskPushNotificationConfig(task_id=task.id, url="https://a.example/x"),
        "GetTaskPushNotificationConfig": pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id="c"),
        "ListTaskPushNotificationConfigs": pb.ListTaskPushNotificationConfigsRequest(task_id=task.id),
        "DeleteTaskPushNotificationConfig": pb.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="c"),
    }
    for method, request in requests.items():
        await refused(PUSH_NOTIFICATION_NOT_SUPPORTED, caller.call(method, request))
    inline = say("echo x")
    inline.configuration.task_push_notification_config.url = "https://a.example/x"
    await refused(PUSH_NOTIFICATION_NOT_SUPPORTED, caller.send(inline))


@pytest.mark.parametrize("over", BINDINGS)
async def test_b099_flags_and_behaviour_are_one(
    over: str, connect: Connect, pair: Pair, without_capabilities: Replica, declaring: Replica
) -> None:
    """Whatever a card says of streaming, push notifications and the extended card is what happens."""
    for replica in (pair.replicas[0], without_capabilities, declaring):
        async with httpx.AsyncClient(trust_env=False) as http:
            capabilities = (await http.get(replica.http_url + CARD)).json()["capabilities"]
        caller = await connect(replica, over=over)
        if capabilities.get("streaming"):
            assert kinds(await caller.events("echo x")) == ["task SUBMITTED", "artifact", "COMPLETED"]
        else:
            await refused(UNSUPPORTED_OPERATION, caller.call("SendStreamingMessage", say("echo x")))
        asked = await caller.task("ask")
        if capabilities.get("pushNotifications"):
            config = pb.TaskPushNotificationConfig(task_id=asked.id, url="https://a.example/x")
            made = await caller.call("CreateTaskPushNotificationConfig", config)
            known = pb.ListTaskPushNotificationConfigsRequest(task_id=asked.id)
            listed = cast(
                "pb.ListTaskPushNotificationConfigsResponse",
                await caller.call("ListTaskPushNotificationConfigs", known),
            )
            assert list(listed.configs) == [made]
        else:
            await push_is_refused(caller, asked)
        with pytest.raises(CallError) as caught:
            await caller.call("GetExtendedAgentCard")
        assert bool(capabilities.get("extendedAgentCard")) != caught.value.is_of(UNSUPPORTED_OPERATION)


@pytest.mark.parametrize("over", ["GRPC", "HTTP+JSON"])
async def test_b099_the_client_asks_again_and_again_where_it_cannot_stream(
    over: str, without_capabilities: Replica
) -> None:
    """What it gives its caller is what a stream would have: the task, and its end."""
    async with await A2AClient.connect(without_capabilities.http_url, bindings=(over,)) as client:
        events = [event async for event in client.send_streaming_message(say("slow 1"))]
    assert events[0].HasField("task") and kinds(events)[-1] == "COMPLETED"
    assert chunks(events) == "chunk 1 "
