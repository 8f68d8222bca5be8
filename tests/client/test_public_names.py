"""What `a2a_grpc.client` offers is what it lists."""

import importlib
import inspect
import types

import pytest

import a2a_grpc.client
from a2a_grpc.client import A2AClient, A2AError, verifying
from a2a_grpc.wire import errors
from a2a_grpc.wire.rules import OPERATIONS


def test_all_lists_every_public_name_and_nothing_else() -> None:
    public = {
        name
        for name, value in vars(a2a_grpc.client).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    } | {*a2a_grpc.client._LATER}

    assert public == set(a2a_grpc.client.__all__)
    assert len(public) == len(a2a_grpc.client.__all__)


def test_every_error_of_the_table_is_offered() -> None:
    assert {error.__name__ for error in errors.ERRORS} <= set(a2a_grpc.client.__all__)


def test_every_operation_of_the_service_has_a_method_with_a_timeout() -> None:
    def method_of(operation: str) -> str:
        return "".join("_" + letter.lower() if letter.isupper() else letter for letter in operation).removeprefix("_")

    for operation in OPERATIONS:
        parameters = inspect.signature(getattr(A2AClient, method_of(operation))).parameters
        assert list(parameters) == ["self", "request", "timeout"], operation


def test_what_the_client_adds_to_the_errors_refines_the_table() -> None:
    assert a2a_grpc.client.NotConnectedError.kind.reason == "UNAVAILABLE"
    assert a2a_grpc.client.StreamBrokenError.kind.http == 503
    assert a2a_grpc.client.CardError.kind.reason == "INVALID_AGENT_RESPONSE"
    assert issubclass(a2a_grpc.client.CardError, A2AError)


def test_what_is_loaded_later_is_what_its_module_offers() -> None:
    """All that it lists, or the module itself."""
    later = a2a_grpc.client._LATER
    for name, module in later.items():
        found = importlib.import_module(f"a2a_grpc.client.{module}")
        assert getattr(a2a_grpc.client, name) is (found if name == module else getattr(found, name)), name
    assert {name for name, module in later.items() if module == "verifying"} == {*verifying.__all__}
    assert {*later} <= {*dir(a2a_grpc.client)}


def test_a_name_that_is_not_there_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match=r"module 'a2a_grpc\.client' has no attribute 'CardVerifyer'"):
        a2a_grpc.client.CardVerifyer  # type: ignore[attr-defined]  # noqa: B018
