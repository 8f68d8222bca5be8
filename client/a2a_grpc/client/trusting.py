"""The cards that are not fetched: whether they are from whom they say (specification 8.4.3)."""

import asyncio
from pathlib import Path
from typing import Final

from a2a_grpc.client.card import CardResolver, parse_card, read_bytes
from a2a_grpc.client.discovery import Target
from a2a_grpc.pb import a2a_pb2

_URLS: Final = ("http://", "https://", "grpc://", "grpcs://")


async def verified(target: Target, resolver: CardResolver | None) -> Target:
    """The target, once its card is verified, where that is in hand or in a file and the resolver has a verifier.

    A file is read once: what comes back in its place is the card that was verified. What the resolver fetches, it
    verifies itself. Raises: CardError, its CardSignatureError, and what `CardVerifier.check` raises.
    """
    if resolver is None or not resolver.verifies:
        return target
    if isinstance(target, a2a_pb2.AgentCard):
        await resolver.verify(target)
        return target
    if isinstance(target, a2a_pb2.AgentInterface) or (isinstance(target, str) and target.startswith(_URLS)):
        return target
    path = Path(target)
    if isinstance(target, str) and not await asyncio.to_thread(path.is_file):
        return target
    data = await asyncio.to_thread(read_bytes, path)
    card = parse_card(data, str(path))
    await resolver.verify(data)
    return card
