"""JSON-RPC 2.0 request and response objects (9.3, 9.5)."""

import json
from dataclasses import dataclass
from typing import Any

import orjson

from a2a_grpc.wire.errors import A2AError, InvalidRequestError, jsonrpc_error
from a2a_grpc.wire.protojson import DuplicateKeys

NULL_ID = b"null"


@dataclass(frozen=True, slots=True)
class Request:
    """A valid request object."""

    method: str
    params: object
    id: bytes | None
    """The id as JSON text, to be sent back as it came; None: a notification, to which nothing is answered."""


class NumberText(str):
    """A number in the digits that it was written with."""

    __slots__ = ()


def with_exact_id(value: object, body: bytes) -> object:
    """`value`, parsed from `body`, with an id that loses nothing on its way back.

    A number that is no 64-bit integer has become a double on the way in; the few of them are read again as text.
    """
    if isinstance(value, dict) and isinstance(value.get("id"), float):
        value["id"] = json.loads(body, parse_int=NumberText, parse_float=NumberText)["id"]
    return value


def response_id(value: object) -> bytes:
    """The id that an answer to `value`, a parsed body, carries: null where none can be read (JSON-RPC 2.0, 5)."""
    if isinstance(value, dict) and "id" in value:
        found = _encode_id(value["id"])
        if found is not None:
            return found
    return NULL_ID


def read_request(value: object) -> Request:
    """The request object that `value`, a parsed body, is. Raises InvalidRequestError."""
    if isinstance(value, list):
        raise InvalidRequestError("Batches are not supported; send one request object at a time.")
    if not isinstance(value, dict):
        raise InvalidRequestError("A JSON-RPC request is an object.")
    if isinstance(value, DuplicateKeys):
        raise InvalidRequestError("The request object names a member twice.")
    if value.get("jsonrpc") != "2.0":
        raise InvalidRequestError('The member "jsonrpc" must be "2.0".')
    identifier = _encode_id(value["id"]) if "id" in value else None
    if "id" in value and identifier is None:
        raise InvalidRequestError("The id must be a string, a number or null.")
    method = value.get("method")
    if not isinstance(method, str):
        raise InvalidRequestError('The member "method" must be a string.')
    params = value.get("params")
    return Request(method, {} if params is None else params, identifier)


def result_head(identifier: bytes) -> bytes:
    """What stands before the result of a response; a closing brace follows it."""
    return b'{"jsonrpc":"2.0","id":%b,"result":' % identifier


def encode_error(error: A2AError, identifier: bytes) -> bytes:
    """A whole error response."""
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (identifier, orjson.dumps(jsonrpc_error(error)))


def _encode_id(value: Any) -> bytes | None:
    match value:
        case bool():
            return None
        case NumberText():
            return value.encode()
        case str():
            return orjson.dumps(value)
        case int():
            return b"%d" % value
        case None:
            return NULL_ID
        case _:
            return None
