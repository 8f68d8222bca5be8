"""Which certificates let their holder in, where not every one of the authorities does."""

import re
from collections.abc import Iterable
from typing import Final

_URI_PREFIX: Final = re.compile(r"URI:[A-Za-z][A-Za-z0-9+.-]*://[^/*]+/(?:[^*]*/)?")
_SUFFIX: Final = re.compile(r"DNS:\*\.[^*]+")


class AllowList:
    """Names of callers, as `MutualTls` knows them: subjects, or alternative names with their kind.

    A name is exact, but for `DNS:*.example.com`, which stands for every name below, and `URI:spiffe://example.com/a/*`,
    for every path below. DNS names are the same in upper and lower case.
    """

    def __init__(self, patterns: Iterable[str], *, alternative: bool) -> None:
        """`alternative`: names are alternative ones. Raises: ValueError for a pattern that no name can be like."""
        self._exact: set[str] = set()
        self._suffixes: list[str] = []
        self._prefixes: list[str] = []
        for given in patterns:
            pattern = _folded(given)
            if pattern.startswith(("URI:", "DNS:", "email:")) != alternative:
                kind = "alternative names (URI:…, DNS:…, email:…)" if alternative else "subjects (CN=…)"
                raise ValueError(f"callers are known by {kind}, and the list of those that are let in has {given}")
            if "*" not in pattern:
                self._exact.add(pattern)
            elif _SUFFIX.fullmatch(pattern):
                self._suffixes.append(pattern.removeprefix("DNS:*"))
            elif pattern.endswith("*") and _URI_PREFIX.fullmatch(pattern[:-1]):
                self._prefixes.append(pattern[:-1])
            else:
                raise ValueError(
                    f"in the list of those that are let in, {given} has a * where none can be: it stands for the "
                    "beginning of a DNS name (DNS:*.example.com) or the end of a URI (URI:spiffe://example.com/a/*)"
                )

    def __contains__(self, name: str) -> bool:
        folded = _folded(name)
        if folded in self._exact:
            return True
        if folded.startswith("DNS:"):
            return any(folded.endswith(suffix) and folded != f"DNS:{suffix}" for suffix in self._suffixes)
        # What a path with dots in it means is for nobody to guess.
        plain = not {".", ".."} & set(re.split(r"[/\\]|%2[fF]|%5[cC]", folded.replace("%2e", ".").replace("%2E", ".")))
        return plain and any(folded.startswith(prefix) and folded != prefix for prefix in self._prefixes)


def _folded(name: str) -> str:
    return name[:4] + name[4:].lower() if name.startswith("DNS:") else name
