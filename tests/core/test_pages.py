"""Page tokens: what was put in comes out, on any replica, for the same listing only (3.1.4)."""

import base64

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core import ids, pages
from a2a_grpc.server.core.pages import Cursor

BASE = a2a_pb2.ListTasksRequest(tenant="t", context_id="c", status=a2a_pb2.TASK_STATE_WORKING)
BOUND = pages.filters(BASE, "owner")
CURSORS = st.builds(Cursor, st.integers(0, 2**53), st.integers(0, 4095).map(ids.new_task_id))


def changed(**fields: object) -> a2a_pb2.ListTasksRequest:
    request = a2a_pb2.ListTasksRequest()
    request.CopyFrom(BASE)
    for name, value in fields.items():
        if isinstance(value, Timestamp):
            getattr(request, name).CopyFrom(value)
        else:
            setattr(request, name, value)
    return request


@settings(deadline=None)
@given(CURSORS, st.text(max_size=8), st.text(max_size=8))
def test_a_token_leads_back_to_its_cursor(cursor: Cursor, context: str, owner: str) -> None:
    request = a2a_pb2.ListTasksRequest(context_id=context)
    token = pages.encode(cursor, pages.filters(request, owner))
    again = a2a_pb2.ListTasksRequest(context_id=context, page_token=token, page_size=7, include_artifacts=True)
    assert pages.decode(token, pages.filters(again, owner)) == cursor
    # It travels in a query string as it is.
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(
    "other",
    [
        pages.filters(BASE, "somebody else"),
        pages.filters(changed(tenant=""), "owner"),
        pages.filters(changed(context_id="d"), "owner"),
        pages.filters(changed(status=a2a_pb2.TASK_STATE_COMPLETED), "owner"),
        pages.filters(changed(status_timestamp_after=Timestamp(seconds=0)), "owner"),
        pages.filters(changed(status_timestamp_after=Timestamp(seconds=1)), "owner"),
    ],
    ids=["owner", "tenant", "context", "status", "any time", "a time"],
)
def test_a_token_of_another_listing_is_refused(other: bytes) -> None:
    token = pages.encode(Cursor(1_700_000_000_000, ids.new_task_id(0)), BOUND)
    with pytest.raises(ValueError, match="listing"):
        pages.decode(token, other)


@pytest.mark.parametrize("fields", [{"page_size": 3}, {"history_length": 2}, {"include_artifacts": True}])
def test_what_does_not_change_the_listing_may_change_between_pages(fields: dict[str, object]) -> None:
    assert pages.filters(changed(**fields), "owner") == BOUND


@settings(deadline=None)
@given(CURSORS, st.data())
def test_a_changed_token_is_refused_or_means_the_same(cursor: Cursor, data: st.DataObject) -> None:
    token = pages.encode(cursor, BOUND)
    at = data.draw(st.integers(0, len(token) - 1))
    put = data.draw(st.characters(codec="utf-8"))
    tampered = token[:at] + put + token[at + 1 :]
    try:
        assert pages.decode(tampered, BOUND) == cursor  # only bits that base64 ignores
        assert base64.urlsafe_b64decode(tampered + "==") == base64.urlsafe_b64decode(token + "==")
    except ValueError as error:
        assert str(error).startswith("not a page token of this ")


@settings(deadline=None)
@given(st.text(max_size=60))
def test_junk_is_refused_in_words_of_ours(junk: str) -> None:
    with pytest.raises(ValueError, match=r"^not a page token of this "):
        pages.decode(junk, BOUND)


@settings(deadline=None)
@given(CURSORS, st.integers(1, 20))
def test_a_cut_token_is_refused(cursor: Cursor, length: int) -> None:
    with pytest.raises(ValueError, match=r"^not a page token of this "):
        pages.decode(pages.encode(cursor, BOUND)[:-length], BOUND)
