"""The floor: the same libraries doing nothing. `python -m bench.floor grpc|http PORT`."""

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from a2a_grpc.pb import a2a_pb2
from bench.agent import CHUNKS

_TASK_ID, _CONTEXT_ID, _ID = "t" * 34, "c" * 32, "a" * 32

# What the service answers with: the same size on the wire.
_TASK = a2a_pb2.Task(
    id=_TASK_ID,
    context_id=_CONTEXT_ID,
    status=a2a_pb2.TaskStatus(state=a2a_pb2.TASK_STATE_COMPLETED),
    artifacts=[a2a_pb2.Artifact(artifact_id=_ID, name="result", parts=[a2a_pb2.Part(text="done")])],
    history=[
        a2a_pb2.Message(
            message_id="bench",
            task_id=_TASK_ID,
            context_id=_CONTEXT_ID,
            role=a2a_pb2.ROLE_USER,
            parts=[a2a_pb2.Part(text="work")],
        )
    ],
)
_SENT = a2a_pb2.SendMessageResponse(task=_TASK)
_CHUNK = a2a_pb2.StreamResponse(
    artifact_update=a2a_pb2.TaskArtifactUpdateEvent(
        task_id=_TASK_ID,
        context_id=_CONTEXT_ID,
        artifact=a2a_pb2.Artifact(artifact_id="output", parts=[a2a_pb2.Part(text="0" * 20)]),
        append=True,
    )
)


async def _send_message(_: a2a_pb2.SendMessageRequest, __: object) -> a2a_pb2.SendMessageResponse:
    return _SENT


async def _get_task(_: a2a_pb2.GetTaskRequest, __: object) -> a2a_pb2.Task:
    return _TASK


async def _send_streaming_message(_: a2a_pb2.SendMessageRequest, __: object) -> AsyncIterator[a2a_pb2.StreamResponse]:
    # As many as the service sends: the task, the chunks, and the end.
    for _ in range(CHUNKS + 2):  # type: ignore[assignment]
        yield _CHUNK


async def _subscribe_to_task(_: a2a_pb2.SubscribeToTaskRequest, __: object) -> AsyncIterator[a2a_pb2.StreamResponse]:
    # The task, and then nothing.
    yield a2a_pb2.StreamResponse(task=_TASK)
    await asyncio.Event().wait()


async def _grpc(port: int) -> None:
    send, get = a2a_pb2.SendMessageRequest.FromString, a2a_pb2.GetTaskRequest.FromString
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "SendMessage": grpc.unary_unary_rpc_method_handler(
            _send_message, send, a2a_pb2.SendMessageResponse.SerializeToString
        ),
        "GetTask": grpc.unary_unary_rpc_method_handler(_get_task, get, a2a_pb2.Task.SerializeToString),
        "SendStreamingMessage": grpc.unary_stream_rpc_method_handler(
            _send_streaming_message, send, a2a_pb2.StreamResponse.SerializeToString
        ),
        "SubscribeToTask": grpc.unary_stream_rpc_method_handler(
            _subscribe_to_task,
            a2a_pb2.SubscribeToTaskRequest.FromString,
            a2a_pb2.StreamResponse.SerializeToString,
        ),
    }
    server = grpc.aio.server(handlers=[grpc.method_handlers_generic_handler("lf.a2a.v1.A2AService", handlers)])
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


async def _send(request: Request) -> JSONResponse:
    await request.json()
    status = {"state": "TASK_STATE_COMPLETED"}
    return JSONResponse({"task": {"id": _TASK_ID, "contextId": _CONTEXT_ID, "status": status}})


async def _http(port: int) -> None:
    app = Starlette(routes=[Route("/message:send", _send, methods=["POST"])])
    config = uvicorn.Config(app, port=port, log_config=None, access_log=False, loop="none", lifespan="off")
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    uvloop.run((_grpc if sys.argv[1] == "grpc" else _http)(int(sys.argv[2])))
