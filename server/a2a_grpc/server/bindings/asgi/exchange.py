"""One HTTP request and its response, without the costs of a framework's Request and Response classes."""

from collections.abc import Iterable, Mapping

from a2a_grpc.server.auth.credentials import Credentials
from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.tls import certificate_of
from a2a_grpc.server.bindings.asgi.types import Header, Receive, Scope, Send
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.handler import Handler
from a2a_grpc.wire.errors import A2AError

_NONE: Mapping[str, str] = {}
_NO_HEADERS: tuple[Header, ...] = ()


class CallerGoneError(Exception):
    """The peer closed the connection before it had its answer; nobody is left to be told."""


class Exchange:
    """A request as the bindings see it, and the way back to its caller."""

    __slots__ = ("_cors", "call", "parameters", "receive", "responded", "scope", "send", "verb")

    def __init__(self, scope: Scope, receive: Receive, send: Send, cors: Cors) -> None:
        self.scope = scope
        self.receive = receive
        self.send = send
        self.verb: str = scope["method"]
        self.parameters = _parameters(scope)
        self.call: Call | None = None
        self.responded = False
        self._cors = cors

    def make_call(self, method: str, binding: str, query: Iterable[tuple[str, str]]) -> Call:
        """The Call for the handler; what it leaves in `response_parameters` becomes headers of the response."""
        peer = self.scope.get("client")
        self.call = Call(
            method=method,
            binding=binding,
            parameters=self.parameters,
            credentials=Credentials(
                parameters=self.parameters,
                query=_joined(query) if query else _NONE,
                cookies=_cookies(self.parameters["cookie"]) if "cookie" in self.parameters else _NONE,
                certificate=certificate_of(self.scope),
            ),
            peer=f"{peer[0]}:{peer[1]}" if peer else "",
        )
        return self.call

    async def note_refusal(self, handler: Handler, binding: str, error: A2AError) -> None:
        """Tell `handler` of a call that is refused before it comes to it."""
        call = self.call if self.call is not None else self.make_call("", binding, ())
        if not call.recorded:
            await handler.refused(call, error)

    async def start(self, status: int, headers: list[Header]) -> None:
        """Send the head of the response: `headers`, those that the call left, and CORS."""
        self.responded = True
        if self.call is not None:
            headers += [
                (name.encode("latin-1"), value.encode("latin-1", "replace"))
                for name, value in self.call.response_parameters.items()
            ]
        headers += self._cors.headers(self.parameters.get("origin"))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def respond(
        self, status: int, content_type: bytes, body: bytes, headers: tuple[Header, ...] | list[Header] = _NO_HEADERS
    ) -> None:
        """Send a whole response."""
        await self.start(status, [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers])
        await self.send({"type": "http.response.body", "body": body})

    async def respond_empty(self, status: int, headers: list[Header]) -> None:
        """Send a response that has no body by its status (204, 304)."""
        await self.start(status, headers)
        await self.send({"type": "http.response.body"})


def _cookies(header: str) -> dict[str, str]:
    """The cookies of a request, of which some clients send several headers (RFC 6265, 4.2; RFC 9113, 8.2.3)."""
    pairs = (pair.strip().partition("=") for pair in header.replace(",", ";").split(";"))
    return _joined((name, value) for name, equals, value in pairs if equals)


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """As headers are: of a key that is there twice nobody shall wonder which one counts."""
    found: dict[str, str] = {}
    for name, value in pairs:
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _parameters(scope: Scope) -> dict[str, str]:
    """The headers as service parameters (3.2.6): names in lower case, repeated ones joined with a comma."""
    headers: list[Header] = scope["headers"]
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    if len(found) < len(headers):
        found.clear()
        for raw_name, raw_value in headers:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            found[name] = f"{found[name]},{value}" if name in found else value
    return found
