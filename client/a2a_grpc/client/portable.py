"""Where an agent is, without what may be a credential."""

import re

from a2a_grpc.client.continuation import Address
from a2a_grpc.client.origins import is_readable
from a2a_grpc.pb import a2a_pb2


def portable(url: str, card: a2a_pb2.AgentCard | None, interface: a2a_pb2.AgentInterface) -> Address:
    """The agent without what may be a credential: its URL without user and query, or else its interfaces without those.

    `url` is "" where there is none. Of a card nothing stays but how to connect.
    """
    if url:
        return _clean(url)
    if card is None:
        return _clean_interface(interface)
    return a2a_pb2.AgentCard(
        # What cannot be read cannot be cleaned either, and is of no use to whoever goes on.
        supported_interfaces=[
            clean for one in card.supported_interfaces if is_readable(clean := _clean_interface(one))
        ],
        capabilities=a2a_pb2.AgentCapabilities(
            streaming=card.capabilities.streaming,
            extensions=[a2a_pb2.AgentExtension(uri=one.uri) for one in card.capabilities.extensions],
        ),
    )


def _clean(url: str) -> str:
    if "://" not in url:
        return url
    # By hand, since addresses in a card need not be such as urlsplit can read.
    scheme, _, rest = url.partition("://")
    authority, slash, path = re.split("[?#]", rest, maxsplit=1)[0].partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"


def _clean_interface(interface: a2a_pb2.AgentInterface) -> a2a_pb2.AgentInterface:
    copy = a2a_pb2.AgentInterface()
    copy.CopyFrom(interface)
    copy.url = _clean(interface.url)
    return copy
