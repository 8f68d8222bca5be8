"""Metrics as Prometheus reads them."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from a2a_grpc.server.telemetry.prometheus import Exposition

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Reading:
    """What one look at the metrics gave."""

    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    """counter, gauge or histogram, by the name of the family."""

    def of(self, name: str, **labels: str) -> float:
        """The sum of all samples of that name with these labels, among others."""
        wanted = set(labels.items())
        return sum(value for (found, of), value in self.samples.items() if found == name and wanted <= of)

    def labels(self, name: str) -> set[Labels]:
        """All labels under which there is a sample of that name."""
        return {of for found, of in self.samples if found == name}


def parsed(text: str) -> Reading:
    """The text format of Prometheus, read by its own client."""
    families = list(text_string_to_metric_families(text))
    samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value for each in families for sample in each.samples
    }
    return Reading(samples, {each.name: each.type for each in families})


async def scrape(addr: str) -> Reading:
    """The metrics of the service whose metrics listener is at `addr`."""
    async with httpx.AsyncClient(trust_env=False) as client:
        response = await client.get(f"http://{addr}/metrics", timeout=10)
    assert response.status_code == 200, response.text
    return parsed(response.text)


class Meters:
    """The instruments of this process."""

    def __init__(self, exposition: Exposition) -> None:
        self._exposition = exposition

    def read(self) -> Reading:
        return parsed(generate_latest(self._exposition._registry).decode())


@contextlib.contextmanager
def measuring() -> Iterator[Meters]:
    """Everything that this process measures, from zero on."""
    exposition = Exposition("test")
    try:
        yield Meters(exposition)
    finally:
        exposition.close()
