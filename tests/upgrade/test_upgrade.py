"""Each pod of a Deployment is replaced under load: no call fails, and no stream misses or repeats an event."""

import pytest

from tests.upgrade.envoy import binary
from tests.upgrade.run import PODS, rehearse


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(binary() is None, reason="there is no envoy: its package has none for this platform")
async def test_a_rolling_upgrade_loses_nothing() -> None:
    outcome = await rehearse(1)
    assert outcome.problems() == []
    assert outcome.replaced == PODS
    # It was under load, and turns did move.
    assert min(outcome.seen.calls.values()) > 50
    assert outcome.moved > 0
