"""Single requests: what is left behind when they fail."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.server.core.events import Event
from a2a_grpc.server.keys import SigningKeys
from a2a_grpc.server.push.allowed import parse_allowed
from a2a_grpc.server.push.courier import Courier, Failure
from a2a_grpc.server.push.destinations import Destinations
from tests.push.config import config
from tests.support.receiver import SILENT, Answer, Delivery, Receiver

EVENT = Event(2, pb.StreamResponse(status_update=pb.TaskStatusUpdateEvent(task_id="t", context_id="c")))


async def test_requests_that_time_out_leave_no_connection_behind(hook: Receiver) -> None:
    """Also more of them than there are connections to keep: the next one is sent, and answered."""
    courier = Courier(
        Destinations(allowed=parse_allowed("localhost"), http=True), SigningKeys(), timeout=1, connections=2
    )
    given = config(hook, id="mine", task_id="t")
    destination = courier.destination(given)
    assert not isinstance(destination, Failure)

    async def silent(_: Delivery) -> Answer:
        return SILENT

    hook.behave = silent
    for _ in range(3):
        lost = [courier.deliver(given, destination, EVENT) for _ in range(12)]
        for failure in await asyncio.gather(*lost):
            assert failure == Failure("it did not answer within 1 s")

    async def loud(_: Delivery) -> Answer:
        return Answer()

    hook.behave = loud
    before = hook.connections
    for _ in range(3):
        assert await courier.deliver(given, destination, EVENT) is None
    assert hook.connections == before + 1, "one connection for the three"
    await courier.close()


async def test_what_a_receiver_asks_for_is_heeded_within_bounds(hook: Receiver) -> None:
    """Retry-After (RFC 9110, 10.2.3): seconds or a date, an hour at most; what is neither says nothing."""
    courier = Courier(
        Destinations(allowed=parse_allowed("localhost"), http=True), SigningKeys(), timeout=5, connections=2
    )
    given = config(hook, id="mine", task_id="t")
    destination = courier.destination(given)
    assert not isinstance(destination, Failure)
    soon = format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)
    for text, at_least, at_most in (
        ("0", 0, 0), ("7", 7, 7), (" 7 ", 7, 7), ("3601", 3600, 3600), ("9" * 400, 3600, 3600), (soon, 590, 600),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 0, 0), ("Fri, 31 Dec 9999 23:59:59 GMT", 3600, 3600),
    ):  # fmt: skip

        async def later(_: Delivery, text: str = text) -> Answer:
            return Answer(429, {"Retry-After": text})

        hook.behave = later
        failure = await courier.deliver(given, destination, EVENT)
        assert failure is not None and failure.retry_after is not None
        assert at_least <= failure.retry_after <= at_most, text
    for text in ("-5", "1.5", "1e3", "inf", "nan", "soon", "", "0x10", "Sun, 99 Nov 1994 08:49:37 GMT"):

        async def garbage(_: Delivery, text: str = text) -> Answer:
            return Answer(503, {"Retry-After": text})

        hook.behave = garbage
        assert await courier.deliver(given, destination, EVENT) == Failure("it answered 503"), text
    await courier.close()
