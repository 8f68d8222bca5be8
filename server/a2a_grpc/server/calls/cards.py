"""Who may read the public cards, on every binding."""

from dataclasses import replace

from a2a_grpc.server import audit
from a2a_grpc.server.auth.gate import Gates
from a2a_grpc.server.auth.principal import ANONYMOUS
from a2a_grpc.server.auth.refusals import NotAdmittedError, ScopeMissingError
from a2a_grpc.server.calls.call import Call
from a2a_grpc.server.calls.failures import count_failure
from a2a_grpc.server.card.published import CardSource, PublishedCard
from a2a_grpc.server.hosting.attempts import Attempts
from a2a_grpc.wire.errors import PermissionDeniedError, UnauthenticatedError


class CardReading:
    """The public cards for everybody, or with `gates` for those who have the credentials of a caller."""

    def __init__(self, source: CardSource, gates: Gates | None = None, attempts: Attempts | None = None) -> None:
        """`attempts`: who is not listened to; None: everybody is."""
        self._source = source
        self._gates = gates
        self._attempts = attempts

    async def read(self, tenant: str, call: Call) -> PublishedCard | None:
        """The card of `tenant`; None where there is none. What goes back besides it is in the call afterwards.

        Raises: UnauthenticatedError, PermissionDeniedError, QuotaExceededError; RouteNotFoundError for a tenant that is
        not there; whatever the source raises.
        """
        if self._gates is None:
            return await self._source.public_card(tenant, call)
        gate = self._gates.of(tenant)
        if self._attempts is not None:
            self._attempts.check(call.peer)
        try:
            reader = await gate.admit(call.credentials)
            if not reader.authenticated:
                raise UnauthenticatedError("This card is for callers with credentials.")  # noqa: TRY301 -- noted below
        except (UnauthenticatedError, PermissionDeniedError) as error:
            refused = isinstance(error, UnauthenticatedError)
            caller = error.caller if isinstance(error, ScopeMissingError) else ANONYMOUS
            count_failure(error, caller)
            if self._attempts is not None and isinstance(error, NotAdmittedError):
                self._attempts.failed(call.peer, error)
            audit.note(
                "authentication-failed" if refused else "denied",
                principal=caller.name,
                tenant=tenant,
                peer=call.peer,
                binding=call.binding,
                method=call.method,
                reason=error.message,
            )
            challenge = error.challenge if isinstance(error, NotAdmittedError | ScopeMissingError) else gate.challenge
            if challenge:
                call.response_parameters["www-authenticate"] = challenge
            raise
        published = await self._source.public_card(tenant, call)
        if published is None:
            return None
        return replace(published, private=True, varies=gate.headers)
