"""Patterns of schemas: they find what Python's own matcher finds, and take no more time than their text is long."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from a2a_grpc.wire.patterns import Pattern, PatternError


def found(pattern: str, text: str) -> bool:
    return Pattern(pattern).found_in(text, lambda _: None)


_ATOMS = st.sampled_from(["a", "b", "c", ".", "[ab]", "[^a]", "[a-c1]", r"\d", r"\w", r"\W", r"\s", "(?:)", r"\x61"])
_COUNTS = st.sampled_from(["", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "{0}"])
_EXPRESSIONS = st.recursive(
    st.one_of(_ATOMS, st.sampled_from(["^", "$", r"\b", r"\B"])),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, _COUNTS).map(lambda two: f"({two[0]}){two[1]}"),
    ),
    max_leaves=8,
)


@given(_EXPRESSIONS, st.text("abc1 _-\n", max_size=8))
def test_it_finds_what_others_find(expression: str, text: str) -> None:
    # Python's \B does not match in an empty text (until 3.14); that of ECMA-262 does.
    assume(text or r"\B" not in expression)
    # In Python `$` is also before a line feed at the end, which is not so in ECMA-262; and `.` takes a carriage return.
    assert found(expression, text) == bool(re.search(expression.replace("$", r"\Z"), text, re.ASCII))


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (r"^[a-z0-9]+(?:-[a-z0-9]+)*$", ["a", "a-b", "10-x"], ["", "-a", "a-", "a--b", "A"]),
        (r"^(?<year>\d{4})-\d{2}$", ["2026-11"], ["2026-1", "٢٠٢٦-11", "2026-11\n"]),
        (r"[\u00e9\u{1F600}]", ["café", "😀"], ["cafe"]),
        (r"^[^\]\\-]$", ["a"], ["]", "\\", "-"]),
        (r"^\.\/\{\}$", ["./{}"], ["a/{}"]),
        (r"^\cC\t$", ["\x03\t"], ["C\t"]),
        ("", ["", "x"], []),
        (r"^[]$", [], ["", "a", "]"]),
    ],
)
def test_it_reads_the_dialect_of_json_schema(pattern: str, matching: list[str], others: list[str]) -> None:
    assert [text for text in matching if not found(pattern, text)] == []
    assert [text for text in others if found(pattern, text)] == []


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "(a|aa)+$", "(.*a){12}$", r"^(\w+\s?)*$", "(a?){30}a{30}$"])
def test_what_keeps_other_matchers_busy_for_years_takes_steps_in_proportion(pattern: str) -> None:
    """Twice the text, about twice the steps; with other matchers each character more doubles them."""
    steps = []
    for length in (500, 1000):
        spent: list[int] = []
        Pattern(pattern).found_in("a" * length + "!", spent.append)
        steps.append(sum(spent))
    assert steps[1] < 2.1 * steps[0]


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "[", "[b-a]", "a**", "*", "{2}", "a{", "a{2,1}", r"\q", r"\c1", r"\x4", "(?=a)", "(?<!a)", r"(a)\1",
        r"\k<a>", r"\p{L}", "a{10001}", "(a{100}){100}", "(" * 51 + ")" * 51, "^*", "(?i)a",
    ],
)  # fmt: skip
def test_what_it_does_not_match_it_refuses(pattern: str) -> None:
    with pytest.raises(PatternError, match="cannot be used"):
        Pattern(pattern)


def test_groups_that_are_repeated_within_each_other_are_written_once_for_each() -> None:
    """A reader that goes over a group again for each one around it would take 2 to the 40 steps."""
    assert found("(" * 40 + "a" + ")?" * 40, "a")
