"""Whose a task is: what callers share, and what is each one's own (13.1)."""

import re
from dataclasses import dataclass
from typing import Literal

from a2a_grpc.server.auth.principal import Principal, is_name
from a2a_grpc.wire.errors import PermissionDeniedError

_EVERYBODY = "*"
"""The owner of tasks that all callers of a tenant share. No caller has that name."""

_CLAIM = re.compile(r"[A-Za-z0-9_.:/-]{1,128}")


@dataclass(frozen=True, slots=True)
class Ownership:
    """The rule that names the owner of what a caller makes."""

    kind: Literal["caller", "claim", "tenant"] = "caller"
    claim: str = ""

    def __str__(self) -> str:
        return f"claim:{self.claim}" if self.claim else self.kind

    def owner_of(self, principal: Principal) -> str:
        """The owner; "" for the anonymous, whatever the rule: no credentials ever open their tasks.

        Raises: PermissionDeniedError for a caller whose token says nothing that the rule could go by.
        """
        if not principal.authenticated or self.kind == "caller":
            return principal.name
        if self.kind == "tenant":
            return _EVERYBODY
        value = principal.claims.get(self.claim)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if not isinstance(value, str) or not is_name(value):
            raise PermissionDeniedError(
                f"Tasks belong to what the claim {self.claim} of your token names, and it names nothing, or more than "
                "one thing.",
                metadata={"claim": self.claim},
            )
        # Two issuers may use one word for two groups. No caller has such a name: between issuer and subject is a #.
        return f"{principal.claims.get('iss', '')}?{self.claim}={value}"


BY_CALLER = Ownership()


def parse_ownership(text: str) -> Ownership:
    """`caller`, `tenant` or `claim:NAME`. Raises: ValueError."""
    if text == "caller":
        return BY_CALLER
    if text == "tenant":
        return Ownership("tenant")
    kind, _, claim = text.partition(":")
    if kind != "claim" or not _CLAIM.fullmatch(claim):
        raise ValueError("it must be caller, tenant, or claim: and the name of a claim, for example claim:org_id")
    return Ownership("claim", claim)
