"""What Kubernetes does in a rolling update (maxSurge 1, maxUnavailable 0): a new pod, then the end of an old one."""

import asyncio
from collections.abc import Callable

import httpx

from tests.support.replica import Replica
from tests.upgrade.envoy import Envoy

PROBE_EVERY = 0.5
"""Seconds between two readiness probes of a pod."""
LAG = 1.0
"""Seconds until what is known of a pod has reached those who send it calls."""
_EXIT = 40.0


class Rollout:
    """The pods of one Deployment, and the endpoints of its Services."""

    def __init__(self, envoy: Envoy, make: Callable[[], Replica]) -> None:
        """`make` makes a pod that is not started."""
        self._envoy = envoy
        self._make = make
        self.pods: list[Replica] = []
        self.codes: list[int] = []
        """With which status the stopped ones have ended."""

    async def scale(self, count: int) -> None:
        """Starts so many more pods, and lets calls in when they are ready."""
        new = [self._make() for _ in range(count)]
        self.pods += new
        for pod in new:
            await asyncio.to_thread(pod.start, wait=False)
        for pod in new:
            await self._ready(pod)
        await self._tell(self.pods)

    async def replace_all(self) -> None:
        """Replaces each pod, one after the other."""
        for old in list(self.pods):
            await self.scale(1)
            self.pods.remove(old)
            # Both at once: the kubelet stops the pod, and the endpoints change, which takes its time to be known.
            telling = asyncio.create_task(self._tell(self.pods))
            old.terminate()
            await telling
            self.codes.append(await asyncio.to_thread(old.wait, _EXIT))

    async def _ready(self, pod: Replica) -> None:
        async with asyncio.timeout(60), httpx.AsyncClient(trust_env=False) as client:
            while True:
                try:
                    if (await client.get(f"{pod.http_url}/readyz", timeout=1)).status_code == httpx.codes.OK:
                        return
                except httpx.TransportError:
                    assert pod.alive, pod.log()
                await asyncio.sleep(PROBE_EVERY)

    async def _tell(self, pods: list[Replica]) -> None:
        await asyncio.sleep(LAG)
        self._envoy.point_to(pods)
