"""Executors as the tutorials of a2a-sdk write them, none of which knows where it runs. The first word says what."""

import asyncio

from a2a.helpers import new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Artifact,
    Part,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InvalidParamsError

agent_card = AgentCard(
    name="Executors",
    description="Does what the first word says.",
    version="1.0.0",
    supported_interfaces=[AgentInterface(url="http://localhost:9999/", protocol_binding="JSONRPC")],
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    capabilities=AgentCapabilities(streaming=True),
    skills=[AgentSkill(id="all", name="All", description="Everything.", tags=["test"])],
)
"""As a tutorial has it: the interface is that of the server which the tutorial starts."""

_schemas = agent_card.capabilities.extensions.add(uri="urn:a2a-grpc:extension:artifact-schemas:v1")
_schemas.params.update({"all": {"score": {"type": "number", "maximum": 100}}})


class HelloWorld(AgentExecutor):
    """One message, and no task."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:  # noqa: ARG002 - as written
        await event_queue.enqueue_event(new_text_message("Hello World"))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError("cancel not supported")


class Currency(AgentExecutor):
    """Works on a task, asks for what it needs, and goes on with the answer."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task
        if not task:
            assert context.message is not None
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        words = context.get_user_input().split()
        await updater.update_status(
            TaskState.TASK_STATE_WORKING, updater.new_agent_message([new_text_part("Looking up the rates…")])
        )
        if "EUR" not in words:
            await updater.requires_input(updater.new_agent_message([new_text_part("Into which currency?")]))
            return
        asked = [part.text for message in task.history for part in message.parts]
        await updater.add_artifact([new_text_part(f"90 EUR, asked by {asked[0]!r}")], name="conversion_result")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError("cancel not supported")


class LongRunning(AgentExecutor):
    """Works until it is canceled, and says so with its own words."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await event_queue.enqueue_event(
            Task(
                id=context.task_id,
                context_id=context.context_id,
                status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
                history=[context.message] if context.message else [],
            )
        )
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.start_work()
        await updater.add_artifact([Part(text="half")], artifact_id="work", name="work")
        await asyncio.Event().wait()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.current_task is not None and context.task_id == context.current_task.id
        updater = TaskUpdater(event_queue, context.task_id, context.context_id or "")
        await updater.cancel(updater.new_agent_message([new_text_part("Stopped half-way.")]))


class Chunks(AgentExecutor):
    """An artifact in as many chunks as are asked for, with events made by hand."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        count = int(context.get_user_input().split()[1])
        task_id, context_id = context.task_id or "", context.context_id or ""
        await event_queue.enqueue_event(
            Task(
                id=context.task_id,
                context_id=context.context_id,
                status=TaskStatus(state=TaskState.TASK_STATE_WORKING),
            )
        )
        for number in range(count):
            await event_queue.enqueue_event(
                TaskArtifactUpdateEvent(
                    task_id=task_id,
                    context_id=context_id,
                    artifact=Artifact(artifact_id="a1", name="count", parts=[Part(text=f"{number} ")]),
                    append=number > 0,
                    last_chunk=number == count - 1,
                )
            )
        await event_queue.enqueue_event(
            TaskStatusUpdateEvent(
                task_id=task_id, context_id=context_id, status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED)
            )
        )

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


class Recovering(AgentExecutor):
    """Hangs at its first attempt; the next one tells what it found."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        if context.current_task is None:
            assert context.message is not None
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            await updater.add_artifact([Part(text="begun")], artifact_id="begun", name="begun")
            await asyncio.Event().wait()
        assert context.current_task is not None
        found = [artifact.name for artifact in context.current_task.artifacts]
        attempt = context.call_context.state["attempt"]
        await updater.add_artifact([Part(text=f"attempt {attempt}, found {found}")], name="end")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


class Broken(AgentExecutor):
    """Fails, in the way that is asked for."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        match context.get_user_input().split()[1]:
            case "raises":
                raise RuntimeError("the password is 1234")
            case "refuses":
                raise InvalidParamsError("Say more.")
            case "elsewhere":
                await event_queue.enqueue_event(
                    TaskStatusUpdateEvent(task_id="another", status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED))
                )
            case "late":
                updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
                await updater.complete()
                await updater.add_artifact([Part(text="too late")], name="late")

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


class Shapes(AgentExecutor):
    """Other ways in which executors answer: the second word says which."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        match context.get_user_input().split()[1]:
            case "whole":
                await event_queue.enqueue_event(
                    Task(
                        id=context.task_id or "",
                        context_id=context.context_id or "",
                        status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED, message=new_text_message("All of it.")),
                        artifacts=[Artifact(artifact_id="1", name="all", parts=[Part(text="everything")])],
                        history=[context.message] if context.message else [],
                    )
                )
            case "submits":
                await updater.submit()
                await updater.start_work()
                await updater.complete(updater.new_agent_message([Part(text="Done.")]))
            case "silent":
                pass
            case "ponders":
                await asyncio.sleep(0.7)
                await event_queue.enqueue_event(new_text_message("Forty-two."))
            case "authorizes":
                await updater.requires_auth(updater.new_agent_message([Part(text="Approve it.")]))
                await asyncio.sleep(0.3)
                await updater.start_work()
                await updater.complete(updater.new_agent_message([Part(text="Approved.")]))
            case "looks":
                call = context.call_context
                said = [call.user.user_name, call.user.is_authenticated, call.tenant, sorted(call.requested_extensions)]
                related = [task.status.message.parts[0].text for task in context.related_tasks]
                await event_queue.enqueue_event(new_text_message(f"{said} {context.metadata} {related}"))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


class Scores(AgentExecutor):
    """Writes a number, and has words of its own for whatever goes wrong, as many executors do, or none at all."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        part = Part()
        part.data.number_value = float(context.get_user_input().split()[1])
        try:
            await updater.add_artifact([part], name="score")
        except Exception as error:  # noqa: BLE001 - as it is written in the wild
            if part.data.number_value < 1000:
                await updater.failed(updater.new_agent_message([new_text_part(f"Oops: {error!r}")]))
        else:
            await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...


class Dispatch(AgentExecutor):
    """All of them behind one executor: the first word of a task's first message says which."""

    agent_card = agent_card

    def __init__(self) -> None:
        self._by_word: dict[str, AgentExecutor] = {
            "hello": HelloWorld(),
            "convert": Currency(),
            "long": LongRunning(),
            "chunks": Chunks(),
            "recover": Recovering(),
            "broken": Broken(),
            "score": Scores(),
            "shape": Shapes(),
        }

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await self._of(context).execute(context, event_queue)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await self._of(context).cancel(context, event_queue)

    def _of(self, context: RequestContext) -> AgentExecutor:
        first = context.current_task.history[0] if context.current_task else context.message
        assert first is not None
        return self._by_word[first.parts[0].text.split()[0]]
