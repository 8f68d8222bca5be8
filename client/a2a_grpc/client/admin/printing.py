"""What the commands for operators print: tables and lines for people, or one JSON object a line.

In JSON what A2A defines is ProtoJSON of its messages, not the bytes that the service hands out.
"""

import json
from collections.abc import Sequence
from typing import Any, Protocol, TextIO

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from a2a_grpc.admin.v1 import admin_pb2
from a2a_grpc.client.cli.text import TextPrinter
from a2a_grpc.client.printing import plain, state_name
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson

_PLACES = {admin_pb2.PLACE_RUNNING: "running", admin_pb2.PLACE_READY: "ready", admin_pb2.PLACE_LATER: "later"}


class Printer(Protocol):
    """One form of output. Rows of one kind may come in several parts."""

    def letters(self, letters: Sequence[admin_pb2.DeadLetter]) -> None: ...

    def letter(self, found: admin_pb2.GetDeadLetterResponse) -> None: ...

    def redriven(self, answer: admin_pb2.RedriveDeadLetterResponse) -> None: ...

    def purged(self, answer: admin_pb2.PurgeDeadLettersResponse) -> None: ...

    def tasks(self, tasks: Sequence[admin_pb2.TaskSummary]) -> None: ...

    def task(self, found: admin_pb2.GetTaskResponse) -> None: ...

    def event(self, event: admin_pb2.ListTaskEventsResponse) -> None: ...

    def deleted(self, task_id: str, answer: admin_pb2.DeleteTaskResponse) -> None: ...

    def replicas(self, replicas: Sequence[admin_pb2.Replica]) -> None: ...


class JsonPrinter:
    """One object a line."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def letters(self, letters: Sequence[admin_pb2.DeadLetter]) -> None:
        self._each(letters)

    def letter(self, found: admin_pb2.GetDeadLetterResponse) -> None:
        shown = _plain_json(found)
        if found.message:
            shown["message"] = protojson.to_dict(a2a_pb2.Message.FromString(found.message))
            shown["request"] = _without_message(a2a_pb2.SendMessageRequest.FromString(found.request))
        self._line(shown)

    def redriven(self, answer: admin_pb2.RedriveDeadLetterResponse) -> None:
        self._line({"taskId": answer.task_id, "created": answer.created})

    def purged(self, answer: admin_pb2.PurgeDeadLettersResponse) -> None:
        self._line({"purged": answer.purged})

    def tasks(self, tasks: Sequence[admin_pb2.TaskSummary]) -> None:
        self._each(tasks)

    def task(self, found: admin_pb2.GetTaskResponse) -> None:
        self._line(_plain_json(found) | {"task": protojson.to_dict(a2a_pb2.Task.FromString(found.task))})

    def event(self, event: admin_pb2.ListTaskEventsResponse) -> None:
        response = a2a_pb2.StreamResponse.FromString(event.event)
        self._line({"seq": event.seq, "event": protojson.to_dict(response)})

    def deleted(self, task_id: str, answer: admin_pb2.DeleteTaskResponse) -> None:
        self._line({"taskId": task_id, "deadLetters": answer.dead_letters})

    def replicas(self, replicas: Sequence[admin_pb2.Replica]) -> None:
        self._each(replicas)

    def _each(self, messages: Sequence[Message]) -> None:
        for message in messages:
            self._line(_plain_json(message))

    def _line(self, shown: dict[str, Any]) -> None:
        self._out.write(json.dumps(shown, ensure_ascii=False) + "\n")
        self._out.flush()


class TablePrinter:
    """Tables and sentences."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._begun = False

    def letters(self, letters: Sequence[admin_pb2.DeadLetter]) -> None:
        self._table(
            ("ID", "DIED", "OWNER", "ATTEMPTS", "REDRIVEN AS", "REASON"),
            [
                (
                    letter.id,
                    _time(letter.death_time),
                    _whose(letter.tenant, letter.owner),
                    str(letter.attempts),
                    letter.redriven_task_id or "-",
                    letter.reason,
                )
                for letter in letters
            ],
            "no dead letters",
        )

    def letter(self, found: admin_pb2.GetDeadLetterResponse) -> None:
        letter = found.letter
        self._facts(
            ("dead letter", letter.id),
            ("reason", letter.reason),
            ("attempts", str(letter.attempts)),
            ("task", letter.task_id),
            ("message", f"number {letter.turn} of the task"),
            ("context", letter.context_id),
            ("owner", _whose(letter.tenant, letter.owner)),
            ("task created", _time(letter.create_time)),
            ("died", _time(letter.death_time)),
            ("redriven as", letter.redriven_task_id or "-"),
            ("extensions", ", ".join(found.extensions) or "-"),
        )
        if found.message:
            self._json(protojson.to_dict(a2a_pb2.Message.FromString(found.message)))
            rest = _without_message(a2a_pb2.SendMessageRequest.FromString(found.request))
            if rest:
                self._json(rest)

    def redriven(self, answer: admin_pb2.RedriveDeadLetterResponse) -> None:
        self._write(f"task {answer.task_id}" + ("" if answer.created else " (it was sent again before)"))

    def purged(self, answer: admin_pb2.PurgeDeadLettersResponse) -> None:
        self._write(f"{answer.purged} purged")

    def tasks(self, tasks: Sequence[admin_pb2.TaskSummary]) -> None:
        self._table(
            ("ID", "STATE", "SINCE", "OWNER", "PLACE", "ATTEMPT", "HOLDER"),
            [
                (
                    task.id,
                    _state(task.state),
                    _time(task.status_time),
                    _whose(task.tenant, task.owner),
                    _PLACES.get(task.place, "-"),
                    f"{task.attempt}/{task.attempt_limit or '?'}",
                    task.holder or "-",
                )
                for task in tasks
            ],
            "no tasks",
        )

    def task(self, found: admin_pb2.GetTaskResponse) -> None:
        summary = found.summary
        oldest = f", the oldest kept is {found.first_seq}" if found.first_seq > 1 else ""
        self._facts(
            ("owner", _whose(summary.tenant, summary.owner)),
            ("created", _time(summary.create_time)),
            ("state since", _time(summary.status_time)),
            ("place", _PLACES.get(summary.place, "-")),
            ("holder", summary.holder or "-"),
            ("claims", str(found.epoch)),
            ("attempt", f"{summary.attempt} of {summary.attempt_limit or '?'} of the turn for message {found.turn}"),
            ("waiting messages", ", ".join(str(seq) for seq in found.queue) or "-"),
            ("cancel asked", "yes" if found.canceling else "no"),
            ("events", f"{found.seq}{oldest}"),
            ("checkpoint", f"{found.checkpoint_bytes} bytes" if found.HasField("checkpoint_bytes") else "-"),
        )
        TextPrinter(self._out).show(a2a_pb2.Task.FromString(found.task))

    def event(self, event: admin_pb2.ListTaskEventsResponse) -> None:
        response = a2a_pb2.StreamResponse.FromString(event.event)
        self._write(f"{event.seq}  {_event(response)}")

    def deleted(self, task_id: str, answer: admin_pb2.DeleteTaskResponse) -> None:
        letters = f", with {answer.dead_letters} dead letters" if answer.dead_letters else ""
        self._write(f"task {task_id} erased{letters}")

    def replicas(self, replicas: Sequence[admin_pb2.Replica]) -> None:
        self._table(
            ("NAME", "STARTED", "HEARD OF", "TURNS", "VERSION"),
            [
                (replica.name, "-", "lost", "-", "-")
                if replica.lost and not replica.HasField("start_time")
                else (
                    replica.name,
                    _time(replica.start_time),
                    f"{_seconds(replica.beat_age)} ago",
                    f"{replica.turns}/{replica.max_turns}",
                    replica.version or "-",
                )
                for replica in replicas
            ],
            "no replicas",
        )

    def _table(self, head: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> None:
        if not rows and not self._begun:
            self._write(nothing)
        lines = [[plain(cell) for cell in row] for row in (rows if self._begun else [head, *rows] if rows else [])]
        widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            self._write("  ".join(cells).rstrip())
        self._begun = True

    def _facts(self, *facts: tuple[str, str]) -> None:
        width = max(len(name) for name, _ in facts)
        for name, value in facts:
            self._write(f"{name.ljust(width)}  {value}")

    def _json(self, shown: dict[str, Any]) -> None:
        self._write(json.dumps(shown, ensure_ascii=False, indent=2))

    def _write(self, line: str) -> None:
        self._out.write(plain(line) + "\n")
        self._out.flush()


def _plain_json(message: Message) -> dict[str, Any]:
    # With what is 0 or empty: who reads it should not have to know what may be missing.
    return MessageToDict(message, always_print_fields_with_no_presence=True)


def _without_message(request: a2a_pb2.SendMessageRequest) -> dict[str, Any]:
    shown: dict[str, Any] = protojson.to_dict(request)
    shown.pop("message", None)
    return shown


def _event(response: a2a_pb2.StreamResponse) -> str:
    """An event on one line."""
    match response.WhichOneof("payload"):
        case "task":
            return f"created  {_short(response.task.history)}"
        case "message":
            return f"message  {_short([response.message])}"
        case "status_update":
            status = response.status_update.status
            said = f"  {_short([status.message])}" if status.HasField("message") else ""
            return f"{_time(status.timestamp)}  {state_name(status.state)}{said}"
        case "artifact_update":
            artifact = response.artifact_update.artifact
            how = "appended to" if response.artifact_update.append else "wrote"
            return f"{how} artifact {artifact.name or artifact.artifact_id}: {len(artifact.parts)} parts"
    return "?"


def _short(messages: Sequence[a2a_pb2.Message]) -> str:
    text = " ".join(part.text or f"({part.WhichOneof('content')})" for one in messages for part in one.parts)
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:99] + "…"  # noqa: PLR2004  # what fits beside the rest


def _time(stamp: Timestamp) -> str:
    # Milliseconds would only make tables wider.
    return stamp.ToJsonString()[:19] + "Z"


def _seconds(duration: Duration) -> str:
    return f"{duration.ToMilliseconds() / 1000:.1f} s"


def _whose(tenant: str, owner: str) -> str:
    return (f"{tenant}/" if tenant else "") + (owner or "(anonymous)")


def _state(name: str) -> str:
    return name.removeprefix("TASK_STATE_").lower().replace("_", "-")
