"""JSON Schemas (2020-12) that come from somebody else: read with care, and checked against in bounded time.

jsonschema does the checking. What is bounded here: the size of a schema, where its references lead (nowhere but into
itself), its regular expressions (see `patterns`), and the work of one check.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError as _JsonSchemaError
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from a2a_grpc.wire.errors import excerpt
from a2a_grpc.wire.patterns import Pattern, PatternError

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
MAX_BYTES: Final = 64 * 1024
"""Of one schema, as JSON."""
MAX_DEPTH: Final = 100
MAX_OBJECTS: Final = 2_000
"""Of one schema: what it takes to check that it is one grows with them."""
_MAX_PATTERNS: Final = 20_000
"""Instructions of all patterns of one schema."""
MAX_WORK: Final = 500_000
"""Steps of one check: a keyword looked at, an entry of a list, a character at a place in a pattern."""
_REFERENCE: Final = 20
"""Steps that are worth as much as to follow a reference."""
_FRAMES_LEFT: Final = 250
"""Of Python's stack. A check that would come nearer to its end is given up: rpds aborts there, which nobody catches."""

# Where schemas stand in a schema: as the value, in a list, or under names. All else is data, however it looks.
_ONE_BELOW: Final = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_LIST_BELOW: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED_BELOW: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
# They pass on what is found below them, and find nothing themselves. Each generator around one costs a frame.
_PASSING: Final = frozenset(
    {"$ref", "$dynamicRef", "additionalProperties", "allOf", "if", "items", "patternProperties", "prefixItems"}
    | {"properties", "propertyNames", "dependentSchemas"}
)
_LIMITS: Final = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    }
)


class SchemaError(ValueError):
    """A schema that cannot be used. The text says where in it and why."""


class Fault(NamedTuple):
    """Where data does not match, and how. The text tells of the schema and of names, never of values."""

    pointer: str
    """Into the data (RFC 6901); "" is the whole of it."""
    problem: str
    keyword: str
    """Where the schema says so, such as `/properties/score/maximum`."""

    def __str__(self) -> str:
        return f"{self.pointer or 'the data'} {self.problem}"


class _TooMuchWorkError(Exception):
    pass


class _Work:
    """What is left of the work of one check."""

    def __init__(self, size: int) -> None:
        self.left = MAX_WORK
        # The text of an error holds the value that it is about.
        self.error = 1 + size // 256

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise _TooMuchWorkError

    def descend(self, steps: int) -> None:
        """Spend the steps of something that may lead to more of its kind."""
        self.spend(steps)
        try:
            sys._getframe(sys.getrecursionlimit() - _FRAMES_LEFT)  # noqa: SLF001 - there is no other way to ask
        except ValueError:
            return
        raise _TooMuchWorkError


_work: ContextVar[_Work] = ContextVar("work of a check")


class JsonSchema:
    """A schema that values can be checked against."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """Raises: SchemaError."""
        _check_size(schema)
        self._patterns: dict[str, Pattern] = {}
        self._check(schema)
        keywords = {
            **Draft202012Validator.VALIDATORS,
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties,
            "uniqueItems": _unique_items,
            "$ref": _reference,
            "$dynamicRef": _reference,
        }
        counted = {
            keyword: _passing(check) if keyword in _PASSING else _finding(check, is_choice=keyword in {"enum", "const"})
            for keyword, check in keywords.items()
        }
        # What jsonschema asks of each schema in which it looks for what is evaluated.
        types = Draft202012Validator.TYPE_CHECKER.redefine("boolean", _is_boolean)
        # An empty registry that retrieves nothing: the default one would ask the network.
        checker: Any = extend(Draft202012Validator, counted, type_checker=types)  # type: ignore[no-untyped-call]
        self._validator = checker(schema, registry=Registry())

    def fault(self, value: Any) -> Fault | None:
        """The first thing about `value`, as decoded from JSON, that does not match; None: it matches."""
        token = _work.set(_Work(_size(value)))
        try:
            error = next(self._validator.iter_errors(value), None)
        except (_TooMuchWorkError, RecursionError):
            return Fault("", "takes more work to check against the schema than is allowed", "")
        finally:
            _work.reset(token)
        return None if error is None else _fault(error)

    # -- before it is used -------------------------------------------------------------------------------------------

    def _check(self, schema: Mapping[str, Any]) -> None:
        if str(schema.get("$schema", DIALECT)).rstrip("#") != DIALECT:
            raise SchemaError(f"/$schema: must be {DIALECT}")
        try:
            self._check_all(schema)
        except RecursionError:
            raise SchemaError("/: nests too deep") from None

    def _check_all(self, schema: Mapping[str, Any]) -> None:
        """Check the schema, and what it refers to elsewhere in the document."""
        root = Resource.from_contents(schema, default_specification=DRAFT202012)
        resolver = Registry().with_resource("", root).resolver()
        seen, keywords, waiting = dict[int, Any](), set[str](), [("", schema)]
        while waiting:
            start, below = waiting.pop()
            found = list(_schemas(below, start))
            seen.update((id(one), one) for _, one in found)
            if len(seen) > MAX_OBJECTS:
                raise SchemaError(f"/: has more than {MAX_OBJECTS} parts")
            try:
                Draft202012Validator.check_schema(below)
            except _JsonSchemaError as error:
                where = start + _pointer(error.absolute_path)
                raise SchemaError(f"{where or '/'}: {excerpt(error.message, 200)}") from None
            references = set[str]()
            for pointer, one in found:
                keywords.update(one)
                references |= self._check_one(one, pointer)
            for reference in sorted(references):
                try:
                    target = resolver.lookup(reference).contents
                except (Unresolvable, ValueError, TypeError, KeyError):
                    raise SchemaError(f"/: there is no {excerpt(reference, 100)} in it") from None
                if id(target) not in seen and not isinstance(target, bool):
                    waiting.append((excerpt(reference, 100), target))
        if {"patternProperties", "unevaluatedProperties"} <= keywords:
            raise SchemaError("/: patternProperties and unevaluatedProperties cannot be used together here")

    def _check_one(self, schema: Mapping[str, Any], pointer: str) -> set[str]:
        """Check what a schema says itself; returns what it refers to."""
        if pointer and "$id" in schema:
            raise SchemaError(f"{pointer}/$id: only the whole schema may have one")
        for pattern in (*([schema["pattern"]] if "pattern" in schema else []), *schema.get("patternProperties", ())):
            self._compile(pattern, pointer)
        references = {keyword: schema[keyword] for keyword in ("$ref", "$dynamicRef") if keyword in schema}
        for keyword, reference in references.items():
            if not reference.startswith("#"):
                raise SchemaError(f"{pointer}/{keyword}: {excerpt(reference, 100)} is elsewhere; put it into $defs")
        return set(references.values())

    def _compile(self, text: str, pointer: str) -> None:
        try:
            self._patterns[text] = Pattern(text)
        except PatternError as error:
            raise SchemaError(f"{pointer or '/'}: {error}") from None
        if sum(pattern.size for pattern in self._patterns.values()) > _MAX_PATTERNS:
            raise SchemaError(f"{pointer or '/'}: the patterns are too large, all together")

    # -- keywords that jsonschema would check with `re` --------------------------------------------------------------

    def _matches(self, pattern: str, text: str) -> bool:
        return not pattern or self._patterns[pattern].found_in(text, _work.get().spend)

    def _pattern(self, validator: Any, pattern: str, instance: Any, _: Any) -> Iterator[ValidationError]:
        if validator.is_type(instance, "string") and not self._matches(pattern, instance):
            yield ValidationError("does not match")

    def _pattern_properties(
        self, validator: Any, patterns: Mapping[str, Any], instance: Any, _: Any
    ) -> Iterator[ValidationError]:
        if validator.is_type(instance, "object"):
            for pattern, schema in patterns.items():
                for name, value in instance.items():
                    if self._matches(pattern, name):
                        yield from validator.descend(value, schema, path=name, schema_path=pattern)

    def _additional_properties(
        self, validator: Any, additional: Any, instance: Any, schema: Mapping[str, Any]
    ) -> Iterator[ValidationError]:
        if not validator.is_type(instance, "object"):
            return
        declared, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name, value in instance.items():
            if name in declared or any(self._matches(pattern, name) for pattern in patterns):
                continue
            if additional is False:
                yield ValidationError("is not allowed")
            else:
                yield from validator.descend(value, additional, path=name)


def _check_size(schema: Mapping[str, Any]) -> None:
    # From whoever wrote Python: anything may be in there.
    if not isinstance(schema, Mapping):
        raise SchemaError("/: must be an object")
    try:
        text = json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise SchemaError(f"/: is no JSON: {excerpt(str(error), 100)}") from None
    if len(text) > MAX_BYTES:
        raise SchemaError(f"/: is larger than {MAX_BYTES} bytes")


def _schemas(schema: Any, pointer: str = "", depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The schema and all that stand in it, but for `true` and `false`, each with where it stands."""
    if depth > MAX_DEPTH:
        raise SchemaError("/: nests too deep")
    if not isinstance(schema, Mapping):
        return
    yield pointer, schema
    for key, value in schema.items():
        below: Any = ()
        if key in _ONE_BELOW:
            below = [("", value)]
        elif key in _LIST_BELOW and isinstance(value, list | tuple):
            below = ((f"/{at}", item) for at, item in enumerate(value))
        elif key in _NAMED_BELOW and isinstance(value, Mapping):
            below = ((f"/{_escaped(name)}", item) for name, item in value.items())
        for name, item in below:
            yield from _schemas(item, f"{pointer}/{key}{name}", depth + 1)


def _passing(check: Callable[..., Any]) -> Callable[..., Any]:
    """The check of a keyword in `_PASSING`, which tells what work it is."""

    def passing(validator: Any, value: Any, instance: Any, schema: Any) -> Any:
        _work.get().descend(1 + _length(value) + _length(instance))
        return check(validator, value, instance, schema)

    return passing


def _finding(check: Callable[..., Any], *, is_choice: bool) -> Callable[..., Iterator[ValidationError]]:
    """The check of another keyword, which tells what work it is, and what its errors are."""

    def finding(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        work = _work.get()
        work.descend(1 + _length(value) + _length(instance))
        if is_choice and isinstance(instance, list | dict):
            work.spend(_size(instance) // 4 * (len(value) if isinstance(value, list) else 1))
        for error in check(validator, value, instance, schema) or ():
            work.spend(work.error)
            yield error

    return finding


def _reference(validator: Any, reference: str, instance: Any, _: Any) -> Any:
    _work.get().spend(_REFERENCE)
    return validator._validate_reference(ref=reference, instance=instance)  # noqa: SLF001 - as jsonschema's own does


def _is_boolean(_: Any, instance: Any) -> bool:
    if isinstance(instance, dict) and (work := _work.get(None)):
        work.descend(_REFERENCE)
    return isinstance(instance, bool)


def _unique_items(validator: Any, unique: bool, instance: Any, _: Any) -> Iterator[ValidationError]:
    # jsonschema compares each item with each other one where they cannot be sorted.
    if unique and validator.is_type(instance, "array"):
        seen = set[str]()
        for item in instance:
            key = json.dumps(item, sort_keys=True)
            _work.get().spend(2 + len(key) // 64)
            if key in seen:
                yield ValidationError("repeats")
                return
            seen.add(key)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def _size(value: Any) -> int:
    """About how much text a value is."""
    size, stack = 0, [value]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            size += sum(len(name) + 6 for name in one)
            stack.extend(one.values())
        elif isinstance(one, list):
            stack.extend(one)
        size += len(one) if isinstance(one, str) else 4
    return size


def _fault(error: ValidationError) -> Fault:
    pointer, keyword = _pointer(error.absolute_path), _pointer(error.absolute_schema_path)
    return Fault(excerpt(pointer, 200), _problem(str(error.validator), error.validator_value, error.instance), keyword)


def _problem(keyword: str, value: Any, instance: Any) -> str:
    match keyword:
        case "None":
            return "has something that is never allowed"
        case "type":
            return f"is not of type {' or '.join([value] if isinstance(value, str) else value)}"
        case "required":
            lacking = next((name for name in value if name not in instance), "")
            return f"lacks {excerpt(lacking, 100)!r}"
        case "additionalProperties" | "unevaluatedProperties":
            return "has a property that the schema does not allow"
        case "enum" | "const":
            return f"is not among the values of {keyword}"
        case "uniqueItems":
            return "has items that are equal"
        case "pattern":
            return f"does not match the pattern {excerpt(value, 100)}"
    if keyword in _LIMITS:
        return f"does not keep to {keyword} {value:g}"
    return f"does not satisfy {keyword}"


def _pointer(path: Any) -> str:
    return "".join(f"/{_escaped(str(part))}" for part in path)


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
