"""How people name the upstream."""

import re
from typing import Final

_PORT: Final = r":(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_V4: Final = r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}" + _PORT
_V6: Final = r"\[[0-9A-Fa-f:.]+\]" + _PORT
_NAME: Final = r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?)" + _PORT
_TARGET: Final = re.compile(
    rf"{_NAME}|{_V6}|dns:(?://[^/\s]*/)?(?:{_NAME}|{_V6})|ipv4:{_V4}(?:,{_V4})*|ipv6:{_V6}(?:,{_V6})*|unix:\S+"
)


def parse_target(text: str) -> str:
    """`text` as a target of a gRPC channel: "host:port", or a name with one of the schemes dns, ipv4, ipv6 and unix.

    A name that stands for several addresses means all of them.

    Raises: ValueError that says what to write. gRPC itself takes any text and never gets ready.
    """
    if _TARGET.fullmatch(text):
        return text
    advice = "write HOST:PORT, for example agent.example.com:50051 or [::1]:50051"
    if "," in text:
        advice = "write several addresses as ipv4:10.0.0.1:50051,10.0.0.2:50051, or one DNS name that stands for all"
    elif "://" in text:
        advice = "write HOST:PORT without http:// and without a path; the gateway calls the gRPC port"
    raise ValueError(f"{text[:100]!r} is no address of a gRPC server: {advice}")
