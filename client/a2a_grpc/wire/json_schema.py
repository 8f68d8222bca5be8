"""JSON Schemas (2020-12) that come from somebody else: read with care, and checked against in bounded time.

jsonschema does the checking. What is bounded here: the size of a schema, where its references lead (nowhere but into
itself), its regular expressions (see `patterns`), and the work of one check.
"""

import json
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

# What is below these is data, however it looks.
_DATA: Final = frozenset({"const", "enum", "default", "examples"})
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
        }
        counted = {
            keyword: _counted(check, _REFERENCE if keyword in {"$ref", "$dynamicRef"} else 1)
            for keyword, check in keywords.items()
        }
        # An empty registry that retrieves nothing: the default one would ask the network.
        checker: Any = extend(Draft202012Validator, counted)  # type: ignore[no-untyped-call]
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
        references, matched, unevaluated = set[str](), False, False
        for objects, (pointer, key, value) in enumerate(_keywords(schema)):
            if objects > MAX_OBJECTS:
                raise SchemaError(f"/: has more than {MAX_OBJECTS} parts")
            if value and key == "$id" and pointer:
                raise SchemaError(f"{pointer}/$id: only the whole schema may have one")
            if value and key in {"$ref", "$dynamicRef"}:
                if not value.startswith("#"):
                    raise SchemaError(f"{pointer}/{key}: {excerpt(value, 100)} is elsewhere; put it into $defs")
                references.add(value)
            if value and key == "pattern":
                self._compile(value, pointer)
            matched = matched or key == "patternProperties"
            unevaluated = unevaluated or key == "unevaluatedProperties"
        if matched and unevaluated:
            raise SchemaError("/: patternProperties and unevaluatedProperties cannot be used together here")
        try:
            Draft202012Validator.check_schema(schema)
        except _JsonSchemaError as error:
            raise SchemaError(f"{_pointer(error.absolute_path) or '/'}: {excerpt(error.message, 200)}") from None
        except RecursionError:
            raise SchemaError("/: nests too deep") from None
        root = Resource.from_contents(schema, default_specification=DRAFT202012)
        resolver = Registry().with_resource("", root).resolver()
        for reference in sorted(references):
            try:
                resolver.lookup(reference)
            except (Unresolvable, ValueError):
                raise SchemaError(f"/: there is no {excerpt(reference, 100)} in it") from None

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


def _keywords(schema: Any, pointer: str = "", depth: int = 0) -> Iterator[tuple[str, str, Any]]:
    """Every keyword and name, with where it stands; and of patternProperties each pattern as `pattern`.

    The value is "" unless it is a text: a property of the name `pattern` has a schema.
    """
    if depth > MAX_DEPTH:
        raise SchemaError("/: nests too deep")
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            yield pointer, key, value if isinstance(value, str) else ""
            if key == "patternProperties" and isinstance(value, Mapping):
                yield from ((pointer, "pattern", pattern) for pattern in value)
            if key not in _DATA:
                yield from _keywords(value, f"{pointer}/{_escaped(key)}", depth + 1)
    elif isinstance(schema, list | tuple):
        for at, item in enumerate(schema):
            yield from _keywords(item, f"{pointer}/{at}", depth + 1)


def _counted(check: Callable[..., Any], steps: int) -> Callable[..., Iterator[ValidationError]]:
    """The check of a keyword, which tells what work it is."""

    def counted(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
        work = _work.get()
        work.spend(steps + _length(value) + _length(instance))
        for error in check(validator, value, instance, schema) or ():
            work.spend(work.error)
            yield error

    return counted


def _unique_items(validator: Any, unique: bool, instance: Any, _: Any) -> Iterator[ValidationError]:
    # jsonschema compares each item with each other one where they cannot be sorted.
    if unique and validator.is_type(instance, "array"):
        seen = set[str]()
        for item in instance:
            key = json.dumps(item, sort_keys=True)
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
