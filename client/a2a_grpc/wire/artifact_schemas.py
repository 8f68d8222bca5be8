"""The extension that says what data is in artifacts: `urn:a2a-grpc:extension:artifact-schemas:v1`.

The card's `capabilities.extensions` has one entry with this URI. Its `params` hold, under the id of a skill and the
name of an artifact, a JSON Schema (2020-12), which each data part of such an artifact matches:

    {"screen": {"report": {"type": "object", "required": ["candidates"]}}}

Nothing has to be activated, and messages look as they would without, but for one: where a service has refused what an
agent wrote, the message of the status FAILED names the extension, and its metadata holds under the URI why, as
ProtoJSON of google.rpc.ErrorInfo with the reason INVALID_AGENT_RESPONSE. An artifact without a name goes by its id.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from google.protobuf import json_format

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import InvalidAgentResponseError, error_info, excerpt

if TYPE_CHECKING:
    from a2a_grpc.wire.json_schema import JsonSchema

ARTIFACT_SCHEMAS: Final = "urn:a2a-grpc:extension:artifact-schemas:v1"
MAX_BYTES: Final = 512 * 1024
"""Of all schemas of a card."""

Schemas: TypeAlias = Mapping[str, Any]
"""The name of an artifact, and its schema."""


def schemas_in(card: a2a_pb2.AgentCard) -> dict[str, Schemas]:
    """The schemas of a card, by the id of the skill. Raises: ValueError that says what is wrong with them."""
    found: dict[str, Schemas] = {}
    for extension in card.capabilities.extensions:
        if extension.uri != ARTIFACT_SCHEMAS:
            continue
        if extension.params.ByteSize() > MAX_BYTES:
            raise ValueError(f"the schemas of artifacts are larger than {MAX_BYTES} bytes")
        for skill, schemas in protojson.to_dict(extension).get("params", {}).items():
            if not isinstance(schemas, dict):
                problem = f"the schemas of the skill {excerpt(skill, 64)!r} must stand under names of artifacts"
                raise ValueError(problem)  # noqa: TRY004 - the card is wrong, not the program
            found[skill] = schemas
    return found


def declare_schemas(card: a2a_pb2.AgentCard, skill: str, schemas: Schemas) -> None:
    """Put the schemas of a skill into a card, in place of those that it has."""
    withdraw_schemas(card, skill)
    extension = next((one for one in card.capabilities.extensions if one.uri == ARTIFACT_SCHEMAS), None)
    if extension is None:
        extension = card.capabilities.extensions.add(
            uri=ARTIFACT_SCHEMAS, description="JSON Schemas of the data in artifacts, by skill and name."
        )
    json_format.ParseDict(dict(schemas), extension.params.fields[skill].struct_value)


def withdraw_schemas(card: a2a_pb2.AgentCard, skill: str) -> None:
    """Take the schemas of a skill out of a card; without any the extension is gone, too."""
    for at in reversed(range(len(card.capabilities.extensions))):
        extension = card.capabilities.extensions[at]
        if extension.uri == ARTIFACT_SCHEMAS and skill in extension.params.fields:
            del extension.params.fields[skill]
            if not extension.params.fields:
                del card.capabilities.extensions[at]


def mark_refusal(message: a2a_pb2.Message) -> None:
    """Have the message of a status say, for programs, that what the agent wrote was refused."""
    message.extensions.append(ARTIFACT_SCHEMAS)
    json_format.ParseDict(error_info(InvalidAgentResponseError), message.metadata.fields[ARTIFACT_SCHEMAS].struct_value)


def reason_in(message: a2a_pb2.Message) -> str:
    """The reason that `mark_refusal` has written; "" where there is none."""
    fields = message.metadata.fields
    if ARTIFACT_SCHEMAS not in fields:
        return ""
    info = fields[ARTIFACT_SCHEMAS].struct_value.fields
    return info["reason"].string_value if "reason" in info else ""


def compiled(schema: Any) -> "JsonSchema":
    """A schema that values can be checked against. Raises: SchemaError (a ValueError)."""
    # A tenth of a second, and only for those who have schemas.
    from a2a_grpc.wire.json_schema import JsonSchema  # noqa: PLC0415

    return JsonSchema(schema)


def fault(part: a2a_pb2.Part, schemas: Iterable["JsonSchema"]) -> tuple[str, str] | None:
    """What is wrong with a data part that must match one of `schemas`: for everybody, and for the log.

    None: nothing, or it has no data.
    """
    if not part.HasField("data"):
        return None
    value = protojson.to_dict(part)["data"]
    first: tuple[str, str] | None = None
    for schema in schemas:
        found = schema.fault(value)
        if found is None:
            return None
        first = first or (str(found), f"{found.keyword or '/'} of its schema")
    return first
