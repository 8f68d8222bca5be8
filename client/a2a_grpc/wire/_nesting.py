"""How deep free-form data (google.protobuf.Value, Struct, ListValue) may nest.

A *level* is one list or object: `data: [[1]]` has two, `metadata: {"a": {}}` has two, a scalar has none. The limit is
a number of levels within one field, so it means the same in JSON and in binary, and wherever the message is later
carried.

One more bound holds whatever the limit is. Stock protobuf parsers stop at 100 nested messages; a list takes two of
them, an object three, and the deepest place that A2A has for data (ListTasksResponse > Task > TaskStatus > Message >
Part) takes the rest. So 2 x lists + 3 x objects on one path may not exceed 94: 47 lists, or 31 objects. What passes
here can be read back by everybody from every response.
"""

from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from a2a_grpc.wire._descriptors import descriptor_of, map_value
from a2a_grpc.wire.errors import Violation, invalid

DEFAULT_NESTING: Final = 32
LIST_COST: Final = 2
OBJECT_COST: Final = 3
MAX_COST: Final = 94

# Seconds of 0001-01-01T00:00:00Z and 9999-12-31T23:59:59Z: the range of google.protobuf.Timestamp.
MIN_SECONDS: Final = -62_135_596_800
MAX_SECONDS: Final = 253_402_300_799
NANOS: Final = 1_000_000_000

NOT_FINITE: Final = "holds a number that JSON cannot carry"
BAD_TIMESTAMP: Final = "must be a time that exists, between the years 1 and 9999"


def too_deep(max_nesting: int) -> str:
    """What the caller is told about data that nests too deep."""
    levels = min(max_nesting, MAX_COST // LIST_COST)
    objects = min(max_nesting, MAX_COST // OBJECT_COST)
    most = f"{levels} levels" if levels == objects else f"{levels} levels, {objects} if they are all objects"
    return f"nests too deep: lists and objects may nest at most {most}"


def check_nesting(message: Message, max_nesting: int = DEFAULT_NESTING) -> None:
    """Refuse a message that came as binary for what JSON input would be refused for.

    Besides the nesting of data these are numbers that are not finite and times out of range. Only fields that can
    hold such a value are looked at. Raises InvalidArgumentError, which names every such field.
    """
    found: list[Violation] = []
    _walk(message, "", max_nesting, found)
    if found:
        raise invalid(*found)


def fault(value: Message, max_nesting: int = DEFAULT_NESTING) -> str | None:
    """What `check_nesting` has against one Value, Struct, ListValue or Timestamp; None for any other message."""
    check = _CHECKS.get(value.DESCRIPTOR.full_name)
    return check(value, max_nesting) if check is not None else None


_Check = Callable[[Any, int], str | None]


class _Step(NamedTuple):
    """A field that can hold something to check; `check` is None where it is a message to walk through."""

    name: str
    repeated: bool
    is_map: bool
    check: _Check | None


def _walk(message: Message, path: str, max_nesting: int, found: list[Violation]) -> None:
    plan = _plan(descriptor_of(message))
    # Only what is set costs time: most messages hold no data at all.
    for descriptor, held in message.ListFields():
        step = plan.get(descriptor.number)
        if step is None:
            continue
        name, repeated, is_map, check = step
        if not repeated:
            _look(held, f"{path}{name}", check, max_nesting, found)
        elif is_map:
            for key in held:
                _look(held[key], f"{path}{name}[{key}]", check, max_nesting, found)
        else:
            for index, item in enumerate(held):
                _look(item, f"{path}{name}[{index}]", check, max_nesting, found)


def _look(value: Any, path: str, check: _Check | None, max_nesting: int, found: list[Violation]) -> None:
    if check is None:
        _walk(value, f"{path}.", max_nesting, found)
    elif fault := check(value, max_nesting):
        found.append(Violation(path, fault))


def _check_data(root: Any, max_nesting: int) -> str | None:
    """What is wrong with a Value, Struct or ListValue. A loop over containers, whatever the depth of the data."""
    pending = [_root(root)]
    while pending:
        values, level, cost = pending.pop()
        if level > max_nesting or cost > MAX_COST:
            return too_deep(max_nesting)
        for value in values:
            which = value.WhichOneof("kind")
            if which == "number_value":
                if not isfinite(value.number_value):
                    return NOT_FINITE
            elif which == "list_value":
                pending.append((value.list_value.values, level + 1, cost + LIST_COST))
            elif which == "struct_value":
                pending.append((_members(value.struct_value), level + 1, cost + OBJECT_COST))
    return None


_Container = tuple[Iterable[Any], int, int]  # the values in it, its level, its cost


def _root(root: Any) -> _Container:
    kind = root.DESCRIPTOR.name
    if kind == "Value":
        return (root,), 0, 0
    return (_members(root), 1, OBJECT_COST) if kind == "Struct" else (root.values, 1, LIST_COST)


def _members(struct: Any) -> list[Any]:
    fields = struct.fields
    return [fields[key] for key in fields]


def _check_timestamp(value: Any, _: int) -> str | None:
    return None if MIN_SECONDS <= value.seconds <= MAX_SECONDS and 0 <= value.nanos < NANOS else BAD_TIMESTAMP


_CHECKS: Final[dict[str, _Check]] = {
    "google.protobuf.Value": _check_data,
    "google.protobuf.Struct": _check_data,
    "google.protobuf.ListValue": _check_data,
    "google.protobuf.Timestamp": _check_timestamp,
}
_plans: dict[Descriptor, dict[int, _Step]] = {}


def _plan(descriptor: Descriptor) -> dict[int, _Step]:
    plan = _plans.get(descriptor)
    if plan is None:
        _plans[descriptor] = {}  # while it is being made: a type may hold itself
        plan = _plans[descriptor] = {field.number: step for field in descriptor.fields if (step := _step(field))}
    return plan


def _step(field: FieldDescriptor) -> _Step | None:
    of_map = map_value(field)
    target = field.message_type if of_map is None else of_map.message_type
    if target is None:
        return None
    check = _CHECKS.get(target.full_name)
    return _Step(field.name, field.is_repeated, of_map is not None, check) if check or _plan(target) else None
