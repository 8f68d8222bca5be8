"""The checker finds what it is there to find: a sound history passes, and each way of spoiling it is reported."""

from collections.abc import Callable
from pathlib import Path

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import states
from a2a_grpc.server.core.events import Fold, message_added, status_changed
from tests.chaos.checker import check
from tests.chaos.history import LEFT, OK, Call, Event, Fault, History, Left, load, packed, save
from tests.chaos.notes import Note

TASK, OTHER = "task-1", "task-2"
PID, NEXT_PID = 100, 200


def message(message_id: str, text: str) -> a2a_pb2.Message:
    return a2a_pb2.Message(message_id=message_id, role=a2a_pb2.ROLE_USER, parts=[a2a_pb2.Part(text=text)])


def created(task: str, message_id: str, text: str) -> a2a_pb2.StreamResponse:
    response = a2a_pb2.StreamResponse(task=a2a_pb2.Task(id=task, history=[message(message_id, text)]))
    response.task.status.state = states.SUBMITTED
    return response


def chunk(run: str, number: int) -> a2a_pb2.StreamResponse:
    artifact = a2a_pb2.Artifact(artifact_id="out", parts=[a2a_pb2.Part(text=f"{run} {number}")])
    return a2a_pb2.StreamResponse(artifact_update=a2a_pb2.TaskArtifactUpdateEvent(artifact=artifact, append=number > 0))


def status(task: str, state: a2a_pb2.TaskState, words: str = "") -> a2a_pb2.StreamResponse:
    said = a2a_pb2.Message(role=a2a_pb2.ROLE_AGENT, parts=[a2a_pb2.Part(text=words)]) if words else None
    return status_changed(task, "", state, 1, said)


def log_of(*entries: a2a_pb2.StreamResponse) -> list[Event]:
    return [Event(seq, 0.0, packed(entry)) for seq, entry in enumerate(entries, 1)]


def as_of(log: list[Event], seq: int) -> str:
    fold = Fold()
    for event in log:
        if event.seq <= seq:
            fold.apply(event.response)
    return packed(fold.task())


def first_event(log: list[Event], seq: int, at: float) -> Event:
    task = a2a_pb2.Task.FromString(bytes.fromhex(as_of(log, seq)))
    return Event(seq, at, packed(a2a_pb2.StreamResponse(task=task)))


def seen(log: list[Event], at: float, *seqs: int) -> list[Event]:
    return [Event(seq, at + seq, log[seq - 1].payload) for seq in seqs]


def call(operation: str, began: float, **facts: object) -> Call:
    made = Call(
        caller="ada", operation=operation, binding="grpc", replica=0, began=began, ended=began + 0.5, outcome=OK
    )
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def note(what: str, at: float, run: str, **facts: object) -> Note:
    return Note(what=what, at=at, run=run, **facts)  # type: ignore[arg-type]


# The first task: begun by `a`, lost with its replica after one chunk, run again by `b`. Everything is told.
LOG = log_of(
    created(TASK, "m-1", "work 2 0"),  # 1
    chunk("a", 0),  # 2
    status(TASK, states.WORKING, "Starting again: attempt 2 of 3."),  # 3
    chunk("b", 0),  # 4
    chunk("b", 1),  # 5
    status(TASK, states.COMPLETED, "b wrote 0 to 2"),  # 6
)
# The second: never to be run twice, and lost.
OTHER_LOG = log_of(
    created(OTHER, "m-2", "once 2 0"),
    chunk("c", 0),
    status(OTHER, states.FAILED, "The process that ran this was lost, and it may not be run twice."),
)


def sound() -> History:
    """Nothing is wrong with it."""
    whole, other_whole = as_of(LOG, 6), as_of(OTHER_LOG, 3)
    return History(
        seed=1,
        max_attempts=3,
        calls=[
            call(
                "SendStreamingMessage",
                10.0,
                message="m-1",
                text="work 2 0",
                told=TASK,
                outcome=LEFT,
                events=[first_event(LOG, 1, 10.1), *seen(LOG, 10.0, 2)],
            ),
            call("GetTask", 15.0, task=TASK, told=TASK, answer=as_of(LOG, 2)),
            call(
                "SubscribeToTask",
                20.0,
                task=TASK,
                told=TASK,
                cursor=2,
                resumed=2,
                events=[first_event(LOG, 2, 20.1), *seen(LOG, 20.0, 3, 4, 5, 6)],
            ),
            call("SendMessage", 10.0, message="m-2", text="once 2 0", told=OTHER, answer=as_of(OTHER_LOG, 1)),
            call("SendMessage", 30.0, message="m-1", text="work 2 0", told=TASK, answer=whole),
            call("SendMessage", 31.0, message="m-1", text="work 2 01", outcome="INVALID_PARAMS"),
            call("CancelTask", 32.0, task=TASK, outcome="TASK_NOT_CANCELABLE"),
            call("GetTask", 33.0, task=OTHER, told=OTHER, answer=other_whole),
            call("ListTasks", 40.0, listed=[TASK, OTHER]),
        ],
        faults=[Fault(kind="kill", replica=0, pid=PID, began=12.5, ended=12.6)],
        notes=[
            note("begin", 11.0, "a", pid=PID, task=TASK, message="m-1", skill="work", attempt=1),
            note("begin", 14.0, "b", pid=NEXT_PID, task=TASK, message="m-1", skill="work", attempt=2),
            note("end", 18.0, "b", pid=NEXT_PID, how="returned"),
            note("begin", 11.0, "c", pid=PID, task=OTHER, message="m-2", skill="once", attempt=1),
        ],
        left=[
            Left(task=TASK, log=list(LOG), answers=[whole, whole]),
            Left(task=OTHER, log=list(OTHER_LOG), answers=[other_whole, other_whole]),
        ],
        letters=[OTHER],
    )


def spoilt_log(history: History, *entries: a2a_pb2.StreamResponse, task: int = 0) -> None:
    """Another log for one of the tasks, with nobody who saw the old one."""
    left = history.left[task]
    left.log = log_of(*entries)
    left.answers = [as_of(left.log, len(left.log))] * 2
    history.calls = [one for one in history.calls if left.task not in {one.told, one.task}]


def lose_a_task(history: History) -> None:
    del history.left[1]
    history.letters.clear()


def lose_a_message(history: History) -> None:
    history.calls.append(call("SendMessage", 16.0, message="m-3", text="work 1 0", told=TASK, answer=as_of(LOG, 5)))


def take_a_message_twice(history: History) -> None:
    log = log_of(created("task-3", "m-1", "work 2 0"), status("task-3", states.CANCELED))
    history.left.append(Left(task="task-3", log=log, answers=[as_of(log, 2)]))


def lead_elsewhere(history: History) -> None:
    take_a_message_twice(history)
    history.calls.append(call("SendMessage", 35.0, message="m-1", text="work 2 0", told="task-3"))


def accept_other_content(history: History) -> None:
    history.calls[5].outcome, history.calls[5].told = OK, TASK


def refuse_a_retry(history: History) -> None:
    history.calls[4].outcome, history.calls[4].answer = "INVALID_PARAMS", ""


def run_twice(history: History) -> None:
    history.notes.append(note("begin", 14.0, "d", pid=NEXT_PID, task=OTHER, message="m-2", skill="once", attempt=2))


def run_too_often(history: History) -> None:
    history.notes.append(note("begin", 19.0, "d", pid=NEXT_PID, task=TASK, message="m-1", skill="work", attempt=4))


def count_no_attempt(history: History) -> None:
    history.notes.append(note("begin", 19.0, "d", pid=NEXT_PID, task=TASK, message="m-1", skill="work", attempt=2))


def run_at_the_same_time(history: History) -> None:
    history.faults.clear()


def write_after_being_overtaken(history: History) -> None:
    spoilt_log(
        history,
        created(TASK, "m-1", "work 2 0"),
        chunk("a", 0),
        chunk("b", 0),
        chunk("a", 1),
        chunk("b", 1),
        status(TASK, states.COMPLETED, "b wrote 0 to 2"),
    )


def leave_out_a_chunk(history: History) -> None:
    spoilt_log(
        history,
        created(TASK, "m-1", "work 2 0"),
        chunk("b", 0),
        status(TASK, states.COMPLETED, "b wrote 0 to 2"),
    )


def lose_a_checkpoint(history: History) -> None:
    history.notes.append(note("kept", 12.0, "a", pid=PID, number=1))


def end_without_running(history: History) -> None:
    spoilt_log(
        history,
        created(TASK, "m-1", "work 2 0"),
        message_added(message("m-4", "work 1 0")),
        chunk("b", 0),
        chunk("b", 1),
        status(TASK, states.COMPLETED, "b wrote 0 to 2"),
    )


def repeat_an_event(history: History) -> None:
    history.calls[2].events.insert(2, history.calls[2].events[1])


def leave_out_an_event(history: History) -> None:
    del history.calls[2].events[2]


def reorder_events(history: History) -> None:
    events = history.calls[2].events
    events[1], events[2] = events[2], events[1]


def tell_another_event(history: History) -> None:
    events = history.calls[2].events
    events[2] = events[2]._replace(payload=packed(chunk("b", 7)))


def stop_before_the_end(history: History) -> None:
    del history.calls[2].events[-1]


def take_up_elsewhere(history: History) -> None:
    history.calls[2].events = [first_event(LOG, 3, 20.1), *seen(LOG, 20.0, 4, 5, 6)]


def say_another_place(history: History) -> None:
    history.calls[2].resumed = 1


def begin_with_another_task(history: History) -> None:
    history.calls[0].events[0] = first_event(LOG, 1, 10.1)._replace(seq=2)


def begin_without_the_task(history: History) -> None:
    history.calls[2].events = seen(LOG, 20.0, 3, 4, 5, 6)


def find_nothing_after_the_cursor(history: History) -> None:
    history.calls[2].outcome, history.calls[2].events = "UNSUPPORTED_OPERATION", []


def refuse_what_goes_on(history: History) -> None:
    spoilt_log(history, created(TASK, "m-1", "work 2 0"), status(TASK, states.INPUT_REQUIRED, "a asks after 0 to 0"))
    history.calls.append(call("SubscribeToTask", 20.0, task=TASK, outcome="UNSUPPORTED_OPERATION"))


def refuse_what_was_accepted(history: History) -> None:
    history.calls[4].outcome, history.calls[4].answer = "UNSUPPORTED_OPERATION", ""


def go_back_in_time(history: History) -> None:
    history.calls.append(call("GetTask", 36.0, task=TASK, told=TASK, answer=as_of(LOG, 4)))


def tell_what_never_was(history: History) -> None:
    history.calls[1].answer = packed(a2a_pb2.Task(id=TASK))


def change_the_end(history: History) -> None:
    spoilt_log(
        history,
        created(TASK, "m-1", "work 2 0"),
        chunk("b", 0),
        chunk("b", 1),
        status(TASK, states.COMPLETED, "b wrote 0 to 2"),
        status(TASK, states.CANCELED),
    )


def never_end(history: History) -> None:
    spoilt_log(history, created(TASK, "m-1", "work 2 0"), chunk("a", 0))


def punch_a_hole(history: History) -> None:
    del history.left[0].log[2]


def disagree(history: History) -> None:
    history.left[0].answers[1] = as_of(LOG, 5)


def fail_by_itself(history: History) -> None:
    spoilt_log(history, created(OTHER, "m-2", "once 2 0"), status(OTHER, states.FAILED, "The agent failed."), task=1)


def undo_a_cancel(history: History) -> None:
    history.calls[6].outcome = OK


def refuse_to_cancel(history: History) -> None:
    spoilt_log(history, created(TASK, "m-1", "work 2 0"), status(TASK, states.INPUT_REQUIRED, "a asks after 0 to 0"))
    history.calls.append(call("CancelTask", 20.0, task=TASK, outcome="TASK_NOT_CANCELABLE"))


def list_too_little(history: History) -> None:
    history.calls[8].listed.remove(TASK)


def list_twice(history: History) -> None:
    history.calls[8].listed.append(TASK)


def list_what_is_not_theirs(history: History) -> None:
    history.calls.append(call("ListTasks", 41.0, caller="ben", listed=[TASK]))


def forget_a_letter(history: History) -> None:
    history.letters.clear()


def keep_a_letter_too_many(history: History) -> None:
    history.letters.append(TASK)


def forget_what_was_known(history: History) -> None:
    history.calls[7].outcome, history.calls[7].answer = "TASK_NOT_FOUND", ""


def break_down(history: History) -> None:
    history.calls[7].outcome, history.calls[7].answer = "INTERNAL_ERROR", ""


def leave_a_mess(history: History) -> None:
    history.audit.append("held:replica names task-1, which it does not hold")


SPOILT: list[tuple[Callable[[History], None], str]] = [
    (lose_a_task, "no acknowledged task is lost"),
    (lose_a_message, "no acknowledged message is lost"),
    (take_a_message_twice, "a message is taken once"),
    (lead_elsewhere, "the same message leads to the same task"),
    (accept_other_content, "a message id stands for one message"),
    (refuse_a_retry, "a retry is no misuse"),
    (run_twice, "never twice"),
    (run_too_often, "a turn has so many attempts"),
    (count_no_attempt, "every attempt counts"),
    (run_at_the_same_time, "one at a time"),
    (write_after_being_overtaken, "nobody writes who was overtaken"),
    (leave_out_a_chunk, "a run's events are all there, in order"),
    (lose_a_checkpoint, "a checkpoint is not lost"),
    (end_without_running, "a completed task has done everything"),
    (repeat_an_event, "streams tell every event once and in order"),
    (leave_out_an_event, "streams tell every event once and in order"),
    (reorder_events, "streams tell every event once and in order"),
    (tell_another_event, "an event is the same for everybody"),
    (stop_before_the_end, "a stream goes on to the end"),
    (take_up_elsewhere, "a stream is taken up where it was left"),
    (say_another_place, "a stream says where it was taken up"),
    (begin_with_another_task, "a stream begins with the task as it stood"),
    (begin_without_the_task, "a stream begins with the task"),
    (find_nothing_after_the_cursor, "a cursor finds what came after it"),
    (refuse_what_goes_on, "only what has ended takes nothing"),
    (refuse_what_was_accepted, "what was accepted is accepted again"),
    (go_back_in_time, "time does not go back"),
    (tell_what_never_was, "a task is told as it stood"),
    (change_the_end, "a task ends once"),
    (never_end, "every task ends or asks"),
    (punch_a_hole, "a log has no holes"),
    (disagree, "every replica knows the task"),
    (fail_by_itself, "nothing fails by itself"),
    (undo_a_cancel, "canceled is canceled"),
    (refuse_to_cancel, "what cannot be canceled has ended"),
    (list_too_little, "ListTasks finds all tasks"),
    (list_twice, "ListTasks names no task twice"),
    (list_what_is_not_theirs, "callers see their own tasks"),
    (forget_a_letter, "what is given up leaves a letter"),
    (keep_a_letter_too_many, "a letter is of what was given up"),
    (forget_what_was_known, "answers are those of the protocol"),
    (break_down, "answers are those of the protocol"),
    (leave_a_mess, "the store is in order"),
]


def test_nothing_is_wrong_with_a_sound_history() -> None:
    assert check(sound()) == []


@pytest.mark.parametrize(("spoil", "rule"), SPOILT, ids=[spoil.__name__ for spoil, _ in SPOILT])
def test_what_is_wrong_is_reported(spoil: Callable[[History], None], rule: str) -> None:
    history = sound()
    spoil(history)
    assert rule in {violation.rule for violation in check(history)}


def test_a_history_that_was_kept_is_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    history = sound()
    save(history, tmp_path / "history.gz")
    assert load(tmp_path / "history.gz") == history
