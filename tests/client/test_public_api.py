"""The public API is `a2a_grpc.client.__all__`: sorted, described, typed, and cheap to import."""

import enum
import inspect
import subprocess
import sys
from types import UnionType
from typing import Any, get_args

import pytest

import a2a_grpc.client as api

TYPES = {name: value for name in api.__all__ if inspect.isclass(value := getattr(api, name))}
FUNCTIONS = {name: value for name in api.__all__ if inspect.isfunction(value := getattr(api, name))}
MODULES = {name: value for name in api.__all__ if inspect.ismodule(value := getattr(api, name))}
OF_MODULES = [f"{name}.{one}" for name, module in MODULES.items() for one in module.__all__]
ALIASES = {name: value for name in api.__all__ if isinstance(value := getattr(api, name), UnionType)}


def members(kind: type) -> dict[str, object]:
    """The public methods and properties that a class of ours has, by their names."""
    found: dict[str, object] = {}
    for parent in reversed(kind.__mro__):
        if parent.__module__.startswith("a2a_grpc."):
            found |= {
                name: value.__func__ if isinstance(value, classmethod | staticmethod) else value
                for name, value in vars(parent).items()
                if not name.startswith("_")
            }
    return {name: value for name, value in found.items() if inspect.isfunction(value) or isinstance(value, property)}


def callables(kind: type) -> dict[str, object]:
    got = {name: value.fget if isinstance(value, property) else value for name, value in members(kind).items()}
    return got | ({"__init__": kind.__init__} if "__init__" in vars(kind) else {})  # type: ignore[misc]


def test_the_list_is_sorted_and_each_name_is_there_once() -> None:
    assert list(api.__all__) == sorted(set(api.__all__))


def test_every_name_is_a_type_a_function_a_union_of_types_or_a_module_of_these() -> None:
    assert {*TYPES, *FUNCTIONS, *ALIASES, *MODULES} == set(api.__all__)
    for module in MODULES.values():
        own = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        assert {name for name in own if not name.startswith("_")} == set(module.__all__)
        assert list(module.__all__) == sorted(module.__all__)


def found(name: str) -> Any:
    """What a name stands for, that of a module's member, too."""
    where, dot, inside = name.rpartition(".")
    return getattr(MODULES[where] if dot else api, inside)


@pytest.mark.parametrize("name", [*api.__all__, *OF_MODULES])
def test_every_name_says_what_it_is(name: str) -> None:
    """Also each of its methods and properties; a union is of names that say it."""
    if name in ALIASES:
        assert {kind.__name__ for kind in get_args(ALIASES[name])} <= set(api.__all__)
        return
    kind = found(name)
    inside = members(kind).items() if isinstance(kind, type) else ()
    described = [(name, kind), *((f"{name}.{one}", value) for one, value in inside)]
    silent = [where for where, value in described if not (inspect.getdoc(value) or "").strip()]
    made = f"{name}("  # what a dataclass writes for those that say nothing

    assert silent == [] and not (kind.__doc__ or "").startswith(made)


@pytest.mark.parametrize("name", [*TYPES, *FUNCTIONS, *OF_MODULES])
def test_every_signature_has_its_types(name: str) -> None:
    kind = found(name)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return
    todo = callables(kind) if isinstance(kind, type) else {name: kind}
    bare = [
        f"{name}.{where}({parameter.name})"
        for where, function in todo.items()
        for parameter in inspect.signature(function).parameters.values()  # type: ignore[arg-type]
        if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls")
    ]
    bare += [
        f"{name}.{where} -> ?"
        for where, function in todo.items()
        if where != "__init__" and inspect.signature(function).return_annotation is inspect.Signature.empty  # type: ignore[arg-type]
    ]

    assert bare == []


def test_to_import_it_loads_no_library_of_a_binding() -> None:
    """Each takes a few hundred milliseconds, and is needed by those who use that binding."""
    heavy = ("grpc", "httpx", "httpcore", "jwt", "cryptography", "jsonschema", "rich", "a2a_grpc.server")
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys, a2a_grpc.client; print([name for name in {heavy} if name in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout

    assert said == "[]\n"
