"""The order of the steps is data: every step that must come before another one does."""

import inspect

import pytest

from a2a_grpc.server.calls import pipeline, steps, tracing
from a2a_grpc.server.calls.pipeline import CHAIN, Pipeline
from tests.calls.pipelines import operations


def test_every_step_comes_after_those_that_it_names() -> None:
    names = [step.name for step in CHAIN]
    assert len(set(names)) == len(names)
    for at, step in enumerate(CHAIN):
        assert set(step.after) <= set(names[:at]), f"{step.name} must come after {step.after}"


def test_the_order_is_this() -> None:
    # The log sees every outcome as the caller does, and nothing that tells something about the request comes before the
    # caller is known (3.6.2, 13.1).
    assert [step.name for step in CHAIN] == [
        "request-id", "tracing", "access-log", "audit", "errors", "deadline", "version", "tenant", "authentication",
        "limits", "extensions", "capabilities", "validation",
    ]  # fmt: skip


def test_no_step_is_left_out() -> None:
    written = {
        found
        for module in (steps, tracing)
        for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, steps.Step)
    } - {steps.Step}
    assert set(CHAIN) == written
    assert all(step.__doc__ for step in CHAIN)


@pytest.mark.parametrize("wrong", ["missing", "twice", "another order", "none"])
def test_another_chain_is_refused(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (type(name, (steps.Step,), {"name": name}) for name in ("one", "two"))
    monkeypatch.setattr(pipeline, "CHAIN", (one, two))
    Pipeline(operations(), (one(), two()))
    chains = {"missing": (one(),), "twice": (one(), one(), two()), "another order": (two(), one()), "none": ()}
    with pytest.raises(ValueError, match="not those of CHAIN"):
        Pipeline(operations(), chains[wrong])
