"""A real Prometheus (Debian: prometheus), and the queries of the dashboard as it takes them."""

import asyncio
import contextlib
import json
import math
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from tests.deploy.tools import ROOT, UnavailableError
from tests.support.replica import WATCHER, free_ports
from tests.support.waiting import wait_until

OBSERVABILITY: Final = ROOT / "deploy" / "observability"
RULES: Final = OBSERVABILITY / "rules.yaml"
JOB: Final = "a2a-grpc"
_RATE: Final = "10s"
"""What Grafana would make of $__rate_interval for so short a time."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of the dashboard."""

    title: str
    unit: str
    kind: str
    """`timeseries`, `stat`, or `row` for a heading."""
    place: Mapping[str, int]
    """x, y, w, h: of 24 columns."""
    queries: tuple[tuple[str, str], ...]
    """PromQL with nothing of Grafana left in it, and what stands in the legend, where it has `{{label}}`."""


def panels() -> list[Panel]:
    """Those of dashboard.json, in their order."""
    found = json.loads((OBSERVABILITY / "dashboard.json").read_text())["panels"]
    return [
        Panel(
            each["title"],
            each.get("fieldConfig", {}).get("defaults", {}).get("unit", ""),
            each["type"],
            each["gridPos"],
            tuple((_plain(target["expr"]), target["legendFormat"]) for target in each.get("targets", ())),
        )
        for each in found
    ]


def _plain(query: str) -> str:
    return query.replace("$__rate_interval", _RATE).replace("$job", JOB)


@dataclass(frozen=True, slots=True)
class Series:
    """What a query gave under one set of labels."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]
    """Seconds since 1970, and the value; what is no number is left out."""


class Prometheus:
    """A running one, that asks every second."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def _get(self, path: str, **parameters: str | float) -> Any:
        response = await self._http.get(f"/api/v1/{path}", params=parameters)
        answer = response.json()
        assert answer["status"] == "success", answer
        return answer["data"]

    async def now(self, query: str) -> list[Series]:
        """What `query` gives at this moment."""
        found = (await self._get("query", query=query))["result"]
        return [_series(each["metric"], [each["value"]]) for each in found]

    async def between(self, query: str, begin: float, end: float) -> list[Series]:
        """What it gave in each second."""
        found = (await self._get("query_range", query=query, start=begin, end=end, step=1))["result"]
        return [_series(each["metric"], each["values"]) for each in found]

    async def alerts(self) -> dict[str, set[str]]:
        """The names of those that are `pending` and of those that are `firing`."""
        found: dict[str, set[str]] = {"pending": set(), "firing": set()}
        for each in (await self._get("alerts"))["alerts"]:
            found[each["state"]].add(each["labels"]["alertname"])
        return found

    async def broken(self) -> list[str]:
        """Rules that could not be evaluated, and targets that could not be read."""
        groups = (await self._get("rules"))["groups"]
        targets = (await self._get("targets"))["activeTargets"]
        bad = [rule["name"] for group in groups for rule in group["rules"] if rule["health"] == "err"]
        return bad + [each["scrapeUrl"] for each in targets if each["health"] != "up"]


def _series(labels: Mapping[str, str], values: Sequence[tuple[float, str]]) -> Series:
    points = [(at, float(value)) for at, value in values]
    return Series(labels, tuple((at, value) for at, value in points if math.isfinite(value)))


@contextlib.asynccontextmanager
async def prometheus(
    targets: Mapping[str, Mapping[str, str]], rules: Sequence[Path], home: Path
) -> AsyncIterator[Prometheus]:
    """One that reads `targets` (by job, by instance, host:port) and has `rules`; what it keeps goes into `home`.

    Raises: UnavailableError where there is none on this machine.
    """
    program = shutil.which("prometheus")
    if program is None:
        raise UnavailableError("prometheus is not installed (Debian: prometheus)")
    config = home / "prometheus.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(file) for file in rules],
                "scrape_configs": [
                    {
                        "job_name": job,
                        "static_configs": [
                            {"targets": [addr], "labels": {"instance": name}} for name, addr in instances.items()
                        ],
                    }
                    for job, instances in targets.items()
                ],
            }
        )
    )
    addr = f"127.0.0.1:{free_ports(1)[0]}"
    process, watcher = _started([program, f"--config.file={config}", f"--web.listen-address={addr}"], home)
    try:
        async with httpx.AsyncClient(base_url=f"http://{addr}", trust_env=False) as http:

            async def ready() -> bool:
                assert process.poll() is None, (home / "prometheus.log").read_text()
                with contextlib.suppress(httpx.TransportError):
                    return (await http.get("/-/ready")).status_code == httpx.codes.OK
                return False

            await wait_until(ready, "Prometheus is ready", 20)
            yield Prometheus(http)
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        watcher.kill()
        watcher.communicate()


def _started(command: Sequence[str], home: Path) -> tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]]:
    """The process, and who ends it when the tests are gone."""
    command = [*command, f"--storage.tsdb.path={home / 'data'}", "--log.level=warn"]
    with (home / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    watcher = subprocess.Popen(
        ["/bin/sh", "-c", WATCHER, "sh", str(process.pid)], stdin=subprocess.PIPE, start_new_session=True
    )
    return process, watcher
