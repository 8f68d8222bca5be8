"""HTTP routes of the service, from the google.api.http annotations of the proto."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from a2a_grpc.wire.protojson import DEFAULT_NESTING
from google.protobuf.message import Message


class Operation(NamedTuple):
    name: str
    request: type[Message]
    response: type[Message]
    streaming: bool


class Match(NamedTuple):
    method: str
    params: Mapping[str, str]


class HttpCall(NamedTuple):
    verb: str
    path: str
    query: tuple[tuple[str, str], ...]
    body: bytes | None


OPERATIONS: Mapping[str, Operation] = {}


def match(verb: str, raw_path: str | bytes) -> Match:
    raise NotImplementedError


def build_request(
    match: Match, query: Sequence[tuple[str, str]], body: bytes | None, max_nesting: int = DEFAULT_NESTING
) -> Message:
    raise NotImplementedError


def to_http(method: str, request: Message, verb: str | None = None) -> HttpCall:
    raise NotImplementedError
