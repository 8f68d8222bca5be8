import datetime

from google.api import annotations_pb2 as _annotations_pb2
from google.api import field_behavior_pb2 as _field_behavior_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Detail(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DETAIL_UNSPECIFIED: _ClassVar[Detail]
    DETAIL_PUBLIC: _ClassVar[Detail]
    DETAIL_FULL: _ClassVar[Detail]
    DETAIL_OWNER: _ClassVar[Detail]

class HealthState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HEALTH_STATE_UNSPECIFIED: _ClassVar[HealthState]
    HEALTH_STATE_UNKNOWN: _ClassVar[HealthState]
    HEALTH_STATE_HEALTHY: _ClassVar[HealthState]
    HEALTH_STATE_UNREACHABLE: _ClassVar[HealthState]

class SignatureState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SIGNATURE_STATE_UNSPECIFIED: _ClassVar[SignatureState]
    SIGNATURE_STATE_UNSIGNED: _ClassVar[SignatureState]
    SIGNATURE_STATE_VERIFIED: _ClassVar[SignatureState]
    SIGNATURE_STATE_UNTRUSTED: _ClassVar[SignatureState]

class Capability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAPABILITY_UNSPECIFIED: _ClassVar[Capability]
    CAPABILITY_STREAMING: _ClassVar[Capability]
    CAPABILITY_PUSH_NOTIFICATIONS: _ClassVar[Capability]
    CAPABILITY_EXTENDED_AGENT_CARD: _ClassVar[Capability]
DETAIL_UNSPECIFIED: Detail
DETAIL_PUBLIC: Detail
DETAIL_FULL: Detail
DETAIL_OWNER: Detail
HEALTH_STATE_UNSPECIFIED: HealthState
HEALTH_STATE_UNKNOWN: HealthState
HEALTH_STATE_HEALTHY: HealthState
HEALTH_STATE_UNREACHABLE: HealthState
SIGNATURE_STATE_UNSPECIFIED: SignatureState
SIGNATURE_STATE_UNSIGNED: SignatureState
SIGNATURE_STATE_VERIFIED: SignatureState
SIGNATURE_STATE_UNTRUSTED: SignatureState
CAPABILITY_UNSPECIFIED: Capability
CAPABILITY_STREAMING: Capability
CAPABILITY_PUSH_NOTIFICATIONS: Capability
CAPABILITY_EXTENDED_AGENT_CARD: Capability

class Health(_message.Message):
    __slots__ = ("state", "state_time", "check_time", "reason")
    STATE_FIELD_NUMBER: _ClassVar[int]
    STATE_TIME_FIELD_NUMBER: _ClassVar[int]
    CHECK_TIME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    state: HealthState
    state_time: _timestamp_pb2.Timestamp
    check_time: _timestamp_pb2.Timestamp
    reason: str
    def __init__(self, state: _Optional[_Union[HealthState, str]] = ..., state_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., check_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class Lease(_message.Message):
    __slots__ = ("ttl_seconds", "expire_time", "renew_time")
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    EXPIRE_TIME_FIELD_NUMBER: _ClassVar[int]
    RENEW_TIME_FIELD_NUMBER: _ClassVar[int]
    ttl_seconds: int
    expire_time: _timestamp_pb2.Timestamp
    renew_time: _timestamp_pb2.Timestamp
    def __init__(self, ttl_seconds: _Optional[int] = ..., expire_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., renew_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class Agent(_message.Message):
    __slots__ = ("id", "detail", "card", "url", "public", "health", "signature", "signature_key_id", "create_time", "lease", "history")
    ID_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_KEY_ID_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    LEASE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    id: str
    detail: Detail
    card: _struct_pb2.Struct
    url: str
    public: bool
    health: Health
    signature: SignatureState
    signature_key_id: str
    create_time: _timestamp_pb2.Timestamp
    lease: Lease
    history: _containers.RepeatedCompositeFieldContainer[Health]
    def __init__(self, id: _Optional[str] = ..., detail: _Optional[_Union[Detail, str]] = ..., card: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., url: _Optional[str] = ..., public: bool = ..., health: _Optional[_Union[Health, _Mapping]] = ..., signature: _Optional[_Union[SignatureState, str]] = ..., signature_key_id: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., lease: _Optional[_Union[Lease, _Mapping]] = ..., history: _Optional[_Iterable[_Union[Health, _Mapping]]] = ...) -> None: ...

class RegisterAgentRequest(_message.Message):
    __slots__ = ("url", "card", "public", "ttl_seconds", "instance")
    URL_FIELD_NUMBER: _ClassVar[int]
    CARD_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    url: str
    card: _struct_pb2.Struct
    public: bool
    ttl_seconds: int
    instance: str
    def __init__(self, url: _Optional[str] = ..., card: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., public: bool = ..., ttl_seconds: _Optional[int] = ..., instance: _Optional[str] = ...) -> None: ...

class RegisterAgentResponse(_message.Message):
    __slots__ = ("agent", "created")
    AGENT_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    agent: Agent
    created: bool
    def __init__(self, agent: _Optional[_Union[Agent, _Mapping]] = ..., created: bool = ...) -> None: ...

class RenewAgentRequest(_message.Message):
    __slots__ = ("id", "ttl_seconds", "instance")
    ID_FIELD_NUMBER: _ClassVar[int]
    TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    ttl_seconds: int
    instance: str
    def __init__(self, id: _Optional[str] = ..., ttl_seconds: _Optional[int] = ..., instance: _Optional[str] = ...) -> None: ...

class RenewAgentResponse(_message.Message):
    __slots__ = ("lease",)
    LEASE_FIELD_NUMBER: _ClassVar[int]
    lease: Lease
    def __init__(self, lease: _Optional[_Union[Lease, _Mapping]] = ...) -> None: ...

class WithdrawAgentRequest(_message.Message):
    __slots__ = ("id", "instance")
    ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    id: str
    instance: str
    def __init__(self, id: _Optional[str] = ..., instance: _Optional[str] = ...) -> None: ...

class WithdrawAgentResponse(_message.Message):
    __slots__ = ("withdrawn",)
    WITHDRAWN_FIELD_NUMBER: _ClassVar[int]
    withdrawn: bool
    def __init__(self, withdrawn: bool = ...) -> None: ...

class GetAgentRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetAgentResponse(_message.Message):
    __slots__ = ("agent",)
    AGENT_FIELD_NUMBER: _ClassVar[int]
    agent: Agent
    def __init__(self, agent: _Optional[_Union[Agent, _Mapping]] = ...) -> None: ...

class SearchAgentsRequest(_message.Message):
    __slots__ = ("text", "skill", "tag", "provider", "capabilities", "binding", "input_mode", "output_mode", "health", "signature", "mine", "page_size", "page_token")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    SKILL_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    BINDING_FIELD_NUMBER: _ClassVar[int]
    INPUT_MODE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_MODE_FIELD_NUMBER: _ClassVar[int]
    HEALTH_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    MINE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    text: str
    skill: str
    tag: str
    provider: str
    capabilities: _containers.RepeatedScalarFieldContainer[Capability]
    binding: str
    input_mode: str
    output_mode: str
    health: HealthState
    signature: SignatureState
    mine: bool
    page_size: int
    page_token: str
    def __init__(self, text: _Optional[str] = ..., skill: _Optional[str] = ..., tag: _Optional[str] = ..., provider: _Optional[str] = ..., capabilities: _Optional[_Iterable[_Union[Capability, str]]] = ..., binding: _Optional[str] = ..., input_mode: _Optional[str] = ..., output_mode: _Optional[str] = ..., health: _Optional[_Union[HealthState, str]] = ..., signature: _Optional[_Union[SignatureState, str]] = ..., mine: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class SearchAgentsResponse(_message.Message):
    __slots__ = ("agents", "next_page_token")
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    agents: _containers.RepeatedCompositeFieldContainer[Agent]
    next_page_token: str
    def __init__(self, agents: _Optional[_Iterable[_Union[Agent, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
