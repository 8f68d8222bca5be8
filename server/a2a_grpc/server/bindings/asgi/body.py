"""Request bodies, bounded."""

from collections.abc import Mapping

from a2a_grpc.server.bindings.asgi.exchange import CallerGoneError
from a2a_grpc.server.bindings.asgi.types import Receive
from a2a_grpc.wire.errors import PayloadTooLargeError


def body_limit(max_message_bytes: int) -> int:
    r"""The bytes of JSON that a message of `max_message_bytes` (of protobuf) may need.

    Base64 makes 4 of 3 bytes. Text is worse: many JSON libraries write every character outside ASCII as \uXXXX, so the
    two UTF-8 bytes of a Cyrillic letter become six. Three times covers both; the slack is for names and brackets.
    """
    return 3 * max_message_bytes + 64 * 1024


def check_size(size: int, max_message_bytes: int) -> None:
    """Raise PayloadTooLargeError for a parsed message of `size` protobuf bytes: the same limit as on gRPC."""
    if size > max_message_bytes:
        raise PayloadTooLargeError(f"The message has {size} bytes; at most {max_message_bytes} are accepted.")


def has_body(parameters: Mapping[str, str]) -> bool:
    """Whether the headers announce a body (RFC 9112 section 6.3)."""
    return "transfer-encoding" in parameters or parameters.get("content-length", "0") != "0"


async def read_body(receive: Receive, parameters: Mapping[str, str], limit: int) -> bytes:
    """The whole body of a request. How long it may take is the connection's business.

    Raises PayloadTooLargeError above `limit` bytes (before reading, where Content-Length tells), and CallerGoneError
    when the caller hangs up in the middle.
    """
    declared = parameters.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise CallerGoneError
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise _too_large(limit)
        if not message.get("more_body", False):
            return b"".join((*chunks, chunk)) if chunks else chunk
        chunks.append(chunk)


def _too_large(limit: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(f"The body is larger than {limit} bytes.")
