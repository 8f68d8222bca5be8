"""The four operations on push notification configs (3.1.7 to 3.1.10), and the config inside a message (3.2.2)."""

from typing import NoReturn

from google.protobuf.message import Message

from a2a_grpc.server.service.caller import Caller
from a2a_grpc.wire.errors import PushNotificationNotSupportedError


async def refuse(_: Message, __: Caller) -> NoReturn:
    """This service sends no push notifications, and its card says so (3.3.4).

    Raises: PushNotificationNotSupportedError.
    """
    raise PushNotificationNotSupportedError(
        "This agent sends no push notifications; follow the task with SubscribeToTask or GetTask."
    )
