"""What a caller has to hear of first when its request makes no sense: its version of the protocol (3.6.2).

The call's pipeline refuses other versions, but a request of one often doesn't get there: in 0.3 methods and messages
have other names. Told of a field that is wrong, its author would look in the wrong place.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

VersionCheck: TypeAlias = Callable[[Mapping[str, str]], None]
"""Takes the service parameters of a request; raises VersionNotSupportedError."""


def any_version(_: Mapping[str, str]) -> None:
    """The check of a binding that speaks whatever its handler speaks."""
