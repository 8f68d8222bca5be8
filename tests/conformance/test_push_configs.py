"""The four operations over every binding (3.1.7 to 3.1.10)."""

import asyncio

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import CALLERS, VERSION, Caller, CallError, refused, say
from tests.conformance.expected import INVALID_ARGUMENT, TASK_NOT_FOUND, Row
from tests.push.config import config, create, delete, get, listed
from tests.support.leaks import MARKER, secret
from tests.support.receiver import Receiver
from tests.support.replica import Replica

RESOURCE_EXHAUSTED = Row("RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED", 429, -32016)
BEARER = pb.AuthenticationInfo(scheme="Bearer", credentials=secret("credentials"))


async def test_3_1_7_what_was_given_is_what_is_kept(caller: Caller, other: Caller, hook: Receiver) -> None:
    """Unchanged, credentials included, read on another replica."""
    task = await caller.task("ask")
    made = await create(caller, task.id, config(hook, token="t", authentication=BEARER))

    assert made.id
    expected = config(hook, token="t", authentication=BEARER, id=made.id, task_id=task.id)
    assert made == expected
    assert await get(other, task.id, made.id) == expected
    assert list((await listed(other, task.id)).configs) == [expected]


async def test_b049_ids_are_the_servers_unless_they_are_given(caller: Caller, hook: Receiver) -> None:
    """B049: two without an id are two; one with the id of another takes its place."""
    task = await caller.task("ask")
    one, two = [await create(caller, task.id, config(hook, path)) for path in ("/one", "/two")]
    assert one.id and two.id and one.id != two.id and task.id not in (one.id, two.id)
    assert list((await listed(caller, task.id)).configs) == [one, two]

    changed = await create(caller, task.id, config(hook, "/other", id=one.id))
    assert list((await listed(caller, task.id)).configs) == [changed, two]
    own = await create(caller, task.id, config(hook, "/own", id="my own / id ✓"))
    assert await get(caller, task.id, "my own / id ✓") == own

    await caller.task("echo hi", task_id=task.id)
    for path in ("/other", "/two", "/own"):
        await hook.until_end(path)
    assert not hook.taken("/one")


async def test_3_1_8_what_is_not_there(caller: Caller, hook: Receiver) -> None:
    task = await caller.task("ask", task_push_notification_config=config(hook, id="there"))
    await refused(TASK_NOT_FOUND, get(caller, task.id, "elsewhere"))
    await refused(TASK_NOT_FOUND, get(caller, "unknown", "there"))
    await refused(TASK_NOT_FOUND, create(caller, "unknown", config(hook)))
    await refused(TASK_NOT_FOUND, listed(caller, "unknown"))
    await refused(TASK_NOT_FOUND, delete(caller, "unknown", "there"))


async def test_3_1_10_deleting_again_is_no_error(caller: Caller, other: Caller, hook: Receiver) -> None:
    task = await caller.task("ask", task_push_notification_config=config(hook, id="mine"))
    for one in (caller, other, caller):
        await delete(one, task.id, "mine")
    await refused(TASK_NOT_FOUND, get(caller, task.id, "mine"))
    assert not (await listed(other, task.id)).configs


async def test_3_1_9_pages(caller: Caller, hook: Receiver) -> None:
    task = await caller.task("ask")
    made = [await create(caller, task.id, config(hook, id="i" * 200 + f"{number}✓")) for number in range(7)]
    found: list[pb.TaskPushNotificationConfig] = []
    token = ""
    while True:
        page = await listed(caller, task.id, page_size=3, page_token=token)
        assert len(page.configs) <= 3
        found += page.configs
        token = page.next_page_token
        if not token:
            break
    assert sorted(one.id for one in found) == sorted(one.id for one in made)
    await refused(INVALID_ARGUMENT, listed(caller, task.id, page_token="junk"))
    await refused(INVALID_ARGUMENT, listed(caller, task.id, page_size=-1))
    other_task = await caller.task("ask")
    token = (await listed(caller, task.id, page_size=1)).next_page_token
    await refused(INVALID_ARGUMENT, listed(caller, other_task.id, page_token=token))


async def test_13_1_another_tenant_sees_nothing(
    binding: str, caller: Caller, replicas: tuple[Replica, Replica], hook: Receiver
) -> None:
    task = await caller.task("ask", task_push_notification_config=config(hook, id="mine"))
    async with CALLERS[binding](replicas[1], VERSION, "another") as stranger:
        missing = await refused(TASK_NOT_FOUND, get(stranger, "0" * 32 + "-0", "mine"))
        for attempt in (
            get(stranger, task.id, "mine"),
            listed(stranger, task.id),
            create(stranger, task.id, config(hook)),
            delete(stranger, task.id, "mine"),
        ):
            assert (await refused(TASK_NOT_FOUND, attempt)).message == missing.message
    assert len((await listed(caller, task.id)).configs) == 1


async def test_13_1_the_tenant_is_kept(binding: str, replicas: tuple[Replica, Replica], hook: Receiver) -> None:
    async with CALLERS[binding](replicas[0], VERSION, "acme") as caller:
        task = await caller.task("ask", task_push_notification_config=config(hook, id="mine"))
        assert (await get(caller, task.id, "mine")).tenant == "acme"
        await caller.task("echo hi", task_id=task.id)
        assert (await hook.until_end())[-1].event["statusUpdate"]["taskId"] == task.id


HOSTILE: list[tuple[str, dict[str, object]]] = [
    ("authentication.credentials", {"authentication": {"scheme": "Bearer", "credentials": "x\r\nX-Evil: 1"}}),
    ("authentication.credentials", {"authentication": {"scheme": "Bearer", "credentials": "x" * 1_000_000}}),
    ("authentication.credentials", {"authentication": {"scheme": "Bearer", "credentials": "\x00"}}),
    ("authentication.credentials", {"authentication": {"scheme": "Bearer", "credentials": " padded "}}),
    ("authentication.scheme", {"authentication": {"scheme": "Bearer\r\nHost: a", "credentials": "x"}}),
    ("authentication.scheme", {"authentication": {"scheme": "Bearer x", "credentials": "x"}}),
    ("authentication.scheme", {"authentication": {"credentials": "x"}}),
    ("token", {"token": "a\nb"}),
    ("token", {"token": "t" * 5000}),
    ("token", {"token": "ü"}),
    ("url", {"url": "http://127.0.0.1/\r\nX-Evil: 1"}),
    ("url", {"url": ""}),
    ("url", {"url": "ftp://example.com/"}),
    ("url", {"url": "http://user:secret@127.0.0.1/"}),
    ("url", {"url": "https://10.0.0.1/"}),
]


@pytest.mark.parametrize(("field", "fields"), HOSTILE, ids=[f"{field}-{at}" for at, (field, _) in enumerate(HOSTILE)])
async def test_b047_nothing_that_would_be_another_header_is_taken(
    field: str, fields: dict[str, object], caller: Caller, hook: Receiver
) -> None:
    """B047: refused by the operation and inside a message; nothing is stored, nothing is sent, nothing is repeated."""
    given: dict[str, object] = {"url": hook.url, **fields}
    hostile = pb.TaskPushNotificationConfig(**given)  # type: ignore[arg-type]
    task = await caller.task("ask")
    failure = await refused(INVALID_ARGUMENT, create(caller, task.id, hostile))
    assert [_snake(name) for name in failure.violations] == [field]
    assert "secret" not in str(failure)
    before = (await caller.page()).total_size
    inside = await refused(INVALID_ARGUMENT, caller.send(say("echo hi", task_push_notification_config=hostile)))
    assert [_snake(name) for name in inside.violations] == [f"configuration.task_push_notification_config.{field}"]
    assert (await caller.page()).total_size == before
    assert not (await listed(caller, task.id)).configs


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


async def test_every_problem_is_told_at_once(caller: Caller) -> None:
    task = await caller.task("ask")
    wrong = pb.TaskPushNotificationConfig(
        url="http://[::1", token="\n", authentication=pb.AuthenticationInfo(scheme=":", credentials="\t")
    )
    failure = await refused(INVALID_ARGUMENT, create(caller, task.id, wrong))
    assert len(failure.violations) == 4


async def test_so_many_and_no_more(caller: Caller, hook: Receiver) -> None:
    """A2A_PUSH_MAX_CONFIGS (100): also with a message, of which nothing is stored then."""
    task = await caller.task("ask")
    await asyncio.gather(*(create(caller, task.id, config(hook, id=f"{number}")) for number in range(100)))
    with_message = caller.send(say("echo hi", task_id=task.id, task_push_notification_config=config(hook)))
    for failure in (
        await refused(RESOURCE_EXHAUSTED, create(caller, task.id, config(hook))),
        await refused(RESOURCE_EXHAUSTED, with_message),
    ):
        assert failure.quotas == {"task:webhooks": "The limit is 100 push notification configs."}
        # To wait does not help: there is room when one is deleted.
        assert failure.retry_after is None and "retry-after" not in failure.parameters
        assert failure.http == (0 if failure.binding == "GRPC" else 429)
    assert len((await caller.get(task.id)).history) == len(task.history)
    await create(caller, task.id, config(hook, "/again", id="7"))
    await delete(caller, task.id, "8")
    await create(caller, task.id, config(hook))


async def test_what_an_agent_sees_of_a_webhook(caller: Caller, hook: Receiver) -> None:
    """Nothing: neither in the history nor in an error."""
    with pytest.raises(CallError) as caught:
        await caller.task(
            "echo hi", task_id="unknown", task_push_notification_config=config(hook, authentication=BEARER)
        )
    assert MARKER not in str(caught.value)
