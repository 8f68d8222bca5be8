"""The client: one agent, one connection, one method for each operation."""

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from google.protobuf.empty_pb2 import Empty
from google.protobuf.message import Message

from a2a_grpc.client.card import CardResolver
from a2a_grpc.client.closing import Closing
from a2a_grpc.client.configuration import Configuration
from a2a_grpc.client.credentials import Credentials
from a2a_grpc.client.deadlines import time_limit, too_late
from a2a_grpc.client.discovery import Found, Target, certificate_in, find
from a2a_grpc.client.errors import NotConnectedError
from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.client.lists import listed
from a2a_grpc.client.options import Options, parameters
from a2a_grpc.client.origins import Origins
from a2a_grpc.client.polling import follow
from a2a_grpc.client.resuming import resuming
from a2a_grpc.client.retries import Retries
from a2a_grpc.client.schemas import ArtifactSchemas
from a2a_grpc.client.states import INTERRUPTED, TERMINAL, state_in, task_id_in
from a2a_grpc.client.transports import transport_for
from a2a_grpc.client.transports.authenticated import AuthenticatedTransport
from a2a_grpc.client.transports.base import Numbered, R, Transport
from a2a_grpc.client.transports.observed import Observer
from a2a_grpc.client.trusting import verified
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.errors import (
    InvalidAgentResponseError,
    ResourceExhaustedError,
    UnavailableError,
    UnsupportedOperationError,
)
from a2a_grpc.wire.headers import LAST_EVENT_ID
from a2a_grpc.wire.sequence import EVENT_SEQUENCE

# The heartbeats of this project's service come every 15 s: two of them may be late.
_IDLE_SECONDS: Final = 40.0
# A call that breaks after so long was under way: what has cut it is about to do so again.
_HELD_SECONDS: Final = 1.0

Events = AsyncGenerator[a2a_pb2.StreamResponse, None]
NumberedEvents = AsyncGenerator[Numbered, None]
Request = TypeVar("Request", bound=Message)


class A2AClient(Closing):
    """A remote agent. Make one with `connect`, close it with `aclose` or `async with`; it belongs to one event loop.

        async with await A2AClient.connect("http://localhost:8080") as client:
            reply = await client.send_message(a2a_pb2.SendMessageRequest(message=message("Hello")))

    Every method takes the request of its operation and `timeout` in seconds; None, the default, sets no limit. The
    tenant of a request is replaced by the one that the agent's interface declares (specification 8.3.2).

    Every failure is an A2AError, the same on every binding: those of the protocol (5.4), NotConnectedError when none of
    the agent's interfaces can be reached, UnavailableError when a connection breaks, DeadlineExceededError,
    InvalidAgentResponseError. To use a client that is closed, or in another event loop, is a RuntimeError.

    With agents of this project a message is sent again, under the same message id, when it fails with UNAVAILABLE, or
    with RESOURCE_EXHAUSTED and a time to wait; and a stream that is cut goes on after the last event that it brought,
    on another of the agent's interfaces where that helps: the work is done once, and each event comes once. Such an
    agent declares the extension `urn:a2a-grpc:extension:event-sequence:v1` in its card; one that is called without a
    card is taken for one. Others may do a message anew that they are sent again, so to them nothing is sent twice, and
    a stream that is cut raises StreamBrokenError. A service that was told not to know messages again
    (`A2A_DEDUPE_TTL=0`) needs `patience=0`.
    """

    def __init__(self, found: Found, options: Options, *, patience: float, check_artifacts: bool = False) -> None:
        """For `connect`."""
        self._schemas = ArtifactSchemas(found.card) if check_artifacts and found.card is not None else None
        self._interfaces = found.interfaces
        self._options = options
        self._card = found.card
        self._url = found.url
        self._tls_by_default = found.tls_by_default
        self._authenticator = found.authenticator
        self._transports: dict[int, Transport] = {}
        self._current = 0
        self._loop = asyncio.get_running_loop()
        self._patience = patience if self.numbers_events else 0.0
        self._closed = asyncio.Event()

    @classmethod
    async def connect(
        cls,
        target: Target | Configuration,
        *,
        headers: Mapping[str, str] | None = None,
        extensions: Sequence[str] = (),
        bindings: Sequence[str] = BINDINGS,
        connect_timeout: float = 10.0,
        keepalive: float | None = 30.0,
        patience: float = 30.0,
        ca_file: Path | None = None,
        resolver: CardResolver | None = None,
        credentials: Credentials | Sequence[Credentials] | None = None,
        allow_origins: Sequence[str] = (),
        idle_timeout: float | None = None,
        verify: bool = True,
        observer: Observer | None = None,
        check_artifacts: bool = False,
    ) -> Self:
        """Find the agent and connect to the first of its interfaces that speaks version 1.0 over one of `bindings`.

        `target` is the agent's base URL, whose card is at `/.well-known/agent-card.json` below it; the URL of a card;
        the path of a file with a card; a card; or one interface, for an agent without a card, which `grpc://host:port`
        (plain) and `grpcs://host:port` (TLS) also name. A Configuration is a target with other arguments, which those
        given here replace; headers and origins are added. When no connection comes about, now or at a later call, the
        next interface of the card is used.

        A card that is fetched may name interfaces on its own host only, over TLS; one that comes from this machine
        may also name this machine in plain text. `allow_origins` adds to that: `host`, `host:port`,
        `scheme://host[:port]`, or `*` for whatever it names. Interfaces beyond that are not used.

        A `resolver` with a verifier checks the signatures of whatever card the target leads to, before anything in it
        is used: one that it fetches, one from a file, one in hand. An interface alone has no card to check.

        `credentials` are shown as the card's security requirements ask, and to its interfaces only. They are not sent
        in plain text to another machine, unless `allow_origins` names it with the scheme `http` or `grpc`.
        `headers` go with every call as HTTP headers or gRPC metadata; they also go with the request for the card,
        unless a `resolver` brings its own. `extensions` are the URIs sent as A2A-Extensions.

        Times are in seconds. `connect_timeout` is for one connection. `keepalive` is the time between two gRPC pings;
        None sends none. A server that answers "too_many_pings" needs a longer time: gRPC servers with no settings of
        their own want 300 s. `idle_timeout` is how long a stream over HTTP may be without an event or a heartbeat
        before its connection is taken for dead; None stands for 40 s with agents that are known to send heartbeats,
        which are those that number their events by their card, and for no limit with others. `patience` is how long a
        message or a stream is tried again without any news before its failure is raised; 0 raises it at once. `ca_file`
        holds the PEM certificates to trust instead of the public ones; without `verify` any certificate is taken, also
        that of an attacker (over gRPC: any that has not expired). An `observer` is told of each call. With
        `check_artifacts` an artifact that does not match the schema in the card is an InvalidArtifactError
        (`ArtifactSchemas`).

        Raises CardError when there is no card or nothing in it to use, CredentialsError when the requirements cannot be
        met, InvalidArgumentError for a target, binding, header or origin that is wrong, and what `CardResolver.resolve`
        raises.
        """
        if isinstance(target, Configuration):
            credentials = target.credentials if credentials is None else credentials
            headers = {**target.headers, **(headers or {})}
            extensions = extensions or target.extensions
            allow_origins = (*listed(target.allow_origins), *listed(allow_origins))
            ca_file = ca_file or target.ca_file
            target = target.target
        shown = (credentials,) if isinstance(credentials, Credentials) else tuple(credentials or ())
        options = Options(
            parameters=parameters(headers or {}, extensions),
            connect_timeout=connect_timeout,
            keepalive=keepalive,
            ca_file=ca_file,
            certificate=certificate_in(shown),
            verify=verify,
            observer=observer,
        )

        async def fetch(url: str) -> a2a_pb2.AgentCard:
            if resolver is not None:
                return await resolver.resolve(url)
            async with CardResolver(
                headers=headers,
                connect_timeout=connect_timeout,
                ca_file=ca_file,
                certificate=options.certificate,
                verify=verify,
            ) as own:
                return await own.resolve(url)

        found = await find(
            await verified(target, resolver),
            options,
            bindings=bindings,
            credentials=shown,
            origins=Origins(allow_origins),
            fetch=fetch,
        )
        if idle_timeout is None and found.card is not None and _numbers_events(found.card):
            idle_timeout = _IDLE_SECONDS
        options = replace(options, idle_timeout=idle_timeout)
        client = cls(found, options, patience=patience, check_artifacts=check_artifacts)
        try:
            await client._open()
        except BaseException:
            await client.aclose()
            raise
        return client

    @property
    def card(self) -> a2a_pb2.AgentCard | None:
        """The agent's card; None when the client was made from an interface alone."""
        return self._card

    @property
    def url(self) -> str:
        """The URL that the client was made with; empty when it was made with a card, a file or an interface."""
        return self._url

    @property
    def interface(self) -> a2a_pb2.AgentInterface:
        """The interface that answered last."""
        return self._interfaces[self._current]

    async def send_message(
        self, request: a2a_pb2.SendMessageRequest, *, timeout: float | None = None
    ) -> a2a_pb2.SendMessageResponse:
        """Send a message and get the task or the message that answers it (specification 3.1.1).

        Waits until the task ends or waits for the caller, unless the request says `return_immediately`. A connection
        that breaks after it was held for a while, as proxies do it, is not tried in the same way again: where the agent
        numbers its events, the rest is awaited by a stream.
        """
        request = _copy(request)
        async with time_limit(timeout):
            response = await self._answer_to(request, timeout)
        if response.WhichOneof("payload") is None:
            raise InvalidAgentResponseError("The agent answered a message with neither a task nor a message.")
        self._check(response.task)
        return response

    def send_streaming_message(self, request: a2a_pb2.SendMessageRequest, *, timeout: float | None = None) -> Events:
        """Send a message and get what happens, as it happens (3.1.2).

        Ends when the task does or waits for the caller; a stream that stops earlier goes on by itself, or raises
        StreamBrokenError, which names the task. A second Task among the events says that some before it are no longer
        to be had, and holds what they said. An agent whose card says that it does not stream (3.3.4) is asked for the
        task again and again.
        """
        return _limited(_responses(self.sending(request)), timeout)

    async def get_task(self, request: a2a_pb2.GetTaskRequest, *, timeout: float | None = None) -> a2a_pb2.Task:
        """A task as it is now (3.1.3)."""
        return self._check(await self._unary("GetTask", request, a2a_pb2.Task, timeout))

    async def list_tasks(
        self, request: a2a_pb2.ListTasksRequest | None = None, *, timeout: float | None = None
    ) -> a2a_pb2.ListTasksResponse:
        """A page of the caller's tasks, those that changed last first (3.1.4)."""
        request = request or a2a_pb2.ListTasksRequest()
        page = await self._unary("ListTasks", request, a2a_pb2.ListTasksResponse, timeout)
        for task in page.tasks:
            self._check(task)
        return page

    async def list_all_tasks(
        self, request: a2a_pb2.ListTasksRequest | None = None, *, timeout: float | None = None
    ) -> AsyncGenerator[a2a_pb2.Task, None]:
        """All tasks, page by page, from the page that the request names on; `timeout` is for each page."""
        page_request = _copy(request or a2a_pb2.ListTasksRequest())
        while True:
            page = await self.list_tasks(page_request, timeout=timeout)
            for task in page.tasks:
                yield task
            if not page.next_page_token:
                return
            if page.next_page_token == page_request.page_token:
                raise InvalidAgentResponseError("The agent gives a page of tasks that leads to itself.")
            page_request.page_token = page.next_page_token

    async def cancel_task(self, request: a2a_pb2.CancelTaskRequest, *, timeout: float | None = None) -> a2a_pb2.Task:
        """Cancel a task (3.1.5). Raises TaskNotCancelableError if it has ended."""
        return self._check(await self._unary("CancelTask", request, a2a_pb2.Task, timeout))

    def subscribe_to_task(self, request: a2a_pb2.SubscribeToTaskRequest, *, timeout: float | None = None) -> Events:
        """A task as it is, then what happens to it, until it ends (3.1.6). Otherwise as `send_streaming_message`.

        The protocol refuses to stream a task that has ended. Here its final state is then the only event, since a task
        may end while the caller is on the way.
        """
        return _limited(_responses(self.following(request.id)), timeout)

    def sending(self, request: a2a_pb2.SendMessageRequest) -> NumberedEvents:
        """What `send_streaming_message` gives, with the numbers of the events (0 where the agent gives none)."""
        return self._checked(self._send_and_stream(request) if self._streams else self._send_and_poll(request))

    def following(self, task_id: str, after: int = 0) -> NumberedEvents:
        """What `subscribe_to_task` gives, with the numbers of the events.

        With the number of an event, `after`, it begins with the task as it stood then, where the agent still knows.
        """
        return self._checked(self._subscribe(task_id, after) if self._streams else self._poll(task_id))

    async def create_task_push_notification_config(
        self, request: a2a_pb2.TaskPushNotificationConfig, *, timeout: float | None = None
    ) -> a2a_pb2.TaskPushNotificationConfig:
        """Have updates of a task posted to a URL (3.1.7)."""
        return await self._unary(
            "CreateTaskPushNotificationConfig", request, a2a_pb2.TaskPushNotificationConfig, timeout
        )

    async def get_task_push_notification_config(
        self, request: a2a_pb2.GetTaskPushNotificationConfigRequest, *, timeout: float | None = None
    ) -> a2a_pb2.TaskPushNotificationConfig:
        """One push configuration of a task (3.1.8)."""
        return await self._unary("GetTaskPushNotificationConfig", request, a2a_pb2.TaskPushNotificationConfig, timeout)

    async def list_task_push_notification_configs(
        self, request: a2a_pb2.ListTaskPushNotificationConfigsRequest, *, timeout: float | None = None
    ) -> a2a_pb2.ListTaskPushNotificationConfigsResponse:
        """The push configurations of a task (3.1.9)."""
        return await self._unary(
            "ListTaskPushNotificationConfigs", request, a2a_pb2.ListTaskPushNotificationConfigsResponse, timeout
        )

    async def delete_task_push_notification_config(
        self, request: a2a_pb2.DeleteTaskPushNotificationConfigRequest, *, timeout: float | None = None
    ) -> None:
        """Delete a push configuration; one that is gone already is no error (3.1.10)."""
        await self._unary("DeleteTaskPushNotificationConfig", request, Empty, timeout)

    async def get_extended_agent_card(
        self, request: a2a_pb2.GetExtendedAgentCardRequest | None = None, *, timeout: float | None = None
    ) -> a2a_pb2.AgentCard:
        """The card that the agent shows to callers it knows (3.1.11)."""
        return await self._unary(
            "GetExtendedAgentCard", request or a2a_pb2.GetExtendedAgentCardRequest(), a2a_pb2.AgentCard, timeout
        )

    async def aclose(self) -> None:
        """Close the connections; streams that still run raise UnavailableError. Does nothing the second time."""
        self._closed.set()
        while self._transports:
            _, transport = self._transports.popitem()
            await transport.aclose()

    @property
    def numbers_events(self) -> bool:
        """Whether the agent gives each event of a task its number, and knows a message that comes again."""
        return self._card is None or _numbers_events(self._card)

    @property
    def _streams(self) -> bool:
        return self._card is None or self._card.capabilities.streaming

    def _attempts(self) -> Iterator[tuple[Transport, str]]:
        """Each interface once, with its tenant, from the one in use on; the one that is being tried is in use.

        When all were tried in vain, the first is the next to try.
        """
        if self._closed.is_set():
            raise RuntimeError("This client is closed.")
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("This client belongs to another event loop. Connect one in each loop.")
        start = self._current
        for step in range(len(self._interfaces)):
            index = self._current = (start + step) % len(self._interfaces)
            interface = self._interfaces[index]
            if index not in self._transports:
                plain = transport_for(interface, self._options, tls_by_default=self._tls_by_default)
                self._transports[index] = AuthenticatedTransport(plain, self._authenticator)
            yield self._transports[index], interface.tenant
            if self._closed.is_set():  # what would be opened now, nobody would close
                raise UnavailableError("The client was closed.")
        self._current = 0

    async def _open(self) -> None:
        failures: list[NotConnectedError] = []
        for transport, _ in self._attempts():
            try:
                return await transport.open()
            except NotConnectedError as error:
                failures.append(error)
        raise _unreachable(failures)

    def _check(self, task: a2a_pb2.Task) -> a2a_pb2.Task:
        if self._schemas is not None:
            self._schemas.check_task(task)
        return task

    def _checked(self, events: NumberedEvents) -> NumberedEvents:
        return self._schemas.checked(events) if self._schemas else events

    def _retries(self, timeout: float | None = None) -> Retries:
        return Retries(self._patience, self._closed, timeout)

    async def _unary(self, method: str, request: Message, response_type: type[R], timeout: float | None) -> R:
        request = _copy(request)
        async with time_limit(timeout):
            return await self._unary_once(method, request, response_type, timeout)

    async def _unary_once(self, method: str, request: Message, response_type: type[R], timeout: float | None) -> R:
        failures: list[NotConnectedError] = []
        for transport, tenant in self._attempts():
            try:
                return await transport.unary(method, _addressed(request, tenant), response_type, timeout=timeout)
            except NotConnectedError as error:
                failures.append(error)
        raise _unreachable(failures)

    async def _stream(
        self, method: str, request: Message, retries: Retries, after: int = 0
    ) -> AsyncGenerator[Numbered, None]:
        parameters = {LAST_EVENT_ID: str(after)} if after else {}
        failures: list[NotConnectedError] = []
        self._look_elsewhere(retries)
        for transport, tenant in self._attempts():
            try:
                async with aclosing(transport.stream(method, _addressed(request, tenant), parameters)) as events:
                    async for event in events:
                        # Whoever does not say so may mean something else by the ids of its events.
                        yield event if self.numbers_events else event._replace(seq=0)
                    return
            except NotConnectedError as error:
                failures.append(error)
        raise _unreachable(failures)

    async def _answer_to(
        self, request: a2a_pb2.SendMessageRequest, timeout: float | None
    ) -> a2a_pb2.SendMessageResponse:
        retries = self._retries(timeout)
        streams = self._streams and not request.configuration.return_immediately
        while True:
            began = self._loop.time()
            try:
                return await self._unary_once("SendMessage", request, a2a_pb2.SendMessageResponse, timeout)
            except (UnavailableError, ResourceExhaustedError) as error:
                was_held = type(error) is UnavailableError and self._loop.time() - began >= _HELD_SECONDS
                if not await retries.pause(error, may_have_worked=True):
                    raise
            self._look_elsewhere(retries)
            if streams and was_held:
                try:
                    return await self._end_of(request)
                except UnsupportedOperationError:
                    streams = False  # an agent without a card, of which that was not known

    async def _end_of(self, request: a2a_pb2.SendMessageRequest) -> a2a_pb2.SendMessageResponse:
        """What a message comes to, by its stream."""
        task_id, first = "", True
        async with aclosing(self._send_and_stream(request)) as events:
            async for _, event in events:
                if event.HasField("message"):
                    return a2a_pb2.SendMessageResponse(message=event.message)
                task_id = task_id_in(event) or task_id
                if not first and state_in(event) in INTERRUPTED:
                    break
                first = False
        history = request.configuration.history_length if request.configuration.HasField("history_length") else None
        task = await self._unary_once(
            "GetTask", a2a_pb2.GetTaskRequest(id=task_id, history_length=history), a2a_pb2.Task, timeout=None
        )
        return a2a_pb2.SendMessageResponse(task=task)

    def _look_elsewhere(self, retries: Retries) -> None:
        """Go on to the next interface where the present one was tried again in vain: it may be about to stop."""
        if retries.failures > 1:
            self._current = (self._current + 1) % len(self._interfaces)

    def _send_and_stream(self, request: a2a_pb2.SendMessageRequest) -> NumberedEvents:
        request, retries = _copy(request), self._retries()

        def open_stream(task_id: str, seq: int) -> AsyncGenerator[Numbered, None]:
            # Once there is a task it is subscribed to: the message need not be known any more.
            if task_id:
                return self._subscription(task_id, seq, retries)
            return self._stream("SendStreamingMessage", request, retries)

        return resuming(open_stream, TERMINAL | {a2a_pb2.TASK_STATE_INPUT_REQUIRED}, retries)

    async def _send_and_poll(self, request: a2a_pb2.SendMessageRequest) -> NumberedEvents:
        request = _copy(request)
        request.configuration.return_immediately = True
        response = await self.send_message(request)
        if response.HasField("message"):
            yield Numbered(0, a2a_pb2.StreamResponse(message=response.message))
            return
        async with aclosing(self._follow(response.task, TERMINAL | {a2a_pb2.TASK_STATE_INPUT_REQUIRED})) as events:
            async for event in events:
                yield Numbered(0, event)

    def _subscribe(self, task_id: str, after: int) -> NumberedEvents:
        retries = self._retries()
        return resuming(
            lambda _, seq: self._subscription(task_id, seq, retries), TERMINAL, retries, task_id=task_id, after=after
        )

    async def _subscription(self, task_id: str, after: int, retries: Retries) -> NumberedEvents:
        request = a2a_pb2.SubscribeToTaskRequest(id=task_id)
        begun = False
        try:
            async with aclosing(self._stream("SubscribeToTask", request, retries, after)) as events:
                async for event in events:
                    begun = True
                    yield event
        except UnsupportedOperationError:
            if begun:
                raise
            task = await self.get_task(a2a_pb2.GetTaskRequest(id=task_id))
            if task.status.state not in TERMINAL:
                raise
            yield Numbered(0, a2a_pb2.StreamResponse(task=task))

    async def _poll(self, task_id: str) -> NumberedEvents:
        task = await self.get_task(a2a_pb2.GetTaskRequest(id=task_id))
        async with aclosing(self._follow(task, TERMINAL)) as events:
            async for event in events:
                yield Numbered(0, event)

    def _follow(self, task: a2a_pb2.Task, until: Collection[a2a_pb2.TaskState]) -> Events:
        request = a2a_pb2.GetTaskRequest(id=task.id, history_length=0)
        return follow(task, lambda: self.get_task(request), until)


def _numbers_events(card: a2a_pb2.AgentCard) -> bool:
    return any(extension.uri == EVENT_SEQUENCE for extension in card.capabilities.extensions)


def _copy(request: Request) -> Request:
    copy = type(request)()
    copy.CopyFrom(request)
    return copy


def _addressed(request: Request, tenant: str) -> Request:
    """The request for a tenant; the caller's own object stays as it is."""
    copy: Any = _copy(request)
    copy.tenant = tenant
    return copy  # type: ignore[no-any-return]


async def _responses(events: NumberedEvents) -> Events:
    async with aclosing(events):
        async for event in events:
            yield event.response


def _limited(events: Events, timeout: float | None) -> Events:
    return events if timeout is None else _within(events, timeout)


async def _within(events: Events, timeout: float) -> Events:
    """The events that come within `timeout` seconds from the first look; then DeadlineExceededError."""
    deadline = asyncio.get_running_loop().time() + timeout
    async with aclosing(events):
        while True:
            # Around each wait: around the loop the deadline would strike whoever reads from it.
            try:
                async with asyncio.timeout_at(deadline):
                    event = await anext(events, None)
            except TimeoutError as error:
                raise too_late(timeout) from error
            if event is None:
                return
            yield event


def _unreachable(failures: Sequence[NotConnectedError]) -> NotConnectedError:
    return NotConnectedError(" ".join(failure.message for failure in failures))
