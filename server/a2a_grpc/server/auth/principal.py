"""The outcome of authentication."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_NAME: Final = 255


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller; the empty name is the anonymous one, which no authenticated caller can have."""

    name: str
    """Who it is, unmistakable among all schemes: a name from the settings, or the issuer and the subject of a token."""
    scopes: frozenset[str] = frozenset()
    """What its token allows; keys and certificates have none."""
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Those of its token."""
    schemes: frozenset[str] = frozenset()
    """Names of the schemes by which it has proved who it is."""

    @property
    def authenticated(self) -> bool:
        """Whether the caller said who it is, and proved it."""
        return self.name != ""


ANONYMOUS = Principal("")


def is_name(text: str) -> bool:
    """Whether `text`, which somebody else has given to a caller, can be told from others by people who read it."""
    return 0 < len(text) <= MAX_NAME and text.isprintable()
