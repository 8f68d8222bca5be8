"""What a webhook has to be like to be taken, as far as that can be told without connecting to it (B047)."""

import re
from collections.abc import Iterator

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.push.destinations import Destinations, RefusedDestinationError
from a2a_grpc.wire.errors import Violation

# Servers take some 8 KiB of header lines, all together.
MAX_CREDENTIALS = 4096
MAX_TOKEN = 1024
MAX_SCHEME = 64

_SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[!-~](?:[ \t!-~]*[!-~])?")


class Terms:
    """Checks configs as callers send them."""

    def __init__(self, destinations: Destinations) -> None:
        self._destinations = destinations

    def violations(self, config: a2a_pb2.TaskPushNotificationConfig, path: str = "") -> Iterator[Violation]:
        """What is wrong with `config`, whose fields are named behind `path`. Nothing that was sent is repeated."""
        if config.url:
            try:
                self._destinations.read(config.url)
            except RefusedDestinationError as error:
                yield Violation(f"{path}url", str(error))
        yield from _value(config.token, f"{path}token", MAX_TOKEN)
        authentication = config.authentication
        if authentication.scheme and not (
            len(authentication.scheme) <= MAX_SCHEME and _SCHEME.fullmatch(authentication.scheme)
        ):
            yield Violation(
                f"{path}authentication.scheme", "must be the name of an HTTP authentication scheme, such as Bearer"
            )
        yield from _value(authentication.credentials, f"{path}authentication.credentials", MAX_CREDENTIALS)


def _value(text: str, name: str, limit: int) -> Iterator[Violation]:
    if len(text) > limit:
        yield Violation(name, f"is longer than {limit} characters")
    elif text and not _VALUE.fullmatch(text):
        yield Violation(
            name, "becomes a header: only visible ASCII characters, with spaces and tabs between them, can be sent"
        )
