"""`Hosts`: which agent serves which tenant."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents import Agent
from a2a_grpc.server.auth.gate import Gate
from a2a_grpc.server.card.extended import ExtendedCards
from a2a_grpc.server.card.published import PublishedCard, Request, publish
from a2a_grpc.server.hosting.limits import HostLimits
from a2a_grpc.wire.errors import RouteNotFoundError, excerpt


class Hosted:
    """One agent as it is served: to the callers of one tenant, or to all."""

    def __init__(
        self,
        agent: Agent,
        gate: Gate,
        card: a2a_pb2.AgentCard,
        limits: HostLimits,
        *,
        tenant: str = "",
        extended: ExtendedCards | None = None,
    ) -> None:
        """`card` is the public card, complete; `extended` the extended ones, None: there are none."""
        self.tenant: Final = tenant
        self.agent: Final = agent
        self.gate: Final = gate
        self.card: Final = card
        self.extended: Final = extended
        self.limits: Final = limits
        self.limited: Final = not limits.unlimited
        self.published: PublishedCard = publish(card, datetime.now(UTC).replace(microsecond=0))
        """The public card as it is sent. When it was first published is known once the store is."""
        capabilities = card.capabilities
        self.extensions: Final[Mapping[str, bool]] = {
            extension.uri: extension.required for extension in capabilities.extensions
        }
        """URIs of the extensions in the card, and whether each is required (4.6)."""
        self.required_extensions: Final = tuple(uri for uri, required in self.extensions.items() if required)
        self.streams: Final[bool] = capabilities.streaming
        self.pushes: Final[bool] = capabilities.push_notifications
        self.extends: Final[bool] = capabilities.extended_agent_card


class Hosts:
    """All that is hosted here, by tenant. It knows their gates (as `Gates`) and public cards (as `CardSource`)."""

    def __init__(self, hosted: Iterable[Hosted], *, for_all: bool = False) -> None:
        """`for_all`: there is one, which serves whatever tenant a caller names. Their data is kept apart."""
        self._by_tenant = {one.tenant: one for one in hosted}
        self._for_all: Hosted | None = None
        if for_all:
            (self._for_all,) = self._by_tenant.values()

    def __iter__(self) -> Iterator[Hosted]:
        return iter(self._by_tenant.values())

    def __getitem__(self, tenant: str) -> Hosted:
        """Raises: RouteNotFoundError for a tenant that is not there."""
        found = self._for_all or self._by_tenant.get(tenant)
        if found is None:
            raise RouteNotFoundError(
                f"There is no tenant {excerpt(tenant, 64)} here."
                if tenant
                else "Nobody is served here without a tenant; the agent card says which to name."
            )
        return found

    def agent_of(self, tenant: str) -> Agent | None:
        """The agent that runs the turns of a tenant; None for a tenant that is not there."""
        found = self._for_all or self._by_tenant.get(tenant)
        return None if found is None else found.agent

    def of(self, tenant: str) -> Gate:
        """See Gates."""
        return self[tenant].gate

    def all(self) -> Iterable[Gate]:
        """See Gates."""
        return [one.gate for one in self]

    async def public_card(self, tenant: str, _request: Request) -> PublishedCard | None:
        """See CardSource. What serves all tenants has one card, at the address without a tenant."""
        found = self._by_tenant.get(tenant)
        return None if found is None else found.published
