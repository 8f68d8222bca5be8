"""Callers that use the service in every way it offers, keep at it when it fails them, and write down what they see."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TypeVar

from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states
from tests.chaos.history import LATE, LEFT, LOST, OK, Call, Event, History, packed
from tests.chaos.lines import FailedError, GrpcLine, HttpLine, Line
from tests.support.replica import Replica

M = TypeVar("M", bound=Message)

AGAIN = frozenset({LOST, LATE, "UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED"})
"""Outcomes after which the same message is sent again."""
_SHORT, _BLOCKING, _SILENCE = 3.0, 10.0, 4.0
_SILENT = "nothing came"
_PAUSE = 0.15
_PATIENCE = 60.0
"""Seconds after the end of the load within which every message has to have been answered."""


@dataclass(slots=True)
class Account:
    """One caller of the service, whom several workers speak for: what it knows of its own tasks."""

    name: str
    key: str
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=40))
    """Ids of tasks."""
    sent: deque[tuple[str, str, str]] = field(default_factory=lambda: deque(maxlen=40))
    """Messages that were accepted: id, text, task that they named."""


class Worker:
    """One stream of calls of one account."""

    def __init__(
        self, number: int, account: Account, replicas: Sequence[Replica], history: History, old: set[int]
    ) -> None:
        """`old` are the numbers of the replicas that run the version before this."""
        self._account = account
        self._history = history
        self._old = old
        self._random = random.Random(f"{history.seed} worker {number}")
        self._number = number
        self._messages = 0
        make = GrpcLine if number % 2 else HttpLine
        self._lines: list[Line] = [make(replica, account.key) for replica in replicas]
        self._until = 0.0

    async def run(self, until: float) -> None:
        """Calls until then (by the monotonic clock); what was begun is brought to an end after it."""
        self._until = until
        actions = {
            self._send: 14,
            self._stream: 24,
            self._follow_up: 14,
            self._cancel: 4,
            self._get: 8,
            self._list: 1,
            self._subscribe: 8,
            self._repeat: 4,
            self._twice_at_once: 3,
            self._misuse: 2,
        }
        while time.monotonic() < until:
            (action,) = self._random.choices(list(actions), list(actions.values()))
            await action()
            await asyncio.sleep(self._random.expovariate(1 / _PAUSE))

    async def cut(self) -> None:
        """Break all connections of this worker."""
        for line in self._lines:
            await line.cut()

    async def close(self) -> None:
        """Leave for good."""
        for line in self._lines:
            await line.close()

    # -- what a caller does --------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        await self._send_it(self._new_message(), wait=self._random.random() < 0.4)

    async def _twice_at_once(self) -> None:
        message = self._new_message()
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(self._send_it(message, wait=False))

    async def _follow_up(self) -> None:
        if (task_id := self._some_task()) is not None:
            message = self._new_message()
            message.task_id = task_id
            if self._random.random() < 0.3:
                await self._follow("SendStreamingMessage", message)
            else:
                await self._send_it(message, wait=self._random.random() < 0.3)

    async def _repeat(self) -> None:
        if self._account.sent:
            await self._send_it(_message(*self._random.choice(self._account.sent)), wait=False)

    async def _misuse(self) -> None:
        if self._account.sent:
            message_id, text, task_id = self._random.choice(self._account.sent)
            await self._send_it(_message(message_id, text + "1", task_id), wait=False)

    async def _stream(self) -> None:
        await self._follow("SendStreamingMessage", self._new_message())

    async def _subscribe(self) -> None:
        if (task_id := self._some_task()) is not None:
            await self._follow("SubscribeToTask", task_id)

    async def _cancel(self) -> None:
        if (task_id := self._some_task()) is not None:
            call = self._call("CancelTask", task=task_id)
            await self._ask(call, a2a_pb2.CancelTaskRequest(id=task_id), a2a_pb2.Task, _BLOCKING)

    async def _get(self) -> None:
        if (task_id := self._some_task()) is not None:
            call = self._call("GetTask", task=task_id)
            await self._ask(call, a2a_pb2.GetTaskRequest(id=task_id), a2a_pb2.Task, _SHORT)

    async def _list(self) -> None:
        await list_all(self._lines[self._any_replica()], self._call("ListTasks"), _SHORT, self._history)

    # -- messages ------------------------------------------------------------------------------------------------------

    def _new_message(self) -> a2a_pb2.Message:
        (skill,) = self._random.choices(["work", "once", "resume", "ask"], [4, 4, 3, 4])
        if self._random.random() < 0.1:
            chunks, delay = self._random.randint(8, 16), 300
        else:
            chunks, delay = self._random.randint(1, 6), self._random.choice([0, 20, 60, 120])
        self._messages += 1
        return _message(f"m-{self._history.seed}-{self._number}-{self._messages}", f"{skill} {chunks} {delay}", "")

    def _some_task(self) -> str | None:
        return self._random.choice(self._account.recent) if self._account.recent else None

    async def _send_it(self, message: a2a_pb2.Message, *, wait: bool) -> None:
        """Sends until there is an answer; a caller may also leave it at an error."""
        request = a2a_pb2.SendMessageRequest(message=message)
        request.configuration.return_immediately = not wait
        while True:
            call = self._call("SendMessage", message=message)
            answer = await self._ask(call, request, a2a_pb2.SendMessageResponse, _BLOCKING if wait else _SHORT)
            if not await self._again(call):
                if answer is not None:
                    self._accepted(message, answer.task.id)
                return
            # It may be done already; there is no need to wait for it twice.
            request.configuration.return_immediately = True

    def _accepted(self, message: a2a_pb2.Message, task_id: str) -> None:
        self._account.sent.append((message.message_id, message.parts[0].text, message.task_id))
        if not message.task_id:
            self._account.recent.append(task_id)

    async def _again(self, call: Call) -> bool:
        """Whether to try again, after a while."""
        if call.outcome not in AGAIN:
            return False
        late = time.monotonic() - self._until
        if late > _PATIENCE or (late < 0 and self._random.random() < 0.05):
            return False
        await asyncio.sleep(self._random.uniform(0.05, 0.4))
        return True

    # -- streams -------------------------------------------------------------------------------------------------------

    async def _follow(self, operation: str, what: a2a_pb2.Message | str) -> None:
        """Follows a stream to its end over as many connections as it takes; `what` is the message or the task's id."""
        cursor: int | None = None
        task_id = "" if isinstance(what, a2a_pb2.Message) else what
        while True:
            if isinstance(what, a2a_pb2.Message) and (not task_id or operation == "SendStreamingMessage"):
                operation = "SendStreamingMessage"
                call = self._call(operation, message=what)
                request: Message = a2a_pb2.SendMessageRequest(message=what)
            else:
                call = self._call(operation, task=task_id)
                request = a2a_pb2.SubscribeToTaskRequest(id=task_id)
            call.cursor = cursor
            await self._listen(call, request)
            if call.events:
                if not task_id and isinstance(what, a2a_pb2.Message):
                    task_id = call.told
                    self._accepted(what, task_id)
                cursor = call.events[-1].seq
                if call.detail == _SILENT and _parked(call.events):
                    # Nothing more is to be expected before somebody answers the question.
                    return
            if call.outcome != LEFT and not await self._again(call):
                return
            if call.outcome == LEFT and time.monotonic() > self._until + _PATIENCE:
                return
            if task_id and self._random.random() < 0.7:
                operation = "SubscribeToTask"

    async def _listen(self, call: Call, request: Message) -> None:
        leave_after = self._random.choice([None, None, 0, 1, 2, 4])
        self._history.calls.append(call)
        try:
            async with aclosing(self._lines[call.replica].stream(call, request)) as events:
                iterator = aiter(events)
                while leave_after is None or len(call.events) < leave_after:
                    # A parked task keeps a subscription open without a word.
                    async with asyncio.timeout(_SILENCE):
                        seq, response = await anext(iterator)
                    call.events.append(Event(seq, time.monotonic(), packed(response)))
                    if response.HasField("task"):
                        call.told = response.task.id
                call.outcome = LEFT
        except StopAsyncIteration:
            call.outcome = OK
        except TimeoutError:
            call.outcome, call.detail = LEFT, _SILENT
        except FailedError as error:
            call.outcome, call.detail = error.outcome, error.detail
        except BaseException as error:
            call.outcome, call.detail = LEFT, repr(error)
            raise
        finally:
            call.ended = time.monotonic()

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _any_replica(self) -> int:
        return self._random.randrange(len(self._lines))

    def _call(self, operation: str, *, message: a2a_pb2.Message | None = None, task: str = "") -> Call:
        replica = self._any_replica()
        return Call(
            caller=self._account.name,
            operation=operation,
            binding=self._lines[replica].binding,
            replica=replica,
            old=replica in self._old,
            began=time.monotonic(),
            message=message.message_id if message is not None else "",
            text=message.parts[0].text if message is not None else "",
            task=message.task_id if message is not None else task,
        )

    async def _ask(self, call: Call, request: Message, answer: type[M], timeout: float) -> M | None:
        return await ask(self._lines[call.replica], call, request, answer, timeout, self._history)


async def ask(line: Line, call: Call, request: Message, answer: type[M], timeout: float, history: History) -> M | None:
    """One unary call, noted in the history; None where it was not answered with OK."""
    history.calls.append(call)
    found: M | None = None
    try:
        found = await line.unary(call, request, answer, timeout)
        call.outcome = OK
        task = found.task if isinstance(found, a2a_pb2.SendMessageResponse) else found
        if isinstance(task, a2a_pb2.Task):
            call.told, call.answer = task.id, packed(task)
    except FailedError as error:
        call.outcome, call.detail = error.outcome, error.detail
    except BaseException as error:
        call.outcome, call.detail = LEFT, repr(error)
        raise
    finally:
        call.ended = time.monotonic()
    return found


async def list_all(line: Line, call: Call, timeout: float, history: History) -> None:
    """All pages of ListTasks, as one call."""
    history.calls.append(call)
    request = a2a_pb2.ListTasksRequest(page_size=100, history_length=0)
    try:
        while True:
            page = await line.unary(call, request, a2a_pb2.ListTasksResponse, timeout)
            call.listed += [task.id for task in page.tasks]
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        call.outcome = OK
    except FailedError as error:
        call.outcome, call.detail = error.outcome, error.detail
    finally:
        call.ended = time.monotonic()


def _message(message_id: str, text: str, task_id: str) -> a2a_pb2.Message:
    return a2a_pb2.Message(
        message_id=message_id, role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text=text)], task_id=task_id
    )


def _parked(events: Sequence[Event]) -> bool:
    last = events[-1].response
    status = last.task.status if last.HasField("task") else last.status_update.status
    return status.state in states.INTERRUPTED
