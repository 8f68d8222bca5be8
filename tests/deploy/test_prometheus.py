"""The dashboard and the alerts on a real Prometheus that watches a real service."""

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.callers import Caller, CallError
from tests.deploy.prometheus import RULES, Prometheus, panels, prometheus
from tests.deploy.watched import load, watched
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def impatient(home: Path) -> Path:
    """The same alerts as a group of their own, which look at the last seconds and wait for none."""
    rules: dict[str, Any] = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        group["name"] += "-impatient"
        for rule in group["rules"]:
            rule["alert"] = "Soon" + rule["alert"]
            for window in ("15m", "10m", "5m"):
                rule["expr"] = rule["expr"].replace(f"[{window}]", "[10s]")
            if "for" in rule:
                rule["for"] = "2s"
    file = home / "impatient.yaml"
    file.write_text(yaml.safe_dump(rules))
    return file


async def until(seen: Prometheus, alert: str, timeout: float = 30) -> None:
    """Wait for the impatient form of `alert`."""

    async def fires() -> bool:
        return f"Soon{alert}" in (await seen.alerts())["firing"]

    await wait_until(fires, f"{alert} fires", timeout)


async def empty(seen: Prometheus, began: float) -> list[str]:
    """The queries of panels that have shown nothing since then."""
    found: list[str] = []
    for panel in panels():
        for query, _ in panel.queries:
            shown = await seen.between(query, began, time.time())
            found += [] if any(series.points for series in shown) else [f"{panel.title}: {query}"]
    return found


async def test_the_dashboard_shows_and_the_alerts_tell_what_happens(tmp_path: Path) -> None:
    async with watched() as service, prometheus(service.targets, [RULES, impatient(tmp_path)], tmp_path) as seen:
        began = time.time()
        await load(service, 25)
        assert await seen.broken() == []
        # A service that does its work is no reason to call anybody, with the times that the rules have.
        fired = await seen.between('ALERTS{alertstate="firing", alertname!~"Soon.*"}', began, time.time())
        assert [series.labels["alertname"] for series in fired] == []

        await load(service, 12, trouble=True)
        await until(seen, "A2ADeadLetters")
        assert await empty(seen, began) == []

        async with service.caller(service.replica, "GRPC") as caller:
            task = await caller.task("wait", return_immediately=True)
        service.replica.kill()
        await until(seen, "A2ATurnsRecovered")
        assert "SoonA2ANoReplica" not in (await seen.alerts())["firing"]

        with service.store.frozen():
            async with service.caller(service.workers, "GRPC") as caller:
                asking = asyncio.create_task(ask(caller, task.id))
                for alert in ("A2AStoreUnseen", "A2ACallsUnavailable", "A2ALimitsUnchecked"):
                    await until(seen, alert)
                asking.cancel()
        service.workers.kill()
        await until(seen, "A2AGatewayCutOff")
        await until(seen, "A2ANoReplica")


async def ask(caller: Caller, task_id: str) -> None:
    """Ask again and again for what is not to be had."""
    while True:
        for call in (caller.get, caller.cancel):
            with contextlib.suppress(CallError):
                await call(task_id)
