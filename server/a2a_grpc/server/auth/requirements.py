"""Which schemes a caller has to prove, and with which scopes: `securityRequirements` of the card (4.5)."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from a2a_grpc.pb import a2a_pb2


@dataclass(frozen=True, slots=True)
class Wanted:
    """One scheme that has to be proved, and the scopes that the caller must have then."""

    scheme: str
    scopes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.scheme}({' '.join(self.scopes)})" if self.scopes else self.scheme


@dataclass(frozen=True)
class Alternative:
    """Schemes that have to be proved together."""

    wanted: tuple[Wanted, ...]

    def __str__(self) -> str:
        return "+".join(str(one) for one in self.wanted)

    @cached_property
    def schemes(self) -> frozenset[str]:
        """The names of the schemes."""
        return frozenset(one.scheme for one in self.wanted)

    @cached_property
    def scopes(self) -> frozenset[str]:
        """All scopes that are wanted."""
        return frozenset(scope for one in self.wanted for scope in one.scopes)


Requirements = tuple[Alternative, ...]
"""One of these is enough; with none at all anybody may call."""


def show(requirements: Iterable[Alternative]) -> str:
    """The text that `parse` reads."""
    return ", ".join(str(alternative) for alternative in requirements)


_WANTED = re.compile(r"(?P<scheme>[A-Za-z0-9_-]{1,64})(?:\((?P<scopes>[^()\",\\]*)\))?")


def parse(text: str) -> Requirements:
    """`apiKey, bearer(read write)+mtls`: alternatives with commas between them, + between what goes together.

    Raises: ValueError.
    """
    return tuple(Alternative(tuple(_parts(alternative))) for alternative in text.split(","))


def _parts(alternative: str) -> Iterator[Wanted]:
    for part in alternative.split("+"):
        match = _WANTED.fullmatch(part.strip())
        if match is None:
            raise ValueError(
                "it must be names of schemes with commas between alternatives, + between what goes together and "
                "scopes in brackets, for example: apiKey, bearer(read write)+mtls"
            )
        yield Wanted(match["scheme"], tuple((match["scopes"] or "").split()))


def read(entries: Iterable[a2a_pb2.SecurityRequirement]) -> Requirements:
    """Requirements as a card has them. An entry without schemes lets anybody in and is refused with a ValueError."""
    alternatives = []
    for entry in entries:
        if not entry.schemes:
            raise ValueError("a security requirement of the card names no scheme, which would let anybody in")
        alternatives.append(
            Alternative(tuple(Wanted(name, tuple(entry.schemes[name].list)) for name in sorted(entry.schemes)))
        )
    return tuple(alternatives)


def write(requirements: Iterable[Alternative]) -> Iterator[a2a_pb2.SecurityRequirement]:
    """Requirements as a card has them."""
    for alternative in requirements:
        entry = a2a_pb2.SecurityRequirement()
        for one in alternative.wanted:
            entry.schemes[one.scheme].list.extend(one.scopes)
        yield entry
