import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Place(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLACE_UNSPECIFIED: _ClassVar[Place]
    PLACE_RUNNING: _ClassVar[Place]
    PLACE_READY: _ClassVar[Place]
    PLACE_LATER: _ClassVar[Place]
PLACE_UNSPECIFIED: Place
PLACE_RUNNING: Place
PLACE_READY: Place
PLACE_LATER: Place

class DeadLetter(_message.Message):
    __slots__ = ("id", "tenant", "owner", "context_id", "task_id", "turn", "reason", "attempts", "create_time", "death_time", "redriven_task_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    DEATH_TIME_FIELD_NUMBER: _ClassVar[int]
    REDRIVEN_TASK_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    tenant: str
    owner: str
    context_id: str
    task_id: str
    turn: int
    reason: str
    attempts: int
    create_time: _timestamp_pb2.Timestamp
    death_time: _timestamp_pb2.Timestamp
    redriven_task_id: str
    def __init__(self, id: _Optional[str] = ..., tenant: _Optional[str] = ..., owner: _Optional[str] = ..., context_id: _Optional[str] = ..., task_id: _Optional[str] = ..., turn: _Optional[int] = ..., reason: _Optional[str] = ..., attempts: _Optional[int] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., death_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., redriven_task_id: _Optional[str] = ...) -> None: ...

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "tenant", "owner")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    tenant: str
    owner: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., tenant: _Optional[str] = ..., owner: _Optional[str] = ...) -> None: ...

class ListDeadLettersResponse(_message.Message):
    __slots__ = ("letters", "next_page_token")
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    next_page_token: str
    def __init__(self, letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetDeadLetterRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetDeadLetterResponse(_message.Message):
    __slots__ = ("letter", "message", "request", "extensions")
    LETTER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    letter: DeadLetter
    message: bytes
    request: bytes
    extensions: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, letter: _Optional[_Union[DeadLetter, _Mapping]] = ..., message: _Optional[bytes] = ..., request: _Optional[bytes] = ..., extensions: _Optional[_Iterable[str]] = ...) -> None: ...

class RedriveDeadLetterRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RedriveDeadLetterResponse(_message.Message):
    __slots__ = ("task_id", "created")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    created: bool
    def __init__(self, task_id: _Optional[str] = ..., created: bool = ...) -> None: ...

class PurgeDeadLettersRequest(_message.Message):
    __slots__ = ("id", "older_than", "all")
    ID_FIELD_NUMBER: _ClassVar[int]
    OLDER_THAN_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    id: str
    older_than: _duration_pb2.Duration
    all: bool
    def __init__(self, id: _Optional[str] = ..., older_than: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., all: bool = ...) -> None: ...

class PurgeDeadLettersResponse(_message.Message):
    __slots__ = ("purged",)
    PURGED_FIELD_NUMBER: _ClassVar[int]
    purged: int
    def __init__(self, purged: _Optional[int] = ...) -> None: ...

class TaskSummary(_message.Message):
    __slots__ = ("id", "tenant", "owner", "context_id", "state", "create_time", "status_time", "holder", "attempt", "attempt_limit", "place")
    ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    STATUS_TIME_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_LIMIT_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    id: str
    tenant: str
    owner: str
    context_id: str
    state: str
    create_time: _timestamp_pb2.Timestamp
    status_time: _timestamp_pb2.Timestamp
    holder: str
    attempt: int
    attempt_limit: int
    place: Place
    def __init__(self, id: _Optional[str] = ..., tenant: _Optional[str] = ..., owner: _Optional[str] = ..., context_id: _Optional[str] = ..., state: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., status_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., holder: _Optional[str] = ..., attempt: _Optional[int] = ..., attempt_limit: _Optional[int] = ..., place: _Optional[_Union[Place, str]] = ...) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "tenant", "owner", "state", "place")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    tenant: str
    owner: str
    state: str
    place: Place
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., tenant: _Optional[str] = ..., owner: _Optional[str] = ..., state: _Optional[str] = ..., place: _Optional[_Union[Place, str]] = ...) -> None: ...

class ListTasksResponse(_message.Message):
    __slots__ = ("tasks", "next_page_token")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[TaskSummary]
    next_page_token: str
    def __init__(self, tasks: _Optional[_Iterable[_Union[TaskSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetTaskRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetTaskResponse(_message.Message):
    __slots__ = ("summary", "task", "seq", "first_seq", "epoch", "turn", "queue", "canceling", "checkpoint_bytes")
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQ_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    CANCELING_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_BYTES_FIELD_NUMBER: _ClassVar[int]
    summary: TaskSummary
    task: bytes
    seq: int
    first_seq: int
    epoch: int
    turn: int
    queue: _containers.RepeatedScalarFieldContainer[int]
    canceling: bool
    checkpoint_bytes: int
    def __init__(self, summary: _Optional[_Union[TaskSummary, _Mapping]] = ..., task: _Optional[bytes] = ..., seq: _Optional[int] = ..., first_seq: _Optional[int] = ..., epoch: _Optional[int] = ..., turn: _Optional[int] = ..., queue: _Optional[_Iterable[int]] = ..., canceling: bool = ..., checkpoint_bytes: _Optional[int] = ...) -> None: ...

class ListTaskEventsRequest(_message.Message):
    __slots__ = ("id", "after_seq", "follow")
    ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQ_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    id: str
    after_seq: int
    follow: bool
    def __init__(self, id: _Optional[str] = ..., after_seq: _Optional[int] = ..., follow: bool = ...) -> None: ...

class ListTaskEventsResponse(_message.Message):
    __slots__ = ("seq", "event")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    seq: int
    event: bytes
    def __init__(self, seq: _Optional[int] = ..., event: _Optional[bytes] = ...) -> None: ...

class DeleteTaskRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class DeleteTaskResponse(_message.Message):
    __slots__ = ("dead_letters",)
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    dead_letters: int
    def __init__(self, dead_letters: _Optional[int] = ...) -> None: ...

class ListReplicasRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListReplicasResponse(_message.Message):
    __slots__ = ("replicas",)
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    def __init__(self, replicas: _Optional[_Iterable[_Union[Replica, _Mapping]]] = ...) -> None: ...

class Replica(_message.Message):
    __slots__ = ("name", "start_time", "beat_age", "turns", "max_turns", "version", "lost")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    BEAT_AGE_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    MAX_TURNS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    name: str
    start_time: _timestamp_pb2.Timestamp
    beat_age: _duration_pb2.Duration
    turns: int
    max_turns: int
    version: str
    lost: bool
    def __init__(self, name: _Optional[str] = ..., start_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., beat_age: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., turns: _Optional[int] = ..., max_turns: _Optional[int] = ..., version: _Optional[str] = ..., lost: bool = ...) -> None: ...
