"""What a conversation looks like: on a terminal, or in a pipe as the other commands print it."""

import json
from collections.abc import Iterable

from rich.console import Console
from rich.status import Status
from rich.text import Text

from a2a_grpc.client.cli.invocation import Invocation
from a2a_grpc.client.cli.text import file_words
from a2a_grpc.client.printing import plain, state_name
from a2a_grpc.client.states import TERMINAL
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson


class PipeScreen:
    """Fields and blocks, or JSON, as `send --stream` prints them."""

    def __init__(self, run: Invocation) -> None:
        self._run = run
        self._lost = False

    def event(self, event: a2a_pb2.StreamResponse) -> None:
        """See Screen."""
        self._run.seen.take(event)
        self._run.printer.show(event)

    def lost(self, why: str) -> None:
        """See Screen."""
        if not self._lost:
            self._run.say(f"the connection is lost, trying again: {why}")
        self._lost = True

    def back(self) -> None:
        """See Screen."""
        self._lost = False
        self._run.say("connected again")


class TerminalScreen:
    """Words for people, artifacts that grow as they come, and a line that moves while there is nothing to read.

    Whatever an agent says is shown as it is: never as markup of rich, and never to the terminal itself.
    """

    def __init__(self, run: Invocation) -> None:
        self._run = run
        self._console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._status: Status | None = None
        self._doing = ""
        self._artifact = ""
        self._line_open = False
        self._lost = False

    def greet(self, card: a2a_pb2.AgentCard | None) -> None:
        """Say with whom one talks, and how."""
        if card is not None:
            self._line(f"{card.name} {card.version}", "bold")
            self._line(card.description, "dim")
        self._line("Say something. /help tells what else there is; Ctrl-D leaves.", "dim")

    def note(self, text: str) -> None:
        """Say something of one's own."""
        self._line(self._run.hide(text), "dim")

    def complain(self, text: str) -> None:
        """Say what went wrong."""
        self._line(self._run.hide(text), "red")

    def wait(self) -> None:
        """Show that there will be something to read."""
        self._doing = "waiting for the agent"
        self._spin()

    def rest(self) -> None:
        """End what moves: somebody is going to type."""
        self._still()
        self._end_line()
        self._artifact = ""

    def event(self, event: a2a_pb2.StreamResponse) -> None:
        """See Screen."""
        self._run.seen.take(event)
        match event.WhichOneof("payload"):
            case "task":
                for artifact in event.task.artifacts:
                    self._artifact_of(artifact, more=False)
                self._state(event.task.status)
            case "message":
                self._parts(event.message.parts, "cyan")
                self._end_line()
            case "status_update":
                self._state(event.status_update.status)
            case "artifact_update":
                self._artifact_of(event.artifact_update.artifact, more=event.artifact_update.append)

    def lost(self, why: str) -> None:
        """See Screen."""
        if not self._lost:
            self._line(f"The connection is lost: {self._run.hide(why)}", "yellow")
        self._lost = True
        self._doing = "trying to connect again; Ctrl-C to stop that"
        self._spin()

    def back(self) -> None:
        """See Screen."""
        self._lost = False
        self._line("Connected again.", "yellow")
        self._doing = "waiting for the agent"
        self._spin()

    def _state(self, status: a2a_pb2.TaskStatus) -> None:
        name = state_name(status.state)
        if status.state in (a2a_pb2.TASK_STATE_SUBMITTED, a2a_pb2.TASK_STATE_WORKING):
            if status.message.parts:
                self._parts(status.message.parts, "dim")
                self._end_line()
            self._doing = name
            self._spin()
            return
        good = status.state == a2a_pb2.TASK_STATE_COMPLETED
        bad = status.state in TERMINAL and not good
        self._line(name, "green" if good else "red" if bad else "bold yellow")
        self._parts(status.message.parts, "red" if bad else "cyan")
        self._end_line()

    def _artifact_of(self, artifact: a2a_pb2.Artifact, *, more: bool) -> None:
        if not more or artifact.artifact_id != self._artifact:
            self._line(f"[{artifact.name or artifact.artifact_id}]", "bold magenta")
        self._artifact = artifact.artifact_id
        self._parts(artifact.parts, "")
        if not self._line_open:
            self._spin()

    def _parts(self, parts: Iterable[a2a_pb2.Part], style: str) -> None:
        for part in parts:
            match part.WhichOneof("content"):
                case "text":
                    self._write(part.text, style)
                case "data":
                    value = protojson.to_dict(part)["data"]
                    self._line(json.dumps(value, ensure_ascii=False, indent=2), style)
                case "raw" | "url":
                    self._line(f"file {file_words(part)}", style or "magenta")

    def _line(self, text: str, style: str = "") -> None:
        self._end_line()
        self._write(f"{text}\n", style)

    def _end_line(self) -> None:
        if self._line_open:
            self._write("\n", "")

    def _write(self, text: str, style: str) -> None:
        shown = plain(text)
        if not shown:
            return
        self._still()
        self._console.print(Text(shown, style=style), end="")
        self._console.file.flush()
        self._line_open = not shown.endswith("\n")

    def _spin(self) -> None:
        # The line that moves is drawn over: never over one that the agent is still writing.
        if self._line_open:
            return
        if self._status is None:
            self._status = self._console.status(Text(self._doing, style="dim"))
            self._status.start()
        else:
            self._status.update(Text(self._doing, style="dim"))

    def _still(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
