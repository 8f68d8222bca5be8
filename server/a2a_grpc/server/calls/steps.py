"""The steps around every call: what each does before the operation, and what it makes of the outcome.

Their order is `pipeline.CHAIN`. Each class names the steps that must come before it, and its docstring says why.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import ClassVar

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server import audit
from a2a_grpc.server.auth.gate import Gates
from a2a_grpc.server.auth.refusals import NotAdmittedError, ScopeMissingError
from a2a_grpc.server.calls.access import SYSTEMS, record, request_id
from a2a_grpc.server.calls.current import Current
from a2a_grpc.server.calls.failures import count_failure
from a2a_grpc.server.calls.measuring import measure
from a2a_grpc.server.calls.validation import INLINE_WEBHOOK, MISSING, Validator
from a2a_grpc.server.hosting.attempts import Attempts
from a2a_grpc.server.hosting.hosts import Hosts
from a2a_grpc.server.hosting.limiter import Limited, Limiter
from a2a_grpc.server.hosting.networks import network_of
from a2a_grpc.server.service.finding import not_found
from a2a_grpc.server.store.errors import StoreUnavailableError, TaskErasedError
from a2a_grpc.server.store.records import Scope
from a2a_grpc.server.telemetry.facts import know
from a2a_grpc.server.telemetry.instruments import LIMITS_REACHED, STREAMS
from a2a_grpc.wire.errors import (
    A2AError,
    DeadlineExceededError,
    ExtensionSupportRequiredError,
    InternalError,
    InvalidArgumentError,
    PermissionDeniedError,
    PushNotificationNotSupportedError,
    QuotaExceededError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedOperationError,
    VersionNotSupportedError,
    Violation,
    excerpt,
    invalid,
)
from a2a_grpc.wire.headers import (
    A2A_EXTENSIONS,
    A2A_VERSION,
    LAST_EVENT_ID,
    REQUEST_ID,
    SUPPORTED_VERSION,
    format_extensions,
    parse_event_id,
    parse_extensions,
    parse_version,
)

log = logging.getLogger(__name__)

SERVICE = a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].full_name
_RETRY_AFTER = 1.0
_SUPPORTED = parse_version(SUPPORTED_VERSION)
# What a webhook can do harm with: where it is, and what becomes a header of what is sent there.
_OF_WEBHOOKS = frozenset(
    f"{path}{name}"
    for path in ("", f"configuration.{INLINE_WEBHOOK}.")
    for name in ("url", "token", "authentication.scheme", "authentication.credentials")
)


class Step:
    """One step. `enter` is awaited on the way in; `leave` on the way out, for every step that was entered."""

    name: ClassVar[str]
    after: ClassVar[tuple[str, ...]] = ()
    minds_success: ClassVar[bool] = True
    """False where `leave` has nothing to do when all went well, and is not asked then."""

    @property
    def idle(self) -> bool:
        """It would do nothing for any call, and is left out."""
        return False

    async def enter(self, current: Current) -> None:
        """Look at the call and note what later steps need. Raises: A2AError to refuse it."""

    async def leave(self, current: Current, error: BaseException | None) -> BaseException | None:  # noqa: ARG002
        """See the outcome of everything inside: `error` or None; returns what is to be raised instead of it."""
        return error


class RequestId(Step):
    """Gives the call a name that the caller and the log share."""

    name = "request-id"
    minds_success = False

    async def enter(self, current: Current) -> None:
        current.request_id, own = request_id(current.call)
        if own:
            current.call.response_parameters[REQUEST_ID] = current.request_id

    async def leave(self, current: Current, error: BaseException | None) -> BaseException | None:
        # Whoever gave no id has use for one only where something went wrong; it costs bytes on every binding.
        current.call.response_parameters[REQUEST_ID] = current.request_id
        return error


class AccessLog(Step):
    """One record per call, and one measurement.

    Outside of `errors`, so that it sees the public outcome of every call, refused ones too.
    """

    name = "access-log"
    after = ("request-id",)

    def __init__(self, service: str = SERVICE) -> None:
        """`service` is the full name of the one whose calls these are."""
        self._service = service

    async def enter(self, current: Current) -> None:
        current.begun = time.perf_counter()
        know(request_id=current.request_id, tenant=excerpt(current.tenant or ""))
        if current.streaming:
            STREAMS.change(1, SYSTEMS[current.call.binding])

    async def leave(self, current: Current, error: BaseException | None) -> BaseException | None:
        if current.streaming:
            STREAMS.change(-1, SYSTEMS[current.call.binding])
        measure(current.call, begun=current.begun, error=error, service=self._service)
        current.call.recorded = True
        record(
            current.call,
            begun=current.begun,
            error=error,
            request_id=current.request_id,
            caller=current.principal.name,
            tenant=current.tenant or "",
            request=current.request,
            answer=current.answer,
        )
        return error


class Audit(Step):
    """Puts on record, and counts, who was refused, by a limit too; which webhooks were; and who ended a task.

    Outside of `errors`, so that it sees what callers see.
    """

    name = "audit"
    after = ("access-log",)

    def __init__(self) -> None:
        self._limits = audit.Seldom()

    async def leave(self, current: Current, error: BaseException | None) -> BaseException | None:
        if isinstance(error, UnauthenticatedError):
            count_failure(error)
            _note(current, "authentication-failed", reason=error.message)
        elif isinstance(error, PermissionDeniedError):
            count_failure(error, current.principal)
            _note(current, "denied", reason=error.message)
        elif isinstance(error, QuotaExceededError):
            self._limit(current, " ".join(reached.field for reached in error.quotas))
        elif isinstance(error, InvalidArgumentError):
            for wrong in error.violations:
                if wrong.field in _OF_WEBHOOKS and wrong.description != MISSING:
                    _note(current, "webhook-refused", field=wrong.field, reason=wrong.description)
        elif error is None and isinstance(current.request, a2a_pb2.CancelTaskRequest):
            _note(current, "task-canceled", task_id=current.request.id)
        return error

    def _limit(self, current: Current, limit: str) -> None:
        who = current.principal.name or network_of(current.call.peer)
        if self._limits.first((current.tenant, who, limit)):
            _note(current, "limit-reached", limit=limit)


class Errors(Step):
    """Turns whatever goes wrong inside into an A2AError; the cause of a defect goes to the log, never to the caller."""

    name = "errors"
    after = ("audit",)
    minds_success = False

    async def leave(self, current: Current, error: BaseException | None) -> BaseException | None:
        if not isinstance(error, Exception) or isinstance(error, A2AError):
            return error
        if isinstance(error, StoreUnavailableError):
            log.warning("%s (request %s): %s", current.call.method, current.request_id, error)
            return UnavailableError(
                "The task store does not answer at the moment; send the same call again.", retry_after=_RETRY_AFTER
            )
        if isinstance(error, TaskErasedError):
            return not_found(error.task_id)
        log.error("%s failed (request %s)", current.call.method, current.request_id, exc_info=error)
        return InternalError(f"The server failed; its log says more under the request id {current.request_id}.")


class Deadline(Step):
    """Ends a unary call when its caller's time is up. What the call began goes on (3.2.2)."""

    name = "deadline"
    after = ("errors",)

    async def enter(self, current: Current) -> None:
        if current.call.timeout is not None and not current.streaming:
            current.deadline = asyncio.timeout(current.call.timeout)
            await current.deadline.__aenter__()

    async def leave(self, current: Current, error: BaseException | None) -> BaseException | None:
        if current.deadline is None:
            return error
        try:
            await current.deadline.__aexit__(type(error) if error else None, error, None)
        except TimeoutError:
            return DeadlineExceededError(
                "The time the caller gave is up. A task that was started goes on; read it with GetTask."
            )
        return error


class Version(Step):
    """Refuses other versions of the protocol before anything else happens (3.6.2). Patch numbers don't count."""

    name = "version"
    after = ("errors",)

    def __init__(self, assumed: str | None) -> None:
        """`assumed`: the version of callers that send none; None: they are of 0.3, as the specification says."""
        self._assumed = assumed or "0.3"

    async def enter(self, current: Current) -> None:
        self.check(current.call.parameters)

    def check(self, parameters: Mapping[str, str]) -> None:
        """Raises: VersionNotSupportedError unless the parameters name a version that is served."""
        sent = parameters.get(A2A_VERSION, "").strip()
        if sent == SUPPORTED_VERSION or parse_version(sent or self._assumed) == _SUPPORTED:
            return
        wanted = f"version {excerpt(sent, 32)!r}" if sent else "no version, which means 0.3"
        raise VersionNotSupportedError(
            f"The call asks for {wanted}; this interface speaks {SUPPORTED_VERSION}. "
            f"Send {A2A_VERSION}: {SUPPORTED_VERSION} as a header, as gRPC metadata, or in the query.",
            metadata={"supported_versions": SUPPORTED_VERSION},
        )


class Tenant(Step):
    """Finds the agent of the call's tenant, by which all that follows goes. Before anybody is asked who calls.

    The tenant of a path has won over that of a body already (11.3); here both are the request's.
    """

    name = "tenant"
    after = ("errors", "version")

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    async def enter(self, current: Current) -> None:
        if current.tenant is not None:
            current.hosted = self._hosts[current.tenant]


class Authentication(Step):
    """Finds out who calls. Before everything that looks at the request itself."""

    name = "authentication"
    after = ("errors", "version", "tenant")
    minds_success = False

    def __init__(self, gates: Gates, attempts: Attempts) -> None:
        self._gates = gates
        self._attempts = attempts

    async def enter(self, current: Current) -> None:
        self._attempts.check(current.call.peer)
        try:
            await self._admit(current)
        except NotAdmittedError as error:
            self._attempts.failed(current.call.peer, error)
            raise
        except ScopeMissingError as error:
            current.principal = error.caller  # for the record: it is known who was refused
            raise

    async def _admit(self, current: Current) -> None:
        call = current.call
        if current.tenant is None:
            await self._enter_by_any(current)
            return
        gate = self._gates.of(current.tenant)
        if call.admitted is None or call.admitted[0] is not gate:
            call.admitted = gate, await gate.admit(call.credentials)
        current.principal = call.admitted[1]
        current.owner = gate.owner_of(current.principal)

    async def leave(self, current: Current, error: BaseException | None) -> BaseException | None:
        if isinstance(error, NotAdmittedError | ScopeMissingError):
            challenge = error.challenge
        elif isinstance(error, UnauthenticatedError) and current.call.admitted is not None:
            challenge = current.call.admitted[0].challenge
        else:
            return error
        if challenge:
            current.call.response_parameters["www-authenticate"] = challenge
        return error

    async def _enter_by_any(self, current: Current) -> None:
        """Let in who could be a caller of some tenant; the request will say of which, and its gate is asked then."""
        refusals: list[A2AError] = []
        for gate in self._gates.all():
            try:
                current.call.admitted = gate, await gate.admit(current.call.credentials)
            except A2AError as error:
                refusals.append(error)
            else:
                return
        if refusals:
            for refusal in refusals:
                if isinstance(refusal, UnavailableError):  # what one of them cannot check may hold
                    raise refusal
            bad = (error for error in refusals if isinstance(error, NotAdmittedError) and error.scheme)
            # Credentials of another tenant's kind are none for the first gate, and still bad ones.
            raise next(bad, refusals[0]) if isinstance(refusals[0], NotAdmittedError) else refusals[0]


class Limits(Step):
    """Counts the call, and refuses it where its caller or its tenant has reached a limit.

    Behind `authentication`, so that nobody uses up what is another's; before everything that costs.
    """

    name = "limits"
    after = ("authentication",)

    def __init__(self, limiter: Limiter) -> None:
        self._limiter = limiter

    async def enter(self, current: Current) -> None:
        hosted = self.whose(current)
        if not hosted.limited:
            return
        call, principal, streaming = current.call, current.principal, current.streaming
        current.ticket = self._limiter.ticket(hosted, principal, call.peer, streaming=streaming)
        scope = Scope(current.tenant or "", current.owner)
        await self._limiter.enter(
            current.ticket, hosted, call.method, current.request, principal, call.peer, scope, streaming=streaming
        )

    def whose(self, current: Current) -> Limited:
        """Whose limits count for the call."""
        return current.hosted

    async def leave(self, current: Current, error: BaseException | None) -> BaseException | None:
        if current.ticket is not None:
            self._limiter.leave(current.ticket)
        if isinstance(error, QuotaExceededError):
            # Also what only the operation can notice: a limit of a task, or of a registry.
            for reached in error.quotas:
                of, _, what = reached.field.partition(":")
                LIMITS_REACHED.add(self.whose(current).tenant, of, what)
        return error


class Extensions(Step):
    """Activates the extensions that caller and agent share, and insists on those the agent requires (4.6)."""

    name = "extensions"
    after = ("authentication", "limits")

    async def enter(self, current: Current) -> None:
        sent = current.call.parameters.get(A2A_EXTENSIONS)
        required = current.hosted.required_extensions
        if sent is None and not required:
            return
        asked = parse_extensions(sent or "")
        missing = [uri for uri in required if uri not in asked]
        if missing:
            raise ExtensionSupportRequiredError(
                f"This agent requires {', '.join(missing)}; name it in {A2A_EXTENSIONS} if you support it.",
                metadata={"required_extensions": ",".join(missing)},
            )
        # An extension of another version has another URI, so it is simply not shared (4.6.3).
        current.extensions = tuple(uri for uri in asked if uri in current.hosted.extensions)
        if current.extensions:
            current.call.response_parameters[A2A_EXTENSIONS] = format_extensions(current.extensions)


class Capabilities(Step):
    """Refuses what the card does not offer, whatever else is wrong with the request (3.3.4)."""

    name = "capabilities"
    after = ("extensions",)

    async def enter(self, current: Current) -> None:
        hosted, method = current.hosted, current.call.method
        if not hosted.streams and method in _STREAMING_OPERATIONS:
            raise _no_streaming()
        if not hosted.extends and method == "GetExtendedAgentCard":
            raise _no_extended_card()
        if hosted.pushes:
            return
        request = current.request
        if method in _PUSH_OPERATIONS or (
            isinstance(request, a2a_pb2.SendMessageRequest)
            and request.configuration.HasField("task_push_notification_config")
        ):
            raise _no_push()


class Validation(Step):
    """Refuses a request that is not well formed. Last, so that a stranger learns nothing from it."""

    name = "validation"
    after = ("authentication", "capabilities")

    def __init__(self, validator: Validator) -> None:
        self._validator = validator

    async def enter(self, current: Current) -> None:
        if current.request is None:
            return
        self._validator.check(current.request, current.hosted.limits.max_message_bytes)
        # An empty value is what browsers' streams have before their first event.
        if current.streaming and (sent := current.call.parameters.get(LAST_EVENT_ID)):
            current.last_event_id = parse_event_id(sent)
            if current.last_event_id is None:
                raise invalid(
                    Violation(LAST_EVENT_ID, "must be the number of an event, or 0: a whole number of up to 18 digits")
                )


_STREAMING_OPERATIONS = frozenset({"SendStreamingMessage", "SubscribeToTask"})
_PUSH_OPERATIONS = frozenset(
    {
        "CreateTaskPushNotificationConfig",
        "GetTaskPushNotificationConfig",
        "ListTaskPushNotificationConfigs",
        "DeleteTaskPushNotificationConfig",
    }
)


def _note(current: Current, event: str, **facts: str) -> None:
    audit.note(
        event,
        principal=current.principal.name,
        tenant=current.tenant or "",
        peer=current.call.peer,
        request_id=current.request_id,
        binding=current.call.binding,
        method=current.call.method,
        **facts,
    )


def _no_streaming() -> A2AError:
    return UnsupportedOperationError("This agent does not stream; use SendMessage and GetTask.")


def _no_extended_card() -> A2AError:
    return UnsupportedOperationError("This agent has no extended card; use its public card.")


def _no_push() -> A2AError:
    return PushNotificationNotSupportedError(
        "This agent sends no push notifications; follow the task with SubscribeToTask or GetTask."
    )
