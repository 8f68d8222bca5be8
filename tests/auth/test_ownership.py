"""Whose a task is, by rule (13.1)."""

import pytest

from a2a_grpc.server.auth.ownership import parse_ownership
from a2a_grpc.server.auth.principal import ANONYMOUS, Principal


@pytest.mark.parametrize("rule", ["caller", "tenant", "claim:org"])
def test_what_the_anonymous_make_is_theirs_by_every_rule(rule: str) -> None:
    """Else the first credentials that are asked for would open it."""
    assert parse_ownership(rule).owner_of(ANONYMOUS) == ""


def test_callers_of_a_tenant_share_one_owner_that_nobody_is() -> None:
    rule = parse_ownership("tenant")
    assert {rule.owner_of(Principal(name)) for name in ("alice", "bob")} == {"*"}


def test_one_word_of_two_issuers_is_two_owners() -> None:
    rule = parse_ownership("claim:org")
    owners = [
        rule.owner_of(Principal(f"{issuer}#alice", claims={"iss": issuer, "org": "acme"}))
        for issuer in ("https://one.example.com", "https://two.example.com")
    ]
    assert owners == ["https://one.example.com?org=acme", "https://two.example.com?org=acme"]
