"""Three small drivers, one for each binding, with one interface: messages go in, messages or CallErrors come out.

They are black-box callers and share nothing with the project's own client: routes and methods are copied from 5.3, JSON
is read with the stock parser after `shape` has looked at it raw. So each answer, event and error that any test sees is
also checked for 5.5, 5.6, 5.7, 9.1, 10.6 and 11.6.
"""

import contextlib
import itertools
import json
import ssl
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeVar
from urllib.parse import quote

import grpc.aio
import httpx
import pytest
from google.protobuf import json_format
from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message
from google.rpc import code_pb2, error_details_pb2, status_pb2

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.pb.a2a_pb2_grpc import A2AServiceStub
from tests.conformance import shape
from tests.conformance.expected import Row
from tests.support.leaks import secret

BINDINGS = ("GRPC", "HTTP+JSON", "JSONRPC")
VERSION = {"a2a-version": "1.0"}
KEYS = {name: secret(name) for name in ("alice", "bob")}
"""The callers that guarded services know, and their API keys."""
TIMEOUT = 20.0
"""Seconds after which a test gives up on a call."""

M = TypeVar("M", bound=Message)

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Saves httpx from loading the certificates of the whole world for each client."""


class Operation(NamedTuple):
    """A row of 5.3. The path is that of the proto; `{…}` are fields of the request."""

    request: type[Message]
    response: type[Message]
    verb: str
    path: str
    streams: bool = False


OPERATIONS = {
    "SendMessage": Operation(pb.SendMessageRequest, pb.SendMessageResponse, "POST", "/message:send"),
    "SendStreamingMessage": Operation(
        pb.SendMessageRequest, pb.StreamResponse, "POST", "/message:stream", streams=True
    ),
    "GetTask": Operation(pb.GetTaskRequest, pb.Task, "GET", "/tasks/{id}"),
    "ListTasks": Operation(pb.ListTasksRequest, pb.ListTasksResponse, "GET", "/tasks"),
    "CancelTask": Operation(pb.CancelTaskRequest, pb.Task, "POST", "/tasks/{id}:cancel"),
    "SubscribeToTask": Operation(
        pb.SubscribeToTaskRequest, pb.StreamResponse, "POST", "/tasks/{id}:subscribe", streams=True
    ),
    "CreateTaskPushNotificationConfig": Operation(
        pb.TaskPushNotificationConfig,
        pb.TaskPushNotificationConfig,
        "POST",
        "/tasks/{task_id}/pushNotificationConfigs",
    ),
    "GetTaskPushNotificationConfig": Operation(
        pb.GetTaskPushNotificationConfigRequest,
        pb.TaskPushNotificationConfig,
        "GET",
        "/tasks/{task_id}/pushNotificationConfigs/{id}",
    ),
    "ListTaskPushNotificationConfigs": Operation(
        pb.ListTaskPushNotificationConfigsRequest,
        pb.ListTaskPushNotificationConfigsResponse,
        "GET",
        "/tasks/{task_id}/pushNotificationConfigs",
    ),
    "DeleteTaskPushNotificationConfig": Operation(
        pb.DeleteTaskPushNotificationConfigRequest,
        Empty,
        "DELETE",
        "/tasks/{task_id}/pushNotificationConfigs/{id}",
    ),
    "GetExtendedAgentCard": Operation(pb.GetExtendedAgentCardRequest, pb.AgentCard, "GET", "/extendedAgentCard"),
}


@dataclass
class CallError(Exception):
    """An error as it came over one binding. What the binding does not have is 0 or ""."""

    binding: str
    message: str
    grpc: str = ""
    http: int = 0
    jsonrpc: int = 0
    reason: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    violations: dict[str, str] = field(default_factory=dict)
    """Field paths in the spelling of the binding, and what is wrong with each."""
    quotas: dict[str, str] = field(default_factory=dict)
    """Limits that are reached, and what each is."""
    retry_after: float | None = None
    """Seconds."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Response headers or metadata."""

    def is_of(self, row: Row) -> bool:
        """Whether everything that this binding says of its kind is as in `row`."""
        if self.reason != row.reason:
            return False
        match self.binding:
            case "GRPC":
                return self.grpc == row.grpc
            case "HTTP+JSON":
                return (self.http, self.grpc) == (row.http, row.grpc)
            case _:
                return self.jsonrpc == row.jsonrpc


async def refused(row: Row, call: Awaitable[object]) -> CallError:
    """The failure of `call`, which has to be of the kind `row`."""
    with pytest.raises(CallError) as caught:
        await call
    assert caught.value.is_of(row), caught.value
    return caught.value


class Stream:
    """An open stream whose first event has come; iterating gives the events from the first one on."""

    def __init__(self, events: AsyncIterator[pb.StreamResponse], first: pb.StreamResponse) -> None:
        self._events = events
        self._first: pb.StreamResponse | None = first
        self.parameters: Mapping[str, str] = {}
        """Response headers or metadata, complete with the first event."""

    def __aiter__(self) -> AsyncIterator[pb.StreamResponse]:
        return self

    async def __anext__(self) -> pb.StreamResponse:
        if self._first is not None:
            first, self._first = self._first, None
            return first
        return await anext(self._events)

    async def all(self) -> list[pb.StreamResponse]:
        """The events that are left, until the server closes the stream."""
        return [event async for event in self]


class Answer(NamedTuple):
    """What a unary call gave."""

    message: Any
    parameters: Mapping[str, str]
    """Response headers or metadata, names in lower case."""
    json: Any = None
    """The JSON of the message as it came; None over gRPC."""


class Service(Protocol):
    """Where a service is called; a Replica is one."""

    @property
    def grpc_addr(self) -> str:
        """As host:port."""

    @property
    def http_url(self) -> str:
        """Of HTTP+JSON or JSON-RPC."""


class Caller(ABC):
    """One caller of one service over one binding. Use it as a context manager."""

    binding: ClassVar[str]

    def __init__(self, service: Service, parameters: Mapping[str, str] = VERSION, tenant: str = "") -> None:
        """`parameters` go with every call, as headers or metadata; `tenant` into every request that names none."""
        self.service = service
        self.parameters = dict(parameters)
        self.tenant = tenant

    @abstractmethod
    async def __aenter__(self) -> Self: ...

    @abstractmethod
    async def __aexit__(self, *_: object) -> None: ...

    @abstractmethod
    async def _answer(self, method: str, request: Message, parameters: Mapping[str, str], timeout: float) -> Answer: ...

    @abstractmethod
    def _events(
        self, method: str, request: Message, parameters: Mapping[str, str], seen: dict[str, str]
    ) -> AsyncGenerator[pb.StreamResponse, None]:
        """The events of a stream; `seen` is filled with the response's headers or metadata."""

    async def answer(
        self,
        method: str,
        request: Message | None = None,
        *,
        parameters: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT,
    ) -> Answer:
        """Call a unary operation; `parameters` replace those of the caller. Raises CallError."""
        request = self._for_tenant(method, request)
        answer = await self._answer(method, request, self.parameters if parameters is None else parameters, timeout)
        if method != "GetExtendedAgentCard":
            assert not list(shape.missing(answer.message)), answer.message
        return answer

    @contextlib.asynccontextmanager
    async def stream(
        self, method: str, request: Message | None = None, *, parameters: Mapping[str, str] | None = None
    ) -> AsyncIterator[Stream]:
        """Open a stream; what is wrong before the first event is raised as CallError on the way in."""
        request = self._for_tenant(method, request)
        seen: dict[str, str] = {}
        given = self.parameters if parameters is None else parameters
        checked = _checked(self._events(method, request, given, seen))
        async with contextlib.aclosing(checked) as events:
            stream = Stream(events, await anext(events))
            stream.parameters = seen
            yield stream

    def _for_tenant(self, method: str, request: Message | None) -> Any:
        made: Any = OPERATIONS[method].request()
        if request is not None:
            made.CopyFrom(request)
        made.tenant = made.tenant or self.tenant
        return made

    # -- the operations, in the words of the tests -------------------------------------------------------------------

    async def call(
        self, method: str, request: Message | None = None, *, parameters: Mapping[str, str] | None = None
    ) -> Message:
        """Call any operation: the answer of a unary one, the last event of a streaming one. Raises CallError."""
        if not OPERATIONS[method].streams:
            message: Message = (await self.answer(method, request, parameters=parameters)).message
            return message
        async with self.stream(method, request, parameters=parameters) as stream:
            return (await stream.all())[-1]

    async def send(self, request: pb.SendMessageRequest) -> pb.SendMessageResponse:
        """SendMessage."""
        message: pb.SendMessageResponse = (await self.answer("SendMessage", request)).message
        return message

    async def task(self, text: str = "", **how: Any) -> pb.Task:
        """SendMessage, with what `say` takes; the answer has to be a task."""
        response = await self.send(say(text, **how))
        assert response.HasField("task"), response
        return response.task

    async def get(self, task_id: str, history_length: int | None = None) -> pb.Task:
        """GetTask."""
        request = pb.GetTaskRequest(id=task_id, history_length=history_length)
        task: pb.Task = (await self.answer("GetTask", request)).message
        return task

    async def page(self, **filters: Any) -> pb.ListTasksResponse:
        """ListTasks."""
        page: pb.ListTasksResponse = (await self.answer("ListTasks", pb.ListTasksRequest(**filters))).message
        return page

    async def cancel(self, task_id: str) -> pb.Task:
        """CancelTask."""
        task: pb.Task = (await self.answer("CancelTask", pb.CancelTaskRequest(id=task_id))).message
        return task

    async def events(self, text: str = "", **how: Any) -> list[pb.StreamResponse]:
        """SendStreamingMessage to its end, with what `say` takes."""
        async with self.stream("SendStreamingMessage", say(text, **how)) as stream:
            return await stream.all()

    def subscribe(self, task_id: str) -> contextlib.AbstractAsyncContextManager[Stream]:
        """SubscribeToTask."""
        return self.stream("SubscribeToTask", pb.SubscribeToTaskRequest(id=task_id))


def say(
    text: str = "",
    *,
    prefix: str = "test",
    task_id: str = "",
    context_id: str = "",
    parts: Iterable[pb.Part] = (),
    metadata: Mapping[str, Any] | None = None,
    **configuration: Any,
) -> pb.SendMessageRequest:
    """A request to send a user's message with a new id; the rest are fields of its configuration (3.2.2)."""
    message = pb.Message(
        message_id=f"{prefix}-{uuid.uuid4().hex}",
        role=pb.ROLE_USER,
        parts=parts or [pb.Part(text=text)],
        task_id=task_id,
        context_id=context_id,
    )
    if metadata is not None:
        message.metadata.update(metadata)
    request = pb.SendMessageRequest(message=message)
    if configuration:
        request.configuration.CopyFrom(pb.SendMessageConfiguration(**configuration))
    return request


def body(text: str, **fields: Any) -> dict[str, Any]:
    """A request as `say` makes it, in JSON; `fields` are more of its message."""
    message = {"messageId": say().message.message_id, "role": "ROLE_USER", "parts": [{"text": text}], **fields}
    return {"message": message}


def kinds(events: Iterable[pb.StreamResponse]) -> list[str]:
    """What each event is: the state of a task or status, "artifact", or "message"."""
    named = []
    for event in events:
        match event.WhichOneof("payload"):
            case "task":
                named.append(f"task {state(event.task.status.state)}")
            case "status_update":
                named.append(state(event.status_update.status.state))
            case "artifact_update":
                named.append("artifact")
            case other:
                named.append(str(other))
    return named


def state(value: pb.TaskState) -> str:
    """The name of a state, without the prefix that all have."""
    return pb.TaskState.Name(value).removeprefix("TASK_STATE_")


def texts(task: pb.Task) -> list[str]:
    """The text of each artifact, its parts joined."""
    return ["".join(part.text for part in artifact.parts) for artifact in task.artifacts]


async def _checked(events: AsyncGenerator[pb.StreamResponse, None]) -> AsyncGenerator[pb.StreamResponse, None]:
    async with contextlib.aclosing(events):
        async for event in events:
            assert event.WhichOneof("payload") is not None, "an event without content (3.2.3)"
            assert not list(shape.missing(event)), event
            yield event


class GrpcCaller(Caller):
    """gRPC (section 10)."""

    binding = "GRPC"

    async def __aenter__(self) -> Self:
        self._channel = grpc.aio.insecure_channel(self.service.grpc_addr)
        self._stub: Any = A2AServiceStub(self._channel)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._channel.close()

    async def _answer(self, method: str, request: Message, parameters: Mapping[str, str], timeout: float) -> Answer:
        call = getattr(self._stub, method)(request, metadata=tuple(parameters.items()), timeout=timeout)
        try:
            message = await call
        except grpc.aio.AioRpcError as error:
            raise _grpc_failure(error) from None
        return Answer(message, _metadata(await call.initial_metadata(), await call.trailing_metadata()))

    async def _events(
        self, method: str, request: Message, parameters: Mapping[str, str], seen: dict[str, str]
    ) -> AsyncGenerator[pb.StreamResponse, None]:
        call = getattr(self._stub, method)(request, metadata=tuple(parameters.items()), timeout=TIMEOUT)
        try:
            async for event in call:
                seen.update(_metadata(await call.initial_metadata()))
                yield event
        except grpc.aio.AioRpcError as error:
            raise _grpc_failure(error) from None
        finally:
            call.cancel()


def _metadata(*parts: Any) -> dict[str, str]:
    return {name: value for part in parts for name, value in part or () if isinstance(value, str)}


def _grpc_failure(error: grpc.aio.AioRpcError) -> CallError:
    """Reads grpc-status-details-bin, which 10.6 asks for; without it the failure has no reason."""
    trailers = error.trailing_metadata() or ()
    failure = CallError(
        "GRPC",
        error.details() or "",
        grpc=error.code().name,
        parameters=_metadata(error.initial_metadata(), trailers),
    )
    for name, value in trailers:
        if name == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(value if isinstance(value, bytes) else value.encode())
            assert code_pb2.Code.Name(status.code) == failure.grpc
            assert status.message == failure.message
            _add_details(failure, [json_format.MessageToDict(detail) for detail in status.details], snake=True)
    return failure


def _add_details(failure: CallError, details: list[dict[str, Any]], *, snake: bool = False) -> None:
    """Read the details of an error in their ProtoJSON form; each has to be what its @type says."""
    for detail in details:
        prefix, _, name = detail["@type"].rpartition(".")
        assert prefix == "type.googleapis.com/google.rpc", detail
        content = {key: value for key, value in detail.items() if key != "@type"}
        message = getattr(error_details_pb2, name)()
        json_format.ParseDict(content, message)
        match message:
            case error_details_pb2.ErrorInfo():
                assert message.domain == "a2a-protocol.org", detail
                failure.reason = message.reason
                failure.metadata = dict(message.metadata)
                assert snake or not any("_" in key for key in message.metadata), "5.5: camelCase"
            case error_details_pb2.RetryInfo():
                failure.retry_after = message.retry_delay.ToMilliseconds() / 1000
            case error_details_pb2.QuotaFailure():
                failure.quotas = {item.subject: item.description for item in message.violations}
            case error_details_pb2.BadRequest():
                failure.violations = {item.field: item.description for item in message.field_violations}
                assert snake or not any("_" in path for path in failure.violations), "5.5: camelCase"
    assert failure.message, "an error without a message (3.3.2)"
    assert failure.reason, "an error without ErrorInfo (10.6, 11.6)"


class _OverHttp(Caller):
    """What HTTP+JSON and JSON-RPC share: a connection, and server-sent events."""

    async def __aenter__(self) -> Self:
        self.http = httpx.AsyncClient(base_url=self.service.http_url, verify=_NO_TLS, trust_env=False, timeout=TIMEOUT)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    @abstractmethod
    def _request(self, method: str, request: Message, parameters: Mapping[str, str]) -> httpx.Request: ...

    @abstractmethod
    def _result(self, response: httpx.Response, body: Any) -> Any:
        """The JSON of the message in a response or event. Raises CallError."""

    async def _answer(self, method: str, request: Message, parameters: Mapping[str, str], timeout: float) -> Answer:
        sent = self._request(method, request, parameters)
        sent.extensions["timeout"] = httpx.Timeout(timeout).as_dict()
        response = await self.http.send(sent)
        result = self._result(response, response.json())
        return Answer(_read(OPERATIONS[method].response, result), _headers(response), result)

    async def _events(
        self, method: str, request: Message, parameters: Mapping[str, str], seen: dict[str, str]
    ) -> AsyncGenerator[pb.StreamResponse, None]:
        response = await self.http.send(self._request(method, request, parameters), stream=True)
        try:
            seen.update(_headers(response))
            if response.headers["content-type"].partition(";")[0] != "text/event-stream":
                await response.aread()
                self._result(response, response.json())
                pytest.fail(f"a stream was answered with {response.text}")
            assert response.status_code == httpx.codes.OK
            begun = False
            async for data in server_sent(response):
                value = json.loads(data)
                assert begun or "error" not in value, "an error as the first event of a stream (3.1.6)"
                begun = True
                yield _read(pb.StreamResponse, self._result(response, value))
        finally:
            await response.aclose()


def _read(message: type[M], value: Any) -> M:
    found = list(shape.problems(value, message.DESCRIPTOR))
    assert not found, found
    return json_format.ParseDict(value, message())


def _headers(response: httpx.Response) -> dict[str, str]:
    return dict(response.headers.items())


async def server_sent(response: httpx.Response) -> AsyncIterator[str]:
    """The data of each event; one line each (DESIGN: proxies and clients disagree on more)."""
    data: str | None = None
    buffered = ""
    async for text in response.aiter_text():
        buffered += text
        *lines, buffered = buffered.split("\n")
        for line in lines:
            name, _, value = line.partition(": ")
            if name == "data":
                assert data is None, "two lines of data in one event"
                data = value
            elif not line and data is not None:
                yield data
                data = None
    assert not buffered, f"the stream was cut in the middle of {buffered!r}"


class HttpCaller(_OverHttp):
    """HTTP+JSON (section 11)."""

    binding = "HTTP+JSON"

    def _request(self, method: str, request: Message, parameters: Mapping[str, str]) -> httpx.Request:
        operation = OPERATIONS[method]
        values = json_format.MessageToDict(request)
        path = operation.path
        if "tenant" in values:
            path = "/{tenant}" + path
        for name in [part.partition("}")[0] for part in path.split("{")[1:]]:
            text = values.pop(request.DESCRIPTOR.fields_by_name[name].json_name, "")
            path = path.replace("{" + name + "}", quote(text, safe=""))
        headers = dict(parameters)
        if operation.verb in ("GET", "DELETE"):
            query = {name: json.dumps(value) if isinstance(value, bool) else value for name, value in values.items()}
            return self.http.build_request(operation.verb, path, params=query, headers=headers)
        headers.setdefault("content-type", "application/a2a+json")
        return self.http.build_request(operation.verb, path, content=json.dumps(values), headers=headers)

    def _result(self, response: httpx.Response, body: Any) -> Any:
        if response.status_code == httpx.codes.OK and "error" not in body:
            return body
        raise http_failure(response, body)


def http_failure(response: httpx.Response, body: Any) -> CallError:
    """The error in the body of an HTTP+JSON answer, checked against 11.6."""
    assert set(body) == {"error"}, body
    error = body["error"]
    assert set(error) == {"code", "status", "message", "details"}, error
    if response.status_code != httpx.codes.OK:  # which it is for an error in the middle of a stream
        assert error["code"] == response.status_code
    failure = CallError(
        "HTTP+JSON", error["message"], grpc=error["status"], http=error["code"], parameters=_headers(response)
    )
    _add_details(failure, error["details"])
    return failure


class JsonRpcCaller(_OverHttp):
    """JSON-RPC (section 9)."""

    binding = "JSONRPC"
    _ids = itertools.count(1)

    def _request(self, method: str, request: Message, parameters: Mapping[str, str]) -> httpx.Request:
        # Numbers and strings in turn: the id comes back as it was sent (JSON-RPC 2.0, 5).
        number = next(self._ids)
        identifier = number if number % 2 else f"call-{number}"
        envelope = {
            "jsonrpc": "2.0",
            "id": identifier,
            "method": method,
            "params": json_format.MessageToDict(request),
        }
        headers = {"content-type": "application/json", **parameters}
        return self.http.build_request("POST", "/", content=json.dumps(envelope), headers=headers)

    def _result(self, response: httpx.Response, body: Any) -> Any:
        sent = json.loads(response.request.content)
        assert body["jsonrpc"] == "2.0"
        assert body["id"] == sent["id"] or response.status_code != httpx.codes.OK
        if "error" not in body:
            assert set(body) == {"jsonrpc", "id", "result"}, body
            assert response.status_code == httpx.codes.OK
            return body["result"]
        raise jsonrpc_failure(response, body)


def jsonrpc_failure(response: httpx.Response, body: Any) -> CallError:
    """The error in a JSON-RPC response, checked against 9.5."""
    assert set(body) == {"jsonrpc", "id", "error"}, body
    error = body["error"]
    assert set(error) == {"code", "message", "data"}, error
    failure = CallError(
        "JSONRPC",
        error["message"],
        http=response.status_code,
        jsonrpc=error["code"],
        parameters=_headers(response),
    )
    _add_details(failure, error["data"])
    return failure


CALLERS: dict[str, type[Caller]] = {caller.binding: caller for caller in (GrpcCaller, HttpCaller, JsonRpcCaller)}


class Connect(Protocol):
    """What the fixtures `connect` and `connect_over` give."""

    async def __call__(
        self,
        service: Service,
        *,
        tenant: str = "",
        key: str = "",
        over: str = "",
        parameters: Mapping[str, str] = VERSION,
    ) -> Caller:
        """A caller of `service`, with an API key if given, over the binding `over` (`connect`: that of the test)."""
