"""`Agent`: its card, its skills, and how a message finds its skill."""

import enum
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.agents.schemas import ArtifactChecks, Compiled, compile_schemas
from a2a_grpc.server.agents.turn import Turn
from a2a_grpc.wire.artifact_schemas import declare_schemas, schemas_in, withdraw_schemas

if TYPE_CHECKING:
    from a2a_grpc.wire.json_schema import JsonSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Who asks for the extended card."""

    name: str
    """"" for the anonymous."""
    tenant: str = ""
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Those of its token; empty where it has shown none."""


SkillFunction: TypeAlias = Callable[[Turn], Awaitable[None]]
Router: TypeAlias = Callable[[a2a_pb2.Message], str]
CardFor: TypeAlias = Callable[[Reader], a2a_pb2.AgentCard | Awaitable[a2a_pb2.AgentCard | None] | None]


class Answers(enum.Enum):
    """What a skill answers with (3.1.1)."""

    TASK = "task"
    """Always a task, stored before the function runs."""
    MESSAGE = "message"
    """Always a message; nothing is stored, a lost call is lost."""
    MIXED = "mixed"
    """The first thing the function emits decides; after a short while without any, a task."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Skill:
    """One thing an agent can do: its entry in the card, and the function that does it."""

    card: a2a_pb2.AgentSkill
    run: SkillFunction
    answers: Answers
    timeout: float | None
    """Seconds a turn may take; None: the service's limit."""
    attempts: int | None
    """How often a turn is begun in all where replicas are lost under it, 1: never twice; None: the service's limit."""
    scopes: frozenset[str] | None = None
    """What a caller needs to see and to use it, besides credentials; None: everybody sees it."""
    artifacts: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schemas of the data in its artifacts, by name."""
    schemas: Compiled = field(default_factory=dict)
    """The same, ready for use."""
    card_schemas: "Mapping[str, list[JsonSchema]]" = field(default_factory=dict)
    """Those of all skills that everybody sees."""

    def checks(self, turn: Turn) -> ArtifactChecks | None:
        """The checks of what a turn writes; None: there is nothing to check."""
        if not self.schemas and not self.card_schemas:
            return None
        task = turn.task()
        return ArtifactChecks(self.schemas, self.card_schemas, () if task is None else task.artifacts)

    def is_for(self, name: str, scopes: frozenset[str]) -> bool:
        """Whether the caller `name` ("": anonymous) sees it, and may use it."""
        return self.scopes is None or (name != "" and self.scopes <= scopes)


class Agent:
    """An agent: a card and its skills.

    A message has no field that names a skill, so a router picks it, once for each task, from the message that begins
    it. By default that is the skill whose id stands in the message's metadata under "skill", else the one whose id is
    the first word of its text, else the first skill that was declared for everybody. `router` replaces the rule.
    """

    def __init__(
        self,
        *,
        name: str,
        description: str,
        version: str,
        input_modes: Sequence[str] = ("text/plain",),
        output_modes: Sequence[str] = ("text/plain",),
        streaming: bool = True,
        answers: str | Answers = Answers.TASK,
        attempts: int | None = None,
    ) -> None:
        """`input_modes` and `output_modes` are media types; `answers` and `attempts` are the default of the skills."""
        self.card = a2a_pb2.AgentCard(
            name=name,
            description=description,
            version=version,
            default_input_modes=input_modes,
            default_output_modes=output_modes,
            capabilities=a2a_pb2.AgentCapabilities(streaming=streaming),
        )
        self.extended_card: a2a_pb2.AgentCard | CardFor | None = None
        """What authenticated callers get from GetExtendedAgentCard (3.1.11), or a function of who asks.

        Skills with `scopes` are added to it for those who may see them. None, also of the function: the public card
        with these skills, or where the agent has none, nothing.
        """
        self.checks_media_types = True
        """Whether parts that the card does not name are refused; else the functions see them, too."""
        self.skills: dict[str, Skill] = {}
        self._card_schemas: dict[str, list[JsonSchema]] = {}
        self._answers = _answers(answers)
        self._attempts = _attempts(attempts)
        self._router: Router | None = None
        self.cancel_hook: SkillFunction | None = None

    @classmethod
    def from_card(
        cls, path: str | Path, *, answers: str | Answers = Answers.TASK, attempts: int | None = None
    ) -> "Agent":
        """An agent with the card in the YAML or JSON file `path`; its skills are declared by `skill` as usual.

        Raises: CardFileError (a ValueError) where the file is no agent card; the text names the file and the field.
        """
        # YAML takes a twentieth of the time until a service is ready.
        from a2a_grpc.server.agents.card_file import load_card  # noqa: PLC0415

        card = load_card(path)
        agent = cls(
            name=card.name, description=card.description, version=card.version, answers=answers, attempts=attempts
        )
        agent.card.CopyFrom(card)
        return agent

    def skill(
        self,
        *,
        id: str,
        name: str = "",
        description: str = "",
        tags: Sequence[str] = (),
        examples: Sequence[str] = (),
        input_modes: Sequence[str] = (),
        output_modes: Sequence[str] = (),
        answers: str | Answers | None = None,
        timeout: float | None = None,
        attempts: int | None = None,
        security: Sequence[Mapping[str, Sequence[str]]] = (),
        scopes: Sequence[str] | None = None,
        artifacts: Mapping[str, Any] | None = None,
    ) -> Callable[[SkillFunction], SkillFunction]:
        """Declare the decorated async function as the skill `id`; `timeout` in seconds limits one turn.

        `attempts` is how often a turn is begun in all where replicas are lost under it; 1 means never twice. Where the
        agent's card (a file) already describes the skill, only `id` is needed. `security` is what its callers have to
        prove beyond what the agent requires: alternatives of schemes with the scopes that are wanted of each, such as
        `[{"bearer": ["publish"]}]` (4.5). With `scopes` the skill is not in the public card, but in the extended one of
        callers who have all of these; `[]` means everybody with credentials. Nobody else can use it.

        `artifacts` are JSON Schemas (2020-12) of the data in its artifacts, by the name of the artifact. Callers read
        them in the card, and what does not match is not written. A card from a file has them itself.

        Raises: ValueError for an id that is taken or not described, attempts below 1, or a schema that cannot be used;
        TypeError for a function that is not async.
        """

        def declare(function: SkillFunction) -> SkillFunction:
            if not inspect.iscoroutinefunction(function):
                raise TypeError(
                    f"skill {id!r}: write `async def`; call blocking code with `await asyncio.to_thread(…)`"
                )
            if id in self.skills:
                raise ValueError(f"skill {id!r} is declared twice")
            described = next((skill for skill in self.card.skills if skill.id == id), None)
            if described is None:
                if not (name and description and tags):
                    raise ValueError(f"skill {id!r}: give it a name, a description and at least one tag (4.4.5)")
                described = self.card.skills.add(
                    id=id,
                    name=name,
                    description=description,
                    tags=tags,
                    examples=examples,
                    input_modes=input_modes,
                    output_modes=output_modes,
                )
            for alternative in security:
                entry = described.security_requirements.add()
                for scheme, wanted in alternative.items():
                    entry.schemes[scheme].list.extend(wanted)
            in_card = schemas_in(self.card).get(id, {})
            if artifacts and in_card:
                raise ValueError(f"skill {id!r}: its card has schemas of artifacts already")
            schemas = artifacts or in_card
            compiled = compile_schemas(id, schemas)
            if scopes is not None:
                described = self._hide(described)
            elif schemas:
                declare_schemas(self.card, id, schemas)
                for artifact, schema in compiled.items():
                    self._card_schemas.setdefault(artifact, []).append(schema)
            skill = Skill(
                card=described,
                run=function,
                answers=self._answers if answers is None else _answers(answers),
                timeout=timeout,
                attempts=self._attempts if attempts is None else _attempts(attempts),
                scopes=None if scopes is None else frozenset(scopes),
                artifacts=schemas,
                schemas=compiled,
                card_schemas=self._card_schemas,
            )
            if skill.attempts == 1 and skill.answers is not Answers.TASK:
                raise ValueError(
                    f"skill {id!r}: attempts=1 needs answers='task': what begins before a task is stored begins again "
                    "when its caller sends the message again"
                )
            self.skills[id] = skill
            return function

        return declare

    def router(self, route: Router) -> Router:
        """Let the decorated function pick skills: it takes a task's first message and returns the id of a skill."""
        self._router = route
        return route

    def on_cancel(self, hook: SkillFunction) -> SkillFunction:
        """Call the decorated async function when a running turn is canceled: the place for last words."""
        self.cancel_hook = hook
        return hook

    def pick(self, message: a2a_pb2.Message) -> Skill:
        """The skill for a task that begins with `message`. Raises: LookupError where the router names no skill."""
        found = self._default_route(message) if self._router is None else self._router(message)
        try:
            return self.skills[found]
        except KeyError:
            raise LookupError(f"the router of {self.card.name!r} picked {found!r}, which is no skill of it") from None

    def _hide(self, described: a2a_pb2.AgentSkill) -> a2a_pb2.AgentSkill:
        """Take a skill out of the public card, and promise the extended one that has it."""
        kept = a2a_pb2.AgentSkill()
        kept.CopyFrom(described)
        self.card.skills.remove(described)
        withdraw_schemas(self.card, kept.id)
        self.card.capabilities.extended_agent_card = True
        return kept

    def _default_route(self, message: a2a_pb2.Message) -> str:
        if message.HasField("metadata") and "skill" in message.metadata.fields:
            named = message.metadata.fields["skill"].string_value
            if named in self.skills:
                return named
        text = next((part.text for part in message.parts if part.HasField("text")), "")
        words = text.split(maxsplit=1)
        if words and words[0] in self.skills:
            return words[0]
        for_all = (skill.card.id for skill in self.skills.values() if skill.scopes is None)
        return next(for_all, next(iter(self.skills), ""))


def _attempts(given: int | None) -> int | None:
    if given is not None and given < 1:
        raise ValueError(f"attempts is {given}, but a turn is begun at least once")
    return given


def _answers(given: str | Answers) -> Answers:
    try:
        return Answers(given)
    except ValueError:
        known = ", ".join(repr(answers.value) for answers in Answers)
        raise ValueError(f"answers is {given!r}, but must be one of {known}") from None
