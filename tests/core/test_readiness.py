"""Readiness is the sum of its components, and its subscribers see each change once."""

import time

import pytest

from a2a_grpc.server.core.readiness import Readiness, State


def test_a_process_that_depends_on_nothing_yet_is_not_ready() -> None:
    readiness = Readiness()
    assert not readiness.ready
    assert readiness.snapshot() == {}


def test_all_components_must_be_ready() -> None:
    readiness = Readiness()
    answers: list[bool] = []
    readiness.set("store", ready=True)
    answers.append(readiness.ready)
    readiness.set("upstream", ready=False, reason="no replica is ready")
    answers.append(readiness.ready)
    assert readiness.snapshot() == {"store": "ok", "upstream": "no replica is ready"}
    readiness.set("upstream", ready=True)
    answers.append(readiness.ready)
    assert answers == [True, False, True]


def test_a_state_has_a_beginning_and_a_last_look(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "time", lambda: now)
    readiness = Readiness()
    assert readiness.since == 100
    readiness.set("store", ready=True)
    now = 101.0
    readiness.set("store", ready=True)
    assert readiness.components() == {"store": State(ready=True, reason="", since=100, checked=101)}
    now = 102.0
    readiness.set("store", ready=False, reason="away")
    now = 103.0
    readiness.set("store", ready=False, reason="loading")
    # It is away since it went away, whatever the reason became.
    assert readiness.components() == {"store": State(ready=False, reason="loading", since=102, checked=103)}
    assert readiness.since == 102


def test_a_fault_without_a_reason_is_still_a_fault() -> None:
    readiness = Readiness()
    readiness.set("store", ready=False)
    assert not readiness.ready
    assert readiness.snapshot() == {"store": "not ready"}


def test_a_reason_given_for_a_ready_component_does_not_count() -> None:
    readiness = Readiness()
    readiness.set("store", ready=True, reason="reconnected")
    assert readiness.ready


def test_subscribers_hear_the_present_answer_at_once_and_then_changes_only() -> None:
    readiness = Readiness()
    heard: list[bool] = []
    readiness.subscribe(heard.append)
    assert heard == [False]
    readiness.set("store", ready=True)
    readiness.set("store", ready=True)
    readiness.set("pool", ready=True)
    assert heard == [False, True]
    readiness.set("store", ready=False, reason="gone")
    readiness.set("pool", ready=False, reason="gone")
    readiness.set("pool", ready=True)
    assert heard == [False, True, False]
    readiness.set("store", ready=True)
    assert heard == [False, True, False, True]


def test_who_unsubscribes_hears_nothing_more_and_others_do() -> None:
    readiness = Readiness()
    heard: list[bool] = []
    stayed: list[bool] = []
    unsubscribe = readiness.subscribe(heard.append)
    readiness.subscribe(stayed.append)
    unsubscribe()
    unsubscribe()
    readiness.set("store", ready=True)
    assert heard == [False]
    assert stayed == [False, True]


def test_a_subscriber_may_unsubscribe_from_within() -> None:
    readiness = Readiness()
    heard: list[bool] = []

    def once(state: bool) -> None:
        heard.append(state)
        if state:
            unsubscribe()

    unsubscribe = readiness.subscribe(once)
    readiness.set("store", ready=True)
    readiness.set("store", ready=False)
    assert heard == [False, True]
