"""Checking what an agent sends against the schemas in its card."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from a2a_grpc.client.errors import InvalidArtifactError
from a2a_grpc.client.states import task_id_in
from a2a_grpc.client.transports.base import Numbered
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire.artifact_schemas import compiled, fault, schemas_in
from a2a_grpc.wire.errors import InvalidAgentResponseError, excerpt

if TYPE_CHECKING:
    from a2a_grpc.wire.json_schema import JsonSchema


class ArtifactSchemas:
    """What a card says about the data in artifacts: the extension `urn:a2a-grpc:extension:artifact-schemas:v1`.

    Each data part of an artifact has to match the schema that the card has for its name, or one of them where several
    skills declare it. Artifacts that the card does not name are not looked at. A schema is compiled when the first of
    its artifacts comes, so a card with bad ones does not hinder who never meets them.

    Card and data are taken for a stranger's: a schema is at most 64 KiB with 2,000 parts, refers to nothing elsewhere,
    its patterns are matched in linear time, and a check takes 500,000 steps at most. What is beyond does not match.
    """

    def __init__(self, card: a2a_pb2.AgentCard) -> None:
        """Raises: InvalidAgentResponseError where the extension of the card is not what it has to be."""
        self._by_name: Final[dict[str, list[object]]] = {}
        self._compiled: Final[dict[str, list[JsonSchema]]] = {}
        try:
            declared = schemas_in(card)
        except ValueError as error:
            raise InvalidAgentResponseError(f"The agent's card cannot be used: {error}.") from error
        for schemas in declared.values():
            for name, schema in schemas.items():
                self._by_name.setdefault(name, []).append(schema)

    def __bool__(self) -> bool:
        """Whether the card has any."""
        return bool(self._by_name)

    def check(self, artifact: a2a_pb2.Artifact, name: str = "", *, task_id: str = "") -> None:
        """Check the data parts of an artifact, or of a piece of one, whose `name` an earlier piece may have told.

        Raises: InvalidArtifactError, which says where the data does not match and never holds it. It has the `task_id`.
        """
        name = artifact.name or name or artifact.artifact_id
        if name not in self._by_name or not any(part.HasField("data") for part in artifact.parts):
            return
        schemas = self._schemas(name, task_id)
        for part in artifact.parts:
            found = fault(part, schemas)
            if found is not None:
                raise InvalidArtifactError(
                    f"The artifact {excerpt(name, 64)!r} does not match its schema: {found[0]}.", task_id=task_id
                )

    def check_task(self, task: a2a_pb2.Task) -> None:
        """Check all artifacts of a task. Raises: as `check`."""
        for artifact in task.artifacts:
            self.check(artifact, task_id=task.id)

    async def checked(self, events: AsyncGenerator[Numbered, None]) -> AsyncGenerator[Numbered, None]:
        """The events of one task, each checked before it is passed on. Raises: as `check`."""
        names: dict[str, str] = {}
        with_data = set[str]()
        async with aclosing(events):
            async for event in events:
                task_id = task_id_in(event.response)
                for artifact, append in _artifacts(event.response):
                    id_ = artifact.artifact_id
                    known = names.get(id_, "") if append else ""
                    if append and id_ in with_data and artifact.name not in ("", known or id_):
                        self._check_new_name(artifact.name, task_id)
                    self.check(artifact, known, task_id=task_id)
                    names[id_] = artifact.name or known
                    if any(part.HasField("data") for part in artifact.parts):
                        with_data.add(id_)
                    elif not append:
                        with_data.discard(id_)
                yield event

    def _check_new_name(self, name: str, task_id: str) -> None:
        if name in self._by_name:
            message = f"The artifact {excerpt(name, 64)!r} got its name after its data."
            raise InvalidArtifactError(message, task_id=task_id)

    def _schemas(self, name: str, task_id: str) -> "list[JsonSchema]":
        made = self._compiled.get(name)
        if made is None:
            try:
                made = self._compiled[name] = [compiled(schema) for schema in self._by_name[name]]
            except ValueError as error:
                message = f"The agent's schema of the artifact {excerpt(name, 64)!r} cannot be used: {error}."
                raise InvalidArtifactError(message, task_id=task_id) from error
        return made


def _artifacts(response: a2a_pb2.StreamResponse) -> Iterable[tuple[a2a_pb2.Artifact, bool]]:
    if response.HasField("task"):
        return [(artifact, False) for artifact in response.task.artifacts]
    if response.HasField("artifact_update"):
        return [(response.artifact_update.artifact, response.artifact_update.append)]
    return []
