"""The outcome of authentication."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller; the empty name is the anonymous one, which no authenticated caller can have."""

    name: str

    @property
    def authenticated(self) -> bool:
        """Whether the caller said who it is, and proved it."""
        return self.name != ""


ANONYMOUS = Principal("")
