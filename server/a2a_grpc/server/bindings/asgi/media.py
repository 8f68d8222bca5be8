"""Media types of requests and responses."""

from collections.abc import Mapping
from functools import lru_cache

from a2a_grpc.wire.errors import UnsupportedMediaTypeError, excerpt
from a2a_grpc.wire.headers import MEDIA_TYPE_A2A, MEDIA_TYPE_JSON

JSON = MEDIA_TYPE_JSON.encode()
A2A_JSON = MEDIA_TYPE_A2A.encode()


@lru_cache(maxsize=64)
def media_type(content_type: str) -> str:
    """The type itself: in lower case, without parameters."""
    return content_type.partition(";")[0].strip().lower()


@lru_cache(maxsize=64)
def response_type(content_type: str, accept: str) -> bytes:
    """What a JSON answer is called: application/a2a+json (11.1), or application/json if the request said that.

    Accept decides where it names one of the two; else the request's own type does.
    """
    accepted = {media_type(item) for item in accept.split(",")}
    if MEDIA_TYPE_A2A in accepted:
        return A2A_JSON
    if MEDIA_TYPE_JSON in accepted or media_type(content_type) == MEDIA_TYPE_JSON:
        return JSON
    return A2A_JSON


def check_json(parameters: Mapping[str, str], accepted: frozenset[str]) -> None:
    """Raise UnsupportedMediaTypeError unless the body is said to be JSON, uncompressed.

    A body without Content-Type is taken for JSON. Charsets are not looked at: JSON is UTF-8 (14.1.1, RFC 8259).
    """
    encoding = parameters.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise UnsupportedMediaTypeError(
            f"Content-Encoding {excerpt(encoding, 64)} is not accepted; send the body uncompressed."
        )
    content_type = parameters.get("content-type", "")
    if content_type and media_type(content_type) not in accepted:
        raise UnsupportedMediaTypeError(
            f"Content-Type {excerpt(content_type, 64)} is not accepted; send {' or '.join(sorted(accepted))}."
        )
