"""How long `a2a-grpc serve` takes until it is ready, with the embedded store and no data yet."""

import tempfile
import time
from dataclasses import dataclass
from statistics import median

from bench.processes import service
from bench.subject import Budget, Effort, Subject, table


@dataclass(frozen=True)
class Startup:
    """Seconds from the start of the process to a 200 of `/readyz`."""

    seconds: list[float]


def measure(effort: Effort) -> Startup:
    """As many starts as there are rounds."""
    taken = []
    for _ in range(effort.rounds):
        with tempfile.TemporaryDirectory() as folder:
            begun = time.perf_counter()
            with service(None, A2A_DATA_DIR=folder):
                taken.append(time.perf_counter() - begun)
    return Startup(taken)


def tables(result: Startup) -> str:
    """Median and maximum."""
    columns = ("starts with the embedded store", "median s", "max s")
    return table(columns, [(len(result.seconds), median(result.seconds), max(result.seconds))])


def budgets(result: Startup) -> list[Budget]:
    """The median."""
    work = "`a2a-grpc serve` until ready, embedded store"
    return [Budget(work, "–", median(result.seconds), 1.5, at_most=True, unit=" s")]


SUBJECT = Subject("startup", "Start", Startup, measure, tables, budgets)
