"""What the data in an agent's artifacts looks like, and the checks of it before anybody sees it."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.artifact_schemas import compiled, fault
from a2a_grpc.wire.errors import excerpt

if TYPE_CHECKING:
    from a2a_grpc.wire.json_schema import JsonSchema

Compiled: TypeAlias = "dict[str, JsonSchema]"
"""The name of an artifact, and what its data must match."""


class ArtifactMismatchError(ValueError):
    """An artifact was not written, since it does not match its schema. The text is public, and the turn ends with it.

    `cause` is for the log.
    """

    def __init__(self, text: str, cause: str) -> None:
        super().__init__(text)
        self.cause = cause


def compile_schemas(skill: str, schemas: Mapping[str, Any]) -> Compiled:
    """The schemas of a skill, ready for use. Raises: ValueError that names skill, artifact and problem."""
    made: Compiled = {}
    for name, schema in schemas.items():
        try:
            made[name] = compiled(schema)
        except ValueError as error:
            raise ValueError(f"skill {skill!r}: the schema of the artifact {name!r} cannot be used: {error}") from None
    return made


class ArtifactChecks:
    """The checks of one turn.

    A data part is checked when it is written. An artifact with a schema has to hold data, too; that can be said of it
    when it is complete: with its last chunk, or where it has none, when the task is completed.

    Callers don't know which skill has answered. So whatever its skill says, an artifact has to match one of the schemas
    that the card has for its name.
    """

    def __init__(
        self, own: Compiled, card: "Mapping[str, list[JsonSchema]]", before: Iterable[a2a_pb2.Artifact] = ()
    ) -> None:
        """`own` are those of the skill, `card` those of all skills in it; `before` are artifacts that are there."""
        self._own = own
        self._card = card
        self._names: dict[str, str] = {}
        self._empty: dict[str, str] = {}
        """Artifacts that lack data until now: their ids and names."""
        for artifact in before:
            self._names[artifact.artifact_id] = artifact.name or artifact.artifact_id

    def take(self, update: a2a_pb2.TaskArtifactUpdateEvent) -> None:
        """Look at what is about to be written. Raises: ArtifactMismatchError."""
        artifact, id_ = update.artifact, update.artifact.artifact_id
        name = artifact.name or (self._names.get(id_) if update.append else None) or id_
        own, known_to_all = self._own.get(name), self._card.get(name, [])
        if own is None and not known_to_all:
            self._names[id_] = name
            self._empty.pop(id_, None)
            return
        if update.append and self._names.get(id_, name) != name:
            raise _mismatch(name, "it was begun under another name", "what came before it was not checked")
        for part in artifact.parts:
            found = fault(part, [own]) if own is not None else None
            if found is None and known_to_all and own not in known_to_all:
                found = fault(part, known_to_all)
            if found is not None:
                raise _mismatch(name, *found)
        has_data = any(part.HasField("data") for part in artifact.parts)
        known = update.append and id_ in self._names
        if has_data or (known and id_ not in self._empty):
            self._empty.pop(id_, None)
        elif update.last_chunk:
            raise _no_data(name)
        else:
            self._empty[id_] = name
        self._names[id_] = name

    def complete(self) -> None:
        """The task is about to be completed. Raises: ArtifactMismatchError."""
        for name in self._empty.values():
            raise _no_data(name)


def _mismatch(name: str, problem: str, cause: str) -> ArtifactMismatchError:
    text = f"The agent answered with an artifact {excerpt(name, 64)!r} that does not match its schema: {problem}."
    return ArtifactMismatchError(text, f"{problem}; {cause}")


def _no_data(name: str) -> ArtifactMismatchError:
    return _mismatch(name, "it has no data", "no data part was written")
