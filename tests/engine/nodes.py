"""A replica in this process: an engine with its store and its tail, and the operations on top of them."""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Container
from typing import Any

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, Turn
from a2a_grpc.server.agents.agent import SkillFunction
from a2a_grpc.server.auth.gate import Gate
from a2a_grpc.server.core import ids
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.engine.engine import Engine
from a2a_grpc.server.engine.run import Limits
from a2a_grpc.server.hosting.hosts import Hosted, Hosts
from a2a_grpc.server.hosting.limits import HostLimits
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.operations import Operations
from a2a_grpc.server.store.letters import DeadLetters
from a2a_grpc.server.store.records import Scope
from a2a_grpc.server.store.tail import LogTail
from a2a_grpc.server.store.tasks import TaskStore
from tests.support.tasks import ALICE, DAY, open_store, says
from tests.support.waiting import wait_until

State = a2a_pb2.TaskState


def agent_of(
    function: SkillFunction, *, answers: str = "task", timeout: float | None = None, attempts: int | None = None
) -> Agent:
    """An agent whose only skill is `function`."""
    agent = Agent(name="Test", description="Does as it is told.", version="1", answers=answers, attempts=attempts)
    agent.skill(id="only", name="Only", description="The only one.", tags=["test"], timeout=timeout)(function)
    return agent


class Node:
    """One replica. Its callers are Alice unless they say otherwise."""

    def __init__(self, agent: Agent, store: TaskStore, tail: LogTail, engine: Engine, operations: Operations) -> None:
        self.agent = agent
        self.store = store
        self.tail = tail
        self.engine = engine
        self._operations = operations

    async def send(
        self,
        text: str,
        task_id: str = "",
        *,
        message_id: str = "",
        at_once: bool = False,
        scope: Scope = ALICE,
        **more: Any,
    ) -> a2a_pb2.SendMessageResponse:
        """SendMessage."""
        request = a2a_pb2.SendMessageRequest(message=says(text, message_id, task_id=task_id, **more))
        request.configuration.return_immediately = at_once
        response: a2a_pb2.SendMessageResponse = await self._unary("SendMessage", request, scope)
        return response

    async def task(self, text: str, task_id: str = "", **more: Any) -> a2a_pb2.Task:
        """The task that SendMessage answers with."""
        response = await self.send(text, task_id, **more)
        assert response.HasField("task"), response
        return response.task

    async def begin(self, text: str, task_id: str = "", **more: Any) -> str:
        """The id of the task of a message whose end nobody waits for."""
        return (await self.task(text, task_id, at_once=True, **more)).id

    def stream(self, text: str, task_id: str = "", *, scope: Scope = ALICE) -> AsyncGenerator[Event, None]:
        """SendStreamingMessage."""
        request = a2a_pb2.SendMessageRequest(message=says(text, task_id=task_id))
        return self._operations.streams["SendStreamingMessage"](request, caller(scope))

    def subscribe(self, task_id: str, *, scope: Scope = ALICE) -> AsyncGenerator[Event, None]:
        """SubscribeToTask."""
        return self._operations.streams["SubscribeToTask"](a2a_pb2.SubscribeToTaskRequest(id=task_id), caller(scope))

    async def get(self, task_id: str, *, scope: Scope = ALICE) -> a2a_pb2.Task:
        """GetTask."""
        task: a2a_pb2.Task = await self._unary("GetTask", a2a_pb2.GetTaskRequest(id=task_id), scope)
        return task

    async def cancel(self, task_id: str, *, scope: Scope = ALICE) -> a2a_pb2.Task:
        """CancelTask."""
        task: a2a_pb2.Task = await self._unary("CancelTask", a2a_pb2.CancelTaskRequest(id=task_id), scope)
        return task

    async def list(self, *, scope: Scope = ALICE, **filters: Any) -> a2a_pb2.ListTasksResponse:
        """ListTasks."""
        page: a2a_pb2.ListTasksResponse = await self._unary("ListTasks", a2a_pb2.ListTasksRequest(**filters), scope)
        return page

    async def until(self, task_id: str, state: State, timeout: float = 5.0) -> a2a_pb2.Task:
        """The task once it is in `state`."""

        async def reached() -> a2a_pb2.Task | None:
            task = await self.get(task_id)
            return task if task.status.state == state else None

        found = await wait_until(reached, f"the task is {State.Name(state)}", timeout)
        assert found is not None
        return found

    async def _unary(self, method: str, request: Any, scope: Scope) -> Any:
        return await self._operations.unary[method](request, caller(scope))


def caller(scope: Scope) -> Caller:
    return Caller(scope=scope, authenticated=True, extensions=("urn:active",))


@contextlib.asynccontextmanager
async def open_node(
    url: str,
    agent: Agent | SkillFunction,
    replica: str = "r1",
    *,
    max_turns: int = 100,
    turn_timeout: float = 0.0,
    cancel_grace: float = 0.5,
    mixed_timeout: float = 0.5,
    dedupe_ttl: float = 60.0,
    snapshot_events: int = 256,
    max_attempts: int = 3,
    lease_ttl: float = 4.0,
    tenants: Container[str] | None = None,
    **settings: Any,
) -> AsyncIterator[Node]:
    """A replica on the store at `url` that serves `agent` (or an agent of one function) and claims what waits.

    `tenants`: those that it serves; None: all.
    """
    served = agent if isinstance(agent, Agent) else agent_of(agent)
    async with open_store(url, f"{replica}-{ids.new_id()[:8]}", **settings) as store:
        tail = LogTail(
            store.nodes,
            store,
            lambda task_id: store.keys_of(task_id).events(task_id),
            buffer=256,
            timeout=1.5,
            patience=30.0,
        )
        engine = Engine(
            lambda tenant: served if tenants is None or tenant in tenants else None,
            store,
            tail,
            DeadLetters(store, ttl=DAY),
            limits=Limits(turn_timeout=turn_timeout, cancel_grace=cancel_grace, max_attempts=max_attempts),
            max_turns=max_turns,
            mixed_timeout=mixed_timeout,
            snapshot_events=snapshot_events,
            lease_ttl=lease_ttl,
            patience=settings.get("patience", 30.0),
        )
        hosts = Hosts([Hosted(served, Gate(), served.card, HostLimits(max_message_bytes=2**22))], for_all=True)
        operations = Operations(hosts, engine, store, tail, dedupe_ttl=dedupe_ttl, cancel_grace=cancel_grace)
        await tail.start()
        try:
            await wait_until(lambda: tail.connected, "the tail is connected")
            await engine.start()
            yield Node(served, store, tail, engine, operations)
        finally:
            await engine.close()
            await tail.close()


def words(task: a2a_pb2.Task) -> str:
    """What the present status says."""
    return "".join(part.text for part in task.status.message.parts)


def history(task: a2a_pb2.Task) -> list[str]:
    """What was said, oldest first."""
    return ["".join(part.text for part in message.parts) for message in task.history]


def artifacts(task: a2a_pb2.Task) -> dict[str, list[str]]:
    """The texts of the artifacts by their ids."""
    return {one.artifact_id: [part.text for part in one.parts] for one in task.artifacts}


async def echo(turn: Turn) -> None:
    """The simplest agent."""
    await turn.artifact(artifact_id="echo", text=turn.text)
