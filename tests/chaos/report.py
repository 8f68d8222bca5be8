"""What a run came to."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from a2a_grpc.server.core import states
from tests.chaos.checker import Checker, Violation
from tests.chaos.history import History, save

_SHOWN = 20
_LENGTH = 1500


@dataclass(frozen=True, kw_only=True)
class Report:
    """The figures of a run, and all that is wrong with it."""

    history: History
    violations: Sequence[Violation]
    overlaps: int
    """Executions that overlapped, the earlier of them on a replica that was lost."""
    failed: int
    """Tasks that were given up."""
    kept_in: Path | None
    """The file with the history, where something is wrong with it."""

    def __str__(self) -> str:
        history, calls = self.history, self.history.calls
        begun = [note.attempt for note in history.notes if note.what == "begin"]
        late = [note.number for note in history.notes if note.what == "late"]
        stored, seen = sum(len(left.log) for left in history.left), sum(len(call.events) for call in calls)
        again = sum(attempt > 1 for attempt in begun)
        lines = [
            f"seed {history.seed}: {len(calls)} calls, {len(history.left)} tasks, {stored} events, {seen} seen",
            f"calls: {_counts(call.operation for call in calls)}",
            f"outcomes: {_counts(call.outcome for call in calls)}",
            f"streams taken up again: {sum(call.cursor is not None for call in calls)}",
            f"faults: {len(history.faults)}: {_counts(fault.kind for fault in history.faults)}",
            f"turns begun: {len(begun)}, again after a loss: {again}, beside one that was lost: {self.overlaps}",
            f"given up: {self.failed}, dead letters: {len(history.letters)}",
            f"replicas stood still: {len(late)} times, {max(late, default=0)} ms at most",
            f"at peace {history.settling:.1f} s after the load had ended",
            f"violations: {len(self.violations)}",
            *(f"  {violation}"[:_LENGTH] for violation in self.violations[:_SHOWN]),
        ]
        if self.kept_in is not None:
            lines.append(f"the history is in {self.kept_in}; to check it: python -m tests.chaos --check {self.kept_in}")
        return "\n".join(lines)


def _counts(names: Iterable[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in Counter(names).most_common())


def keep(history: History) -> Path:
    """Writes the history to a file of its own."""
    path = Path(tempfile.mkdtemp(prefix=f"a2a-chaos-{history.seed}-")) / "history.gz"
    save(history, path)
    return path


def judge(history: History) -> Report:
    """Checks a history; one with a violation is kept in a file."""
    checker = Checker(history)
    violations = list(checker.violations())
    return Report(
        history=history,
        violations=violations,
        overlaps=checker.overlaps,
        failed=sum(log.state == states.FAILED for log in checker.logs.values()),
        kept_in=keep(history) if violations else None,
    )
