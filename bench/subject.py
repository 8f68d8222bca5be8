"""What a subject of the bench is: it measures, says how its result reads, and what it is held to."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar


@dataclass(frozen=True)
class Effort:
    """How much is measured: rounds of everything, and how large each of them is against that of a full run."""

    rounds: int = 5
    scale: float = 1.0

    def many(self, number: int) -> int:
        """`number` of a full run, as many as this one takes."""
        return max(1, round(number * self.scale))


FULL, QUICK, MOMENT = Effort(), Effort(1, 0.1), Effort(1, 0.005)


@dataclass(frozen=True)
class Budget:
    """One goal and what was reached."""

    work: str
    against: str
    """The floor or the peer; "–" where the goal is a time or a number."""
    reached: float
    goal: float
    at_most: bool = False
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.reached <= self.goal if self.at_most else self.reached >= self.goal

    def row(self) -> str:
        """A line of the table of all goals."""
        sign = "≤" if self.at_most else "≥"
        reached = f"{number(self.reached)}{self.unit}"
        return (
            f"| {self.work} | {self.against} | {reached if self.met else f'**{reached}**'} "
            f"| {sign} {self.goal:g}{self.unit} | {'yes' if self.met else '**no**'} |"
        )


def number(value: float) -> str:
    """As many digits as tell something."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown; numbers that are no integers are shortened."""
    lines = [columns, ["---" for _ in columns]]
    lines += [[number(cell) if isinstance(cell, float) else str(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


Result = TypeVar("Result")


@dataclass(frozen=True)
class Subject(Generic[Result]):
    """One thing that is measured."""

    name: str
    title: str
    result: type[Result]
    """A dataclass, which is kept as JSON."""
    measure: Callable[[Effort], Result]
    tables: Callable[[Result], str]
    """What was measured and how, in Markdown."""
    budgets: Callable[[Result], list[Budget]]
