"""The image, built without a daemon on two bases, and run confined: replicas on one store, and one with its own."""

import json
import platform
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import httpx
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub
from packaging.markers import Marker

from a2a_grpc.client import A2AClient, message
from a2a_grpc.pb import a2a_pb2 as pb
from tests.deploy.containers import Engine, missing
from tests.support.nodes import Node, binary_of
from tests.support.replica import ROOT, free_ports
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),  # the first test builds
    pytest.mark.skipif(missing() != "", reason=missing()),
]

MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine(Path(tempfile.mkdtemp(prefix="a2a-test-images-")))
    yield made
    made.close()


@pytest.fixture(scope="module")
def base(engine: Engine) -> str:
    return engine.debian()


@pytest.fixture(scope="module")
def image(engine: Engine, base: str) -> str:
    return engine.build("localhost/a2a-grpc:slim", BASE=base)


@pytest.fixture(scope="module")
def bare(engine: Engine, base: str) -> str:
    """On a base in which there is no shell and no pip."""
    return engine.build("localhost/a2a-grpc:bare", BASE=engine.without_shell(base), BUILD_BASE=base)


@pytest.fixture(scope="module")
def store() -> Iterator[Node]:
    node = Node(binary_of(None), free_ports(1)[0], [])
    node.start()
    yield node
    node.close()


class Ports:
    """Where a container listens."""

    def __init__(self) -> None:
        grpc_port, http_port = free_ports(2)
        self.grpc = f"127.0.0.1:{grpc_port}"
        self.http = f"http://127.0.0.1:{http_port}"

    def settings(self, **more: str) -> dict[str, str]:
        return {
            "A2A_GRPC_ADDR": self.grpc,
            "A2A_HTTP_ADDR": self.http.removeprefix("http://"),
            "A2A_METRICS_ADDR": "none",
            **more,
        }

    async def ready(self) -> None:
        """Waits as the probes of the manifests do."""

        async def serving() -> bool:
            async with grpc.aio.insecure_channel(self.grpc) as channel:
                health: Any = HealthStub(channel)
                asked = health_pb2.HealthCheckRequest(service="lf.a2a.v1.A2AService")
                try:
                    found = await health.Check(asked, timeout=1)
                except grpc.aio.AioRpcError:
                    return False
            return bool(found.status == health_pb2.HealthCheckResponse.SERVING)

        await wait_until(serving, "the container is ready", 30)


async def said(ports: Ports, text: str) -> pb.Task:
    async with await A2AClient.connect(f"grpc://{ports.grpc}") as client:
        return (await client.send_message(pb.SendMessageRequest(message=message(text)))).task


async def test_two_containers_on_one_store_are_one_service(engine: Engine, image: str, store: Node) -> None:
    both = [Ports(), Ports()]
    for number, ports in enumerate(both):
        env = ports.settings(A2A_REDIS_URL=f"redis://{store.address}/0")
        engine.start(f"replica-{number}", image, env=env)
    for ports in both:
        await ports.ready()
    task = await said(both[0], "summarize Agents call each other. They speak A2A. Some of them are slow.")
    assert task.status.state == pb.TASK_STATE_COMPLETED
    async with await A2AClient.connect(f"grpc://{both[1].grpc}") as other:
        assert await other.get_task(pb.GetTaskRequest(id=task.id)) == task
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"{both[1].http}/readyz")).status_code == httpx.codes.OK
    assert engine.run("podman", "exec", "replica-0", "id", "-u").strip() == "10001"
    for number in range(2):
        assert engine.stop(f"replica-{number}") == 0, engine.log(f"replica-{number}")


async def test_without_a_redis_the_tasks_are_in_the_volume(engine: Engine, image: str, tmp_path: Path) -> None:
    volume = tmp_path / "data"
    volume.mkdir()
    volume.chmod(0o777)
    ports = Ports()
    options = ("--volume", f"{volume}:/var/lib/a2a-grpc")
    engine.start("first", image, *options, env=ports.settings())
    await ports.ready()
    task = await said(ports, "summarize Agents call each other. They speak A2A.")
    assert engine.stop("first") == 0
    engine.start("second", image, *options, env=ports.settings())
    await ports.ready()
    async with await A2AClient.connect(f"grpc://{ports.grpc}") as client:
        assert await client.get_task(pb.GetTaskRequest(id=task.id)) == task
    assert engine.stop("second") == 0


async def test_a_base_needs_neither_shell_nor_pip(engine: Engine, bare: str, store: Node) -> None:
    ports = Ports()
    engine.start("bare", bare, env=ports.settings(A2A_REDIS_URL=f"redis://{store.address}/0"))
    await ports.ready()
    with pytest.raises(AssertionError, match="/bin/sh"):
        engine.run("podman", "exec", "bare", "/bin/sh", "-c", "true")
    assert engine.stop("bare") == 0, engine.log("bare")


def test_it_adds_little_to_its_base(engine: Engine, base: str, image: str) -> None:
    assert engine.size(image) - engine.size(base) < 130 * MEGABYTE


def test_the_bill_of_materials_lists_what_is_in_the_image(engine: Engine, image: str) -> None:
    """But for what the lock asks of one Python and not of the other: the base here has an older one."""
    lists = "import importlib.metadata as m, platform; print(platform.python_version()); "
    lists += "print(*(f'{d.name} {d.version}' for d in m.distributions()), sep=chr(10))"
    told = engine.run("podman", "run", "--rm", "--network", "none", "--entrypoint", "python3", image, "-c", lists)
    python, *inside = told.splitlines()
    engine.run("make", "sbom", timeout=400)
    bill = json.loads((ROOT / "build" / "a2a-grpc.cdx.json").read_text())
    listed = {f"{component['name']} {component['version']}" for component in bill["components"]}
    listed.add(f"a2a-grpc {bill['metadata']['component']['version']}")
    assert listed ^ set(inside) == asked_of_one(python, platform.python_version())


def asked_of_one(python: str, other: str) -> set[str]:
    """What the lock asks of one version of Python alone."""
    found = re.findall(r"^(\S+)==(\S+) ; (.+?)( \\)?$", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    return {
        f"{name} {version}"
        for name, version, marker, _ in found
        if Marker(marker).evaluate({"python_full_version": python})
        != Marker(marker).evaluate({"python_full_version": other})
    }
