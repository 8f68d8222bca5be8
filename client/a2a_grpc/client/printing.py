"""What the command line shows of an agent's answers: text for people, or ProtoJSON."""

import json
from collections.abc import Iterable
from typing import Final, Protocol, TextIO

from google.protobuf.message import Message

from a2a_grpc.client.interfaces import BINDINGS
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson

# An agent's text must not drive the terminal: no control characters but tab and newline, none that reorder the line.
_REMOVED: Final = dict.fromkeys(
    [
        *(c for c in range(0x20) if chr(c) not in "\t\n"),
        *range(0x7F, 0xA0),
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    ]
)


class Printer(Protocol):
    """One form of output."""

    def show(self, message: Message) -> None:
        """Print an AgentCard, SendMessageResponse, Task, ListTasksResponse or StreamResponse at once."""


class JsonPrinter:
    """Each message as one line of ProtoJSON."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def show(self, message: Message) -> None:
        self._out.write(protojson.dumps(message).decode() + "\n")
        self._out.flush()


class TextPrinter:
    """States, messages and the text of artifacts; a streamed artifact grows on the screen as its chunks arrive."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._artifact = ""  # the artifact whose text was written last, while its line may go on
        self._at_line_start = True

    def show(self, message: Message) -> None:
        match message:
            case a2a_pb2.AgentCard():
                self._card(message)
            case a2a_pb2.SendMessageResponse():
                self._task(message.task) if message.HasField("task") else self._message(message.message)
            case a2a_pb2.StreamResponse():
                self._event(message)
            case a2a_pb2.Task():
                self._task(message)
            case a2a_pb2.ListTasksResponse():
                self._page(message)
        self._out.flush()

    def _card(self, card: a2a_pb2.AgentCard) -> None:
        self._line(f"{card.name} {card.version}")
        self._line(card.description)
        for interface in card.supported_interfaces:
            usable = "" if interface.protocol_binding in BINDINGS else " (not used by this client)"
            tenant = f" tenant {interface.tenant}" if interface.tenant else ""
            self._line(f"  {interface.protocol_binding} {interface.protocol_version} {interface.url}{tenant}{usable}")
        for skill in card.skills:
            self._line(f"  skill {skill.id}: {skill.description}")

    def _message(self, message: a2a_pb2.Message) -> None:
        self._parts(message.parts)
        self._end_line()

    def _task(self, task: a2a_pb2.Task) -> None:
        self._line(f"task {task.id} of context {task.context_id}")
        for artifact in task.artifacts:
            self._heading(artifact)
            self._parts(artifact.parts)
        self._status(task.status)

    def _page(self, page: a2a_pb2.ListTasksResponse) -> None:
        for task in page.tasks:
            when = task.status.timestamp.ToJsonString() if task.status.HasField("timestamp") else "-"
            self._line(f"{task.id}  {state_name(task.status.state)}  {when}  {task.context_id}")
        if not page.total_size:
            self._line("no tasks")

    def _event(self, event: a2a_pb2.StreamResponse) -> None:
        match event.WhichOneof("payload"):
            case "task":
                self._task(event.task)
            case "message":
                self._message(event.message)
            case "status_update":
                self._status(event.status_update.status)
            case "artifact_update":
                update = event.artifact_update
                if not update.append or update.artifact.artifact_id != self._artifact:
                    self._heading(update.artifact)
                self._parts(update.artifact.parts)

    def _status(self, status: a2a_pb2.TaskStatus) -> None:
        self._end_line()
        self._artifact = ""
        self._write(state_name(status.state))
        if status.message.parts:
            self._write(": ")
            self._parts(status.message.parts)
        self._end_line()

    def _heading(self, artifact: a2a_pb2.Artifact) -> None:
        self._line(f"[{artifact.name or artifact.artifact_id}]")
        self._artifact = artifact.artifact_id

    def _parts(self, parts: Iterable[a2a_pb2.Part]) -> None:
        for part in parts:
            if part.WhichOneof("content") != "text":
                self._end_line()
            self._write(_text(part))
            if part.WhichOneof("content") != "text":
                self._end_line()

    def _line(self, text: str) -> None:
        self._end_line()
        self._write(text + "\n")

    def _end_line(self) -> None:
        if not self._at_line_start:
            self._write("\n")

    def _write(self, text: str) -> None:
        shown = plain(text)
        if shown:
            self._out.write(shown)
            self._at_line_start = shown.endswith("\n")


def plain(text: str) -> str:
    """The text without what a terminal would obey."""
    return text.translate(_REMOVED)


def state_name(state: a2a_pb2.TaskState) -> str:
    """A state in the words of a person: "input required"."""
    known = a2a_pb2.TaskState.DESCRIPTOR.values_by_number.get(state)
    return known.name.removeprefix("TASK_STATE_").lower().replace("_", " ") if known else f"state {state}"


def _text(part: a2a_pb2.Part) -> str:
    named = f" {part.filename}" if part.filename else ""
    kind = f" {part.media_type}" if part.media_type else ""
    match part.WhichOneof("content"):
        case "text":
            return part.text
        case "raw":
            return f"(file{named}{kind}, {len(part.raw)} bytes)"
        case "url":
            return f"(file{named}{kind} at {part.url})"
        case "data":
            return json.dumps(protojson.to_dict(part)["data"], ensure_ascii=False)
    return ""
