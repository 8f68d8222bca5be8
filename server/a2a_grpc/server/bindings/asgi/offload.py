"""Keeping the event loop free of large pieces of JSON."""

import asyncio

from google.protobuf.message import Message

from a2a_grpc.wire.protojson import dumps

OFFLOAD_BYTES = 128 * 1024
"""From this size on, JSON is read and written in a thread. It takes milliseconds then, and all streams would wait; a
thread gives the interpreter back every 5 ms."""


async def dump(message: Message) -> bytes:
    """`message` as JSON."""
    return dumps(message) if message.ByteSize() < OFFLOAD_BYTES else await asyncio.to_thread(dumps, message)
