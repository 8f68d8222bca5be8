"""Every subject of the bench runs for a moment, and what it found can be kept, read and drawn."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from bench import plots, report, results
from bench.subject import MOMENT, Budget, Subject
from bench.subjects import SUBJECTS

pytestmark = [
    pytest.mark.wide,
    pytest.mark.timeout(240),
    pytest.mark.skipif(not shutil.which("h2load") or not shutil.which("taskset"), reason="needs h2load and taskset"),
]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_a_subject_is_measured_and_told(subject: Subject[Any], tmp_path: Path) -> None:
    folder = tmp_path / "results"

    taken = results.take(subject, MOMENT)
    results.save(subject, taken, folder)
    plots.draw(folder)
    report.write(folder, tmp_path / "README.md")

    assert results.load(subject, folder) == taken
    page = (tmp_path / "README.md").read_text()
    assert f"## {subject.title}" in page
    budgets = subject.budgets(taken.result)
    assert budgets
    for budget in budgets:
        assert budget.row() in page
    assert plots.file_of(subject.name, folder).exists() == (subject.name != "startup")


def test_a_goal_that_is_missed_is_named() -> None:
    met = Budget("one", "–", 2.0, 2, at_most=True, unit=" ms")  # noqa: RUF001
    missed = Budget("two", "a floor", 0.432, 0.5)

    assert (met.met, met.row()) == (True, "| one | – | 2.00 ms | ≤ 2 ms | yes |")  # noqa: RUF001
    assert (missed.met, missed.row()) == (False, "| two | a floor | **0.43** | ≥ 0.5 | **no** |")
    assert report.missed([met, missed]) == "**1 missed:** two, against a floor."
    assert report.missed([met]) == "All goals are met."
