"""Reading server-sent events from bytes that are cut anywhere."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from a2a_grpc.client import InvalidAgentResponseError
from a2a_grpc.client.transports.sse import EventDecoder, ServerSentEvent


def decode(*chunks: bytes, limit: int = 1000) -> list[ServerSentEvent]:
    decoder = EventDecoder(limit)
    return [event for chunk in chunks for event in decoder.feed(chunk)]


def test_fields_comments_and_several_lines_of_data() -> None:
    stream = b": heartbeat\n\nevent: error\nid: 7\nretry: 10\ndata: one\ndata:two\n\nid: 8\ndata: three\n\n"

    assert decode(stream) == [
        ServerSentEvent("error", b"one\ntwo", "7"),
        ServerSentEvent("", b"three", "8"),
    ]


def test_an_event_without_its_blank_line_is_none() -> None:
    assert decode(b"data: whole\n\ndata: cut") == [ServerSentEvent("", b"whole", "")]
    assert decode(b"data: whole\n\ndata: cut\n") == [ServerSentEvent("", b"whole", "")]


def test_only_cr_and_lf_end_a_line() -> None:
    """str.splitlines also splits at these, which JSON text may hold as they are."""
    text = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg"

    assert decode(f"data: {text}\n\n".encode()) == [ServerSentEvent("", text.encode(), "")]


def test_a_chunk_that_ends_within_cr_lf_ends_one_line() -> None:
    assert decode(b"data: a\r", b"\ndata: b\r", b"\n\r\n") == [ServerSentEvent("", b"a\nb", "")]


def test_a_byte_order_mark_before_the_first_line_is_skipped() -> None:
    assert decode(b"\xef\xbb\xbfdata: x\n\n") == [ServerSentEvent("", b"x", "")]


def test_an_event_beyond_the_limit_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(InvalidAgentResponseError, match="longer than 10 bytes"):
        decode(b"data: 0123456789", limit=10)
    with pytest.raises(InvalidAgentResponseError, match="longer than 10 bytes"):
        decode(*[b"data: 12345\n"] * 3, limit=10)


@settings(deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1), max_size=4),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 400), max_size=6),
)
def test_it_does_not_matter_where_the_chunks_are_cut(texts: list[str], end: str, cuts: list[int]) -> None:
    stream = "".join(f"data: {text}{end}{end}" for text in texts).encode()
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[a:b] for a, b in itertools.pairwise(places)]

    assert [event.data.decode() for event in decode(*chunks, limit=10_000)] == texts
