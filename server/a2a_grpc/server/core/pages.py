"""Page tokens of ListTasks: keyset cursors that any replica can read and that are bound to their filters (3.1.4)."""

import base64
import binascii
import hmac
from hashlib import blake2b
from typing import NamedTuple

from google.protobuf.message import Message

from a2a_grpc.pb import a2a_pb2

_CHECK_BYTES = 8


class Cursor(NamedTuple):
    """The last task of the previous page: its status timestamp in milliseconds since 1970, and its id."""

    timestamp_ms: int
    task_id: str


def filters(request: a2a_pb2.ListTasksRequest, owner: str) -> bytes:
    """A digest of everything that decides which tasks a listing holds; `owner` is the caller's scope.

    Page size, history length and artifacts may change between pages: they don't change the order.
    """
    bound = a2a_pb2.ListTasksRequest(tenant=request.tenant, context_id=request.context_id, status=request.status)
    if request.HasField("status_timestamp_after"):
        bound.status_timestamp_after.CopyFrom(request.status_timestamp_after)
    return digest(bound, owner)


def digest(filters: Message, whose: str) -> bytes:
    """What a page token is bound to: the filters of its listing, and whose it is."""
    return blake2b(filters.SerializeToString(deterministic=True) + b"\0" + whose.encode(), digest_size=16).digest()


def encode(cursor: Cursor, bound_to: bytes) -> str:
    """The token for the page after `cursor` in the listing whose `filters` digest is `bound_to`."""
    body = f"{cursor.timestamp_ms}.{cursor.task_id}".encode()
    return base64.urlsafe_b64encode(_check(body, bound_to) + body).rstrip(b"=").decode()


def decode(token: str, bound_to: bytes) -> Cursor:
    """The cursor in `token`.

    Raises:
        ValueError: the token was damaged, or belongs to a listing with other filters or another caller.
    """
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("not a page token of this service") from None
    check, body = raw[:_CHECK_BYTES], raw[_CHECK_BYTES:]
    if not hmac.compare_digest(check, _check(body, bound_to)):
        raise ValueError("not a page token of this listing")
    stamp, _, task_id = body.decode().partition(".")
    return Cursor(int(stamp), task_id)


def _check(body: bytes, bound_to: bytes) -> bytes:
    return blake2b(body, key=bound_to, digest_size=_CHECK_BYTES).digest()
