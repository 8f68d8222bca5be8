"""The first process of a container: the kernel keeps from it what a signal does by default."""

import asyncio
import contextlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.replica import Replica
from tests.support.waiting import wait_until

_CONTAINED = ["unshare", "--map-root-user", "--pid", "--fork", "--kill-child"]
_ENDED_BY_SIGTERM = 128 + signal.SIGTERM


def _possible() -> bool:
    return shutil.which("unshare") is not None and not subprocess.run([*_CONTAINED, "true"], check=False).returncode


pytestmark = [
    pytest.mark.wide,
    pytest.mark.skipif(not _possible(), reason="this system has no namespaces, or not for this user"),
]


class Contained(Replica):
    """A replica that has a namespace of processes for itself."""

    def spawn(self, log: int) -> subprocess.Popen[bytes]:
        return self.execute([*_CONTAINED, sys.executable, "-m", "a2a_grpc.server", *self.arguments()], log)

    def first(self) -> psutil.Process:
        """As seen from outside."""
        [first] = psutil.Process(self.pid).children()
        return first


@contextlib.contextmanager
def contained(agent: str, **env: str) -> Iterator[Contained]:
    one = Contained(agent=agent, redis_url=None, env=env)
    try:
        yield one
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            if one.alive:
                one.first().kill()
        one.close()


async def test_a_signal_during_the_start_is_not_lost(tmp_path: Path) -> None:
    """An agent may take minutes to load."""
    (tmp_path / "slow.py").write_text(
        "import pathlib, time\npathlib.Path('{here}/begun').touch()\ntime.sleep(60)\n".replace("{here}", str(tmp_path))
    )
    with contained("slow:agent", PYTHONPATH=str(tmp_path)) as one:
        one.start(wait=False)
        await wait_until((tmp_path / "begun").exists, "the agent is loaded", timeout=20)
        one.first().terminate()
        assert await asyncio.to_thread(one.wait, 2) == _ENDED_BY_SIGTERM


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_second_signal_ends_it_at_once(workers: int) -> None:
    with contained(
        f"--workers {workers} tests.process.busy_agent:agent", A2A_DRAIN_DELAY="12", A2A_DRAIN_GRACE="10"
    ) as one:
        await asyncio.to_thread(one.start)
        first = one.first()
        first.terminate()
        await wait_until(lambda: "SIGTERM: stopping" in one.log(), "it was heard")
        first.terminate()
        assert await asyncio.to_thread(one.wait, 2) == _ENDED_BY_SIGTERM
