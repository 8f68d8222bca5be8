"""How long an event is tried, and how long between two attempts."""

import random

import pytest

from a2a_grpc.server.push.patience import Patience

PATIENCE = Patience(attempts=4, limit=100.0, first=2.0, most=10.0)


@pytest.mark.parametrize(
    ("failed", "since", "over"),
    [(1, 0.0, False), (3, 99.9, False), (4, 0.0, True), (5, 0.0, True), (1, 100.0, True), (3, 1000.0, True)],
)
def test_attempts_and_time_each_have_an_end(failed: int, since: float, over: bool) -> None:
    assert PATIENCE.exhausted(failed, since) is over


@pytest.mark.parametrize(("attempt", "longest"), [(1, 2.0), (2, 4.0), (3, 8.0), (4, 10.0), (5, 10.0), (100_000, 10.0)])
def test_pauses_double_to_a_bound_and_are_spread_over_their_second_half(attempt: int, longest: float) -> None:
    """So that webhooks which failed together do not come back together."""
    random.seed(19)
    pauses = [PATIENCE.delay(attempt, None) for _ in range(200)]
    assert longest / 2 <= min(pauses) < 0.55 * longest
    assert 0.95 * longest < max(pauses) <= longest
    assert len(set(pauses)) > 100


def test_a_receiver_may_ask_for_more_and_not_for_less() -> None:
    assert PATIENCE.delay(1, 60.0) == 60.0
    assert PATIENCE.delay(4, 0.5) >= 5.0
