"""HTTP routes of a service, and requests to and from HTTP.

The routes are those of the google.api.http annotations in its proto. `Rules` reads them for any service; what this
module has under names of its own is A2AService, with one addition: SubscribeToTask is GET in the proto and POST in the
text (section 5.3), so both are served.

Paths are matched as they come on the wire, before percent-decoding: an encoded slash or colon belongs to the id that
it stands in, only a plain one separates. What else could be read in two ways:

* `/tasks/x:cancel` is never the task "x:cancel": a last segment that ends in the name of an action is that action.
* The first segment `tasks` is never a tenant. A tenant of that name is given as the field `tenant`, in the body or
  query.
* An empty segment matches nothing, so a trailing slash is another path: 404.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

import orjson
from google.api import annotations_pb2
from google.api.http_pb2 import HttpRule
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire._descriptors import is_required
from a2a_grpc.wire._query import read_query, write_query
from a2a_grpc.wire.errors import (
    InvalidArgumentError,
    MethodNotAllowedError,
    RouteNotFoundError,
    Violation,
    excerpt,
    invalid,
)
from a2a_grpc.wire.protojson import DEFAULT_NESTING, from_dict, parse, to_dict


@dataclass(frozen=True, slots=True)
class Operation:
    """One RPC of the service."""

    name: str
    request: type[Message]
    response: type[Message]
    streaming: bool  # whether it answers with many messages


class Segment(NamedTuple):
    """A part of a path between slashes: a literal, or (with an empty literal) the value of a request field."""

    literal: str
    field: str


@dataclass(frozen=True, slots=True)
class Route:
    """One HTTP method on one path template of one operation."""

    method: str
    verb: str
    segments: tuple[Segment, ...]
    action: str  # ":cancel" after the last segment, or empty
    has_body: bool
    needs_body: bool  # a REQUIRED field of the request is not in the path

    @property
    def fields(self) -> frozenset[str]:
        """The request fields that the path carries."""
        return frozenset(segment.field for segment in self.segments if segment.field)


class Match(NamedTuple):
    """A request line understood: the operation, and the decoded request fields of its path by proto name."""

    method: str
    params: Mapping[str, str]
    route: Route


class HttpCall(NamedTuple):
    """A request to send. The path is encoded and starts with a slash; the query is not encoded yet."""

    verb: str
    path: str
    query: tuple[tuple[str, str], ...]
    body: bytes | None


def _encoded(request: Message, field: str) -> str:
    text: str = getattr(request, field)
    if not text:
        raise invalid(Violation(field, "must not be empty"))
    encoded = quote(text, safe="")
    # "." and ".." would be taken for steps through the path by everything in between.
    return encoded.replace(".", "%2E") if encoded.strip(".") == "" else encoded


_BROKEN_ESCAPE: Final = re.compile("%(?![0-9a-fA-F]{2})")


def _decoded(field: str, text: str) -> str:
    if _BROKEN_ESCAPE.search(text):
        raise invalid(Violation(field, "is not percent-encoded as it should be in a path"))
    try:
        return unquote_to_bytes(text.encode("utf-8", "surrogateescape")).decode()
    except UnicodeError:
        raise invalid(Violation(field, "is not UTF-8")) from None


# From descriptors to routes


def _operation(method: MethodDescriptor) -> Operation:
    return Operation(
        name=method.name,
        request=GetMessageClass(method.input_type),
        response=GetMessageClass(method.output_type),
        streaming=method.server_streaming,
    )


_SEGMENT: Final = re.compile(r"(?P<literal>[\w.~-]+(?::\w+)?)|\{(?P<field>\w+)(?:=\*)?\}(?P<action>:\w+)?")


def _routes(method: MethodDescriptor) -> Iterator[Route]:
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    for binding in (rule, *rule.additional_bindings):
        route = _route(method, binding)
        yield route
        if route.method == "SubscribeToTask" and route.verb == "GET":
            yield Route(route.method, "POST", route.segments, route.action, has_body=True, needs_body=route.needs_body)


def _route(method: MethodDescriptor, rule: HttpRule) -> Route:
    verb = rule.WhichOneof("pattern")
    template: str = getattr(rule, verb or "get")
    if not template.startswith("/") or rule.body not in ("", "*"):
        raise ValueError(f"{method.name}: HTTP rule not understood: {rule}")
    found = [_SEGMENT.fullmatch(text) for text in template[1:].split("/")]
    segments = tuple(Segment(m["literal"] or "", m["field"] or "") for m in found if m)
    actions = [m["action"] or "" for m in found if m]
    if len(segments) != len(found) or any(actions[:-1]):
        raise ValueError(f"{method.name}: path template not understood: {template}")
    fields = {segment.field for segment in segments}
    needs_body = any(is_required(field) and field.name not in fields for field in method.input_type.fields)
    return Route(method.name, str(verb).upper(), segments, actions[-1], rule.body == "*", needs_body)


@dataclass(frozen=True, slots=True)
class Shape:
    """All routes of one path template, by HTTP method."""

    segments: tuple[Segment, ...]
    action: str
    other_actions: tuple[str, ...]  # of templates that are equal up to their action
    reserved: frozenset[str]  # what a first segment that is a field cannot be
    routes: Mapping[str, Route]

    def read(self, texts: Sequence[str]) -> dict[str, str] | None:
        """The undecoded fields of a path that has this shape; None for another path."""
        last = texts[-1]
        if not last.endswith(self.action) or (self.other_actions and last.endswith(self.other_actions)):
            return None
        fields: dict[str, str] = {}
        for segment, text in zip(self.segments, (*texts[:-1], last.removesuffix(self.action)), strict=True):
            if not segment.field:
                if text != segment.literal:
                    return None
            elif not text or (segment is self.segments[0] and unquote(text) in self.reserved):
                return None
            else:
                fields[segment.field] = text
        return fields


def _shapes(routes: Sequence[Route], reserved: frozenset[str]) -> Mapping[int, tuple[Shape, ...]]:
    """The shapes by number of segments. At most one of them reads a given path, so their order means nothing."""
    by_template: dict[tuple[tuple[Segment, ...], str], dict[str, Route]] = {}
    for route in routes:
        verbs = by_template.setdefault((route.segments, route.action), {})
        if verbs.setdefault(route.verb, route) is not route:
            raise ValueError(f"two routes for {route.verb} on one path: {route.method}, {verbs[route.verb].method}")
    shapes: dict[int, tuple[Shape, ...]] = {}
    for (segments, action), verbs in by_template.items():
        others = tuple(other for template, other in by_template if template == segments and other and not action)
        shape = Shape(segments, action, others, reserved, verbs)
        shapes[len(segments)] = (*shapes.get(len(segments), ()), shape)
    return shapes


class Rules:
    """The operations of one service, with its routes."""

    def __init__(self, service: ServiceDescriptor) -> None:
        """Raises: ValueError for annotations that are not understood, or that give one path to two operations."""
        self.operations: Final[Mapping[str, Operation]] = MappingProxyType(
            {method.name: _operation(method) for method in service.methods}
        )
        self.routes: Final = tuple(route for method in service.methods for route in _routes(method))
        # First segments that are literals with something behind: no tenant of that name can stand in a path.
        self._reserved: Final = frozenset(
            route.segments[0].literal for route in self.routes if len(route.segments) > 1 and route.segments[0].literal
        )
        self.shapes: Final = _shapes(self.routes, self._reserved)

    def match(self, verb: str, raw_path: str | bytes) -> Match:
        """The operation that an HTTP method and an undecoded path (without query) call.

        Raises RouteNotFoundError, MethodNotAllowedError (its `allowed` lists the methods that the path has) and
        InvalidArgumentError for a path whose percent-encoding is broken or not UTF-8.
        """
        path = raw_path if isinstance(raw_path, str) else raw_path.decode("utf-8", "surrogateescape")
        segments = path.split("/")[1:] if path.startswith("/") else []
        for shape in self.shapes.get(len(segments), ()):
            texts = shape.read(segments)
            if texts is None:
                continue
            route = shape.routes.get(verb)
            if route is None:
                allow = ", ".join(sorted(shape.routes))
                raise MethodNotAllowedError(
                    f"This path takes {allow}, not {excerpt(verb, 16)}.", metadata={"allow": allow}
                )
            return Match(route.method, {name: _decoded(name, text) for name, text in texts.items()}, route)
        raise RouteNotFoundError(f"Nothing is served at {excerpt(path, 128)}.")

    def build_request(
        self, matched: Match, query: Sequence[tuple[str, str]], body: bytes | None, max_nesting: int = DEFAULT_NESTING
    ) -> Message:
        """The request message of a matched HTTP request. The path has the last word over query and body.

        `query` holds decoded pairs; it counts only for routes without a body (google.api.http: a body of "*" is the
        whole request). A missing body, "", null and {} are the same where the path says all that is REQUIRED. Raises
        InvalidArgumentError and JsonParseError.
        """
        route = matched.route
        request_type = self.operations[matched.method].request
        if route.has_body:
            value = parse(body, max_nesting) if body and not body.isspace() else None
            if value in (None, "") and not route.needs_body:
                request = request_type()
            elif isinstance(value, dict):
                request = from_dict(value, request_type, max_nesting)
            else:
                raise InvalidArgumentError(f"{matched.method} needs a JSON object as its body.")
        else:
            request = request_type()
            read_query(request, query, route.fields)
        for name, text in matched.params.items():
            setattr(request, name, text)
        return request

    def to_http(self, method: str, request: Message, verb: str | None = None) -> HttpCall:
        """The HTTP request that `match` and `build_request` make the same message of.

        `verb` chooses where an operation has two: SubscribeToTask goes by POST unless it is "GET". Raises
        InvalidArgumentError when a field that the path needs is empty.
        """
        tenant: str = getattr(request, "tenant", "")
        in_path = bool(tenant) and tenant not in self._reserved
        routes = [
            route
            for route in self.routes
            if route.method == method and ("tenant" in route.fields) == in_path and verb in (None, route.verb)
        ]
        if not routes:
            raise KeyError(f"no route for {method} by {verb or 'any HTTP method'}")
        route = next((route for route in routes if route.has_body), routes[0])
        path = "".join("/" + (segment.literal or _encoded(request, segment.field)) for segment in route.segments)
        if not route.has_body:
            return HttpCall(route.verb, path + route.action, tuple(write_query(request, route.fields)), None)
        body = to_dict(request)
        for name in route.fields:
            body.pop(request.DESCRIPTOR.fields_by_name[name].json_name, None)
        return HttpCall(route.verb, path + route.action, (), orjson.dumps(body))


A2A: Final = Rules(a2a_pb2.DESCRIPTOR.services_by_name["A2AService"])

OPERATIONS: Final = A2A.operations
ROUTES: Final = A2A.routes
match: Final = A2A.match
build_request: Final = A2A.build_request
to_http: Final = A2A.to_http
