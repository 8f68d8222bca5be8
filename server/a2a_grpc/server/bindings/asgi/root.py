"""Addresses that end in a slash: the root of the service, and that of each tenant."""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from a2a_grpc.wire import rules

_ROOT: Final = re.compile(rb"/([^/]+)/")
# What begins the paths of callers that name no tenant; with a slash behind it is a slip, not a tenant.
_TAKEN: Final = frozenset(f"{route.segments[0].literal}{route.action}" for route in rules.ROUTES if not route.fields)


def root_tenant(raw_path: bytes) -> str | None:
    """The tenant whose root `raw_path` is, None where it is no such path."""
    found = _ROOT.fullmatch(raw_path)
    if found is None:
        return None
    try:
        tenant = unquote_to_bytes(found[1]).decode()
    except UnicodeDecodeError:
        return None
    return None if tenant in _TAKEN else tenant
