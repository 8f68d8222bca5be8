"""When the service stops trying (3.5.3, 4.3.3), and what operators see and do then."""

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from a2a_grpc.command import main
from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import VERSION, GrpcCaller, refused
from tests.conformance.expected import INVALID_ARGUMENT
from tests.push.config import AGENT, QUICK, config, create, get, listed
from tests.push.hostile import PLAIN
from tests.support.leaks import MARKER, secret
from tests.support.receiver import Answer, Delivery, Receiver, receiver
from tests.support.replica import Pair, PairPool
from tests.support.waiting import wait_until

Letters = Callable[..., Awaitable[list[dict[str, Any]]]]


@pytest.fixture(scope="module")
def hasty(pair_pool: PairPool) -> Pair:
    """Two replicas that try three times."""
    return pair_pool.get(AGENT, {**QUICK, "A2A_PUSH_ATTEMPTS": "3", "A2A_ADMIN_ADDR": "127.0.0.1:0"})


@pytest.fixture(scope="module")
def admin_addr(hasty: Pair) -> str:
    """Where the first replica is administered; read once, since a log gets long."""
    return str(re.findall(r"administration on (\S+)", hasty.replicas[0].log(None))[-1])


@pytest.fixture
def letters(admin_addr: str, capsys: pytest.CaptureFixture[str]) -> Letters:
    """Runs `a2a-grpc dead-letters` on the first replica; what it prints as JSON."""

    async def run(*arguments: str) -> list[dict[str, Any]]:
        # In a thread: it has a loop of its own.
        assert await asyncio.to_thread(main, ["dead-letters", *arguments, "--admin", admin_addr, "--json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def _answering(hook: Receiver, status: int) -> None:
    async def behave(_: Delivery) -> Answer:
        return Answer(status)

    hook.behave = behave


async def _letter(letters: Letters, task_id: str) -> dict[str, Any]:
    async def of_task() -> list[dict[str, Any]]:
        return [letter for letter in await letters("list") if letter["taskId"] == task_id]

    return (await wait_until(of_task, "a dead letter"))[0]


async def test_attempts_are_bounded_and_the_webhook_can_be_revived(
    hasty: Pair, hook: Receiver, letters: Letters
) -> None:
    """Nothing more is sent; the letter says why and holds no secret; redriven it goes on where it stopped."""
    _answering(hook, 503)
    authentication = pb.AuthenticationInfo(scheme="Bearer", credentials=secret("credentials"))
    async with GrpcCaller(hasty.replicas[1], VERSION) as caller:
        given = config(hook, f"/hook?key={secret('in-the-url')}", id="mine", authentication=authentication)
        task = await caller.task("chunks 2", task_push_notification_config=given)
        letter = await _letter(letters, task.id)
        assert len(hook.deliveries) == 3
        assert letter["attempts"] == 3
        assert letter["reason"] == (
            f"The webhook mine at http://127.0.0.1:{hook.port} could not be told of event 2: it answered 503."
        )
        assert MARKER not in json.dumps(await letters("show", letter["id"]))
        assert (await get(caller, task.id, "mine")).url == given.url

    _answering(hook, 200)
    for _ in range(2):
        [redriven] = await letters("redrive", letter["id"])
        assert redriven["taskId"] == task.id
    taken = await hook.until_end()
    assert [one.state or "artifact" for one in taken] == ["WORKING", "artifact", "artifact", "COMPLETED"]


async def test_an_update_revives_a_webhook(hasty: Pair, hook: Receiver, letters: Letters) -> None:
    _answering(hook, 404)
    async with GrpcCaller(hasty.replicas[0], VERSION) as caller, receiver() as better:
        task = await caller.task("chunks 1", task_push_notification_config=config(hook, id="mine"))
        await _letter(letters, task.id)
        await create(caller, task.id, config(better, id="mine"))
        taken = await better.until_end()
    assert [one.state or "artifact" for one in taken] == ["WORKING", "artifact", "COMPLETED"]


async def test_410_says_that_nothing_more_is_wanted(hasty: Pair, hook: Receiver, letters: Letters) -> None:
    _answering(hook, 410)
    async with GrpcCaller(hasty.replicas[0], VERSION) as caller:
        task = await caller.task("chunks 2", task_push_notification_config=config(hook))
        letter = await _letter(letters, task.id)
    assert (letter["attempts"], len(hook.deliveries)) == (1, 1)


async def test_what_cannot_be_told_at_all_is_not_tried_for_ever(hasty: Pair, hook: Receiver, letters: Letters) -> None:
    """A config that was damaged in the store: each try counts, and it ends with a dead letter."""
    async with GrpcCaller(hasty.replicas[0], VERSION) as caller:
        task = await caller.task("ask", task_push_notification_config=config(hook, id="mine"))
        await hook.until(1)
        hasty.store.client.hset(f"a2a:{{0}}:push:{task.id}", "c:mine", b"\x00\xff\xff")
        await caller.task("echo hi", task_id=task.id)
        letter = await _letter(letters, task.id)
    assert letter["attempts"] == 3
    assert letter["reason"] == (
        "The webhook mine could not be told of event 3: the service could not make a request of it; the cause is in "
        "its log."
    )


async def test_ids_of_callers_make_no_lines_of_their_own(hasty: Pair, hook: Receiver, letters: Letters) -> None:
    """Neither in a log nor in a dead letter: operators read both, and terminals do what they are told."""
    _answering(hook, 410)
    async with GrpcCaller(hasty.replicas[0], VERSION) as caller:
        evil = "x\n2026-11-30 12:00:00,000 ERROR a2a_grpc: forged \x1b[2J"
        task = await caller.task("echo hi", task_push_notification_config=config(hook, id=evil))
        letter = await _letter(letters, task.id)
    assert letter["reason"].isprintable()
    lines = [line for one in hasty.replicas for line in one.log(None).splitlines() if "forged" in line]
    assert lines and all("webhook x 2026" in line and "\x1b" not in line for line in lines)


async def test_who_missed_what_is_not_kept_gets_the_task(pair_pool: PairPool, hook: Receiver) -> None:
    """A2A_LOG_EVENTS: the first event that a receiver did not take is gone when it is back."""
    pair = pair_pool.get(
        AGENT, {**QUICK, "A2A_LOG_EVENTS": "100", "A2A_SNAPSHOT_EVENTS": "10", "A2A_PUSH_ATTEMPTS": "1000"}
    )
    _answering(hook, 503)
    async with GrpcCaller(pair.replicas[0], VERSION) as caller:
        task = await caller.task("chunks 500", task_push_notification_config=config(hook))
        assert task.status.state == pb.TASK_STATE_COMPLETED
    # What is on its way was read before.
    await hook.until(len(hook.deliveries) + 2)
    _answering(hook, 200)
    [only] = await hook.until_end()
    assert list(only.event) == ["task"]
    assert (only.event["task"]["id"], only.state, only.seq) == (task.id, "COMPLETED", 503)
    assert len(only.event["task"]["artifacts"][0]["parts"]) == 500


async def test_nobody_listens(hasty: Pair, letters: Letters) -> None:
    async with receiver() as other:
        gone = other.url
    async with GrpcCaller(hasty.replicas[0], VERSION) as caller:
        task = await caller.task("echo hi", task_push_notification_config=pb.TaskPushNotificationConfig(url=gone))
        letter = await _letter(letters, task.id)
    assert "it cannot be reached" in letter["reason"]
    assert letter["attempts"] == 3


async def test_a_name_that_leads_to_a_private_address_is_refused_and_on_record(
    pair_pool: PairPool, hook: Receiver
) -> None:
    """13.2: looked up when it is delivered; a name of this machine that is not allowed, though its address is taken."""
    name = socket.gethostname()
    pair = pair_pool.get(AGENT, {"A2A_PUSH_ALLOW_HTTP": "true", "A2A_LOG_FORMAT": "json"})
    async with GrpcCaller(pair.replicas[0], VERSION) as caller:
        url = f"http://{name}:{hook.port}/{secret('path')}"
        task = await caller.task("echo hi", task_push_notification_config=pb.TaskPushNotificationConfig(url=url))

    def on_record() -> list[Any]:
        logs = "\n".join(one.log(None) for one in pair.replicas)
        lines = [line for line in logs.splitlines() if "webhook-refused" in line and task.id in line]
        assert not any(MARKER in line for line in lines)
        return [json.loads(line) for line in lines]

    [record] = await wait_until(on_record, "an audit record")
    assert (record["event"], record["task_id"]) == ("webhook-refused", task.id)
    assert record["webhook_id"]
    assert "not a public address" in record["reason"]
    assert hook.connections == 0


async def test_hostile_destinations_are_refused_by_default(pair_pool: PairPool, hook: Receiver) -> None:
    """Each, sent to a service: nothing is kept, and nobody on this machine is connected to."""
    pair = pair_pool.get(AGENT, {"A2A_PUSH_ALLOW_HTTP": "true", "A2A_LOG_FORMAT": "json"})
    own = [
        f"http://{host}:{hook.port}/" for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "127.1", "2130706433")
    ]
    async with GrpcCaller(pair.replicas[0], VERSION) as caller:
        task = await caller.task("ask")
        for url in own + PLAIN:
            await refused(INVALID_ARGUMENT, create(caller, task.id, pb.TaskPushNotificationConfig(url=url)))
        await refused(INVALID_ARGUMENT, create(caller, task.id, pb.TaskPushNotificationConfig()))
        inline = pb.TaskPushNotificationConfig(url=f"http://{secret('host')}@127.1/")
        await refused(INVALID_ARGUMENT, caller.task("ask", task_push_notification_config=inline))
        assert not (await listed(caller, task.id)).configs
    assert hook.connections == 0
    log = pair.replicas[0].log(None)
    assert MARKER not in log
    found = [record for line in log.splitlines() if (record := json.loads(line)).get("event") == "webhook-refused"]
    # Those of deliveries have none.
    methods = [record["method"] for record in found if "method" in record]
    # A config without a URL is no destination, so it is not among them.
    assert methods == ["CreateTaskPushNotificationConfig"] * len(own + PLAIN) + ["SendMessage"]
    assert all(record["reason"] for record in found)
    assert {record["field"] for record in found if "method" in record} == {
        "url",
        "configuration.task_push_notification_config.url",
    }


SMUGGLED = secret("smuggled")
HEADERS: list[tuple[str, pb.TaskPushNotificationConfig]] = [
    *(("token", pb.TaskPushNotificationConfig(token=f"t{end}{SMUGGLED}: x")) for end in ("\r\n", "\n", "\r")),
    (
        "authentication.scheme",
        pb.TaskPushNotificationConfig(
            authentication=pb.AuthenticationInfo(scheme=f"Bearer\r\n{SMUGGLED}: x", credentials="c")
        ),
    ),
    (
        "authentication.credentials",
        pb.TaskPushNotificationConfig(
            authentication=pb.AuthenticationInfo(scheme="Bearer", credentials=f"c\r\n{SMUGGLED}: x")
        ),
    ),
]


async def test_what_would_break_into_the_headers_of_a_webhook_is_refused_and_on_record(pair_pool: PairPool) -> None:
    """Under the name of its field; what was sent stands nowhere (RFC 9110, 5.5)."""
    pair = pair_pool.get(AGENT, {"A2A_PUSH_ALLOW_HTTP": "true", "A2A_LOG_FORMAT": "json"})
    async with GrpcCaller(pair.replicas[0], VERSION) as caller:
        task = await caller.task("ask")
        for _, config in HEADERS:
            config.url = "https://hooks.example.com/"
            await refused(INVALID_ARGUMENT, create(caller, task.id, config))
            await refused(INVALID_ARGUMENT, caller.task("ask", task_push_notification_config=config))
        assert not (await listed(caller, task.id)).configs

    def on_record() -> list[dict[str, Any]]:
        records = (json.loads(line) for line in pair.replicas[0].log(None).splitlines() if "webhook-refused" in line)
        return [record for record in records if "field" in record and not record["field"].endswith("url")]

    found = on_record()
    path = "configuration.task_push_notification_config."
    assert [(record["method"], record["field"]) for record in found] == [
        refusal
        for field, _ in HEADERS
        for refusal in (("CreateTaskPushNotificationConfig", field), ("SendMessage", path + field))
    ]
    assert all(record["reason"] and record["peer"] for record in found)
    assert SMUGGLED not in pair.replicas[0].log(None)
