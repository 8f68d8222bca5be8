"""The published form of a card (8.6.1): the same bytes and the same tag wherever it is made."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.card.published import publish
from tests.support.http_bindings import CARD_DATE, card

ROOT = Path(__file__).parents[2]


def card_with_schemes(names: list[str]) -> a2a_pb2.AgentCard:
    """The card with one security scheme for each name, put in in this order."""
    with_schemes = card()
    for name in names:
        with_schemes.security_schemes[name].http_auth_security_scheme.scheme = "Bearer"
    return with_schemes


def test_the_body_is_the_card_as_proto_json() -> None:
    published = publish(card(), CARD_DATE)

    assert json.loads(published.body) == {
        "name": "Echo",
        "description": "Says it again.",
        "supportedInterfaces": [
            {"url": "agent.example.com:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        ],
        "version": "1.2.3",
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "echo", "name": "Echo", "description": "Says it again.", "tags": ["text"]}],
    }


def test_a_card_without_skills_says_so() -> None:
    """B065, 8.4.1: `skills` is REQUIRED and stays, also when empty; lists that are not REQUIRED do not appear."""
    bare = card()
    bare.ClearField("skills")
    body = json.loads(publish(bare, CARD_DATE).body)

    assert body["skills"] == []
    assert "securityRequirements" not in body and "signatures" not in body


def test_the_tag_is_quoted_and_follows_the_content() -> None:
    first, again = publish(card(), CARD_DATE), publish(card(), CARD_DATE + timedelta(days=1))
    changed = card()
    changed.version = "1.2.4"

    assert first.etag[0] == first.etag[-1] == '"' and len(first.etag) > 10
    assert again.etag == first.etag  # of the content, not of the moment
    assert publish(changed, CARD_DATE).etag != first.etag


@pytest.mark.wide
def test_all_replicas_agree_on_the_tag() -> None:
    """B095: neither the order in which a map was filled nor the process may show."""
    names = [f"scheme{number}" for number in range(20)]
    mine = publish(card_with_schemes(names), CARD_DATE).etag
    assert publish(card_with_schemes(names[::-1]), CARD_DATE).etag == mine

    code = (
        "from tests.card.test_publish import *\n"
        "print(publish(card_with_schemes([f'scheme{n}' for n in range(20)]), CARD_DATE).etag)"
    )
    roots = [str(ROOT / root) for root in ("server", "client", "generated", ".")]
    for seed in ("1", "2"):
        other = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path[:0] = {roots!r}\n{code}"],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert other.stdout.strip() == mine


def test_the_date_is_kept_in_utc() -> None:
    somewhere = datetime(2026, 11, 30, 14, 0, tzinfo=timezone(timedelta(hours=2)))

    assert publish(card(), somewhere).last_modified == datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
    with pytest.raises(ValueError, match="time zone"):
        publish(card(), datetime(2026, 11, 30, 12, 0))  # noqa: DTZ001  # the mistake
