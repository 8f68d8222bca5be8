"""The commands of docs/REGISTRY.md, run as they stand there. Only addresses, folders and programs are replaced."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import pytest

from a2a_grpc.registry.v1 import registry_pb2
from a2a_grpc.wire.rules import Rules
from tests.docs.documents import ROOT, Block, blocks, table
from tests.support.replica import free_ports
from tests.support.waiting import wait_until

PAGE = ROOT / "docs" / "REGISTRY.md"
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
RULES = Rules(registry_pb2.DESCRIPTOR.services_by_name["RegistryService"])

# Every block is run by the test below; a new one is missing here until it is.
RUN = [
    ("Try it", "bash"),
    ("Try it", "bash"),
    ("Search with curl", "bash"),
    ("Search with grpcurl", "bash"),
    ("Search with Python", "python"),
    ("Register something else", "bash"),
    ("Register something else", "bash"),
]


class Shell:
    """A reader's shell, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = dict(zip(("50060", "8090", "50051", "8080"), map(str, free_ports(4)), strict=True))
        kept = {name: value for name, value in os.environ.items() if not name.startswith("A2A_")}
        self._env = {
            **kept,
            "PATH": PATH,
            "XDG_DATA_HOME": str(folder / "agent"),
            "A2A_GRPC_ADDR": f"localhost:{self._ports['50051']}",
            "A2A_HTTP_ADDR": f"localhost:{self._ports['8080']}",
        }

    def text(self, block: Block) -> str:
        """The block with what is this shell's own."""
        text = re.sub(r"\b(50060|8090|50051|8080)\b", lambda found: self._ports[found[0]], block.text)
        return text.replace("/tmp/a2a-registry", str(self._folder / "registry"))

    def url(self, port: str) -> str:
        return f"http://localhost:{self._ports[port]}"

    async def run(self, command: str) -> str:
        """What a command prints."""
        process = await asyncio.create_subprocess_exec(
            "bash", "-euc", command, cwd=self._folder, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        out, err = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 0, f"{command}\n{out.decode()}{err.decode()}"
        return out.decode()

    @contextlib.asynccontextmanager
    async def serving(self, block: Block, port: str) -> AsyncGenerator[None, None]:
        """The command of the block runs and is ready."""
        # The shell becomes the program, which this process then ends.
        command = re.sub(r"^(.*)a2a-grpc", r"\1exec a2a-grpc", self.text(block).replace("\\\n", ""), flags=re.DOTALL)
        command = re.sub(r"((?:A2A_\w+=\S+ +)+)exec", r"export \1; exec", command)
        process = await asyncio.create_subprocess_exec(
            "bash", "-euc", command, cwd=self._folder, env=self._env, stderr=subprocess.DEVNULL
        )
        try:
            async with httpx.AsyncClient(trust_env=False) as client:

                async def ready() -> bool:
                    with contextlib.suppress(httpx.TransportError):
                        return (await client.get(f"{self.url(port)}/readyz")).is_success
                    return False

                await wait_until(ready, f"{command} is ready", 30)
            yield
        finally:
            process.terminate()
            await asyncio.wait_for(process.wait(), 20)


def test_every_block_is_run() -> None:
    assert [(block.heading, block.language) for block in blocks(PAGE)] == RUN


@pytest.mark.wide
async def test_the_page_from_its_top_to_its_end(tmp_path: Path) -> None:
    for program in ("curl", "grpcurl"):
        if shutil.which(program, path=PATH) is None:
            pytest.skip(f"there is no {program}")
    registry, agent, curl, grpcurl, python, register, follow_up = blocks(PAGE)
    shell = Shell(tmp_path)

    async def found(command: str) -> list[dict[str, Any]]:
        agents: list[dict[str, Any]] = json.loads(await shell.run(command)).get("agents", [])
        return agents

    async with shell.serving(registry, "8090"), shell.serving(agent, "8080"):

        async def healthy() -> list[dict[str, Any]]:
            return await found(shell.text(grpcurl))

        [shown] = await wait_until(healthy, "the demo agent is registered and healthy", 15)
        assert shown["card"]["name"] == "a2a-grpc demo"
        assert [one["id"] for one in await found(shell.text(curl))] == [shown["id"]]

        (tmp_path / "search.py").write_text(shell.text(python))
        assert re.match(r"a2a-grpc demo says: (50 is too|Yes, it is 50)", await shell.run("python search.py"))

        made = json.loads(await shell.run(shell.text(register)))["agent"]
        assert made["id"] == shown["id"]
        assert made["lease"]["ttlSeconds"] == 30
        renew, withdraw = shell.text(follow_up).replace("AGENT_ID", made["id"]).splitlines()
        assert json.loads(await shell.run(renew))["lease"]["ttlSeconds"] == 30
        assert json.loads(await shell.run(withdraw)) == {"withdrawn": True}


def test_the_operations_are_those_of_the_proto() -> None:
    def path(name: str) -> str:
        [route] = [route for route in RULES.routes if route.method == name]
        parts = (segment.literal or f"{{{segment.field}}}" for segment in route.segments)
        return f"`{route.verb} /{'/'.join(parts)}{route.action}`"

    rows = [row.split(" | ")[:2] for row in table(PAGE, "operation")]

    assert rows == [[f"| {name}", path(name)] for name in RULES.operations]


def test_every_filter_is_explained() -> None:
    fields = {field.json_name for field in registry_pb2.SearchAgentsRequest.DESCRIPTOR.fields}

    named = {name for row in table(PAGE, "filter") for name in re.findall(r"`(\w+)`", row.split("|")[1])}

    assert named == fields - {"pageSize", "pageToken"}
