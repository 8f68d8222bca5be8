"""Strict JSON: what RFC 8259 leaves to the parser is refused, so that no two parties read a body differently.

orjson parses: it takes only UTF-8 and only JSON (no NaN, no lone surrogates, no overflow), and it stops by itself at
1,024 nested brackets. What it does not see is a key that an object names twice: it keeps the last. A text has one
colon for each pair plus those inside its strings, and so has the text of the value that was kept: when both have as
many colons, no pair was lost. Only where they differ, or a colon is written as an escape, the text is read again in a
slower way.
"""

import re
from json import JSONDecoder
from typing import Any, Final

import orjson

from a2a_grpc.wire._nesting import DEFAULT_NESTING, too_deep
from a2a_grpc.wire.errors import InvalidArgumentError, JsonParseError, excerpt

_ESCAPED_COLON: Final = re.compile(rb"\\u003[aA]")


class DuplicateKeys(dict[str, Any]):
    """An object that names a key twice. It stays in the tree so that whoever reads it can refuse it and say where."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.key = ""
        for key, value in pairs:
            if key in self:
                self.key = key
            self[key] = value

    @property
    def fault(self) -> str:
        """What is wrong with it, for a Violation."""
        return f"names the key '{excerpt(self.key, 64)}' twice"


def parse(data: bytes, max_nesting: int = DEFAULT_NESTING) -> Any:
    """The value of a JSON text; `from_dict` makes a message of it and checks the nesting of data in detail.

    Raises JsonParseError for what is not JSON in plain UTF-8, and InvalidArgumentError for a number beyond a double
    and for brackets so deep (more than 254 in all) that no message can mean them.
    """
    try:
        value = orjson.loads(data)
        kept = orjson.dumps(value)
    except orjson.JSONDecodeError as error:
        raise _fault(data, error, max_nesting) from None
    except orjson.JSONEncodeError:
        raise InvalidArgumentError(f"The body {too_deep(max_nesting)}.") from None
    if data.count(b":") == kept.count(b":") and not _ESCAPED_COLON.search(data):
        return value
    return _PAIRWISE.decode(data.decode())


def _fault(data: bytes, error: orjson.JSONDecodeError, max_nesting: int) -> JsonParseError | InvalidArgumentError:
    if "depth" in error.msg:
        return InvalidArgumentError(f"The body {too_deep(max_nesting)}.")
    if "infinity" in error.msg:
        return InvalidArgumentError(
            f"The body holds a number that is too large, line {error.lineno}, column {error.colno}."
        )
    if data.startswith(b"\xef\xbb\xbf"):
        return JsonParseError("The body must be JSON in UTF-8 without a byte order mark.")
    if "UTF-8" in error.msg:
        return JsonParseError("The body must be JSON in UTF-8.")
    return JsonParseError(f"The body is not valid JSON, line {error.lineno}, column {error.colno}.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    return value if len(value) == len(pairs) else DuplicateKeys(pairs)


_PAIRWISE: Final = JSONDecoder(object_pairs_hook=_object)
