"""Server-sent events (the WHATWG HTML standard, 9.2), read from bytes."""

from collections.abc import Iterator
from typing import NamedTuple

from a2a_grpc.wire.errors import InvalidAgentResponseError


class ServerSentEvent(NamedTuple):
    """`event` is empty unless the server named the kind of event."""

    event: str
    data: bytes
    id: str


class EventDecoder:
    """Turns chunks of a stream into events, wherever the chunks are cut. A blank line completes an event."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._begun = bytearray()  # a line without its end
        self._after_cr = False
        self._first_line = True
        self._event = ""
        self._id = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """The events that this chunk completes. Raises InvalidAgentResponseError when one grows beyond the limit."""
        for line in self._lines(chunk):
            if line:
                self._field(line)
            elif self._data:
                yield ServerSentEvent(self._event, b"\n".join(self._data), self._id)
                self._reset()
            else:
                self._reset()

    def _reset(self) -> None:
        self._event = ""
        self._data = []
        self._size = 0

    def _lines(self, chunk: bytes) -> Iterator[bytes]:
        # Only CR, LF and CR LF end a line. str.splitlines knows ten more, which JSON text may contain.
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r") if chunk else self._after_cr
        pieces = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for end in pieces[:-1]:
            line = bytes(self._begun) + end if self._begun else end
            self._begun.clear()
            if self._first_line:
                self._first_line = False
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield line
        self._begun += pieces[-1]
        self._bound(len(self._begun))

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._size += len(value) + 1
                self._bound(self._size)
                self._data.append(value)
            case b"event":
                self._event = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")

    def _bound(self, size: int) -> None:
        if size > self._max_bytes:
            raise InvalidAgentResponseError(f"An event of the stream is longer than {self._max_bytes} bytes.")
