"""B109: strangers on the gRPC port."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import Awaitable, Callable

import grpc.aio
import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from tests.conformance.callers import VERSION, Connect, kinds
from tests.support.replica import Pair, Replica

METADATA = tuple(VERSION.items())


async def curl(address: str, *options: str) -> None:
    binary = shutil.which("curl")
    if binary is None:
        pytest.skip("curl is not installed: HEAD over HTTP/2 on the gRPC port is not tested")
    command = (binary, "-sSi", "--max-time", "5", *options, f"http://{address}/")
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    answer, _ = await process.communicate()
    # To HEAD the gRPC library answers in its own way: 200, and a grpc-status that is an error.
    assert process.returncode != 0 or (b"grpc-status:" in answer and b"grpc-status: 0" not in answer)


async def head(address: str) -> None:
    await curl(address, "--http2-prior-knowledge", "-I")


async def get(address: str) -> None:
    await curl(address, "--http1.1")


async def post(address: str) -> None:
    await curl(address, "--http2-prior-knowledge", "--data", "{}")


async def tls(address: str) -> None:
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.wait_for(asyncio.open_connection(host, int(port), ssl=context), 5)


Stranger = Callable[[str], Awaitable[None]]


@pytest.mark.parametrize("stranger", [head, get, post, tls], ids=lambda stranger: stranger.__name__)
async def test_b109_strangers_on_the_grpc_port_harm_nobody(stranger: Stranger, pair: Pair, connect: Connect) -> None:
    """They are turned away; a stream and 100 calls on old and new connections go on, and the log is not flooded."""
    replica = pair.replicas[0]
    caller = await connect(replica)
    task = await caller.task("ask")
    lines = len(besides_calls(replica))
    async with caller.subscribe(task.id) as stream, grpc.aio.insecure_channel(replica.grpc_addr) as old:
        await anext(stream)
        request = pb.GetTaskRequest(id=task.id)
        assert await A2AServiceStub(old).GetTask(request, metadata=METADATA, timeout=5) == task
        await asyncio.wait_for(asyncio.gather(*(stranger(replica.grpc_addr) for _ in range(5))), 20)
        for _ in range(10):
            # A pool of its own, or the library would use the connection that is there.
            options = (("grpc.use_local_subchannel_pool", 1),)
            async with grpc.aio.insecure_channel(replica.grpc_addr, options=options) as new:
                for _ in range(5):
                    for channel in (old, new):
                        assert await A2AServiceStub(channel).GetTask(request, metadata=METADATA, timeout=5) == task
        await caller.task("echo x", task_id=task.id)
        assert kinds(await stream.all()) == ["WORKING", "artifact", "COMPLETED"]
    assert len(besides_calls(replica)) <= lines + 10


def besides_calls(replica: Replica) -> list[str]:
    """The lines of its log that are no records of calls."""
    return [line for line in replica.log(lines=None).splitlines() if "a2a_grpc.access" not in line]
