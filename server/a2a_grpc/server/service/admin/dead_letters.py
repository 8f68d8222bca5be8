"""Dead letters: listed, shown, sent again, removed."""

import logging

from a2a_grpc.admin.v1 import admin_pb2
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids
from a2a_grpc.server.core.clock import now_ms
from a2a_grpc.server.core.events import set_timestamp
from a2a_grpc.server.engine.engine import Engine, Intake
from a2a_grpc.server.service.admin.paging import cursor_of, page_size, token_of
from a2a_grpc.server.store.letters import DeadLetter, DeadLetters
from a2a_grpc.server.store.records import Dedupe, Origin
from a2a_grpc.server.store.webhooks import Webhooks
from a2a_grpc.wire.errors import RouteNotFoundError, UnsupportedOperationError, Violation, excerpt, invalid

log = logging.getLogger(__name__)

# What a redriven message is known by; nobody compares its content.
_DIGEST = "redriven"


class DeadLetterNotFoundError(RouteNotFoundError):
    """There is no dead letter of this id."""


class DeadLetterDesk:
    """What operators do with dead letters. All methods raise StoreUnavailableError."""

    def __init__(self, letters: DeadLetters, engine: Engine, webhooks: Webhooks) -> None:
        self._letters = letters
        self._engine = engine
        self._webhooks = webhooks

    async def list(self, request: admin_pb2.ListDeadLettersRequest) -> admin_pb2.ListDeadLettersResponse:
        """One page, the latest first. Raises: InvalidArgumentError."""
        found = await self._letters.page(
            request.tenant if request.HasField("tenant") else None,
            request.owner if request.HasField("owner") else None,
            cursor_of(request.page_token, request),
            page_size(request),
        )
        return admin_pb2.ListDeadLettersResponse(
            letters=[_shown(letter) for letter in found.letters], next_page_token=token_of(found.cursor, request)
        )

    async def get(self, request: admin_pb2.GetDeadLetterRequest) -> admin_pb2.GetDeadLetterResponse:
        """One letter with its message. Raises: DeadLetterNotFoundError."""
        letter, origin = await self._find(request.id)
        response = admin_pb2.GetDeadLetterResponse(letter=_shown(letter))
        if origin is not None:
            response.message = origin.message.SerializeToString()
            response.request = origin.request.SerializeToString()
            response.extensions.extend(origin.extensions)
        return response

    async def redrive(self, request: admin_pb2.RedriveDeadLetterRequest) -> admin_pb2.RedriveDeadLetterResponse:
        """Send the letter's message again as a new task of the same caller, once.

        Nothing leaves a terminal state (3.1.2), so the old task stays as it ended; the new one refers to it. A webhook
        that was given up is told of its task again, from the event on that it did not take.

        Raises:
            DeadLetterNotFoundError.
            UnsupportedOperationError: the message is not known any more, no skill takes it, or the webhook is gone.
            ResourceExhaustedError: too many turns wait already.
        """
        letter, origin = await self._find(request.id)
        if letter.redriven:
            return admin_pb2.RedriveDeadLetterResponse(task_id=letter.redriven)
        if letter.webhook:
            return await self._tell_again(letter)
        if origin is None:
            raise UnsupportedOperationError(
                "The message of this dead letter was not known any more when it was written: it cannot be sent again."
            )
        message = _once_more(letter, origin.message)
        agent = self._engine.agent_of(letter.scope.tenant)
        if agent is None:
            raise UnsupportedOperationError("There is no agent for the tenant of this dead letter now.")
        try:
            skill = agent.pick(message)
        except LookupError as error:
            raise UnsupportedOperationError("The agent that is served now has no skill for this message.") from error
        accepted = await self._engine.enqueue(
            Intake(
                scope=letter.scope,
                skill=skill,
                origin=Origin(message=message, request=origin.request, extensions=origin.extensions),
                dedupe=Dedupe(
                    message_id=message.message_id,
                    digest=_DIGEST,
                    window_ms=self._letters.ttl_ms,
                    call_id=ids.new_id(),
                ),
            )
        )
        await self._letters.mark_redriven(letter.id, accepted.task_id)
        log.info("dead letter %s: sent again as task %s", letter.id, accepted.task_id)
        return admin_pb2.RedriveDeadLetterResponse(task_id=accepted.task_id, created=not accepted.repeated)

    async def purge(self, request: admin_pb2.PurgeDeadLettersRequest) -> admin_pb2.PurgeDeadLettersResponse:
        """Remove one letter, those of a time, or all. Raises: InvalidArgumentError, DeadLetterNotFoundError."""
        match request.WhichOneof("which"):
            case "id":
                if not await self._letters.discard(request.id):
                    raise _not_found(request.id)
                purged = 1
            case "older_than" if request.older_than.seconds >= 0:
                purged = await self._letters.discard_before(now_ms() - request.older_than.ToMilliseconds())
            case "all" if request.all:
                purged = await self._letters.discard_before(None)
            case which:
                raise invalid(Violation(which or "", "say which letters: an id, an age of 0 or more, or all of them"))
        log.info("dead letters: %d purged", purged)
        return admin_pb2.PurgeDeadLettersResponse(purged=purged)

    async def _tell_again(self, letter: DeadLetter) -> admin_pb2.RedriveDeadLetterResponse:
        if not await self._webhooks.revive(letter.task_id, letter.webhook):
            raise UnsupportedOperationError("The webhook of this dead letter, or its task, is not kept any more.")
        await self._letters.mark_redriven(letter.id, letter.task_id)
        log.info("dead letter %s: the webhook is told of its task again", letter.id)
        return admin_pb2.RedriveDeadLetterResponse(task_id=letter.task_id)

    async def _find(self, letter_id: str) -> tuple[DeadLetter, Origin | None]:
        found = await self._letters.find(letter_id)
        if found is None:
            raise _not_found(letter_id)
        return found


def _once_more(letter: DeadLetter, message: a2a_pb2.Message) -> a2a_pb2.Message:
    """The message of a letter as the first of a new task."""
    again = a2a_pb2.Message()
    again.CopyFrom(message)
    again.message_id = f"redrive:{letter.id}"
    again.context_id = letter.context
    if letter.task_id not in again.reference_task_ids:
        again.reference_task_ids.append(letter.task_id)
    return again


def _not_found(letter_id: str) -> DeadLetterNotFoundError:
    return DeadLetterNotFoundError(
        "There is no dead letter of this id. Letters are kept for a limited time.",
        metadata={"dead_letter_id": excerpt(letter_id)},
    )


def _shown(letter: DeadLetter) -> admin_pb2.DeadLetter:
    shown = admin_pb2.DeadLetter(
        id=letter.id,
        tenant=letter.scope.tenant,
        owner=letter.scope.owner,
        context_id=letter.context,
        task_id=letter.task_id,
        turn=letter.turn,
        reason=letter.reason,
        attempts=letter.attempts,
        redriven_task_id=letter.redriven,
    )
    set_timestamp(shown.create_time, letter.created_ms)
    set_timestamp(shown.death_time, letter.died_ms)
    return shown
