"""Waiting for a task, whatever becomes of connections (a2a-cli specification 0.2, 9)."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from a2a_grpc.client.cli.invocation import Invocation
from a2a_grpc.client.client import A2AClient
from a2a_grpc.client.errors import StreamBrokenError
from a2a_grpc.client.polling import changes
from a2a_grpc.client.states import INTERRUPTED, TERMINAL
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import UnavailableError

_PATIENCE: Final = 30.0
"""Seconds without an answer after which an agent is given up, where no `--timeout` says otherwise."""
_GROWTH: Final = 1.5
_MOST: Final = 5.0
"""Pauses grow up to so many times the first one."""
_NOTICE: Final = 1.0
"""Seconds of waiting after which somebody who waits is told for what."""

Events = AsyncGenerator[a2a_pb2.StreamResponse, None]


async def events(run: Invocation, client: A2AClient, stream: Events, *, answering: bool = False) -> Events:
    """The events of a stream, up to where the task ends or waits for the caller (9.1).

    A stream that breaks is gone on with by looking at the task again and again. `answering`: it begins with a task that
    waits for the very message that began the stream.
    """
    try:
        async with aclosing(stream):
            async for event in stream:
                run.seen.take(event)
                yield event
                if run.seen.state in INTERRUPTED and not answering:
                    return
                answering = False
    except StreamBrokenError as error:
        if not run.seen.task_id:
            raise
        run.debug(f"the stream broke, polling from here on: {error.message}")
    else:
        return
    async with aclosing(_polled(run, client)) as rest:
        async for event in rest:
            yield event


async def settled(
    run: Invocation, client: A2AClient, stream: Events | None, *, answering: bool = False
) -> a2a_pb2.SendMessageResponse:
    """What comes out in the end: the message that answers, or the task when it ends or waits for the caller.

    `stream` is of the task, or of the message that makes it; None: the task that was seen is polled. `answering`: see
    `events`.
    """
    notice = asyncio.create_task(_notice(run))
    try:
        if stream is not None:
            async with aclosing(events(run, client, stream, answering=answering)) as told:
                async for event in told:
                    if event.HasField("message"):
                        return a2a_pb2.SendMessageResponse(message=event.message)
        return a2a_pb2.SendMessageResponse(task=await polled(run, client, run.seen.task_id))
    finally:
        notice.cancel()


async def polled(run: Invocation, client: A2AClient, task_id: str) -> a2a_pb2.Task:
    """The task when it has ended or waits for the caller. A state that is unknown is neither (9.1)."""
    run.seen.task_id = task_id
    task = a2a_pb2.Task()
    async with aclosing(_looks(run, client, task_id)) as looks:
        async for task in looks:
            run.seen.take(task)
    return task


async def _polled(run: Invocation, client: A2AClient, before: a2a_pb2.Task | None = None) -> Events:
    """The task that was seen, and what changes from one look to the next, as a stream would tell it.

    With `before`, the task as it was told already, only what has changed since.
    """
    async with aclosing(_looks(run, client, run.seen.task_id, at_once=before is None)) as looks:
        async for task in looks:
            found = [a2a_pb2.StreamResponse(task=task)] if before is None else changes(before, task)
            before = task
            for event in found:
                run.seen.take(event)
                yield event


async def _looks(
    run: Invocation, client: A2AClient, task_id: str, *, at_once: bool = True
) -> AsyncGenerator[a2a_pb2.Task, None]:
    """The task again and again, up to the one that ends the wait."""
    request = a2a_pb2.GetTaskRequest(id=task_id)
    if getattr(run.args, "history", None) is not None:
        request.history_length = run.args.history
    first = pause = run.args.poll_interval
    if not at_once:
        await asyncio.sleep(pause)
        pause *= _GROWTH
    answered = time.monotonic()
    while True:
        try:
            task = await client.get_task(request)
        except UnavailableError as error:
            if time.monotonic() - answered > _PATIENCE and run.args.timeout is None:
                raise
            run.debug(f"no answer: {error.message}")
            wait = max(pause, error.retry_after or 0.0)
        else:
            answered = time.monotonic()
            yield task
            if task.status.state in TERMINAL | INTERRUPTED:
                return
            wait = pause
        await asyncio.sleep(wait)
        pause = min(pause * _GROWTH, first * _MOST)


async def _notice(run: Invocation) -> None:
    """Tell which task is waited for, so that its id is there whatever becomes of this process."""
    await asyncio.sleep(_NOTICE)
    if run.seen.task_id:
        run.say(f"waiting for task {run.seen.task_id} of context {run.seen.context_id}")


def sending(run: Invocation, client: A2AClient, request: a2a_pb2.SendMessageRequest) -> Events:
    """What comes of a message: the stream of the agent, or where it has none, what looks at the task tell."""
    return client.send_streaming_message(request) if streams(client) else _sent_and_polled(run, client, request)


def following(run: Invocation, client: A2AClient, task_id: str) -> Events:
    """What happens to a task, likewise."""
    if streams(client):
        return client.subscribe_to_task(a2a_pb2.SubscribeToTaskRequest(id=task_id))
    run.seen.task_id = task_id
    return _polled(run, client)


def streams(client: A2AClient) -> bool:
    """Whether the card rules streams out (13.3)."""
    return client.card is None or client.card.capabilities.streaming


async def _sent_and_polled(run: Invocation, client: A2AClient, request: a2a_pb2.SendMessageRequest) -> Events:
    request.configuration.return_immediately = True
    response = await client.send_message(request)
    if response.HasField("message"):
        yield a2a_pb2.StreamResponse(message=response.message)
        return
    run.seen.take(response)
    yield a2a_pb2.StreamResponse(task=response.task)
    if response.task.status.state not in TERMINAL | INTERRUPTED:
        async with aclosing(_polled(run, client, response.task)) as rest:
            async for event in rest:
                yield event
