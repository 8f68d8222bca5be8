"""The comparison of the public kit's results with known_failures.toml sees every way in which the two can differ."""

from pathlib import Path

import pytest

from tests.conformance.tck_expectations import (
    Expectations,
    Outcome,
    Result,
    judge,
    load_expectations,
    read_results,
    transport_of,
)

KNOWN = """
[[failure]]
reason = "the table of v1.0.0"
section = "5.4"
profiles = ["full"]
message = "expected UNIMPLEMENTED"
tests = ["grpc.test_status.TestCodes::test_version"]

[[skip]]
reason = "streaming is on"
profiles = ["full"]
message = "Agent supports streaming"
"""
FAILURE = Result("grpc.test_status.TestCodes::test_version", "failed", "expected UNIMPLEMENTED, got ABORTED")
SKIP = Result("http_json.test_status.TestCodes::test_off", "skipped", "Agent supports streaming; cannot see its error")
PASS = Result("core_operations.test_artifacts.TestText::test_text[jsonrpc]", "passed", "")


@pytest.fixture
def known(tmp_path: Path) -> Expectations:
    path = tmp_path / "known.toml"
    path.write_text(KNOWN)
    return load_expectations(path)


def test_what_is_known_is_no_surprise(known: Expectations) -> None:
    verdict = judge("full", [FAILURE, SKIP, PASS], known)
    assert verdict.surprises == []
    assert verdict.counts == {"GRPC": {"known failure": 1}, "HTTP+JSON": {"skipped": 1}, "JSONRPC": {"passed": 1}}


def test_a_new_failure_is_a_surprise(known: Expectations) -> None:
    verdict = judge("full", [FAILURE, SKIP, PASS._replace(outcome="failed", message="no\n  artifact")], known)
    assert verdict.surprises == [f"{PASS.test} failed: no artifact"]
    assert verdict.counts["JSONRPC"] == {"surprise": 1}


@pytest.mark.parametrize("outcome", ["passed", "skipped"])
def test_a_known_failure_that_does_not_fail_is_a_surprise(known: Expectations, outcome: Outcome) -> None:
    verdict = judge("full", [FAILURE._replace(outcome=outcome, message=""), SKIP], known)
    assert verdict.surprises == [f"{FAILURE.test} {outcome}, though a known failure: drop the entry"]


def test_a_known_failure_with_another_message_is_a_surprise(known: Expectations) -> None:
    verdict = judge("full", [FAILURE._replace(message="connection refused"), SKIP], known)
    assert verdict.surprises == [f"{FAILURE.test} failed in another way than known: connection refused"]


def test_a_known_failure_that_the_kit_no_longer_has_is_a_surprise(known: Expectations) -> None:
    verdict = judge("full", [SKIP], known)
    assert verdict.surprises == [f"{FAILURE.test} is a known failure that the kit does not have"]


def test_a_skip_that_nobody_explained_is_a_surprise(known: Expectations) -> None:
    verdict = judge("full", [FAILURE, SKIP, PASS._replace(outcome="skipped", message="send_message failed: x")], known)
    assert verdict.surprises == [f"{PASS.test} was left out: send_message failed: x"]


def test_a_known_skip_that_never_happens_is_a_surprise(known: Expectations) -> None:
    verdict = judge("full", [FAILURE], known)
    assert verdict.surprises == ["no test was left out because of 'Agent supports streaming': drop the entry"]


def test_entries_count_only_in_their_profiles(known: Expectations) -> None:
    verdict = judge("min", [FAILURE, SKIP], known)
    assert verdict.surprises == [
        f"{FAILURE.test} failed: {FAILURE.message}",
        f"{SKIP.test} was left out: {SKIP.message}",
    ]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (('reason = "the table of v1.0.0"', ""), "no reason"),
        (('section = "5.4"', 'section = " "'), "no section"),
        (('profiles = ["full"]', 'profiles = ["complete"]'), "profiles out of full, min, extdecl, reqext"),
        (("[[skip]]", "[[skipped]]"), "unknown tables"),
    ],
)
def test_an_entry_says_why_and_where(tmp_path: Path, change: tuple[str, str], complaint: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(KNOWN.replace(*change, 1))
    with pytest.raises(ValueError, match=complaint):
        load_expectations(path)


def test_results_are_read_from_junit(tmp_path: Path) -> None:
    report = tmp_path / "kit.xml"
    report.write_text(
        """<testsuites><testsuite>
        <testcase classname="tests.compatibility.grpc.test_a.TestA" name="test_passes"/>
        <testcase classname="tests.compatibility.grpc.test_a.TestA" name="test_fails"><failure message="no"/></testcase>
        <testcase classname="tests.compatibility.grpc.test_a.TestA" name="test_breaks"><error message="bad"/></testcase>
        <testcase classname="tests.compatibility.test_b" name="test_should[x-grpc]">
          <skipped type="pytest.xfail" message="should be"/></testcase>
        <testcase classname="tests.compatibility.test_b" name="test_off">
          <skipped type="pytest.skip" message="off"/></testcase>
        </testsuite></testsuites>"""
    )
    assert read_results(report) == [
        Result("grpc.test_a.TestA::test_passes", "passed", ""),
        Result("grpc.test_a.TestA::test_fails", "failed", "no"),
        Result("grpc.test_a.TestA::test_breaks", "failed", "bad"),
        Result("test_b::test_should[x-grpc]", "failed", "should be"),
        Result("test_b::test_off", "skipped", "off"),
    ]


@pytest.mark.parametrize(
    ("test", "transport"),
    [
        ("core_operations.test_requirements::test_must_requirement[CORE-SEND-003-http_json]", "HTTP+JSON"),
        ("core_operations.test_artifacts.TestTextArtifact::test_task_has_text_artifact[grpc]", "GRPC"),
        ("core_operations.test_error_handling.TestVersionErrors::test_unsupported_version_rest", "HTTP+JSON"),
        ("core_operations.test_transport_behavior.TestJsonRpcFormat::test_content_type_is_application_json", "JSONRPC"),
        ("jsonrpc.test_error_codes.TestJsonRpcErrorCodeRange::test_error_code[GetTask-nonexistent]", "JSONRPC"),
        ("agent_card.test_agent_card.TestAgentCardDiscovery::test_agent_card_retrievable", "card"),
        ("core_operations.test_data_model.TestCamelCaseFieldNames::test_no_snake_case_keys", "any"),
    ],
)
def test_a_test_is_counted_under_its_binding(test: str, transport: str) -> None:
    assert transport_of(test) == transport


def test_the_file_in_the_repository_is_well_formed() -> None:
    expectations = load_expectations()
    listed = [
        (profile, test) for failure in expectations.failures for profile in failure.profiles for test in failure.tests
    ]
    assert len(set(listed)) == len(listed), "a test is listed twice for one profile"
