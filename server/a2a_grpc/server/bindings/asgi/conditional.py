"""Conditional requests (RFC 9110 section 13): whether the caller's copy is still good."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_ENTITY_TAG = re.compile(r'(?:W/)?("[^"]*")')


def etag_matches(parameters: Mapping[str, str], etag: str) -> bool:
    """The same for what has a tag and no date."""
    tags = parameters.get("if-none-match")
    return tags is not None and (tags.strip() == "*" or etag in _ENTITY_TAG.findall(tags))


def is_fresh(parameters: Mapping[str, str], etag: str, last_modified: datetime) -> bool:
    """Whether a GET with these headers is answered 304. `etag` is a strong tag with its quotes.

    If-None-Match is compared weakly, against a list or "*"; where it is present, If-Modified-Since is ignored (13.2.2).
    A header that makes no sense is one that was not sent.
    """
    if "if-none-match" in parameters:
        return etag_matches(parameters, etag)
    since = parameters.get("if-modified-since")
    if since is None:
        return False
    try:
        date = parsedate_to_datetime(since)
    except ValueError:
        return False
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    # HTTP dates have whole seconds.
    return last_modified.replace(microsecond=0) <= date
