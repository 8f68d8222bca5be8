"""Webhooks end to end: what they get, in which order, and with which headers (4.3.3, 13.2)."""

import asyncio
import json

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import VERSION, Caller, HttpCaller, say
from tests.push.config import config, create, delete, listed
from tests.support.leaks import secret
from tests.support.receiver import SILENT, Answer, Delivery, Receiver, receiver
from tests.support.replica import Replica
from tests.support.waiting import wait_until


async def test_an_inline_config_hears_of_everything_in_order(caller: Caller, hook: Receiver) -> None:
    """3.1.7, 4.3.3: WORKING, each chunk, and the end, once each where the receiver takes them."""
    task = await caller.task("chunks 5", task_push_notification_config=config(hook))

    taken = await hook.until_end()

    assert [one.state or "artifact" for one in taken] == ["WORKING", *["artifact"] * 5, "COMPLETED"]
    assert [one.seq for one in taken] == sorted({one.seq for one in taken})
    assert {next(iter(one.event.values()))["taskId"] for one in taken} == {task.id}
    assert hook.most_open == 1


async def test_b051_what_arrives_is_what_a_stream_shows(caller: Caller, hook: Receiver) -> None:
    """B051: ProtoJSON of the StreamResponse, the same bytes as in the events of a stream, whatever began the task."""
    request = say("echo hi ü \u2028 \u0085", return_immediately=True, task_push_notification_config=config(hook))
    request.message.parts.add(data={"struct_value": {"n": 3, "deep": [1, None]}})
    task = (await caller.send(request)).task
    taken = await hook.until_end()

    shown: dict[int, bytes] = {}
    async with HttpCaller(caller.service, VERSION) as streaming:
        headers = {**VERSION, "last-event-id": "1", "accept": "text/event-stream"}
        async with streaming.http.stream("GET", f"/tasks/{task.id}:subscribe", headers=headers) as response:
            seq = 0
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                seq = int(value) if name == "id" else seq
                if name == "data":
                    shown[seq] = value.encode()

    assert {one.seq: one.body for one in taken} == {seq: data for seq, data in shown.items() if b'{"task"' not in data}
    last = taken[-1].event["statusUpdate"]
    assert last["status"]["timestamp"].endswith("Z") and last["contextId"] == task.context_id


async def test_what_a_request_carries(caller: Caller, hook: Receiver) -> None:
    """4.3.3, 13.2: credentials and token on every delivery, and what tells a repeat from news."""
    authentication = pb.AuthenticationInfo(scheme="Bearer", credentials=secret("credentials"))
    given = config(hook, "/a/b?c=d%20e", token=secret("token"), authentication=authentication)
    await caller.task("chunks 2", task_push_notification_config=given)

    taken = await hook.until_end()

    for one in taken:
        assert (one.method, one.target) == ("POST", "/a/b?c=d%20e")
        assert one.header("content-type") == "application/a2a+json"
        assert one.header("authorization") == f"Bearer {secret('credentials')}"
        assert one.header("x-a2a-notification-token") == secret("token")
        assert one.header("a2a-version") == "1.0"
        assert one.header("host") == f"127.0.0.1:{hook.port}"
        assert not one.has("x-a2a-signature")
    assert len({one.header("x-a2a-delivery-id") for one in taken}) == len(taken)


async def test_without_credentials_none_are_sent(caller: Caller, hook: Receiver) -> None:
    await caller.task("echo hi", task_push_notification_config=config(hook))

    for one in await hook.until_end():
        assert not one.has("authorization")
        assert not one.has("x-a2a-notification-token")


async def test_b045_order_is_kept_whatever_a_receiver_does(caller: Caller, hook: Receiver) -> None:
    """B045: a slow answer, then failures; what is repeated comes before what is new, under the same id."""
    failures = iter([503, 503])

    async def difficult(delivery: Delivery) -> Answer:
        if len(hook.deliveries) == 1:
            await asyncio.sleep(0.5)
            return Answer()
        return Answer(next(failures, 200))

    hook.behave = difficult
    await caller.task("chunks 10", task_push_notification_config=config(hook))

    taken = await hook.until_end()

    assert [one.state or "artifact" for one in taken] == ["WORKING", *["artifact"] * 10, "COMPLETED"]
    assert [one.seq for one in taken] == sorted({one.seq for one in taken})
    repeated = hook.deliveries[1:4]
    assert [one.answered for one in repeated] == [503, 503, 200]
    assert len({one.header("x-a2a-delivery-id") for one in repeated}) == 1
    assert len({one.body for one in repeated}) == 1


async def test_several_webhooks_each_hear_everything(caller: Caller, other: Caller, hook: Receiver) -> None:
    """3.1.7, B045: made on either replica; one that fails does not hold up the others."""
    task = await caller.task("ask")
    await create(caller, task.id, config(hook, "/one"))
    await create(other, task.id, config(hook, "/two"))

    async def one_fails(delivery: Delivery) -> Answer:
        return Answer(500 if delivery.target == "/bad" else 200)

    hook.behave = one_fails
    await create(other, task.id, config(hook, "/bad"))
    await other.task("chunks 3", task_id=task.id)

    for path in ("/one", "/two"):
        taken = await hook.until_end(path)
        # It goes on with the message, and then its agent says that it works.
        assert [one.state or "artifact" for one in taken] == ["WORKING", "WORKING", *["artifact"] * 3, "COMPLETED"]

    def refused() -> set[int]:
        return {one.seq for one in hook.deliveries if one.target == "/bad"}

    # A host that has taken nothing yet has two places: the third may be told later.
    await wait_until(refused, "a request that fails")
    assert refused() == {hook.taken("/one")[0].seq}


async def test_b021_cancellation_and_failure_are_told(caller: Caller, other: Caller, hook: Receiver) -> None:
    """3.1.5: the last event of a stream is that of a webhook, too."""
    asked = await caller.task("ask", task_push_notification_config=config(hook, "/cancel"))
    assert (await other.cancel(asked.id)).status.state == pb.TASK_STATE_CANCELED
    await caller.task("raise", task_push_notification_config=config(hook, "/raise"))

    assert (await hook.until_end("/cancel"))[-1].state == "CANCELED"
    failed = (await hook.until_end("/raise"))[-1]
    assert failed.state == "FAILED"
    assert b"secret: the caller" not in failed.body


async def test_a_config_with_a_later_message_hears_from_there(caller: Caller, hook: Receiver) -> None:
    task = await caller.task("ask")
    follow_up = say("echo hi", task_id=task.id, task_push_notification_config=config(hook))
    await caller.send(follow_up)
    taken = await hook.until_end()
    assert [one.state for one in taken] == ["WORKING", "", "COMPLETED"]


async def test_the_same_message_again_adds_no_webhook(caller: Caller, other: Caller, hook: Receiver) -> None:
    """3.3.1: a repeat is the same message, however often."""
    request = say("ask", task_push_notification_config=config(hook))
    task = (await caller.send(request)).task
    again = (await other.send(request)).task

    assert again.id == task.id
    assert len((await listed(caller, task.id)).configs) == 1


async def test_a_config_for_a_task_that_has_ended_is_told_the_end(caller: Caller, hook: Receiver) -> None:
    """Accepted and kept; nobody who asked in time misses the end because the task was faster."""
    task = await caller.task("echo hi")
    made = await create(caller, task.id, config(hook))

    [only] = await hook.until_end()

    assert only.state == "COMPLETED"
    assert [kept.id for kept in (await listed(caller, task.id)).configs] == [made.id]


async def test_a_deleted_config_is_silent(caller: Caller, other: Caller, hook: Receiver) -> None:
    """3.1.10: also where a delivery is being repeated when it is deleted."""

    async def never(delivery: Delivery) -> Answer:
        return Answer(503 if delivery.target == "/gone" else 200)

    hook.behave = never
    task = await caller.task("ask", task_push_notification_config=config(hook, "/gone", id="gone"))
    await hook.until(2)
    await delete(other, task.id, "gone")
    await create(caller, task.id, config(hook, "/stays"))
    tried = len([one for one in hook.deliveries if one.target == "/gone"])
    await caller.task("echo hi", task_id=task.id)
    await hook.until_end("/stays")

    # One may have been on its way.
    assert len([one for one in hook.deliveries if one.target == "/gone"]) <= tried + 1


async def test_retry_after_is_heeded(caller: Caller, hook: Receiver) -> None:
    times: list[float] = []

    async def busy(_: Delivery) -> Answer:
        times.append(asyncio.get_running_loop().time())
        return Answer(429, {"Retry-After": "1"}) if len(times) == 1 else Answer()

    hook.behave = busy
    await caller.task("echo hi", task_push_notification_config=config(hook))
    await hook.until_end()

    assert 0.9 < times[1] - times[0] < 4.0


async def test_redirects_are_not_followed(caller: Caller, hook: Receiver) -> None:
    async with receiver() as elsewhere:

        async def moved(delivery: Delivery) -> Answer:
            if len(hook.deliveries) == 1:
                return Answer(307, {"Location": elsewhere.url + "/hook"})
            return Answer()

        hook.behave = moved
        await caller.task("echo hi", task_push_notification_config=config(hook))
        taken = await hook.until_end()

        assert [one.state or "artifact" for one in taken] == ["artifact", "COMPLETED"]
        assert elsewhere.deliveries == []


async def test_large_and_broken_answers_do_no_harm(caller: Caller, hook: Receiver) -> None:
    answers = iter([Answer(body=b"x" * 500_000), Answer(cut=True), Answer(204), Answer(299)])

    async def odd(_: Delivery) -> Answer:
        return next(answers, Answer())

    hook.behave = odd
    await caller.task("chunks 1", task_push_notification_config=config(hook))
    taken = await hook.until_end()

    assert [(one.state, one.answered) for one in taken] == [("WORKING", 200), ("", 204), ("COMPLETED", 299)]


async def test_a_message_as_the_answer_has_no_webhook(caller: Caller, hook: Receiver) -> None:
    """3.2.2: no task, nothing to tell."""
    answer = await caller.send(say("msg", task_push_notification_config=config(hook)))

    assert answer.HasField("message")


async def test_a_silent_receiver_is_given_its_time(hook: Receiver, replicas: tuple[Replica, Replica]) -> None:
    """3.5.3: the time is over after A2A_PUSH_TIMEOUT (3 s here); then it is another attempt."""
    began = asyncio.get_running_loop().time()

    async def once(_: Delivery) -> Answer:
        return SILENT if len(hook.deliveries) == 1 else Answer()

    hook.behave = once
    async with HttpCaller(replicas[0], VERSION) as caller:
        await caller.task("echo hi", task_push_notification_config=config(hook))
    await wait_until(lambda: len(hook.deliveries) >= 2, "another attempt")

    assert 2.5 < asyncio.get_running_loop().time() - began < 5
    assert json.loads(hook.deliveries[0].body) == json.loads(hook.deliveries[1].body)
