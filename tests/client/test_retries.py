"""How long one waits before the next try: not as long as everybody else."""

import asyncio

import pytest

from a2a_grpc.client import ResourceExhaustedError, UnavailableError
from a2a_grpc.client.retries import Retries


def drawn(monkeypatch: pytest.MonkeyPatch, place: float) -> None:
    """Have chance draw at this place between its bounds: 0 the least, 1 the most."""
    monkeypatch.setattr("a2a_grpc.client.retries.random.uniform", lambda least, most: least + place * (most - least))


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """For how long a pause asks to wait; none of it is waited for."""
    asked: list[float | None] = []
    real = asyncio.timeout

    def timeout(delay: float | None) -> asyncio.Timeout:
        asked.append(delay)
        return real(0)

    monkeypatch.setattr("a2a_grpc.client.retries.asyncio.timeout", timeout)
    return asked


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (0.0, [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.5, 2.5]),
        (0.5, [0.075, 0.15, 0.3, 0.6, 1.2, 2.4, 3.75, 3.75]),
        (1.0, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]),
    ],
)
async def test_pauses_double_up_to_5_s_and_each_is_somewhere_in_its_upper_half(
    monkeypatch: pytest.MonkeyPatch, waits: list[float | None], place: float, expected: list[float]
) -> None:
    drawn(monkeypatch, place)
    retries = Retries(60.0, asyncio.Event())
    for _ in expected:
        assert await retries.pause(UnavailableError("Gone."))
    assert waits == pytest.approx(expected)


@pytest.mark.parametrize(("place", "expected"), [(0.0, 10.0), (0.5, 11.0), (1.0, 12.0)])
async def test_those_whom_an_agent_has_told_the_same_time_come_back_over_a_fifth_of_it(
    monkeypatch: pytest.MonkeyPatch, waits: list[float | None], place: float, expected: float
) -> None:
    """Never before the time."""
    drawn(monkeypatch, place)
    assert await Retries(60.0, asyncio.Event()).pause(ResourceExhaustedError("Later.", retry_after=10.0))
    assert waits == pytest.approx([expected])
