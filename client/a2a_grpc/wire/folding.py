"""How a task is folded from what happened to it: the same for the log of the service and for a stream at its reader.

What happened is a `StreamResponse`: a Task is what is known from there on, a status or an artifact changes it, and a
message joins the history.
"""

from a2a_grpc.pb import a2a_pb2


class Fold:
    """A task being folded from its log, entry by entry, each in time that does not grow with the task.

    Artifacts are kept apart from the rest so that a reader who does not want them never loads them. The two halves are
    both `Task` messages: their serialised forms, one after the other, are the serialised task.
    """

    __slots__ = ("_artifacts", "_head", "_positions", "_snapshot")

    def __init__(self, head: a2a_pb2.Task | None = None) -> None:
        """`head` is a task without artifacts, from now on the fold's own."""
        self._head = head if head is not None else a2a_pb2.Task()
        self._artifacts = a2a_pb2.Task()
        self._positions: dict[str, int] | None = None
        self._snapshot: tuple[bytes, bytes] | None = None
        """What the two are still to be parsed from: most tasks that are read are only passed on."""

    @classmethod
    def from_bytes(cls, head: bytes, artifacts: bytes) -> "Fold":
        """The fold that stands at a snapshot made by `to_bytes`."""
        fold = cls()
        fold._snapshot = (head, artifacts)
        return fold

    @property
    def head(self) -> a2a_pb2.Task:
        """The task without its artifacts."""
        if self._snapshot is not None:
            self._parse(*self._snapshot)
        return self._head

    @property
    def artifacts(self) -> a2a_pb2.Task:
        """A task with nothing but the artifacts."""
        if self._snapshot is not None:
            self._parse(*self._snapshot)
        return self._artifacts

    def _parse(self, head: bytes, artifacts: bytes) -> None:
        self._snapshot = None
        self._head.ParseFromString(head)
        self._artifacts.ParseFromString(artifacts)

    def to_bytes(self) -> tuple[bytes, bytes]:
        """The snapshot: the serialised head and the serialised artifacts."""
        return self.head.SerializeToString(), self.artifacts.SerializeToString()

    @property
    def state(self) -> a2a_pb2.TaskState:
        """The state the task is in."""
        return self.head.status.state

    def task(self) -> a2a_pb2.Task:
        """A copy of the whole task, the caller's to change."""
        task = a2a_pb2.Task()
        self.write(task)
        return task

    def write(self, task: a2a_pb2.Task) -> None:
        """Make `task` a copy of the whole task."""
        if self._snapshot is not None:
            task.ParseFromString(b"".join(self._snapshot))
        else:
            task.CopyFrom(self._head)
            task.MergeFrom(self._artifacts)

    def apply(self, response: a2a_pb2.StreamResponse) -> None:
        """Fold one entry. A replaced status message moves into the history once (3.7)."""
        match response.WhichOneof("payload"):
            case "status_update":
                self._status(response.status_update.status)
            case "artifact_update":
                self._artifact(response.artifact_update)
            case "message":
                self._message(response.message)
            case "task":
                self.head.CopyFrom(response.task)
                self.head.ClearField("artifacts")
                self.artifacts.Clear()
                self.artifacts.artifacts.extend(response.task.artifacts)
                self._positions = None

    def _message(self, message: a2a_pb2.Message) -> None:
        # An answer comes after its question. (At AUTH_REQUIRED the explanation stays: 7.6.1.)
        if self.state == a2a_pb2.TASK_STATE_INPUT_REQUIRED and self.head.status.HasField("message"):
            self.head.history.append(self.head.status.message)
            self.head.status.ClearField("message")
        self.head.history.append(message)

    def _status(self, status: a2a_pb2.TaskStatus) -> None:
        if self.head.status.HasField("message"):
            self.head.history.append(self.head.status.message)
        self.head.status.CopyFrom(status)

    def _artifact(self, update: a2a_pb2.TaskArtifactUpdateEvent) -> None:
        # 4.2.2: append=true adds parts to the artifact of that id, append=false replaces it. The first chunk of an
        # artifact that nobody has seen yet starts it either way: dropping content would be worse.
        artifacts, written = self.artifacts.artifacts, update.artifact
        if self._positions is None:
            self._positions = {artifact.artifact_id: at for at, artifact in enumerate(artifacts)}
        at = self._positions.get(written.artifact_id)
        if at is None:
            self._positions[written.artifact_id] = len(artifacts)
            artifacts.append(written)
            return
        artifact = artifacts[at]
        if not update.append:
            artifact.CopyFrom(written)
            return
        artifact.MergeFrom(written)
        if written.extensions:
            artifact.extensions[:] = dict.fromkeys(artifact.extensions)
