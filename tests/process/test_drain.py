"""How a process leaves: readiness first, then the turns that can end do so, the rest moves, and nobody is cut off."""

import asyncio
import contextlib
import json
import re
import signal
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc.aio
import httpx
import psutil
import pytest
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.callers import (
    BINDINGS,
    CALLERS,
    VERSION,
    Caller,
    CallError,
    Stream,
    body,
    kinds,
    refused,
    say,
    state,
    texts,
)
from tests.conformance.expected import UNAVAILABLE
from tests.process.gateway import Gateway
from tests.support.http_bindings import SseEvent, connected, http_request, parse_sse
from tests.support.replica import ROOT, Pair, Replica, replica
from tests.support.waiting import wait_until

AGENT = "tests.process.busy_agent:agent"
AT_ONCE = 2.0
"""Seconds to the end of a process that waits for nothing; less than any delay or grace of these tests."""
OVERDUE = 124


class Leaving:
    """A replica on its way out."""

    def __init__(self, one: Replica, number: signal.Signals = signal.SIGTERM) -> None:
        self._one = one
        self._begun = time.monotonic()
        one.send(number)

    async def told(self) -> None:
        """Wait until it knows."""
        await wait_until(lambda: "stopping" in self._one.log(), "the signal has come")

    async def ended(self, status: int = 0) -> float:
        """How many seconds it took to its end."""
        assert await asyncio.to_thread(self._one.wait) == status, self._one.log()
        assert "Traceback" not in self._one.log()
        return time.monotonic() - self._begun


@contextlib.asynccontextmanager
async def calling(one: Replica | Gateway, *bindings: str) -> AsyncIterator[list[Caller]]:
    """A caller for each binding."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(CALLERS[binding](one)) for binding in bindings or BINDINGS]


async def at_work(caller: Caller, count: int) -> None:
    """Wait until `count` tasks are at work."""

    async def reached() -> bool:
        return (await caller.page(status=pb.TASK_STATE_WORKING)).total_size == count

    await wait_until(reached, f"{count} tasks are at work")


async def events_of(stream: Stream) -> tuple[list[pb.StreamResponse], CallError | None]:
    """All events of a stream, and the error that it ended with."""
    events: list[pb.StreamResponse] = []
    try:
        async for event in stream:
            events.append(event)  # noqa: PERF401 - what has come before the error is wanted, too
    except CallError as error:
        return events, error
    return events, None


def counted(number: int) -> str:
    return "".join(f"{n} " for n in range(1, number + 1))


# -- the delay ---------------------------------------------------------------------------------------------------------


async def test_readiness_goes_first_and_calls_still_succeed() -> None:
    """For A2A_DRAIN_DELAY the process serves as before. Only it says that it is not ready, and it lives."""
    async with (
        replica(agent=AGENT, env={"A2A_DRAIN_DELAY": "1.5"}) as one,
        calling(one) as callers,
        httpx.AsyncClient(base_url=one.http_url, trust_env=False) as http,
        grpc.aio.insecure_channel(one.grpc_addr) as channel,
    ):
        assert "connection" not in (await http.get("/readyz")).headers
        leaving = Leaving(one)
        await leaving.told()
        answer = await http.get("/readyz")
        assert (answer.status_code, answer.json()["components"]["process"]) == (503, "stopping")
        assert (await http.get("/healthz")).status_code == 200
        health: Any = HealthStub(channel)
        for service, status in (
            ("", HealthCheckResponse.NOT_SERVING),
            ("lf.a2a.v1.A2AService", HealthCheckResponse.NOT_SERVING),
            ("liveness", HealthCheckResponse.SERVING),
        ):
            assert (await health.Check(HealthCheckRequest(service=service))).status == status
        for caller in callers:
            assert texts(await caller.task("echo still here")) == ["still here"]
        # Whoever keeps an HTTP connection is told to take another one before this one is closed.
        assert answer.headers["connection"] == "close"
        assert 1.5 <= await leaving.ended() < 1.5 + AT_ONCE


async def test_sigint_skips_the_delay() -> None:
    async with replica(agent=AGENT, env={"A2A_DRAIN_DELAY": "12", "A2A_DRAIN_GRACE": "10"}) as one:
        assert await Leaving(one, signal.SIGINT).ended() < AT_ONCE


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_the_wait(number: signal.Signals) -> None:
    async with replica(agent=AGENT, env={"A2A_DRAIN_DELAY": "12", "A2A_DRAIN_GRACE": "10"}) as one:
        leaving = Leaving(one)
        await leaving.told()
        one.send(number)
        assert await leaving.ended(-number) < AT_ONCE


# -- turns that end ----------------------------------------------------------------------------------------------------


async def test_a_turn_that_can_end_within_the_grace_does_so_with_its_callers() -> None:
    """Over each binding: the stream goes on to its end, the blocking caller gets the answer. Then it is over."""
    env = {"A2A_DRAIN_GRACE": "10"}
    async with replica(agent=AGENT, env=env) as one, calling(one) as callers, contextlib.AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(caller.stream("SendStreamingMessage", say("count 15")))
            for caller in callers
        ]
        answers = [asyncio.create_task(caller.task("count 15")) for caller in callers]
        await at_work(callers[0], 2 * len(callers))
        leaving = Leaving(one)
        for stream in streams:
            events, error = await events_of(stream)
            assert error is None
            assert kinds(events)[-1] == "COMPLETED"
            assert kinds(events).count("artifact") == 15
        for answer in answers:
            assert texts(await answer) == [counted(15)]
        assert 1 < await leaving.ended() < 1.5 + AT_ONCE


async def test_a_message_that_is_answered_with_a_message_is_answered() -> None:
    """Within the grace. What takes longer was stored nowhere: its caller is asked to send it again."""
    agent = "tests.process.busy_agent:talker"
    async with replica(agent=agent, env={"A2A_DRAIN_GRACE": "1.5"}) as one, calling(one) as callers:
        short = [asyncio.create_task(caller.send(say("1 done"))) for caller in callers]
        long = [asyncio.create_task(caller.send(say("60 never"))) for caller in callers]
        await wait_until(lambda: one.log().count("begun to talk") == 6, "the messages have come")
        leaving = Leaving(one)
        for call in short:
            assert (await call).message.parts[0].text == "done"
        for call in long:
            assert (await refused(UNAVAILABLE, call)).retry_after
        assert await leaving.ended() < 1.5 + AT_ONCE


# -- turns that move ---------------------------------------------------------------------------------------------------


@pytest.mark.agent(AGENT, A2A_DRAIN_GRACE="0.5")
async def test_a_turn_that_takes_longer_moves_to_the_other_replica(two_replicas: Pair) -> None:
    """Its callers here are told; its reader there sees one log without a hole; the attempt is not counted."""
    one, other = two_replicas.replicas
    async with calling(one) as callers, calling(other, "GRPC") as [elsewhere]:
        async with contextlib.AsyncExitStack() as stack:
            message = say("attempt 25")
            own = await stack.enter_async_context(callers[0].stream("SendStreamingMessage", message))
            task_id = (await anext(own)).task.id
            streams = [own, *[await stack.enter_async_context(caller.subscribe(task_id)) for caller in callers]]
            answers = [asyncio.create_task(caller.answer("SendMessage", message)) for caller in callers]
            there = asyncio.create_task(numbered_events(other, task_id))

            async def has_begun() -> bool:
                return "5 " in "".join(texts(await elsewhere.get(task_id)))

            await wait_until(has_begun, "it has begun")
            leaving = Leaving(one)
            for stream in streams:
                events, error = await events_of(stream)
                assert events
                assert error is not None and error.is_of(UNAVAILABLE), error
                assert error.retry_after and "subscribe to the task again" in error.message
            for answer in answers:
                error = await refused(UNAVAILABLE, answer)
                assert error.retry_after and "goes on" in error.message
            assert await leaving.ended() < 0.5 + AT_ONCE
            # The same message again is no second task: it waits for the one that goes on there.
            task = (await elsewhere.send(message)).task
            assert (task.id, state(task.status.state)) == (task_id, "COMPLETED")
            assert texts(task) == ["1", counted(25), "1"], "it was run twice, both times as the first attempt"
        log = await there
    numbers = [int(event.id or 0) for event in log]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert log[-1].data["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def numbered_events(one: Replica, task_id: str) -> list[SseEvent]:
    """What a reader with event ids sees of a task until its end."""
    async with httpx.AsyncClient(base_url=one.http_url, trust_env=False, timeout=15) as http:
        return parse_sse((await http.get(f"/tasks/{task_id}:subscribe", headers=VERSION)).text)


async def test_an_event_stream_ends_with_an_event_and_a_complete_body() -> None:
    """B077: whoever reads it knows that it was not cut, and that there is more. 20 readers, each of its own task."""
    async with replica(agent=AGENT, env={"A2A_DRAIN_GRACE": "0"}) as one, contextlib.AsyncExitStack() as stack:
        port = int(one.http_url.rpartition(":")[2])
        sent = http_request("POST", "/message:stream", json.dumps(body("hang")).encode(), a2a_version="1.0")
        readers = [await stack.enter_async_context(connected(port)) for _ in range(20)]
        for raw in readers:
            await raw.send(sent)
            assert (await raw.head())[0] == 200
            await raw.chunk()
        leaving = Leaving(one)
        for raw in readers:
            text = ""
            while chunk := await raw.chunk():
                text += chunk.decode()
            last = parse_sse(text)[-1]
            assert (last.type, last.data["error"]["status"]) == ("error", "UNAVAILABLE")
            assert await raw.at_end()
        assert await leaving.ended() < AT_ONCE


# -- what is not waited for --------------------------------------------------------------------------------------------


@pytest.mark.agent(AGENT, A2A_DRAIN_GRACE="15")
async def test_parked_tasks_and_tasks_of_others_hold_nothing_up(two_replicas: Pair) -> None:
    """Their readers and those who wait for them are told; they were not at work here."""
    one, other = two_replicas.replicas
    async with calling(one) as callers, calling(other, "GRPC") as [elsewhere], contextlib.AsyncExitStack() as stack:
        parked = await callers[0].task("ask")
        remote = await elsewhere.task("hang", return_immediately=True)
        await at_work(elsewhere, 1)
        streams = [
            await stack.enter_async_context(caller.subscribe(task.id))
            for task in (parked, remote)
            for caller in callers
            for _ in range(4)
        ]
        waiting = asyncio.create_task(callers[0].task("count 1", task_id=remote.id))

        async def queued() -> bool:
            return len((await elsewhere.get(remote.id)).history) == 2

        await wait_until(queued, "the message waits for its turn")
        leaving = Leaving(one)
        for stream in streams:
            _, error = await events_of(stream)
            assert error is not None and error.is_of(UNAVAILABLE) and error.retry_after
        assert (await refused(UNAVAILABLE, waiting)).retry_after
        assert await leaving.ended() < AT_ONCE
        await elsewhere.cancel(remote.id)
        assert texts(await elsewhere.task("echo on", task_id=parked.id)) == ["on"]


# -- calls that come meanwhile -----------------------------------------------------------------------------------------


@pytest.mark.agent(AGENT, A2A_DRAIN_GRACE="5")
async def test_callers_who_keep_calling_are_sent_elsewhere_not_dropped(two_replicas: Pair) -> None:
    """gRPC: 16 callers share the connections to both replicas, by the service config that docs/DEPLOY.md recommends."""
    one, other = two_replicas.replicas
    [documented] = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "DEPLOY.md").read_text(), re.DOTALL)
    answers = 0
    stopped = False
    options = (("grpc.service_config", documented), ("grpc.enable_retries", 1))
    async with grpc.aio.insecure_channel(f"ipv4:{one.grpc_addr},{other.grpc_addr}", options=options) as channel:
        send = channel.unary_unary(
            "/lf.a2a.v1.A2AService/SendMessage",
            request_serializer=pb.SendMessageRequest.SerializeToString,
            response_deserializer=pb.SendMessageResponse.FromString,
        )

        async def keep_calling() -> None:
            nonlocal answers
            while not stopped:
                response = await send(say("echo x"), metadata=tuple(VERSION.items()), timeout=10)
                assert texts(response.task) == ["x"]
                answers += 1

        callers = [asyncio.create_task(keep_calling()) for _ in range(16)]
        await wait_until(lambda: answers > 50 or callers[0].done(), "calls pass")
        leaving = Leaving(one)
        await leaving.ended()
        before = answers
        await wait_until(lambda: answers > before + 50 or callers[0].done(), "calls pass at the other replica")
        stopped = True
        await asyncio.gather(*callers)


# -- the deadline ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "status"), [("block", OVERDUE), ("regex", -signal.SIGALRM)])
async def test_the_deadline_ends_a_process_whose_event_loop_an_agent_keeps(text: str, status: int) -> None:
    """Also one who keeps the whole interpreter. The store that the process brought along ends with it."""
    env = {"A2A_DRAIN_GRACE": "0.2", "A2A_DRAIN_TIMEOUT": "0.5"}
    async with replica(agent=AGENT, env=env) as one, calling(one, "HTTP+JSON") as [caller]:
        task = asyncio.create_task(caller.task(text))
        store = psutil.Process(one.pid).children(recursive=True)
        assert store
        await blocked(one)
        took = await Leaving(one).ended(status)
        assert 0.5 <= took < 0.5 + AT_ONCE
        if status == OVERDUE:
            assert "not stopped within A2A_DRAIN_TIMEOUT (0.5 s)" in one.log()
            assert "busy_agent.py" in one.log() and "in work" in one.log()
        with pytest.raises(httpx.HTTPError):
            await task
        await wait_until(lambda: not [p for p in store if p.is_running()], "the store has ended")


async def blocked(one: Replica) -> None:
    """Wait until the process answers nobody any more."""
    async with httpx.AsyncClient(base_url=one.http_url, trust_env=False, timeout=0.3) as http:

        async def silent() -> bool:
            try:
                await http.get("/healthz")
            except httpx.TimeoutException:
                return True
            return False

        await wait_until(silent, "the event loop is blocked")


async def test_the_deadline_ends_a_process_that_waits_too_long() -> None:
    """A deaf agent has the cancel grace, which is longer than what is left here."""
    env = {"A2A_DRAIN_GRACE": "0.2", "A2A_DRAIN_TIMEOUT": "1", "A2A_CANCEL_GRACE": "30"}
    async with replica(agent=AGENT, env=env) as one, calling(one, "GRPC") as [caller]:
        await caller.task("deaf", return_immediately=True)
        await at_work(caller, 1)
        assert 1 <= await Leaving(one).ended(OVERDUE) < 1 + AT_ONCE


# -- the gateway -------------------------------------------------------------------------------------------------------


async def test_a_gateway_leaves_by_the_same_rules() -> None:
    """It has no turns: what it finishes within the grace is the answers that it owes. Streams are resumed elsewhere."""
    async with replica(agent=AGENT) as one:
        gateway = Gateway(one.grpc_addr, {"A2A_DRAIN_DELAY": "0.5", "A2A_DRAIN_GRACE": "10"})
        await asyncio.to_thread(gateway.start)
        try:
            async with calling(gateway, "HTTP+JSON", "JSONRPC") as callers, contextlib.AsyncExitStack() as stack:
                streams = [
                    await stack.enter_async_context(caller.stream("SendStreamingMessage", say("hang")))
                    for caller in callers
                ]
                answers = [asyncio.create_task(caller.task("count 20")) for caller in callers]
                await at_work(callers[0], 4)
                leaving = Leaving(gateway)
                await leaving.told()
                assert texts(await callers[0].task("echo still here")) == ["still here"]
                for answer in answers:
                    assert texts(await answer) == [counted(20)]
                for stream in streams:
                    _, error = await events_of(stream)
                    assert error is not None and error.is_of(UNAVAILABLE) and error.retry_after
                assert 1 < await leaving.ended() < 2 + AT_ONCE
        finally:
            await asyncio.to_thread(gateway.close)
