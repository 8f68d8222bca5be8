"""From a request that is well formed to a message that its agent can take (3.1.1, 3.4)."""

from functools import lru_cache
from hashlib import sha256

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent, Skill
from a2a_grpc.server.auth.principal import Principal
from a2a_grpc.server.auth.refusals import ScopeMissingError
from a2a_grpc.server.core import ids
from a2a_grpc.server.engine.engine import Accepted, Engine, Intake
from a2a_grpc.server.hosting.hosts import Hosts
from a2a_grpc.server.push.configs import PushConfigs
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.server.service.finding import find
from a2a_grpc.server.store.records import Dedupe, Origin, Webhook
from a2a_grpc.server.store.tasks import TaskStore
from a2a_grpc.server.telemetry import tracing
from a2a_grpc.wire.errors import (
    ContentTypeNotSupportedError,
    InternalError,
    InvalidArgumentError,
    UnauthenticatedError,
    Violation,
    excerpt,
)

# With de-duplication off a repeated call of the service to its own store must still be recognised.
_OWN_RETRY_MS = 60_000


class Inlet:
    """Hands messages to the engine."""

    def __init__(
        self,
        hosts: Hosts,
        engine: Engine,
        store: TaskStore,
        configs: PushConfigs | None,
        *,
        dedupe_ttl: float,
    ) -> None:
        """`dedupe_ttl` in seconds: how long the same message id means the same message; 0 switches it off."""
        self._configs = configs
        self._hosts = hosts
        self._engine = engine
        self._store = store
        self._window_ms = int(dedupe_ttl * 1000)

    async def take(self, request: a2a_pb2.SendMessageRequest, caller: Caller) -> a2a_pb2.Message | Accepted:
        """Answer the request's message with a message, or make it part of a new or an existing task.

        Raises:
            UnauthenticatedError, PermissionDeniedError: the skill requires more than the agent does.
            TaskNotFoundError, UnsupportedOperationError: of the task that the message names.
            ContentTypeNotSupportedError: a part's media type is none that the skill takes.
            InvalidArgumentError: the context is not the task's, or the message id was used for something else.
            ResourceExhaustedError, StoreUnavailableError: nothing was stored; send it again.
        """
        message = a2a_pb2.Message()
        message.CopyFrom(request.message)
        stored = await find(self._store, caller, message.task_id) if message.task_id else None
        hosted = self._hosts[caller.scope.tenant]
        skill = _skill(hosted.agent, message if stored is None else stored.fold.head.history[0])
        _check_scopes(skill, caller.principal)
        hosted.gate.check(caller.principal, skill.card.security_requirements)
        _check_media_types(message, hosted.agent, skill)
        dedupe = self._dedupe(request)
        if stored is not None and message.context_id not in {"", stored.context}:
            raise InvalidArgumentError(
                "The task belongs to another context (3.4.3).",
                violations=[Violation("message.context_id", "leave it out, or send the context of the task")],
            )
        if stored is not None:
            message.context_id = stored.context
        rest = a2a_pb2.SendMessageRequest()
        rest.CopyFrom(request)
        rest.ClearField("message")
        # It holds credentials, which are neither the agent's business nor that of who reads a log.
        rest.configuration.ClearField("task_push_notification_config")
        origin = Origin(message=message, request=rest, extensions=caller.extensions, trace=tracing.here())
        webhook = self._webhook(request, caller)
        intake = Intake(scope=caller.scope, skill=skill, origin=origin, dedupe=dedupe, webhook=webhook)
        if stored is None:
            answer = await self._engine.answer(intake)
        else:
            answer = await self._engine.follow_up(intake, stored)
        if isinstance(answer, Accepted):
            tracing.note("a2a.task.id", answer.task_id)
        tracing.note("a2a.context.id", message.context_id)
        return answer

    def _webhook(self, request: a2a_pb2.SendMessageRequest, caller: Caller) -> Webhook | None:
        if self._configs is None or not request.configuration.HasField("task_push_notification_config"):
            return None
        config = a2a_pb2.TaskPushNotificationConfig()
        config.CopyFrom(request.configuration.task_push_notification_config)
        config.tenant = request.tenant
        return self._configs.pack(config, caller.scope)

    def _dedupe(self, request: a2a_pb2.SendMessageRequest) -> Dedupe:
        call_id = ids.new_id()
        if not self._window_ms:
            return Dedupe(message_id=call_id, digest="-", window_ms=_OWN_RETRY_MS, call_id=call_id)
        said = a2a_pb2.SendMessageRequest()
        said.CopyFrom(request)
        said.ClearField("tenant")
        said.ClearField("configuration")
        # There or not, it is the same message; replicas of all versions have to agree on what stands for none.
        said.metadata.SetInParent()
        return Dedupe(
            message_id=request.message.message_id,
            digest=sha256(said.SerializeToString(deterministic=True)).hexdigest(),
            window_ms=self._window_ms,
            call_id=call_id,
        )


def _skill(agent: Agent, message: a2a_pb2.Message) -> Skill:
    try:
        return agent.pick(message)
    except LookupError as error:
        raise InternalError("The agent has no skill for this message.") from error


def _check_scopes(skill: Skill, principal: Principal) -> None:
    """Refuse a skill that the caller does not see in any card of its own. The error does not name the skill."""
    if skill.is_for(principal.name, principal.scopes):
        return
    if not principal.authenticated:
        raise UnauthenticatedError("What you ask for needs credentials; the agent card says which.")
    raise ScopeMissingError(frozenset(skill.scopes or ()), principal.scopes)


def _check_media_types(message: a2a_pb2.Message, agent: Agent, skill: Skill) -> None:
    if not agent.checks_media_types:
        return
    modes = _modes(skill, agent)
    for at, part in enumerate(message.parts):
        media_type = _media_type(part)
        if media_type and media_type not in modes and not any(_matches(media_type, mode) for mode in modes):
            listed = ", ".join(sorted(modes))
            raise ContentTypeNotSupportedError(
                f"The skill {skill.card.id} takes {listed}, not {excerpt(media_type, 64)}.",
                violations=[Violation(f"message.parts[{at}].media_type", f"send one of {listed}")],
            )


@lru_cache(maxsize=256)
def _modes(skill: Skill, agent: Agent) -> frozenset[str]:
    return frozenset(
        mode.lower().partition(";")[0].strip() for mode in skill.card.input_modes or agent.card.default_input_modes
    )


def _media_type(part: a2a_pb2.Part) -> str:
    """The media type of a part without its parameters; "" where it is not said and cannot be known."""
    if part.media_type:
        return part.media_type.partition(";")[0].strip().lower()
    match part.WhichOneof("content"):
        case "text":
            return "text/plain"
        case "data":
            return "application/json"
    return ""


def _matches(media_type: str, mode: str) -> bool:
    """Whether the pattern `mode` (a type may be `text/*` or `*/*`) holds `media_type`."""
    return mode in {"*/*", "*"} or (mode.endswith("/*") and media_type.startswith(mode[:-1]))
