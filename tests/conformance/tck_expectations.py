"""What the public kit is expected to say, and whether it said that. Strict both ways: see `judge`."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from xml.etree import ElementTree as ET

PROFILES: Final = ("full", "min", "extdecl", "reqext")
KNOWN_FAILURES: Final = Path(__file__).with_name("known_failures.toml")

Outcome = Literal["passed", "failed", "skipped"]

_PACKAGE: Final = "tests.compatibility."


class Result(NamedTuple):
    """One test of the kit. `message` is empty unless it failed or was skipped."""

    test: str
    outcome: Outcome
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFailure:
    """Tests that a correct v1.0.1 server fails in these profiles, and how: their message contains `message`."""

    reason: str
    section: str
    profiles: frozenset[str]
    tests: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSkip:
    """A reason for which the kit may leave tests out in these profiles: their message starts with `message`."""

    reason: str
    profiles: frozenset[str]
    message: str


@dataclass(frozen=True, slots=True)
class Expectations:
    """The contents of the known-failures file."""

    failures: tuple[KnownFailure, ...]
    skips: tuple[KnownSkip, ...]


@dataclass(slots=True)
class Verdict:
    """Counts per transport, and one sentence for each thing that is not as expected."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)


def load_expectations(path: Path = KNOWN_FAILURES) -> Expectations:
    """Reads a known-failures file. Raises ValueError for an entry without reason or section, or an unknown profile."""
    raw = tomllib.loads(path.read_text())
    failures = tuple(
        KnownFailure(
            reason=_text(entry, "reason"),
            section=_text(entry, "section"),
            profiles=_profiles(entry),
            tests=tuple(entry["tests"]),
            message=_text(entry, "message"),
        )
        for entry in raw.pop("failure", [])
    )
    skips = tuple(
        KnownSkip(reason=_text(entry, "reason"), profiles=_profiles(entry), message=_text(entry, "message"))
        for entry in raw.pop("skip", [])
    )
    if raw:
        raise ValueError(f"unknown tables in {path.name}: {', '.join(raw)}")
    return Expectations(failures, skips)


def read_results(path: Path) -> list[Result]:
    """The tests in a JUnit file, named "module.Class::test[parameters]" below the kit's test package.

    A test that the kit marks as an expected failure (its SHOULD level) counts as failed: we mean to meet those too.
    """
    results = []
    for case in ET.parse(path).iter("testcase"):  # noqa: S314 - our own run wrote it
        name = f"{case.get('classname', '').removeprefix(_PACKAGE)}::{case.get('name', '')}"
        outcome: Outcome = "passed"
        message = ""
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                left_out = child.tag == "skipped" and child.get("type") != "pytest.xfail"
                outcome = "skipped" if left_out else "failed"
                message = child.get("message") or child.text or ""
        results.append(Result(name, outcome, message))
    return results


def judge(profile: str, results: Iterable[Result], expectations: Expectations) -> Verdict:
    """Compares a run of one profile with what is expected.

    A failure or a skip that no entry explains is a surprise; so is a known failure that passes, that is left out, or
    that the kit no longer has, and a known skip that never happens.
    """
    verdict = Verdict()
    known = {
        test: failure for failure in expectations.failures if profile in failure.profiles for test in failure.tests
    }
    skips = {skip: 0 for skip in expectations.skips if profile in skip.profiles}
    tests = set()
    for result in results:
        tests.add(result.test)
        kind: str = result.outcome
        failure = known.get(result.test)
        if failure is not None:
            kind = "known failure"
            if result.outcome != "failed":
                kind = "surprise"
                verdict.surprises.append(f"{result.test} {result.outcome}, though a known failure: drop the entry")
            elif failure.message not in result.message:
                kind = "surprise"
                verdict.surprises.append(f"{result.test} failed in another way than known: {_line(result.message)}")
        elif result.outcome == "failed":
            kind = "surprise"
            verdict.surprises.append(f"{result.test} failed: {_line(result.message)}")
        elif result.outcome == "skipped":
            explained = [skip for skip in skips if result.message.startswith(skip.message)]
            for skip in explained:
                skips[skip] += 1
            if not explained:
                kind = "surprise"
                verdict.surprises.append(f"{result.test} was left out: {_line(result.message)}")
        verdict.counts.setdefault(transport_of(result.test), Counter())[kind] += 1
    verdict.surprises.extend(
        f"{test} is a known failure that the kit does not have" for test in sorted(known.keys() - tests)
    )
    verdict.surprises.extend(
        f"no test was left out because of {skip.message!r}: drop the entry" for skip, seen in skips.items() if not seen
    )
    return verdict


def transport_of(test: str) -> str:
    """Which binding a test of the kit is about, for counting: "GRPC", "HTTP+JSON", "JSONRPC", "card" or "any"."""
    if test.startswith("agent_card."):
        return "card"
    parameter = re.search(r"[\[-](grpc|http_json|jsonrpc)\]$", test)
    text = parameter[1] if parameter else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", test).lower()
    for pattern, transport in (
        (r"json_?rpc", "JSONRPC"),
        (r"http_json|rest(?![a-z])", "HTTP+JSON"),
        (r"grpc", "GRPC"),
    ):
        if re.search(pattern, text):
            return transport
    return "any"


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"an entry of the known-failures file has no {key}: {entry}")
    return value


def _profiles(entry: dict[str, Any]) -> frozenset[str]:
    listed = entry.get("profiles")
    if not isinstance(listed, list) or not listed or not set(listed) <= set(PROFILES):
        raise ValueError(f"an entry of the known-failures file needs profiles out of {', '.join(PROFILES)}: {entry}")
    return frozenset(listed)


def _line(message: str) -> str:
    return " ".join(message.split())[:300]
