"""Who may send at the same time: hosts that don't answer leave room for those that do (B053)."""

from a2a_grpc.server.push.places import Places


def fill(places: Places, host: str) -> int:
    """Take places at `host` until there is none; how many there were."""
    taken = 0
    while places.take(host) == 0:
        taken += 1
    return taken


def test_a_host_has_few_places_until_it_has_taken_something() -> None:
    places = Places(100, per_host=10)
    assert fill(places, "new") == 2
    places.answered("new", True)
    assert fill(places, "new") == 8
    places.answered("new", False)
    for _ in range(8):
        places.leave("new")
    assert fill(places, "new") == 0
    places.leave("new")
    assert fill(places, "new") == 1


def test_hosts_that_failed_leave_half_and_new_ones_a_quarter() -> None:
    places = Places(100, per_host=10)
    failed = [f"failed{number}" for number in range(60)]
    for host in failed:
        places.answered(host, False)
    assert sum(fill(places, host) for host in failed) == 50
    assert sum(fill(places, f"new{number}") for number in range(60)) == 25
    known = [f"known{number}" for number in range(3)]
    for host in known:
        places.answered(host, True)
    assert [fill(places, host) for host in known] == [10, 10, 5]


def test_who_was_turned_away_comes_again_the_later_the_more_there_are() -> None:
    places = Places(100, per_host=10)
    places.answered("host", True)
    fill(places, "host")
    first = places.take("host")
    assert 0.5 <= first < places.take("host") < 2
    for _ in range(1000):
        assert places.take("host") <= 15
    assert places.take("host") == 15
    places.leave("host")
    assert places.take("host") == 0


def test_a_single_place_is_for_everybody() -> None:
    places = Places(1, per_host=1)
    places.answered("failed", False)
    assert places.take("failed") == 0
    places.leave("failed")
    assert places.take("new") == 0


def test_what_is_remembered_is_bounded() -> None:
    places = Places(100, per_host=10)
    places.answered("first", True)
    for number in range(10_000):
        places.answered(f"host{number}", False)
    assert fill(places, "first") == 2
    assert fill(places, "host9999") == 2
