"""The extended card (3.1.11, 13.3): what one caller may see."""

import inspect
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents.agent import Agent, Reader
from a2a_grpc.server.card.signing import UNSIGNED, CardSigner
from a2a_grpc.server.card.validation import validate
from a2a_grpc.wire.artifact_schemas import declare_schemas
from a2a_grpc.wire.errors import InternalError

log = logging.getLogger(__name__)

_KEPT: Final = 64
"""Cards whose signatures are kept; most callers see one of a few."""


class ExtendedCards:
    """The extended cards of one agent."""

    def __init__(
        self,
        agent: Agent,
        public: a2a_pb2.AgentCard,
        complete: Callable[[a2a_pb2.AgentCard], a2a_pb2.AgentCard],
        signer: CardSigner = UNSIGNED,
    ) -> None:
        """`complete` gives a card of the author's with what only the service knows.

        Raises: ValueError where the card that everybody with all scopes gets cannot be published.
        """
        self._agent = agent
        self._public = public
        self._complete = complete
        self._signer = signer
        self._hidden = [skill for skill in agent.skills.values() if skill.scopes is not None]
        self._signed: OrderedDict[bytes, a2a_pb2.AgentCard] = OrderedDict()
        if not callable(agent.extended_card):
            everything = frozenset(scope for skill in self._hidden for scope in skill.scopes or ())
            whole = self._card(agent.extended_card, Reader(name="everybody", scopes=everything))
            if whole is not None and (problems := validate(whole)):
                listed = "; ".join(f"{problem.field}: {problem.description}" for problem in problems)
                raise ValueError(f"the agent's extended card cannot be published: {listed}")

    @property
    def configured(self) -> bool:
        """Whether there is one, for whomever."""
        return self._agent.extended_card is not None or bool(self._hidden)

    async def read(self, reader: Reader) -> a2a_pb2.AgentCard | None:
        """The card that `reader` gets, who has said who it is; None: none is configured.

        Raises: InternalError where the author's function makes a card that cannot be published.
        """
        source = self._agent.extended_card
        own = not callable(source)
        if callable(source):
            given = source(reader)
            source = await given if inspect.isawaitable(given) else given
        card = self._card(source, reader)
        if card is None:
            return None
        known = card.SerializeToString(deterministic=True)
        signed = self._signed.get(known)
        if signed is None:
            if not own and (problems := validate(card)):
                log.error("the extended card for %s cannot be published: %s", reader.name, problems)
                raise InternalError("The agent has made an extended card that is not complete.")
            signed = card
            self._signer.sign(signed)
            self._signed[known] = signed
            if len(self._signed) > _KEPT:
                self._signed.popitem(last=False)
        return signed

    def _card(self, source: a2a_pb2.AgentCard | None, reader: Reader) -> a2a_pb2.AgentCard | None:
        if source is None and not self._hidden:
            return None
        card = a2a_pb2.AgentCard()
        if source is None:
            card.CopyFrom(self._public)
            card.ClearField("signatures")
        else:
            card = self._complete(source)
            card.capabilities.CopyFrom(self._public.capabilities)
        there = {skill.id for skill in card.skills}
        for skill in self._hidden:
            if skill.is_for(reader.name, reader.scopes):
                if skill.card.id not in there:
                    card.skills.append(skill.card)
                if skill.artifacts:
                    declare_schemas(card, skill.card.id, skill.artifacts)
        return card
