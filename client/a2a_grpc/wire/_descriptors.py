"""What the codecs ask a descriptor."""

from typing import cast

from google.api import field_behavior_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message


def descriptor_of(message: Message) -> Descriptor:
    """The descriptor of a message, as the one type that the stubs know."""
    return cast("Descriptor", message.DESCRIPTOR)


def map_value(field: FieldDescriptor) -> FieldDescriptor | None:
    """The value field of a map; None for any other field. Only maps with string keys are understood."""
    entry = field.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return None
    if entry.fields_by_name["key"].type != FieldDescriptor.TYPE_STRING:
        raise TypeError(f"{field.full_name}: no ProtoJSON rule for keys of this type yet; add it to wire")
    return entry.fields_by_name["value"]


def is_required(field: FieldDescriptor) -> bool:
    """Whether the proto marks the field as REQUIRED (section 5.7)."""
    behaviors = field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    return field_behavior_pb2.REQUIRED in behaviors


def is_of(field: FieldDescriptor, full_name: str) -> bool:
    """Whether the field holds messages of this type."""
    return field.message_type is not None and field.message_type.full_name == full_name
