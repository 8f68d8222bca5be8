"""What must hold in every run, whatever was broken in it. `check` gives one sentence for everything that does not."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states
from a2a_grpc.server.core.events import Fold, delivered
from tests.chaos.history import LATE, LEFT, LOST, OK, Call, Event, Fault, History, Left, packed

NEVER_TWICE = "once"
"""The skill that must not be begun twice."""
_CLOSE_SENDING = states.TERMINAL | {states.INPUT_REQUIRED}
_SENDING = frozenset({"SendMessage", "SendStreamingMessage"})
_STREAMS = frozenset({"SendStreamingMessage", "SubscribeToTask"})
_ANY = frozenset({OK, LOST, LATE, LEFT, "UNAVAILABLE"})
_ANSWERS = {
    "SendMessage": _ANY | {"RESOURCE_EXHAUSTED", "INVALID_PARAMS", "UNSUPPORTED_OPERATION"},
    "SendStreamingMessage": _ANY | {"RESOURCE_EXHAUSTED", "UNSUPPORTED_OPERATION"},
    "SubscribeToTask": _ANY | {"UNSUPPORTED_OPERATION"},
    "CancelTask": _ANY | {"TASK_NOT_CANCELABLE", "ABORTED"},
    "GetTask": _ANY,
    "ListTasks": _ANY,
}
_GIVEN_UP = ("The process that ran this was lost", "The service stopped before this was done")
# A fault has an effect for a while after it: connections come back, others notice.
_AFTERMATH = 3.0


class Violation(NamedTuple):
    """One thing that is wrong."""

    rule: str
    subject: str
    """The task, message or run."""
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}: {self.text}"


@dataclass(slots=True)
class Run:
    """One execution of one turn, from the agent's notes."""

    name: str
    task: str
    message: str
    skill: str
    attempt: int
    pid: int
    first: int
    began: float
    ended: float
    """When it ended, its process was killed, or the record ends."""
    how: str = "running"
    kept: int = 0


@dataclass(slots=True)
class Log:
    """The log of one task, with everything that follows from it."""

    task: str
    events: list[Event]
    responses: list[a2a_pb2.StreamResponse] = field(init=False)
    told: list[int] = field(init=False)
    """The numbers of the events that streams tell."""
    payloads: dict[int, str] = field(init=False)
    at: dict[str, tuple[int, int]] = field(init=False)
    """The task as it stood, packed: after which event at the earliest and at the latest."""
    messages: list[a2a_pb2.Message] = field(init=False)
    """What callers sent, in its order."""
    state: "a2a_pb2.TaskState" = field(init=False)

    def __post_init__(self) -> None:
        self.responses = [event.response for event in self.events]
        self.told = [
            event.seq for event, response in zip(self.events, self.responses, strict=True) if delivered(response)
        ]
        self.payloads = {event.seq: event.payload for event in self.events}
        self.at, self.messages = {}, []
        fold = Fold()
        for event, response in zip(self.events, self.responses, strict=True):
            fold.apply(response)
            now = packed(fold.task())
            self.at[now] = (self.at.get(now, (event.seq, 0))[0], event.seq)
            if response.HasField("task"):
                self.messages.append(response.task.history[0])
            elif response.HasField("message"):
                self.messages.append(response.message)
        self.state = fold.state

    @property
    def last(self) -> int:
        return self.events[-1].seq if self.events else 0


def check(history: History) -> list[Violation]:
    """Everything that is wrong with a history."""
    return list(Checker(history).violations())


class Checker:
    """The model, over one history."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.logs = {left.task: Log(left.task, left.log) for left in history.left}
        self.runs = _runs(history)
        self.by_turn: dict[tuple[str, str], list[Run]] = defaultdict(list)
        for run in self.runs.values():
            self.by_turn[run.task, run.message].append(run)
        self.overlaps = 0
        """Executions that overlapped, the earlier of them on a replica that was lost."""
        self._texts = {
            message.message_id: message.parts[0].text for log in self.logs.values() for message in log.messages
        }
        self._seen = self._observations()

    def violations(self) -> Iterator[Violation]:
        """All of them, in no order that matters."""
        for name in self.history.audit:
            yield Violation("the store is in order", "store", name)
        for call in self.history.calls:
            yield from self._answer(call)
            if call.operation in _STREAMS and call.events:
                yield from self._stream(call)
        yield from self._messages()
        for left in self.history.left:
            yield from self._task(left)
        for turn, runs in self.by_turn.items():
            yield from self._turn(turn, runs)
        yield from self._lists()
        yield from self._letters()

    # -- answers -------------------------------------------------------------------------------------------------------

    def _answer(self, call: Call) -> Iterator[Violation]:
        """One call: it had an answer that it may have, and that was true then."""
        log = self.logs.get(_task_of(call))
        if call.outcome not in _ANSWERS[call.operation]:
            yield Violation("answers are those of the protocol", _about(call), f"{call.outcome}: {call.detail}")
        elif call.outcome == "INVALID_PARAMS" and call.text == self._text(call.message):
            yield Violation("a retry is no misuse", _about(call), call.detail)
        elif call.outcome == "TASK_NOT_CANCELABLE" and log is not None and log.state not in states.TERMINAL:
            yield Violation("what cannot be canceled has ended", _about(call), states.name(log.state))
        elif call.outcome == "UNSUPPORTED_OPERATION":
            yield from self._unsupported(call, log)
        if call.operation == "CancelTask" and call.outcome == OK and log is not None and log.state != states.CANCELED:
            yield Violation("canceled is canceled", _about(call), f"it is {states.name(log.state)}")
        if call.answer and log is not None:
            found = log.at.get(call.answer)
            before = self._known_before(log.task, call.began)
            if found is None:
                yield Violation("a task is told as it stood", _about(call), f"it never stood so: {call.answered()}")
            elif found[1] < before:
                text = f"it was told as of event {found[1]}, when {before} was known to somebody"
                yield Violation("time does not go back", _about(call), text)

    def _unsupported(self, call: Call, log: Log | None) -> Iterator[Violation]:
        if log is None or log.state not in states.TERMINAL:
            yield Violation("only what has ended takes nothing", _about(call), call.detail)
        elif call.operation in _SENDING and any(message.message_id == call.message for message in log.messages):
            yield Violation("what was accepted is accepted again", _about(call), call.detail)
        elif call.operation == "SubscribeToTask" and call.cursor is not None and not call.old:
            missed = [seq for seq in log.told if seq > call.cursor]
            if missed:
                yield Violation("a cursor finds what came after it", _about(call), f"there were {missed}")

    def _observations(self) -> dict[str, tuple[list[float], list[int]]]:
        """For each task: at which times somebody knew of which event, the latest so far."""
        seen: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for call in self.history.calls:
            task = _task_of(call)
            if task in self.logs:
                if call.answer in self.logs[task].at:
                    seen[task].append((call.ended, self.logs[task].at[call.answer][0]))
                seen[task] += [(event.at, event.seq) for event in call.events]
        ordered = {task: sorted(rows) for task, rows in seen.items()}
        return {
            task: ([at for at, _ in rows], list(accumulate((seq for _, seq in rows), max)))
            for task, rows in ordered.items()
        }

    def _known_before(self, task: str, at: float) -> int:
        times, seqs = self._seen.get(task, ([], []))
        position = bisect_left(times, at)
        return seqs[position - 1] if position else 0

    # -- streams -------------------------------------------------------------------------------------------------------

    def _stream(self, call: Call) -> Iterator[Violation]:
        """One stream: the task as it stood, then everything that came, once and in order, up to its end."""
        first, rest = call.events[0], call.events[1:]
        log = self.logs.get(_task_of(call))
        if log is None:
            return  # said by _messages
        if not first.response.HasField("task"):
            yield Violation("a stream begins with the task", _about(call), str(first.response))
            return
        stood = log.at.get(packed(first.response.task))
        if stood is None or not stood[0] <= first.seq <= stood[1]:
            text = f"at {first.seq} it did not stand so: {first.response.task}"
            yield Violation("a stream begins with the task as it stood", _about(call), text)
        numbers = [event.seq for event in rest]
        after = [seq for seq in log.told if seq > first.seq]
        if numbers != after[: len(numbers)]:
            repeated = [seq for seq, times in Counter([first.seq, *numbers]).items() if times > 1]
            missing = sorted(set(after) & set(range(first.seq, (numbers or [0])[-1])) - set(numbers))
            text = (
                f"after {first.seq} came {numbers}, where the log has {after}: missing {missing}, repeated {repeated}"
            )
            yield Violation("streams tell every event once and in order", _about(call), text)
        for event in rest:
            if log.payloads.get(event.seq) not in {None, event.payload}:
                text = f"event {event.seq} was told as {event.response}, and is {log.responses[event.seq - 1]}"
                yield Violation("an event is the same for everybody", _about(call), text)
        if call.cursor is not None and not call.old and first.seq != max(call.cursor, 1):
            text = f"from {call.cursor} on was asked, {first.seq} came first, and the log has {log.last}"
            yield Violation("a stream is taken up where it was left", _about(call), text)
        if call.cursor is not None and not call.old and call.resumed != first.seq:
            text = f"last-event-id said {call.resumed}, and the first event was {first.seq}"
            yield Violation("a stream says where it was taken up", _about(call), text)
        if call.operation == "SubscribeToTask" and (call.cursor is None or call.old):
            before = self._known_before(log.task, call.began)
            if first.seq < before:
                text = f"it was told as of event {first.seq}, when {before} was known to somebody"
                yield Violation("time does not go back", _about(call), text)
        if call.outcome == OK:
            last = call.events[-1].response
            state = last.task.status.state if last.HasField("task") else last.status_update.status.state
            if state not in (states.TERMINAL if call.operation == "SubscribeToTask" else _CLOSE_SENDING):
                yield Violation("a stream goes on to the end", _about(call), f"it ended with {last}")

    # -- messages ------------------------------------------------------------------------------------------------------

    def _text(self, message_id: str) -> str:
        """The text that a message was accepted with."""
        return self._texts.get(message_id, "")

    def _messages(self) -> Iterator[Violation]:
        """One message is part of one task, once; what was acknowledged is there."""
        places: dict[str, list[str]] = defaultdict(list)
        for log in self.logs.values():
            for message in log.messages:
                places[message.message_id].append(log.task)
        for message_id, tasks in places.items():
            if len(tasks) > 1:
                yield Violation("a message is taken once", message_id, f"it stands in {tasks}")
        accepted: dict[str, set[str]] = defaultdict(set)
        for call in self.history.calls:
            if call.operation in _SENDING and (task := call.told):
                accepted[call.message].add(task)
                if call.text != self._text(call.message) and call.message in places:
                    text = f"it was accepted as {self._text(call.message)!r} and again as {call.text!r}"
                    yield Violation("a message id stands for one message", call.message, text)
        for message_id, tasks_told in accepted.items():
            if len(tasks_told) > 1:
                yield Violation("the same message leads to the same task", message_id, f"it led to {tasks_told}")
            for task in tasks_told:
                if task not in self.logs:
                    yield Violation("no acknowledged task is lost", task, f"message {message_id} made or reached it")
                elif message_id not in {message.message_id for message in self.logs[task].messages}:
                    yield Violation("no acknowledged message is lost", message_id, f"it is not part of {task}")

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def _task(self, left: Left) -> Iterator[Violation]:
        """What was left of one task."""
        log = self.logs[left.task]
        if [event.seq for event in log.events] != list(range(1, len(log.events) + 1)):
            yield Violation("a log has no holes", left.task, f"{[event.seq for event in log.events]}")
        whole = next((packed_task for packed_task, (_, seq) in log.at.items() if seq == log.last), "")
        for number, answer in enumerate(left.answers):
            if answer != whole:
                yield Violation("every replica knows the task", left.task, f"replica {number} says {answer[:200]}")
        if log.state not in states.SETTLED:
            yield Violation("every task ends or asks", left.task, f"it is {states.name(log.state)} for good")
        ends = [
            event.seq
            for event, response in zip(log.events, log.responses, strict=True)
            if response.status_update.status.state in states.TERMINAL
        ]
        if len(ends) > 1 or (ends and ends[0] != log.last):
            yield Violation("a task ends once", left.task, f"ends at {ends}, and the last event is {log.last}")
        if log.state == states.COMPLETED:
            for message in log.messages:
                if (left.task, message.message_id) not in self.by_turn:
                    yield Violation("a completed task has done everything", message.message_id, f"not run: {left.task}")
        if log.state == states.FAILED:
            words = _text_of(log.responses[-1])
            if not words.startswith(_GIVEN_UP):
                yield Violation("nothing fails by itself", left.task, words)
        yield from self._effects(log)

    def _effects(self, log: Log) -> Iterator[Violation]:
        """What runs wrote: one after another, each without a hole."""
        order: list[str] = []
        written: dict[str, list[int]] = defaultdict(list)
        said: dict[str, tuple[int, int]] = {}
        for event, response in zip(log.events, log.responses, strict=True):
            words = _text_of(response).split()
            if not words or words[0] not in self.runs:
                if response.HasField("artifact_update"):
                    yield Violation("only runs write", log.task, f"event {event.seq}: {words}")
                continue
            name = words[0]
            if not order or order[-1] != name:
                if name in order:
                    text = f"{name} wrote event {event.seq} after {order[-1]} had begun"
                    yield Violation("nobody writes who was overtaken", log.task, text)
                order.append(name)
            if response.HasField("artifact_update"):
                written[name].append(int(words[1]))
                if name in said:
                    yield Violation("nothing is written after the last word", log.task, f"{name}: event {event.seq}")
            else:
                said[name] = (int(words[-3]), int(words[-1]))
        for name, numbers in written.items():
            run = self.runs[name]
            wanted = list(range(run.first, said[name][1] if name in said else run.first + len(numbers)))
            if numbers != wanted:
                yield Violation("a run's events are all there, in order", name, f"{numbers} instead of {wanted}")

    # -- turns ---------------------------------------------------------------------------------------------------------

    def _turn(self, turn: tuple[str, str], runs: list[Run]) -> Iterator[Violation]:
        """How often one turn was begun, and when."""
        runs.sort(key=lambda run: run.began)
        subject = f"{turn[1]} in {turn[0]}"
        told = ", ".join(f"{run.name} (attempt {run.attempt}, {run.how})" for run in runs)
        if runs[0].skill == NEVER_TWICE and len(runs) > 1 and not self._given_back_before(runs):
            yield Violation("never twice", subject, told)
        if max(run.attempt for run in runs) > self.history.max_attempts:
            yield Violation("a turn has so many attempts", subject, told)
        for one, other in pairwise(runs):
            if other.attempt <= one.attempt and not self._was_drained(one):
                yield Violation("every attempt counts", subject, told)
            if one.ended > other.began:
                if self._was_lost(one, other.began):
                    self.overlaps += 1
                else:
                    text = f"{one.name} ran until {one.ended:.2f}, {other.name} began at {other.began:.2f}: {told}"
                    yield Violation("one at a time", subject, text)
            if one.kept > other.first:
                text = f"{one.name} kept {one.kept}, {other.name} went on from {other.first}"
                yield Violation("a checkpoint is not lost", subject, text)

    def _given_back_before(self, runs: Sequence[Run]) -> bool:
        """Whether replicas of the version before this one gave the turn back, which knows no "never twice"."""
        return all(self._was_drained(run, old=True) for run in runs[:-1])

    def _was_drained(self, run: Run, *, old: bool = False) -> bool:
        kinds = {"drain of the old"} if old else {"drain", "drain of the old"}
        return any(fault.kind in kinds and fault.pid == run.pid for fault in self.history.faults)

    def _was_lost(self, run: Run, by: float) -> bool:
        """Whether something kept the replica of `run` from being heard, before `by`."""
        return any(_hits(fault, run.pid, run.began, by) for fault in self.history.faults) or any(
            note.what == "late" and note.pid == run.pid and run.began - _AFTERMATH < note.at < by + _AFTERMATH
            for note in self.history.notes
        )

    # -- the rest ------------------------------------------------------------------------------------------------------

    def _lists(self) -> Iterator[Violation]:
        """ListTasks finds every task of its caller that had ended before; one that moves may leave its page."""
        owners: dict[str, str] = {}
        ended: dict[str, float] = {}
        for call in self.history.calls:
            if (task := call.told) and call.operation in _SENDING:
                owners[task] = call.caller
            if (at := _saw_end(call)) is not None:
                ended[_task_of(call)] = min(at, ended.get(_task_of(call), at))
        for call in self.history.calls:
            if call.operation == "ListTasks" and call.outcome == OK:
                wanted = {task for task, at in ended.items() if owners.get(task) == call.caller and at < call.began}
                if missing := wanted - set(call.listed):
                    yield Violation("ListTasks finds all tasks", _about(call), f"missing {sorted(missing)[:5]}")
                strange = [task for task in call.listed if owners.get(task, call.caller) != call.caller]
                if strange:
                    yield Violation("callers see their own tasks", _about(call), f"{strange[:5]}")
                if len(call.listed) != len(set(call.listed)):
                    yield Violation("ListTasks names no task twice", _about(call), f"{len(call.listed)} rows")

    def _letters(self) -> Iterator[Violation]:
        """What was given up, and that alone, left a dead letter."""
        letters = Counter(self.history.letters)
        for log in self.logs.values():
            if log.state == states.FAILED and letters[log.task] != 1:
                yield Violation("what is given up leaves a letter", log.task, f"{letters[log.task]} letters")
        for task in letters:
            # Who cancels between the letter and the end has the last word.
            if task not in self.logs or self.logs[task].state not in {states.FAILED, states.CANCELED}:
                yield Violation("a letter is of what was given up", task, "it has not failed")


def _runs(history: History) -> dict[str, Run]:
    gone = {fault.pid: fault.ended for fault in history.faults if fault.kind in {"kill", "drain", "drain of the old"}}
    last = max((note.at for note in history.notes), default=0.0)
    runs: dict[str, Run] = {}
    for note in sorted(history.notes, key=lambda note: note.at):
        if note.what == "begin":
            runs[note.run] = Run(
                name=note.run,
                task=note.task,
                message=note.message,
                skill=note.skill,
                attempt=note.attempt,
                pid=note.pid,
                first=note.number,
                began=note.at,
                ended=gone.get(note.pid, last),
            )
        elif note.what == "end":
            runs[note.run].ended, runs[note.run].how = note.at, note.how
        elif note.what == "kept":
            runs[note.run].kept = note.number
    return runs


def _hits(fault: Fault, pid: int, began: float, by: float) -> bool:
    concerns = fault.pid == pid if fault.replica is not None else fault.kind.startswith("store")
    return concerns and fault.began < by and (fault.ended or by) + _AFTERMATH > began


def _task_of(call: Call) -> str:
    return call.task or call.told


def _saw_end(call: Call) -> float | None:
    """When this call learned that its task has ended."""
    if call.answer and call.answered().status.state in states.TERMINAL:
        return call.ended
    for event in call.events[-1:]:
        response = event.response
        status = response.task.status if response.HasField("task") else response.status_update.status
        if status.state in states.TERMINAL:
            return event.at
    return None


def _text_of(response: a2a_pb2.StreamResponse) -> str:
    match response.WhichOneof("payload"):
        case "artifact_update":
            return response.artifact_update.artifact.parts[0].text
        case "status_update" if response.status_update.status.message.parts:
            return response.status_update.status.message.parts[0].text
    return ""


def _about(call: Call) -> str:
    what = " ".join(part for part in (call.message, _task_of(call)) if part)
    since = "" if call.cursor is None else f" from {call.cursor}"
    return f"{call.operation}{since} of {call.caller} over {call.binding} at {call.began:.3f} ({what})"
