"""What was measured, kept as one JSON file for each subject, with when and where it was taken."""

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from bench.subject import Effort, Subject

FOLDER = Path(__file__).parent / "results"

Result = TypeVar("Result")


@dataclass(frozen=True)
class Taken(Generic[Result]):
    """One result with its circumstances."""

    at: str
    """UTC, when it began."""
    load: float
    """The machine's average load in the minute before."""
    cores: int
    python: str
    grpcio: str
    scale: float
    """1 for a full run."""
    result: Result

    def circumstances(self) -> str:
        """A sentence."""
        part = "" if self.scale == 1 else f", only {self.scale:g} of a full run"
        return (
            f"Taken {self.at} UTC on {self.cores} cores, load {self.load:.1f} before{part}; "
            f"Python {self.python}, grpcio {self.grpcio}."
        )


def take(subject: Subject[Result], effort: Effort) -> Taken[Result]:
    """Measure."""
    at, load = f"{datetime.now(UTC):%Y-%m-%d %H:%M}", os.getloadavg()[0]
    cores = os.cpu_count() or 1
    versions = platform.python_version(), version("grpcio")
    return Taken(at, load, cores, *versions, effort.scale, subject.measure(effort))


def save(subject: Subject[Any], taken: Taken[Any], folder: Path) -> None:
    """In `folder`, in place of what was taken before."""
    folder.mkdir(parents=True, exist_ok=True)
    content = _adapter(subject).dump_json(taken, indent=1)
    (folder / f"{subject.name}.json").write_bytes(content + b"\n")


def load(subject: Subject[Result], folder: Path) -> Taken[Result] | None:
    """What was taken last; None where nothing was."""
    file = folder / f"{subject.name}.json"
    return _adapter(subject).validate_json(file.read_bytes()) if file.exists() else None


def loaded(subjects: list[Subject[Any]], folder: Path) -> Iterator[tuple[Subject[Any], Taken[Any]]]:
    """All that there are, in the order of `subjects`."""
    for subject in subjects:
        taken = load(subject, folder)
        if taken is not None:
            yield subject, taken


def _adapter(subject: Subject[Result]) -> TypeAdapter[Taken[Result]]:
    return TypeAdapter(Taken[subject.result])  # type: ignore[name-defined]
