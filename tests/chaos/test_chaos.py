"""Replicas under load while they, their store and their callers fail."""

import pytest

from tests.chaos.faults import ON_ONE_SERVER, ON_SENTINEL
from tests.chaos.fleet import plain_fleet, sentinel_fleet
from tests.chaos.run import chaos

pytestmark = pytest.mark.slow


@pytest.mark.timeout(480)
async def test_nothing_is_lost_repeated_or_run_twice_while_everything_fails() -> None:
    report = await chaos(seed=20, seconds=180, make=plain_fleet, kinds=ON_ONE_SERVER)
    print(report)
    assert not report.violations, str(report)
    assert {fault.kind for fault in report.history.faults} == set(ON_ONE_SERVER), "every kind of fault has to come"


@pytest.mark.timeout(360)
async def test_nothing_acknowledged_is_lost_while_masters_of_the_store_fail() -> None:
    report = await chaos(seed=20, seconds=90, make=sentinel_fleet, kinds=ON_SENTINEL)
    print(report)
    assert not report.violations, str(report)
    assert {"store master killed", "store master stopped"} <= {fault.kind for fault in report.history.faults}
