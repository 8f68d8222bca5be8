"""GetExtendedAgentCard (3.1.11)."""

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.wire.errors import ExtendedAgentCardNotConfiguredError, UnauthenticatedError


class GetExtendedAgentCard:
    """The card for callers who said who they are."""

    def __init__(self, card: a2a_pb2.AgentCard | None) -> None:
        """`card` as authenticated callers get it; None: declared, but not configured."""
        self._card = card

    async def run(self, _: a2a_pb2.GetExtendedAgentCardRequest, caller: Caller) -> a2a_pb2.AgentCard:
        """The extended card.

        Raises: ExtendedAgentCardNotConfiguredError; UnauthenticatedError for anonymous callers (13.3).
        """
        if self._card is None:
            raise ExtendedAgentCardNotConfiguredError("This agent has no extended card; use its public card.")
        if not caller.authenticated:
            raise UnauthenticatedError("The extended card needs credentials; the public card says which.")
        return self._card
