"""The version before this one and the current one on one store, while the replicas are replaced one by one."""

from pathlib import Path

import pytest

from tests.chaos.rolling import OLD, Aging, roll, unpack_previous

pytestmark = pytest.mark.slow


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The sources of the version before this one."""
    if why_not := unpack_previous(tmp_path):
        pytest.skip(f"nothing to roll from: {why_not}")
    return tmp_path


def test_an_old_replica_runs_the_old_sources(previous: Path) -> None:
    assert Aging(previous).source().startswith(str(previous))


@pytest.mark.timeout(300)
async def test_replicas_of_two_versions_share_a_store_until_the_old_ones_are_replaced(previous: Path) -> None:
    report = await roll(seed=20, seconds=60, previous=previous)
    print(report)
    assert not report.violations, str(report)
    assert len(report.history.faults) == OLD
    assert {call.old for call in report.history.calls} == {True, False}
