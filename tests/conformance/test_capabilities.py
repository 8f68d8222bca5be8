"""3.3.4 capability validation, 4.6 extensions."""

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance.agent import REQUIRED_EXTENSION
from tests.conformance.callers import OPERATIONS, VERSION, Connect, HttpCaller, JsonRpcCaller, refused, say, state
from tests.conformance.expected import EXTENSION_SUPPORT_REQUIRED, UNSUPPORTED_OPERATION, VERSION_NOT_SUPPORTED
from tests.conformance.test_versions import valid_request
from tests.support.replica import Replica

EXTENSIONS = "a2a-extensions"
SEQUENCE = "urn:a2a-grpc:extension:event-sequence:v1"


async def test_3_3_4_streaming_without_the_capability(connect: Connect, minimal: Replica, tenant: str) -> None:
    """3.1.2, 3.1.6, B099: for tasks that are there, and no less for those that are not and for wrong requests."""
    caller = await connect(minimal, tenant=tenant)
    task = await caller.task("ask")
    for method, request in (
        ("SendStreamingMessage", say("echo hi")),
        ("SendStreamingMessage", pb.SendMessageRequest()),
        ("SubscribeToTask", pb.SubscribeToTaskRequest(id=task.id)),
        ("SubscribeToTask", pb.SubscribeToTaskRequest(id="unknown")),
    ):
        await refused(UNSUPPORTED_OPERATION, caller.call(method, request))
    assert (await caller.page()).total_size == 1


async def test_3_3_4_what_needs_no_capability_works_without(connect: Connect, minimal: Replica) -> None:
    caller = await connect(minimal)
    task = await caller.task("ask")
    assert await caller.get(task.id) == task
    assert state((await caller.cancel(task.id)).status.state) == "CANCELED"


async def test_3_3_4_the_card_says_what_is_off(replicas: tuple[Replica, Replica], minimal: Replica) -> None:
    """3.3.4: what the card declares and what the service does come from one place."""
    for replica, expected in (
        (replicas[0], {"streaming": True, "pushNotifications": True, "extendedAgentCard": True}),
        (minimal, {"streaming": False, "pushNotifications": False, "extendedAgentCard": False}),
    ):
        async with HttpCaller(replica) as caller:
            capabilities = (await caller.http.get("/.well-known/agent-card.json")).json()["capabilities"]
        assert not any(extension.get("required") for extension in capabilities.pop("extensions", []))
        assert capabilities == expected


@pytest.mark.parametrize("method", OPERATIONS)
async def test_3_3_4_a_required_extension_is_required_everywhere(
    method: str, connect: Connect, requiring: Replica, tenant: str
) -> None:
    """3.3.4: each operation; 4.6.3: another version of the extension is another extension."""
    caller = await connect(requiring, tenant=tenant)
    similar = (REQUIRED_EXTENSION + "/v2", REQUIRED_EXTENSION[:-1], REQUIRED_EXTENSION.upper())
    for named in ("", "urn:example:other", *similar):
        failure = await refused(
            EXTENSION_SUPPORT_REQUIRED,
            caller.call(method, valid_request(method, "unknown"), parameters=VERSION | {EXTENSIONS: named}),
        )
        assert REQUIRED_EXTENSION in failure.message
    await refused(EXTENSION_SUPPORT_REQUIRED, caller.call(method, valid_request(method, "unknown")))
    await refused(VERSION_NOT_SUPPORTED, caller.call(method, valid_request(method, "unknown"), parameters={}))
    knowing = await connect(requiring, tenant=tenant, parameters=VERSION | {EXTENSIONS: REQUIRED_EXTENSION})
    assert (await knowing.page()).total_size == 0


@pytest.mark.parametrize(
    "named",
    [
        REQUIRED_EXTENSION,
        f"urn:example:other,{REQUIRED_EXTENSION}",
        f"{REQUIRED_EXTENSION} , urn:example:other",
        f",{REQUIRED_EXTENSION} ,,{REQUIRED_EXTENSION}",
    ],
)
async def test_4_6_the_extensions_that_are_active_are_named_in_the_answer(
    named: str, connect: Connect, requiring: Replica
) -> None:
    """4.6.1: several in one value (9.2, 10.2, 11.2); what the agent does not know is ignored, and not named."""
    caller = await connect(requiring, parameters=VERSION | {EXTENSIONS: named})
    answer = await caller.answer("SendMessage", say("echo hi"))
    assert answer.parameters[EXTENSIONS] == REQUIRED_EXTENSION
    async with caller.stream("SendStreamingMessage", say("echo hi")) as stream:
        assert stream.parameters[EXTENSIONS] == REQUIRED_EXTENSION


@pytest.mark.parametrize("binding", ["HTTP+JSON", "JSONRPC"], indirect=True)
async def test_3_2_6_extensions_may_come_in_several_headers(binding: str, connect: Connect, requiring: Replica) -> None:
    """RFC 9110, 5.3: repeated fields are one list."""
    caller = await connect(requiring)
    assert isinstance(caller, HttpCaller | JsonRpcCaller)
    headers = [("A2A-Version", "1.0"), ("A2A-Extensions", "urn:x"), ("a2a-extensions", REQUIRED_EXTENSION)]
    envelope = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}
    if isinstance(caller, HttpCaller):
        response = await caller.http.get("/tasks", headers=headers)
    else:
        response = await caller.http.post("/", headers=headers, json=envelope)
    assert response.status_code == 200
    assert response.headers[EXTENSIONS] == REQUIRED_EXTENSION


async def test_4_6_unknown_extensions_change_nothing(connect: Connect, replicas: tuple[Replica, Replica]) -> None:
    """4.6.3: the agent proceeds without them."""
    caller = await connect(replicas[0], parameters=VERSION | {EXTENSIONS: "urn:a,https://example.com/ext/v1"})
    answer = await caller.answer("SendMessage", say("echo hi"))
    assert state(answer.message.task.status.state) == "COMPLETED"
    assert EXTENSIONS not in answer.parameters


async def test_4_6_2_extension_data_in_a_message_is_kept(connect: Connect, replicas: tuple[Replica, Replica]) -> None:
    """4.6.2: extensions and metadata of a message are its own, whatever is active."""
    caller = await connect(replicas[0])
    request = say("echo hi", metadata={"https://example.com/geo/v1": {"latitude": 37.5, "snake_case": [1, None]}})
    request.message.extensions.append("https://example.com/geo/v1")
    [message] = (await caller.send(request)).task.history
    assert message.metadata == request.message.metadata
    assert message.extensions == request.message.extensions


async def test_8_2_the_card_needs_no_extension(requiring: Replica) -> None:
    """8.2: it is the card that says which one is required."""
    async with HttpCaller(requiring) as caller:
        card = (await caller.http.get("/.well-known/agent-card.json")).json()
    required = [extension["uri"] for extension in card["capabilities"]["extensions"] if extension.get("required")]
    assert required == [REQUIRED_EXTENSION]


async def test_4_6_numbers_of_events_for_those_who_ask(connect: Connect, replicas: tuple[Replica, Replica]) -> None:
    """DESIGN 7: an optional extension of this service; 3.5.2: whoever does not activate it gets the same without."""
    plain = await connect(replicas[0])
    asking = await connect(replicas[1], parameters=VERSION | {EXTENSIONS: SEQUENCE})
    task = await plain.task("ask")
    async with asking.subscribe(task.id) as numbered, plain.subscribe(task.id) as bare:
        assert numbered.parameters[EXTENSIONS] == SEQUENCE
        assert EXTENSIONS not in bare.parameters
        await plain.task("chunks 3", task_id=task.id)
        with_numbers, without = await numbered.all(), await bare.all()
    numbers = []
    for event in with_numbers:
        metadata = getattr(event, str(event.WhichOneof("payload"))).metadata
        numbers.append(metadata.fields.pop(SEQUENCE).number_value)
        assert not metadata.fields
        getattr(event, str(event.WhichOneof("payload"))).ClearField("metadata")
    assert with_numbers == without
    assert all(number.is_integer() and number > 0 for number in numbers)
    assert numbers == sorted(set(numbers)), "each higher than the one before"
