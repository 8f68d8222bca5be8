"""What a search goes by."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

import orjson

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.registry.v1 import registry_pb2 as pb

_MAX_TEXT: Final = 20_000
"""Characters of a card that are searched for words."""


def facets_of(card: a2a_pb2.AgentCard) -> bytes:
    """What a search needs of a card, so that it need not read the whole of it."""
    capabilities = card.capabilities
    can = {
        pb.CAPABILITY_STREAMING: capabilities.streaming,
        pb.CAPABILITY_PUSH_NOTIFICATIONS: capabilities.push_notifications,
        pb.CAPABILITY_EXTENDED_AGENT_CARD: capabilities.extended_agent_card,
    }
    skills = card.skills
    texts = [card.name, card.description]
    for skill in skills:
        texts += [skill.id, skill.name, skill.description, *skill.tags]
    return orjson.dumps(
        {
            # Lines, so that no word is found across two texts.
            "text": "\n".join(texts).casefold()[:_MAX_TEXT],
            "provider": card.provider.organization.casefold(),
            "skills": [skill.id for skill in skills],
            "tags": _unique(tag.casefold() for skill in skills for tag in skill.tags),
            "can": [capability for capability, has in can.items() if has],
            "bindings": _unique(interface.protocol_binding.upper() for interface in card.supported_interfaces),
            "inputs": _modes(card.default_input_modes, [skill.input_modes for skill in skills]),
            "outputs": _modes(card.default_output_modes, [skill.output_modes for skill in skills]),
        }
    )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller looks for."""

    request: pb.SearchAgentsRequest
    words: tuple[str, ...]

    @classmethod
    def of(cls, request: pb.SearchAgentsRequest) -> "Wanted":
        """What `request` asks for."""
        return cls(request, tuple(request.text.casefold().split()))

    def met_by(self, facets: bytes, *, provider: bool) -> bool:
        """Whether a card is like that; `provider`: its provider counts as a text, too."""
        request = self.request
        card = orjson.loads(facets)
        text = f"{card['text']}\n{card['provider']}" if provider else card["text"]
        return (
            all(word in text for word in self.words)
            and (not request.skill or request.skill in card["skills"])
            and (not request.tag or request.tag.casefold() in card["tags"])
            and (not request.provider or request.provider.casefold() == card["provider"])
            and all(capability in card["can"] for capability in request.capabilities)
            and (not request.binding or request.binding.upper() in card["bindings"])
            and (not request.input_mode or _takes(card["inputs"], request.input_mode))
            and (not request.output_mode or _takes(card["outputs"], request.output_mode))
        )


def _modes(default: Iterable[str], others: Iterable[Iterable[str]]) -> list[str]:
    return _unique(mode.lower() for modes in (default, *others) for mode in modes)


def _takes(modes: Collection[str], mode: str) -> bool:
    """Whether `mode`, a media type, is one of `modes`, in which text/* and */* stand for many."""
    wanted = mode.lower()
    kind = wanted.partition("/")[0]
    return wanted in modes or f"{kind}/*" in modes or "*/*" in modes


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
