"""Identifiers: unique, unguessable, and a task's id says where the task is."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_grpc.server.core import ids


@settings(deadline=None)
@given(st.integers(0, 4095), st.integers(1, 4096))
def test_a_task_id_carries_its_shard(shard: int, shards: int) -> None:
    task_id = ids.new_task_id(shard)
    assert re.fullmatch(r"[0-9a-f]{32}-[0-9a-f]{1,3}", task_id)
    assert ids.shard_of(task_id, shards) == (shard if shard < shards else None)
    assert ids.made_in(task_id) == shard


def test_no_id_comes_twice() -> None:
    assert len({ids.new_id() for _ in range(10_000)} | {ids.new_task_id(3) for _ in range(10_000)}) == 20_000


@pytest.mark.parametrize(
    "task_id",
    [
        "",
        "task-1",
        "0" * 32,
        "0" * 32 + "-",
        "0" * 32 + "-00",
        "0" * 32 + "-01",
        "0" * 32 + "-1\n",
        "0" * 32 + "-1 ",
        " " + "0" * 32 + "-1",
        "0" * 31 + "-1",
        "0" * 33 + "-1",
        "0" * 32 + "--1",
        "0" * 32 + "-g",
        "0" * 32 + "-10000",
        "A" * 32 + "-1",
        "٣" * 32 + "-1",
        "0" * 32 + "-٣",
        "0" * 32 + "-1}",
    ],
)
def test_what_no_store_made_is_in_no_shard(task_id: str) -> None:
    assert ids.shard_of(task_id, 4096) is None


def test_new_work_spreads_evenly_and_the_same_key_stays_where_it_is() -> None:
    counts = [0] * 16
    for number in range(16_000):
        counts[ids.shard_for(str(number), 16)] += 1
    assert min(counts) > 850
    assert max(counts) < 1150
    assert ids.shard_for("the same", 16) == ids.shard_for("the same", 16)
    assert ids.shard_for("anything", 1) == 0


@settings(deadline=None)
@given(st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_a_scope_is_told_apart_from_every_other(one: list[str], other: list[str]) -> None:
    assert (ids.scope(*one) == ids.scope(*other)) is (one == other)
    assert re.fullmatch(r"[0-9a-f]{22}", ids.scope(*one))


def test_parts_of_a_scope_do_not_run_into_each_other() -> None:
    assert (
        len({ids.scope("ab", "c"), ids.scope("a", "bc"), ids.scope("abc"), ids.scope("1:a"), ids.scope("", "1:a")}) == 5
    )
