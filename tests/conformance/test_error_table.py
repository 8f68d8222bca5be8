"""5.4, 9.5, 10.6, 11.6: each error of the protocol on each binding, with its codes, reason and domain."""

import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance import expected
from tests.conformance.callers import CallError, Connect, JsonRpcCaller, jsonrpc_failure, refused, say
from tests.conformance.expected import Row
from tests.support.replica import Replica


async def provoke(row: Row, connect: Connect, request: pytest.FixtureRequest) -> CallError:
    """The error of this kind, as the binding gives it."""
    one: Replica = request.getfixturevalue("replicas")[0]
    caller = await connect(one)
    match row:
        case expected.TASK_NOT_FOUND:
            return await refused(row, caller.get("unknown"))
        case expected.TASK_NOT_CANCELABLE:
            return await refused(row, caller.cancel((await caller.task("x")).id))
        case expected.PUSH_NOTIFICATION_NOT_SUPPORTED:
            without = await connect(request.getfixturevalue("minimal"))
            request_ = pb.ListTaskPushNotificationConfigsRequest(task_id="t")
            return await refused(row, without.call("ListTaskPushNotificationConfigs", request_))
        case expected.UNSUPPORTED_OPERATION:
            return await refused(row, caller.task("x", task_id=(await caller.task("x")).id))
        case expected.CONTENT_TYPE_NOT_SUPPORTED:
            return await refused(row, caller.task(parts=[pb.Part(raw=b"x", media_type="image/png")]))
        case expected.INVALID_AGENT_RESPONSE:
            return await refused(row, caller.send(say("mute")))
        case expected.EXTENDED_AGENT_CARD_NOT_CONFIGURED:
            declaring = await connect(request.getfixturevalue("declaring"))
            return await refused(row, declaring.call("GetExtendedAgentCard"))
        case expected.EXTENSION_SUPPORT_REQUIRED:
            return await refused(row, (await connect(request.getfixturevalue("requiring"))).page())
        case expected.VERSION_NOT_SUPPORTED:
            return await refused(row, (await connect(one, parameters={"a2a-version": "0.3"})).page())
        case expected.INVALID_ARGUMENT:
            return await refused(row, caller.page(page_size=0))
    return await refused(row, caller.call("GetExtendedAgentCard"))


ROWS = [
    expected.TASK_NOT_FOUND,
    expected.TASK_NOT_CANCELABLE,
    expected.PUSH_NOTIFICATION_NOT_SUPPORTED,
    expected.UNSUPPORTED_OPERATION,
    expected.CONTENT_TYPE_NOT_SUPPORTED,
    expected.INVALID_AGENT_RESPONSE,
    expected.EXTENDED_AGENT_CARD_NOT_CONFIGURED,
    expected.EXTENSION_SUPPORT_REQUIRED,
    expected.VERSION_NOT_SUPPORTED,
    expected.INVALID_ARGUMENT,
    expected.UNAUTHENTICATED,
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.reason)
async def test_5_4_every_error_on_every_binding(row: Row, connect: Connect, request: pytest.FixtureRequest) -> None:
    """5.4, 3.3.2: the drivers check the form (@type, domain); here is what the caller reads."""
    failure = await provoke(row, connect, request)
    assert failure.message.endswith((".", "?", ")")) or failure.violations, "a sentence"
    assert failure.message[0].isupper()
    for secret in ("Traceback", "Error(", "grpc.", ".py", "a2a_grpc", "Redis", "redis"):
        assert secret not in str(failure), secret


async def test_5_4_the_nine_errors_of_the_protocol_have_codes_of_their_own() -> None:
    """5.4: -32001 to -32009, in its order."""
    assert [row.jsonrpc for row in ROWS[:9]] == list(range(-32001, -32010, -1))


@pytest.mark.parametrize(
    ("content", "code", "identifier"),
    [
        ("{", -32700, None),
        ("", -32700, None),
        ('{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}', -32700, None),
        ("\ufeff[", -32700, None),
        ("[]", -32600, None),
        ("1", -32600, None),
        ('"GetTask"', -32600, None),
        ("null", -32600, None),
        ("{}", -32600, None),
        ('{"id": 7, "method": "GetTask"}', -32600, 7),
        ('{"jsonrpc": "1.0", "id": 7, "method": "GetTask"}', -32600, 7),
        ('{"jsonrpc": 2.0, "id": 7, "method": "GetTask"}', -32600, 7),
        ('{"jsonrpc": "2.0", "id": "a"}', -32600, "a"),
        ('{"jsonrpc": "2.0", "id": "a", "method": 5}', -32600, "a"),
        ('{"jsonrpc": "2.0", "id": {}, "method": "GetTask"}', -32600, None),
        ('{"jsonrpc": "2.0", "id": [1], "method": "GetTask"}', -32600, None),
        ('{"jsonrpc": "2.0", "id": true, "method": "GetTask"}', -32600, None),
        ('{"jsonrpc": "2.0", "id": 7, "method": "Nothing"}', -32601, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "getTask"}', -32601, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "tasks/get"}', -32601, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": ""}', -32601, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "GetTask"}', -32602, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {}}', -32602, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": ["x"]}', -32602, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": "x"}', -32602, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {"id": 5}}', -32602, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "SendStreamingMessage", "params": {}}', -32602, 7),
        ('{"jsonrpc": "2.0", "id": 7, "method": "ListTasks", "params": {"status": "WORKING"}}', -32602, 7),
    ],
)
async def test_9_5_the_standard_codes_of_json_rpc(
    content: str, code: int, identifier: object, replicas: tuple[Replica, Replica]
) -> None:
    """9.3, 9.5, JSON-RPC 2.0 section 5: the id comes back where one can be read, else null."""
    async with JsonRpcCaller(replicas[0]) as caller:
        headers = {"content-type": "application/json", **caller.parameters}
        response = await caller.http.post("/", content=content.encode(), headers=headers)
    body = response.json()
    assert (body["id"], jsonrpc_failure(response, body).jsonrpc) == (identifier, code)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
