"""The one place with ProtoJSON rules (sections 5.5 to 5.7): messages to JSON and back, and what JSON may hold.

The limit `max_nesting` counts the lists and objects of free-form data (metadata, params, the data of a part) around a
value, within one field; `_nesting` says exactly how, and what else bounds it.
"""

from a2a_grpc.wire._decode import from_dict, loads
from a2a_grpc.wire._encode import dumps, one_line, to_dict
from a2a_grpc.wire._json import DuplicateKeys, parse
from a2a_grpc.wire._nesting import DEFAULT_NESTING, check_nesting, fault

__all__ = [
    "DEFAULT_NESTING",
    "DuplicateKeys",
    "check_nesting",
    "dumps",
    "fault",
    "from_dict",
    "loads",
    "one_line",
    "parse",
    "to_dict",
]
