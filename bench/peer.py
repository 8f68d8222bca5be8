"""The official SDK doing the same work as `bench.agent`. `python -m bench.peer GRPC_PORT HTTP_PORT [DATABASE_URL]`."""

import asyncio
import sys

import grpc.aio
import uvicorn
import uvloop
from a2a.helpers import new_task_from_user_message, new_text_part
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_rest_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
from a2a.types.a2a_pb2_grpc import add_A2AServiceServicer_to_server
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette


class Bench(AgentExecutor):
    """For "work": WORKING, an artifact, COMPLETED. For "chunks N": so many chunks of one artifact."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.message is not None
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        word, *rest = context.get_user_input().split()
        if word == "work":
            await updater.start_work()
            await updater.add_artifact([new_text_part("done")], name="result")
        for number in range(1, int(rest[0]) + 1) if rest else ():
            await updater.add_artifact(
                [new_text_part(f"{number:019d} ")], "output", append=number > 1, last_chunk=number == int(rest[0])
            )
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


async def _serve(grpc_port: int, http_port: int, database: str | None) -> None:
    card = AgentCard(
        name="Bench",
        description="Answers at once.",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=f"127.0.0.1:{grpc_port}", protocol_binding="GRPC", protocol_version="1.0"),
            AgentInterface(url=f"http://127.0.0.1:{http_port}", protocol_binding="HTTP+JSON", protocol_version="1.0"),
        ],
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        capabilities=AgentCapabilities(streaming=True),
        skills=[AgentSkill(id="work", name="Work", description="WORKING, an artifact, COMPLETED.", tags=["bench"])],
    )
    store: TaskStore = DatabaseTaskStore(create_async_engine(database)) if database else InMemoryTaskStore()
    if isinstance(store, DatabaseTaskStore):
        await store.initialize()
    handler = DefaultRequestHandler(agent_executor=Bench(), task_store=store, agent_card=card)
    server = grpc.aio.server()
    add_A2AServiceServicer_to_server(GrpcHandler(handler), server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(f"127.0.0.1:{grpc_port}")
    await server.start()
    app = Starlette(routes=create_rest_routes(handler))
    config = uvicorn.Config(app, port=http_port, log_config=None, access_log=False, loop="none", lifespan="off")
    await asyncio.gather(server.wait_for_termination(), uvicorn.Server(config).serve())


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None))
