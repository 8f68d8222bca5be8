"""GetExtendedAgentCard (3.1.11)."""

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Reader
from a2a_grpc.server.hosting.hosts import Hosts
from a2a_grpc.server.service.caller import Caller
from a2a_grpc.wire.errors import ExtendedAgentCardNotConfiguredError, UnauthenticatedError


class GetExtendedAgentCard:
    """The card for callers who said who they are."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    async def run(self, _: a2a_pb2.GetExtendedAgentCardRequest, caller: Caller) -> a2a_pb2.AgentCard:
        """The extended card, with what this caller may see.

        Raises: ExtendedAgentCardNotConfiguredError; UnauthenticatedError for anonymous callers (13.3).
        """
        hosted = self._hosts[caller.scope.tenant]
        extended = hosted.extended
        if extended is None or not extended.configured:
            raise _not_configured()
        if hosted.gate.open:
            raise UnauthenticatedError(
                "The extended card needs credentials, and there are none that this service would take."
            )
        if not caller.authenticated:
            raise UnauthenticatedError("The extended card needs credentials; the public card says which.")
        who = caller.principal
        reader = Reader(name=who.name, tenant=caller.scope.tenant, scopes=who.scopes, claims=who.claims)
        card = await extended.read(reader)
        if card is None:
            raise _not_configured()
        return card


def _not_configured() -> ExtendedAgentCardNotConfiguredError:
    return ExtendedAgentCardNotConfiguredError("This agent has no extended card; use its public card.")
