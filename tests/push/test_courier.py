"""Single requests: what is left behind when they fail."""

import asyncio

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
        Destinations(allowed=parse_allowed("localhost"), http=True), SigningKeys(), timeout=0.3, connections=2
    )
    given = config(hook, id="mine", task_id="t")
    destination = courier.destination(given)
    assert not isinstance(destination, Failure)

    async def silent(_: Delivery) -> Answer:
        return SILENT

    hook.behave = silent
    for _ in range(5):
        lost = [courier.deliver(given, destination, EVENT) for _ in range(12)]
        for failure in await asyncio.gather(*lost):
            assert failure == Failure("it did not answer within 0.3 s")

    async def loud(_: Delivery) -> Answer:
        return Answer()

    hook.behave = loud
    before = hook.connections
    for _ in range(3):
        assert await courier.deliver(given, destination, EVENT) is None
    assert hook.connections == before + 1, "one connection for the three"
    await courier.close()
