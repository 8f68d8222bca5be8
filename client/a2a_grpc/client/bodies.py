"""Bodies of responses, decompressed no further than they are read: a few kilobytes may stand for gigabytes."""

import zlib
from collections.abc import AsyncGenerator
from typing import Final

import httpx

from a2a_grpc.wire.errors import InvalidAgentResponseError, excerpt

ACCEPTED: Final = "gzip"
"""What is asked for. Nothing else is read, and nothing that was compressed twice."""
_PIECE: Final = 64 * 1024
_WITH_HEADER: Final = 16 + zlib.MAX_WBITS


async def chunks(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    """The body, piece by piece. Raises: InvalidAgentResponseError where it cannot be decompressed."""
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding == "identity":
        async for raw in response.aiter_raw():
            yield raw
        return
    if coding != ACCEPTED:
        raise _unreadable(response, f"{excerpt(coding, 64)} was not asked for")
    inflate = zlib.decompressobj(_WITH_HEADER)
    async for raw in response.aiter_raw():
        while raw and not inflate.eof:
            try:
                piece = inflate.decompress(raw, _PIECE)
            except zlib.error as error:
                raise _unreadable(response, str(error)) from error
            raw = inflate.unconsumed_tail  # noqa: PLW2901 -- what is left of it
            if piece:
                yield piece
        if inflate.eof:
            return


def _unreadable(response: httpx.Response, why: str) -> InvalidAgentResponseError:
    return InvalidAgentResponseError(f"The answer of {excerpt(response.url.path)} cannot be decompressed: {why}.")
