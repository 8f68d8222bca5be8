"""A task is what its log says, entry by entry (3.7, 4.2.2)."""

from typing import Any

from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core.events import (
    Fold,
    delivered,
    message_added,
    milliseconds,
    set_timestamp,
    status_changed,
)

WORKING = a2a_pb2.TASK_STATE_WORKING
INPUT_REQUIRED = a2a_pb2.TASK_STATE_INPUT_REQUIRED
AUTH_REQUIRED = a2a_pb2.TASK_STATE_AUTH_REQUIRED
COMPLETED = a2a_pb2.TASK_STATE_COMPLETED


def says(message_id: str, role: a2a_pb2.Role = a2a_pb2.ROLE_USER) -> a2a_pb2.Message:
    return a2a_pb2.Message(message_id=message_id, role=role, parts=[a2a_pb2.Part(text=message_id)])


def agent(message_id: str) -> a2a_pb2.Message:
    return says(message_id, a2a_pb2.ROLE_AGENT)


def created(*history: a2a_pb2.Message) -> a2a_pb2.StreamResponse:
    task = a2a_pb2.Task(id="t", context_id="c", history=history or [says("m1")])
    task.status.state = a2a_pb2.TASK_STATE_SUBMITTED
    return a2a_pb2.StreamResponse(task=task)


def status(
    state: a2a_pb2.TaskState, message: a2a_pb2.Message | None = None, now_ms: int = 1_000
) -> a2a_pb2.StreamResponse:
    return status_changed("t", "c", state, now_ms, message)


def artifact(
    artifact_id: str,
    *texts: str,
    append: bool = False,
    name: str = "",
    description: str = "",
    metadata: dict[str, Any] | None = None,
    extensions: tuple[str, ...] = (),
) -> a2a_pb2.StreamResponse:
    response = a2a_pb2.StreamResponse()
    update = response.artifact_update
    update.task_id, update.context_id, update.append = "t", "c", append
    update.artifact.artifact_id = artifact_id
    update.artifact.name = name
    update.artifact.description = description
    update.artifact.parts.extend(a2a_pb2.Part(text=text) for text in texts)
    update.artifact.extensions.extend(extensions)
    if metadata is not None:
        json_format.ParseDict(metadata, update.artifact.metadata)
    return response


def folded(*entries: a2a_pb2.StreamResponse) -> a2a_pb2.Task:
    fold = Fold()
    for entry in entries:
        fold.apply(entry)
    return fold.task()


def history(task: a2a_pb2.Task) -> list[str]:
    return [message.message_id for message in task.history]


def texts(task: a2a_pb2.Task) -> dict[str, list[str]]:
    return {one.artifact_id: [part.text for part in one.parts] for one in task.artifacts}


def test_a_new_task_is_what_its_first_entry_says() -> None:
    entry = created()
    assert folded(entry) == entry.task


def test_a_status_message_is_the_present_word_and_moves_into_the_history_once_when_replaced() -> None:
    entries = [created(), status(WORKING, agent("a1"))]
    task = folded(*entries)
    assert task.status.message.message_id == "a1"
    assert history(task) == ["m1"]
    entries.append(status(WORKING))
    task = folded(*entries)
    assert not task.status.HasField("message")
    assert history(task) == ["m1", "a1"]
    entries += [status(WORKING, agent("a2")), status(COMPLETED, agent("a3"))]
    task = folded(*entries)
    assert history(task) == ["m1", "a1", "a2"]
    assert task.status.message.message_id == "a3"
    assert task.status.state == COMPLETED


def test_question_and_answer_stand_in_the_order_they_were_said() -> None:
    parked = [created(), status(INPUT_REQUIRED, agent("question"))]
    # The turn had ended: the resumed status comes first.
    resumed = folded(*parked, status(WORKING), message_added(says("answer")))
    assert history(resumed) == ["m1", "question", "answer"]
    # The turn goes on and takes the answer from its inbox: the message comes first.
    taken = folded(*parked, message_added(says("answer")), status(WORKING))
    assert history(taken) == ["m1", "question", "answer"]
    assert not taken.status.HasField("message")


def test_an_explanation_at_auth_required_stays_while_messages_come() -> None:
    task = folded(created(), status(AUTH_REQUIRED, agent("sign in")), message_added(says("how?")))
    assert history(task) == ["m1", "how?"]
    assert task.status.message.message_id == "sign in"


def test_a_message_to_a_working_task_leaves_its_status_alone() -> None:
    task = folded(created(), status(WORKING, agent("busy")), message_added(says("m2")), message_added(says("m3")))
    assert history(task) == ["m1", "m2", "m3"]
    assert task.status.message.message_id == "busy"


def test_chunks_add_up_in_order_and_artifacts_stay_apart() -> None:
    task = folded(
        created(),
        artifact("a", "1"),
        artifact("b", "x"),
        artifact("a", "2", "3", append=True),
        artifact("b", "y", append=True),
        artifact("a", "4", append=True),
    )
    assert texts(task) == {"a": ["1", "2", "3", "4"], "b": ["x", "y"]}


def test_append_false_replaces_the_whole_artifact_in_its_place() -> None:
    task = folded(
        created(),
        artifact("a", "1", name="old", description="old", metadata={"k": 1}, extensions=("urn:x",)),
        artifact("b", "x"),
        artifact("a", "new", name="new"),
    )
    assert texts(task) == {"a": ["new"], "b": ["x"]}
    assert [one.artifact_id for one in task.artifacts] == ["a", "b"]
    assert task.artifacts[0].name == "new"
    assert task.artifacts[0].description == ""
    assert not task.artifacts[0].HasField("metadata")
    assert not task.artifacts[0].extensions


def test_a_first_chunk_that_says_append_starts_the_artifact() -> None:
    task = folded(created(), artifact("a", "1", append=True, name="n"), artifact("a", "2", append=True))
    assert texts(task) == {"a": ["1", "2"]}
    assert task.artifacts[0].name == "n"


def test_what_a_chunk_says_beside_its_parts_is_merged() -> None:
    task = folded(
        created(),
        artifact("a", "1", name="n", description="d", metadata={"k": 1, "l": 1}, extensions=("urn:x",)),
        artifact("a", "2", append=True),
        artifact("a", "3", append=True, name="m", metadata={"l": 2}, extensions=("urn:x", "urn:y")),
    )
    one = task.artifacts[0]
    assert (one.name, one.description) == ("m", "d")
    assert json_format.MessageToDict(one.metadata) == {"k": 1, "l": 2}
    assert list(one.extensions) == ["urn:x", "urn:y"]


def test_folding_changes_no_entry() -> None:
    entries = [created(), status(WORKING, agent("a1")), artifact("a", "1"), artifact("a", "2", append=True)]
    before = [entry.SerializeToString() for entry in entries]
    fold = Fold()
    for entry in entries:
        fold.apply(entry)
    fold.task().history[0].message_id = "changed by the reader"
    assert [entry.SerializeToString() for entry in entries] == before
    assert history(fold.task()) == ["m1"]


def test_a_task_is_written_over_whatever_was_there() -> None:
    fold = Fold()
    fold.apply(created())
    fold.apply(artifact("a", "1"))
    target = folded(created(says("other")), artifact("a", "other"), artifact("b", "other"))
    fold.write(target)
    assert target == fold.task()


def test_streams_are_told_of_updates_and_of_nothing_else() -> None:
    assert [
        delivered(entry) for entry in (created(), message_added(says("m2")), status(WORKING), artifact("a", "1"))
    ] == [False, False, True, True]


@settings(deadline=None)
@given(st.integers(min_value=-62_135_596_800_000, max_value=253_402_300_799_999))
def test_a_time_survives_to_the_millisecond(now_ms: int) -> None:
    stamp = status(WORKING, now_ms=now_ms).status_update.status.timestamp
    assert milliseconds(stamp) == now_ms
    assert 0 <= stamp.nanos < 1_000_000_000
    set_timestamp(stamp, 0)
    assert (stamp.seconds, stamp.nanos) == (0, 0)


IDS = st.sampled_from(["a", "b", "c"])
MESSAGES = st.builds(says, st.text("mn", min_size=1, max_size=3), st.sampled_from([1, 2]))
ENTRIES = st.lists(
    st.one_of(
        st.builds(
            status,
            st.sampled_from([WORKING, INPUT_REQUIRED, AUTH_REQUIRED]),
            st.none() | MESSAGES,
            st.integers(0, 10**12),
        ),
        st.builds(message_added, MESSAGES),
        st.builds(artifact, IDS, st.text("xyz", max_size=3), append=st.booleans(), name=st.text("n", max_size=1)),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(ENTRIES, st.data())
def test_a_snapshot_anywhere_and_the_log_after_it_are_the_task(
    entries: list[a2a_pb2.StreamResponse], data: st.DataObject
) -> None:
    log = [created(), *entries]
    at = data.draw(st.integers(1, len(log)))
    fold = Fold()
    for entry in log[:at]:
        fold.apply(entry)
    head, artifacts = fold.to_bytes()
    # The two halves, one after the other, are the task: a reader need not take them apart.
    assert a2a_pb2.Task.FromString(head + artifacts) == fold.task() == folded(*log[:at])
    resumed = Fold.from_bytes(head, artifacts)
    for entry in log[at:]:
        resumed.apply(entry)
    assert resumed.task() == folded(*log)
    assert resumed.state == folded(*log).status.state


@settings(deadline=None)
@given(ENTRIES)
def test_nothing_that_was_said_is_lost_or_doubled(entries: list[a2a_pb2.StreamResponse]) -> None:
    task = folded(created(), *entries)
    said = ["m1"]
    for entry in entries:
        if entry.HasField("message"):
            said.append(entry.message.message_id)
        elif entry.HasField("status_update") and entry.status_update.status.HasField("message"):
            said.append(entry.status_update.status.message.message_id)
    kept = history(task) + ([task.status.message.message_id] if task.status.HasField("message") else [])
    assert sorted(kept) == sorted(said)
    assert [one for one in kept if one in set(said)] == kept
