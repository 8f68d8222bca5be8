"""Answers as text that people read and programs can take apart (a2a-cli specification 0.2, 11.2).

A field is `Label: value` on a line of its own. What does not fit on one is a block: its label, its lines, each indented
by two spaces, and an empty line. No line of a block can be taken for a field or for the end of the block, whatever the
agent has written.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TextIO

from google.protobuf.message import Message

from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.client.printing import plain
from a2a_grpc.client.results import text_of
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson


class TextPrinter:
    """Fields and blocks."""

    def __init__(self, out: TextIO, *, verbose: bool = False, history: bool = False) -> None:
        self._out = out
        self._verbose = verbose
        self._history = history or verbose

    def show(self, message: Message) -> None:
        match message:
            case a2a_pb2.AgentCard():
                self._card(message)
            case a2a_pb2.SendMessageResponse():
                if message.HasField("task"):
                    self._task(message.task)
                else:
                    self._reply(message.message)
            case a2a_pb2.StreamResponse():
                self._event(message)
            case a2a_pb2.Task():
                self._task(message)
            case a2a_pb2.ListTasksResponse():
                self._page(message)
            case a2a_pb2.TaskPushNotificationConfig():
                self._push_config(message)
            case a2a_pb2.ListTaskPushNotificationConfigsResponse():
                for config in message.configs:
                    self._push_config(config)
                self._field("Configurations", str(len(message.configs)))
        self._out.flush()

    def resume(self, command: str) -> None:
        """Print how to go on."""
        if command:
            self._field("Resume", command)
            self._out.flush()

    def field(self, label: str, value: str) -> None:
        """Print one field at once."""
        self._field(label, value)
        self._out.flush()

    def ids(self, task: a2a_pb2.Task) -> None:
        """Print which task it is, and its state."""
        self._ids(task.id, task.context_id)
        self._field("State", state_name(task.status.state))

    def gap(self) -> None:
        """Part what comes from what was there, for the eye."""
        self._out.write("\n")

    # -- cards ---------------------------------------------------------------------------------------------------------

    def _card(self, card: a2a_pb2.AgentCard) -> None:
        self._field("Name", card.name)
        self._field("Version", card.version)
        self._field("Description", card.description)
        if card.HasField("provider"):
            self._field("Provider", f"{card.provider.organization} {card.provider.url}".strip())
        if card.documentation_url:
            self._field("Documentation", card.documentation_url)
        capabilities = card.capabilities
        self._field("Streaming", _yes(capabilities.streaming))
        self._field("Push notifications", _yes(capabilities.push_notifications))
        self._field("Extended card", _yes(capabilities.extended_agent_card))
        for extension in capabilities.extensions:
            self._field("Extension", f"{extension.uri}{' (required)' if extension.required else ''}")
        for interface in card.supported_interfaces:
            tenant = f" tenant {interface.tenant}" if interface.tenant else ""
            usable = "" if interface.protocol_binding.upper() in BINDINGS else " (not used by this client)"
            self._field(
                "Interface",
                f"{interface.protocol_binding} {interface.protocol_version} {interface.url}{tenant}{usable}",
            )
        for name, scheme in sorted(card.security_schemes.items()):
            self._field("Security scheme", f"{name} ({_scheme(scheme)})")
        for requirement in card.security_requirements:
            wanted = (
                " ".join([name, *(f"scope {scope}" for scope in scopes.list)])
                for name, scopes in sorted(requirement.schemes.items())
            )
            self._field("Security requirement", " and ".join(wanted) or "nothing")
        self._field("Input modes", ", ".join(card.default_input_modes))
        self._field("Output modes", ", ".join(card.default_output_modes))
        for skill in card.skills:
            self._field("Skill", f"{skill.id}: {skill.description if not self._verbose else skill.name}")
            if self._verbose:
                self._field("Skill description", skill.description)
                self._field("Skill tags", ", ".join(skill.tags))
                for example in skill.examples:
                    self._field("Skill example", example)

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def _task(self, task: a2a_pb2.Task) -> None:
        self._ids(task.id, task.context_id)
        self._status(task.status)
        for artifact in task.artifacts:
            self._artifact(artifact)
        for message in task.history if self._history else ():
            self._message("History", message)
        self._metadata(task)

    def _page(self, page: a2a_pb2.ListTasksResponse) -> None:
        for task in page.tasks:
            self._task(task)
            self._out.write("\n")
        self._field("Tasks", f"{len(page.tasks)} of {page.total_size}")
        if page.next_page_token:
            self._field("Next page", page.next_page_token)

    def _event(self, event: a2a_pb2.StreamResponse) -> None:
        match event.WhichOneof("payload"):
            case "task":
                self._task(event.task)
            case "message":
                self._reply(event.message)
            case "status_update":
                update = event.status_update
                self._ids(update.task_id, update.context_id)
                self._status(update.status)
                self._metadata(update)
            case "artifact_update":
                self._artifact(event.artifact_update.artifact, more=event.artifact_update.append)

    def _ids(self, task_id: str, context_id: str) -> None:
        self._field("Task", task_id)
        self._field("Context", context_id)

    def _status(self, status: a2a_pb2.TaskStatus) -> None:
        self._field("State", state_name(status.state))
        if status.HasField("timestamp"):
            self._field("Updated", status.timestamp.ToJsonString())
        if status.HasField("message"):
            self._message("Message", status.message)

    def _reply(self, message: a2a_pb2.Message) -> None:
        if message.task_id:
            self._field("Task", message.task_id)
        if message.context_id:
            self._field("Context", message.context_id)
        self._message("Message", message)

    def _message(self, label: str, message: a2a_pb2.Message) -> None:
        role = "user" if message.role == a2a_pb2.ROLE_USER else "agent"
        self._field(label, f"{role} {message.message_id}" if self._verbose else role)
        self._parts(message.parts)
        self._metadata(message)

    def _artifact(self, artifact: a2a_pb2.Artifact, *, more: bool = False) -> None:
        named = artifact.name or artifact.artifact_id
        if self._verbose and artifact.name:
            named = f"{named} {artifact.artifact_id}"
        self._field("Artifact", f"{named} (continued)" if more else named)
        if self._verbose and artifact.description:
            self._field("Artifact description", artifact.description)
        self._parts(artifact.parts)
        self._metadata(artifact)

    def _parts(self, parts: Iterable[a2a_pb2.Part]) -> None:
        for part in parts if self._verbose else _joined(parts):
            match part.WhichOneof("content"):
                case "text":
                    self._block("Text", part.text)
                case "data":
                    value = protojson.to_dict(part)["data"]
                    self._block("Data", json.dumps(value, ensure_ascii=False, indent=2))
                case "raw" | "url":
                    self._field("File", file_words(part))
                case _:
                    self._field("Part", "empty")
            if self._verbose and part.media_type and part.WhichOneof("content") in ("text", "data"):
                self._field("Media type", part.media_type)
            self._metadata(part)

    def _metadata(
        self,
        holder: a2a_pb2.Task | a2a_pb2.Message | a2a_pb2.Artifact | a2a_pb2.Part | a2a_pb2.TaskStatusUpdateEvent,
    ) -> None:
        if self._verbose and holder.metadata.fields:
            value = protojson.to_dict(holder)["metadata"]
            self._block("Metadata", json.dumps(value, ensure_ascii=False, indent=2))

    def _push_config(self, config: a2a_pb2.TaskPushNotificationConfig) -> None:
        self._field("Configuration", config.id)
        self._field("Task", config.task_id)
        self._field("URL", config.url)
        if config.token:
            self._field("Token", "(hidden)")
        if config.authentication.scheme:
            self._field("Authentication", f"{config.authentication.scheme} (hidden)")

    # -- fields and blocks ---------------------------------------------------------------------------------------------

    def _field(self, label: str, value: str) -> None:
        shown = plain(value)
        if len(shown.splitlines()) > 1:
            self._block(label, shown)
        else:
            self._out.write(f"{label}: {shown.strip()}\n")

    def _block(self, label: str, content: str) -> None:
        lines = plain(content).splitlines() or [""]
        self._out.write(f"{label}:\n")
        for line in lines:
            self._out.write(f"  {line}\n")
        self._out.write("\n")


def state_name(state: a2a_pb2.TaskState) -> str:
    """A state as the a2a-cli specification writes it: INPUT_REQUIRED. One that is not known is its number."""
    known = a2a_pb2.TaskState.DESCRIPTOR.values_by_number.get(state)
    return known.name.removeprefix("TASK_STATE_") if known else str(state)


def _joined(parts: Iterable[a2a_pb2.Part]) -> Iterator[a2a_pb2.Part]:
    """The parts, those of text that follow each other as one: an artifact that was streamed has one for each chunk."""
    for is_text, group in groupby(parts, lambda part: part.HasField("text")):
        if is_text:
            yield a2a_pb2.Part(text=text_of(group))
        else:
            yield from group


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def file_words(part: a2a_pb2.Part) -> str:
    """Name, media type, and size or address of a file."""
    size = f"at {part.url}" if part.HasField("url") else f"{len(part.raw)} bytes"
    return f"{part.filename or '(no name)'}, {part.media_type or 'application/octet-stream'}, {size}"


def _scheme(scheme: a2a_pb2.SecurityScheme) -> str:
    match scheme.WhichOneof("scheme"):
        case "api_key_security_scheme":
            found = scheme.api_key_security_scheme
            return f"API key in {found.location} {found.name}"
        case "http_auth_security_scheme":
            return f"HTTP {scheme.http_auth_security_scheme.scheme}"
        case "oauth2_security_scheme":
            flow = scheme.oauth2_security_scheme.flows.WhichOneof("flow") or "no flow"
            return f"OAuth 2.0 {flow.replace('_', ' ')}"
        case "open_id_connect_security_scheme":
            return f"OpenID Connect {scheme.open_id_connect_security_scheme.open_id_connect_url}"
        case "mtls_security_scheme":
            return "mutual TLS"
    return "unknown"
