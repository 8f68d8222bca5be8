"""Service parameters (section 3.2.6) and the media types of the HTTP bindings.

Names are lower-case: gRPC metadata must be, HTTP headers may be.
"""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

A2A_VERSION: Final = "a2a-version"
A2A_EXTENSIONS: Final = "a2a-extensions"
LAST_EVENT_ID: Final = "last-event-id"
REQUEST_ID: Final = "x-request-id"

SUPPORTED_VERSION: Final = "1.0"

MEDIA_TYPE_A2A: Final = "application/a2a+json"
MEDIA_TYPE_JSON: Final = "application/json"
MEDIA_TYPE_SSE: Final = "text/event-stream"

_VERSION: Final = re.compile(r"(0|[1-9][0-9]{0,4})\.(0|[1-9][0-9]{0,4})(?:\.(?:0|[1-9][0-9]{0,4}))?")

# More than anybody waits, and little enough to reckon with.
_LONGEST_DELAY: Final = 999_999_999.0

# A store counts in 64 bits.
_EVENT_ID: Final = re.compile(r"[0-9]{1,18}")


def parse_version(text: str) -> tuple[int, int] | None:
    """Major and minor of an A2A-Version value; a patch number is ignored (section 3.6). None for anything else.

    The empty value gives None too: what it means (0.3, section 3.6.2) is the server's decision, not a matter of form.
    """
    match = _VERSION.fullmatch(text.strip())
    return (int(match.group(1)), int(match.group(2))) if match else None


def parse_event_id(text: str) -> int | None:
    """The number of an event in a Last-Event-ID value; 0 stands before the first event. None for anything else."""
    match = _EVENT_ID.fullmatch(text.strip())
    return int(match.group()) if match else None


def parse_extensions(text: str) -> tuple[str, ...]:
    """The URIs of an A2A-Extensions value, in their order, each once; empty items are skipped."""
    return tuple(dict.fromkeys(uri for item in text.split(",") if (uri := item.strip())))


def format_extensions(uris: Iterable[str]) -> str:
    """The value of A2A-Extensions for these URIs."""
    return ",".join(dict.fromkeys(uris))


def parse_retry_after(text: str) -> float | None:
    """The seconds that a Retry-After value asks for, in either form (RFC 9110, 10.2.3). None for anything else."""
    text = text.strip()
    try:
        if text.isascii() and text.isdecimal():
            return min(float(text), _LONGEST_DELAY)
        when = parsedate_to_datetime(text)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, (when - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None
