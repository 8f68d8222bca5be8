"""The gateway alone, as a process in front of real replicas: nobody can tell that it is not the service itself."""

import asyncio
import contextlib
import hashlib
import re
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

import httpx
import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from a2a_grpc.server import main
from a2a_grpc.wire.sequence import EVENT_SEQUENCE
from tests.conformance.callers import CALLERS, KEYS, VERSION, HttpCaller, JsonRpcCaller, say
from tests.process.gateway import Gateway
from tests.process.transcript import Transcript
from tests.support.http_bindings import SseEvent, parse_sse
from tests.support.replica import ROOT, Pair, Replica
from tests.support.waiting import wait_until

SETTINGS = {
    "A2A_API_KEYS": ",".join(f"{name}:{hashlib.sha256(key.encode()).hexdigest()}" for name, key in KEYS.items()),
    # Both replicas are one service.
    "A2A_PUBLIC_GRPC_ADDR": "agent.example.com:443",
    "A2A_PUBLIC_HTTP_URL": "https://agent.example.com",
    # Tells of every call how it ended.
    "A2A_LOG_LEVEL": "debug",
}
pytestmark = pytest.mark.agent("tests.process.gateway_agent:agent", **SETTINGS)

OPTIONAL = "urn:example:optional"
KEY = {"x-api-key": KEYS["alice"]}
CARD = "/.well-known/agent-card.json"
WITHIN = 2.0
"""Seconds to an answer, whatever has become of the upstream."""


Scenario = Callable[[Transcript, str], Awaitable[None]]
"""Sends requests, those that need one in the given tenant."""


class Behind:
    """Replicas, and gateways in front of them."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        self.first, self.second = pair.replicas
        self.one = Gateway(self.first.grpc_addr.replace("127.0.0.1", "localhost"))
        """Knows the first replica, by its name."""
        self.all = Gateway(f"ipv4:{self.first.grpc_addr},{self.second.grpc_addr}")
        """Knows both."""


@pytest.fixture(scope="module")
def started() -> Iterator[list[Behind]]:
    made: list[Behind] = []
    yield made
    for behind in made:
        behind.one.close()
        behind.all.close()


@pytest.fixture
def behind(started: list[Behind], two_replicas: Pair) -> Behind:
    """Everything is up and ready, whatever the test before has done."""
    if not started:
        started.append(Behind(two_replicas))
    gateways = (started[0].one, started[0].all)
    for gateway in gateways:
        if not gateway.alive:
            gateway.start(wait=False)
    for gateway in gateways:
        gateway.wait_ready()
    return started[0]


@contextlib.asynccontextmanager
async def client(of: Replica, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    async with HttpCaller(of) as caller:
        caller.http.headers.update({**VERSION, **KEY, **headers})
        yield caller.http


def message(text: str, **fields: object) -> dict[str, object]:
    said = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}], **fields}
    return {"message": said}


# -- the same answers --------------------------------------------------------------------------------------------------


async def every_operation(to: Transcript, tenant: str) -> None:
    """One of each operation, in states in which it answers and in states in which it refuses."""

    async def send(text: str, method: str = "SendMessage", **how: object) -> httpx.Response:
        request = say(text, **how)  # type: ignore[arg-type]
        request.tenant = tenant
        request.message.message_id = f"message {len(to.answers)}"
        return await to.call(method, request)

    def found(response: httpx.Response) -> tuple[str, str]:
        task = next(re.finditer(r'"id":"([0-9a-f]{32}-0)","contextId":"([^"]+)"', response.text))
        return task[1], task[2]

    done, context = found(await send("echo hello"))
    parked, _ = found(await send("ask", context_id=context))
    await send("fail")
    await send("raise 1")
    await send("reject")
    await send("msg")
    await send("mute")
    await send("hang", return_immediately=True)
    await send("chunks 3", "SendStreamingMessage")
    await send("ask", "SendStreamingMessage")
    await send("raise 2", "SendStreamingMessage")
    await send("msg", "SendStreamingMessage")
    await send("more", task_id=done)
    await send("more", task_id="of nobody")
    await send("ask again", task_id=parked)

    await to.call("GetTask", pb.GetTaskRequest(tenant=tenant, id=done))
    await to.call("GetTask", pb.GetTaskRequest(tenant=tenant, id=done, history_length=0))
    await to.call("GetTask", pb.GetTaskRequest(tenant="another", id=done))
    await to.call("ListTasks", pb.ListTasksRequest(tenant=tenant, context_id=context, include_artifacts=True))
    await to.call("ListTasks", pb.ListTasksRequest(tenant=tenant, status=pb.TASK_STATE_FAILED))
    await to.call("ListTasks", pb.ListTasksRequest(tenant=tenant, page_size=101))
    await to.call("ListTasks", pb.ListTasksRequest(tenant=tenant, page_token="nonsense"))
    await to.call("SubscribeToTask", pb.SubscribeToTaskRequest(tenant=tenant, id=done))
    for after in ("0", "1", "2", "999"):
        await to.call("SubscribeToTask", pb.SubscribeToTaskRequest(tenant=tenant, id=done), {"last-event-id": after})
    await to.call("CancelTask", pb.CancelTaskRequest(tenant=tenant, id=parked))
    await to.call("CancelTask", pb.CancelTaskRequest(tenant=tenant, id=parked))
    await to.call("SubscribeToTask", pb.SubscribeToTaskRequest(tenant=tenant, id="of nobody"))
    for request in (
        pb.TaskPushNotificationConfig(tenant=tenant, task_id=done, url="https://example.com/hook"),
        pb.GetTaskPushNotificationConfigRequest(tenant=tenant, task_id=done, id="x"),
        pb.ListTaskPushNotificationConfigsRequest(tenant=tenant, task_id=done),
        pb.DeleteTaskPushNotificationConfigRequest(tenant=tenant, task_id=done, id="x"),
    ):
        name = request.DESCRIPTOR.name.removesuffix("Request")
        await to.call(f"Create{name}" if name == "TaskPushNotificationConfig" else name, request)
    await to.call("GetExtendedAgentCard", pb.GetExtendedAgentCardRequest(tenant=tenant))


async def every_refusal(to: Transcript, tenant: str) -> None:
    """Requests with something wrong in their parameters or their message."""
    listing = pb.ListTasksRequest(tenant=tenant)
    for parameters in (
        {"a2a-version": ""},
        {"a2a-version": "0.3"},
        {"a2a-version": "1.0.7"},
        {"a2a-version": "one"},
        {"x-api-key": ""},
        {"x-api-key": "wrong"},
        {"x-request-id": "given"},
        {"x-request-id": "not taken, too many words"},
        {"a2a-extensions": OPTIONAL},
        {"a2a-extensions": f"urn:example:unknown, {OPTIONAL},{EVENT_SEQUENCE}"},
        {"a2a-extensions": "urn:example:unknown"},
        {"last-event-id": "nonsense"},
    ):
        await to.call("ListTasks", listing, parameters)
        await to.call("SendStreamingMessage", pb.SendMessageRequest(tenant=tenant), parameters)
    for wrong in (
        pb.Message(),
        pb.Message(message_id="m", role=pb.ROLE_USER),
        pb.Message(message_id="m", role=pb.ROLE_AGENT, parts=[pb.Part(text="x")]),
        pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(filename="x")]),
        pb.Message(message_id="m" * 257, role=pb.ROLE_USER, parts=[pb.Part(text="x")]),
        pb.Message(message_id="m", role=pb.ROLE_USER, parts=[pb.Part(text="x", media_type="image/png")]),
    ):
        await to.call("SendMessage", pb.SendMessageRequest(tenant=tenant, message=wrong))


RAW = [
    ("POST", "/message:send", "{", {}),
    ("POST", "/message:send", "[]", {}),
    ("POST", "/message:send", '{"message":{"role":"ROLE_NOBODY"}}', {}),
    ("POST", "/message:send", '{"message":{"messageId":7}}', {}),
    ("POST", "/message:send", '{"metadata":{"x":NaN}}', {}),
    ("POST", "/message:send", '{"metadata":' + '{"a":' * 40 + "1" + "}" * 41, {}),
    ("POST", "/message:send", "x", {"content-type": "text/plain"}),
    ("POST", "/message:send", " " * (12 * 1024 * 1024), {}),
    ("PUT", "/message:send", "{}", {}),
    ("GET", "/nowhere", "", {}),
    ("GET", "/tasks?pageSize=many", "", {}),
    ("GET", "/tasks?status=TASK_STATE_ODD", "", {}),
    ("POST", "/", "{", {}),
    ("POST", "/", "[]", {}),
    ("POST", "/", '{"jsonrpc":"2.0","id":1,"method":"Nothing"}', {}),
    ("POST", "/", '{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":7}}', {}),
    ("POST", "/", '{"jsonrpc":"2.0","id":"x","method":"GetTask","params":{"id":"7"}}', {"x-api-key": ""}),
    ("POST", "/", '{"jsonrpc":"2.0","method":"GetTask","params":{"id":"7"}}', {}),
    ("GET", "/", "", {}),
    ("OPTIONS", "/tasks", "", {"origin": "https://page.example", "access-control-request-method": "GET"}),
    ("GET", "/tasks", "", {"origin": "https://page.example"}),
    ("HEAD", "/tasks", "", {}),
    ("GET", "/acme/.well-known/agent-card.json", "", {}),
]


async def compare(replica: Replica, gateway: Replica, binding: str, scenario: Scenario) -> None:
    """Play a scenario to a replica and to a gateway, each in a tenant of its own, and compare the answers."""
    transcripts = []
    for to in (replica, gateway):
        async with CALLERS[binding](to, {**VERSION, **KEY}) as caller:
            assert isinstance(caller, HttpCaller | JsonRpcCaller)
            transcript = Transcript(caller)
            await scenario(transcript, f"tenant-{uuid.uuid4().hex}")
            transcripts.append(transcript.answers)
    direct, passed = transcripts
    for there, here in zip(direct, passed, strict=True):
        assert here == there


@pytest.mark.parametrize("binding", ["HTTP+JSON", pytest.param("JSONRPC", marks=pytest.mark.wide)])
@pytest.mark.parametrize("scenario", [every_operation, every_refusal])
async def test_every_answer_is_that_of_the_service(binding: str, scenario: Scenario, behind: Behind) -> None:
    await compare(behind.first, behind.all, binding, scenario)


async def test_what_is_wrong_already_as_http_or_json_is_refused_alike(behind: Behind) -> None:
    async def scenario(to: Transcript, _: str) -> None:
        for verb, path, body, headers in RAW:
            await to.send(verb, path, body, headers)

    await compare(behind.first, behind.one, "HTTP+JSON", scenario)


async def test_another_version_is_told_before_what_is_wrong(behind: Behind) -> None:
    for to in (behind.first, behind.one):
        async with client(to) as http:
            answer = await http.post("/message:send", content="{", headers={"a2a-version": ""})
            assert (answer.status_code, answer.json()["error"]["details"][0]["reason"]) == (
                400,
                "VERSION_NOT_SUPPORTED",
            )


async def test_pages_follow_one_another_whoever_gives_them(behind: Behind) -> None:
    tenant = f"tenant-{uuid.uuid4().hex}"
    async with client(behind.first) as direct, client(behind.all) as passed:
        sent = [(await direct.post(f"/{tenant}/message:send", json=message("echo"))).json() for _ in range(3)]
        seen, token = [], ""
        for http in (passed, direct, passed):
            page = (await http.get(f"/{tenant}/tasks", params={"pageSize": 1, "pageToken": token})).json()
            assert page["totalSize"] == 3
            seen += [task["id"] for task in page["tasks"]]
            token = page["nextPageToken"]
    assert token == ""
    assert seen == [answer["task"]["id"] for answer in reversed(sent)]


async def test_the_largest_message_passes(behind: Behind) -> None:
    """Its answer holds it twice, and is twice as large as what any server would take for a request."""
    text = "x" * (4 * 1024 * 1024 - 1000)
    async with client(behind.all) as http:
        answer = await http.post("/message:send", json=message(f"echo {text}"))
        assert answer.json()["task"]["artifacts"][0]["parts"] == [{"text": text}]
        assert (await http.post("/message:send", json=message(text * 2))).status_code == 413


# -- streams -----------------------------------------------------------------------------------------------------------


class Stream:
    """An open event stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.text = ""
        self._chunks = response.aiter_text()

    async def until(self, piece: str) -> None:
        """Read until `piece` has come."""
        while piece not in self.text:
            self.text += await anext(self._chunks)

    async def events(self) -> list[SseEvent]:
        """All events, when the stream has ended as it should: httpx would not let a cut response pass."""
        async for chunk in self._chunks:
            self.text += chunk
        return parse_sse(self.text)


@contextlib.asynccontextmanager
async def stream(
    http: httpx.AsyncClient, text: str, headers: Mapping[str, str] | None = None, *, rpc: bool = False
) -> AsyncIterator[Stream]:
    """A message that is streamed, up to its first event."""
    body: dict[str, object] = message(text)
    if rpc:
        body = {"jsonrpc": "2.0", "id": "s", "method": "SendStreamingMessage", "params": body}
    path = "/" if rpc else "/message:stream"
    async with http.stream("POST", path, json=body, headers=headers) as response:
        assert response.headers.get("content-type") == "text/event-stream"
        opened = Stream(response)
        await opened.until("\n\n")
        yield opened


async def test_a_stream_is_the_same_with_its_numbers_wherever_its_reader_begins(behind: Behind) -> None:
    async with contextlib.AsyncExitStack() as stack:
        direct, passed = [await stack.enter_async_context(client(to)) for to in (behind.first, behind.all)]
        async with stream(passed, "ask") as asked:
            events = await asked.events()
        assert [event.id for event in events] == ["1", "2"]
        task_id = events[0].data["task"]["id"]
        path = f"/tasks/{task_id}:subscribe"
        streams: list[Stream] = []
        for header in ({}, {"last-event-id": "1"}, {"last-event-id": "2"}):
            for http in (direct, passed):
                response = await stack.enter_async_context(http.stream("POST", path, headers=header))
                streams.append(Stream(response))
                await streams[-1].until("\n\n")
        await direct.post("/message:send", json=message("ask more", taskId=task_id))
        await direct.post(f"/tasks/{task_id}:cancel")
        logs = [await one.events() for one in streams]
    assert [one.response.headers.get("last-event-id") for one in streams] == [None, None, "1", "1", "2", "2"]
    assert [log[0].id for log in logs] == ["2", "2", "1", "1", "2", "2"]
    for there, here in zip(logs[::2], logs[1::2], strict=True):
        assert here == there
    states = [event.data["statusUpdate"]["status"]["state"] for event in logs[-1][1:]]
    assert states == ["TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_CANCELED"]
    assert logs[0][1:] == logs[-1][1:] == logs[2][2:]
    assert all(event.id for event in logs[0])


async def test_extensions_come_back_as_far_as_the_caller_asked(behind: Behind) -> None:
    """4.6.3: the number of the event is in its metadata for those who asked, though the gateway always asks."""
    async with client(behind.all) as http:
        for asked, echoed in (
            ({}, None),
            ({"a2a-extensions": OPTIONAL}, OPTIONAL),
            ({"a2a-extensions": f"urn:example:unknown,{OPTIONAL}"}, OPTIONAL),
            ({"a2a-extensions": EVENT_SEQUENCE}, EVENT_SEQUENCE),
            ({"a2a-extensions": f"{OPTIONAL}, {EVENT_SEQUENCE}"}, f"{OPTIONAL},{EVENT_SEQUENCE}"),
        ):
            async with stream(http, "chunks 1", asked) as opened:
                events = await opened.events()
            assert opened.response.headers.get("a2a-extensions") == echoed
            assert all(event.id for event in events)
            assert opened.text.count(EVENT_SEQUENCE) == (len(events) if EVENT_SEQUENCE in (echoed or "") else 0)
            answer = await http.get("/tasks", params={"pageSize": 1}, headers=asked)
            assert answer.headers.get("a2a-extensions") == echoed


async def test_a_reader_that_leaves_is_not_streamed_to_any_more(behind: Behind) -> None:
    """The call at the service ends too; the task goes on (3.2.2)."""
    leaving = {"x-request-id": f"leaver-{uuid.uuid4().hex}"}
    async with client(behind.one) as http, stream(http, "hang", leaving) as opened:
        task = parse_sse(opened.text)[0].data["task"]
    async with client(behind.one) as http:
        waiting = {"x-request-id": f"waiter-{uuid.uuid4().hex}"}
        with pytest.raises(httpx.ReadTimeout):
            await http.post("/message:send", json=message("hang"), headers=waiting, timeout=0.5)

        def ended(request: dict[str, str]) -> bool:
            told = rf"Message over GRPC .*: CANCELLED .*\(.*request {request['x-request-id']}\)"
            return re.search(told, behind.first.log()) is not None

        await wait_until(lambda: ended(leaving), "the call of the reader has ended at the service")
        await wait_until(lambda: ended(waiting), "the call of the one who waited has ended at the service")
        assert (await http.get(f"/tasks/{task['id']}")).json()["status"]["state"] in (
            "TASK_STATE_SUBMITTED",
            "TASK_STATE_WORKING",
        )


# -- the card ----------------------------------------------------------------------------------------------------------


async def test_the_card_is_the_one_of_the_service(behind: Behind) -> None:
    async with client(behind.second) as direct, client(behind.all) as passed:
        card = await direct.get(CARD)
        etag = {"if-none-match": card.headers["etag"]}
        for path in (CARD, "/.well-known/agent.json"):
            same = await passed.get(path)
            assert (same.status_code, same.content) == (200, card.content)
            for name in ("etag", "last-modified", "cache-control", "content-type"):
                assert same.headers[name] == card.headers[name]
            assert (await passed.get(path, headers=etag)).status_code == 304
            assert (await passed.head(path)).headers["content-length"] == card.headers["content-length"]


async def test_the_extended_card_is_for_those_whom_the_service_knows(behind: Behind) -> None:
    async with client(behind.second) as direct, client(behind.all) as passed:
        known = await passed.get("/extendedAgentCard")
        assert known.json()["skills"][-1]["id"] == "secret"
        assert known.content == (await direct.get("/extendedAgentCard")).content
        unknown = await passed.get("/extendedAgentCard", headers={"x-api-key": "wrong"})
        assert (unknown.status_code, unknown.headers["www-authenticate"]) == (401, 'ApiKey header="x-api-key"')


# -- when the service goes away ----------------------------------------------------------------------------------------


async def test_a_service_that_dies_ends_streams_and_is_back_by_itself(behind: Behind) -> None:
    async with client(behind.one) as http:
        async with stream(http, "hang") as plain, stream(http, "hang", rpc=True) as rpc:
            behind.first.kill()
            error = (await plain.events())[-1]
            assert (error.type, error.data["error"]["status"]) == ("error", "UNAVAILABLE")
            error = (await rpc.events())[-1]
            assert (error.type, error.data["id"], error.data["error"]["code"]) == ("error", "s", -32018)

        async def is_ready() -> bool:
            return (await http.get("/readyz")).status_code == 200

        async def is_not_ready() -> bool:
            return not await is_ready()

        await wait_until(is_not_ready, "the gateway knows that nobody is there")
        assert (await http.get("/healthz")).status_code == 200
        assert "upstream" in (await http.get("/readyz")).json()["components"]
        for verb, path in (
            ("POST", "/message:send"),
            ("POST", "/message:stream"),
            ("GET", "/tasks/x"),
            ("GET", "/tasks"),
            ("GET", "/extendedAgentCard"),
            ("GET", CARD),
        ):
            begun = time.monotonic()
            answer = await http.request(verb, path, json=message("echo") if verb == "POST" else None)
            assert time.monotonic() - begun < WITHIN, path
            assert (answer.status_code, answer.json()["error"]["status"]) == (503, "UNAVAILABLE"), path
            assert int(answer.headers["retry-after"]) >= 1
            assert behind.first.grpc_addr not in answer.text and "localhost" not in answer.text
        call = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}}
        answer = await http.post("/", json=call)
        assert (answer.status_code, answer.json()["error"]["code"]) == (200, -32018)

        await asyncio.to_thread(behind.first.start)
        await wait_until(is_ready, "the gateway knows that somebody is there again", timeout=10)
        assert (await http.post("/message:send", json=message("echo back"))).status_code == 200


async def test_a_restart_of_one_replica_of_two_is_not_noticed(behind: Behind) -> None:
    """SIGTERM: the replica says that it is leaving, so nobody is sent there, and everybody there gets an answer."""
    ended = False
    codes: list[int] = []

    async def keep_calling(http: httpx.AsyncClient) -> None:
        while not ended:
            codes.append((await http.post("/message:send", json=message("echo"))).status_code)

    async with client(behind.all) as http:
        callers = [asyncio.create_task(keep_calling(http)) for _ in range(4)]
        await wait_until(lambda: len(codes) > 20, "calls pass")
        behind.second.terminate()
        assert await asyncio.to_thread(behind.second.wait) == 0
        count = len(codes)
        await wait_until(lambda: len(codes) > count + 20, "calls pass again")
        ended = True
        await asyncio.gather(*callers)
        assert set(codes) == {200}, behind.all.log()
        assert (await http.get("/readyz")).status_code == 200


async def test_a_replica_that_is_killed_is_left_out(behind: Behind) -> None:
    async with client(behind.all) as http:
        task = (await http.post("/message:send", json=message("echo kept"))).json()["task"]
        behind.first.kill()

        async def passes() -> bool:
            return [(await http.get(f"/tasks/{task['id']}")).status_code for _ in range(10)] == [200] * 10

        async def ready() -> bool:
            return (await http.get("/readyz")).status_code == 200

        # It may have been started a moment ago, and the gateway tries again only every 2 s.
        await wait_until(passes, "every call reaches the replica that is left", timeout=10)
        await wait_until(ready, "the gateway is ready with the replica that is left")


async def test_a_gateway_that_stops_ends_its_streams(behind: Behind) -> None:
    async with client(behind.one) as http, stream(http, "hang") as opened:
        begun = time.monotonic()
        behind.one.terminate()
        error = (await opened.events())[-1]
        assert (error.type, error.data["error"]["status"]) == ("error", "UNAVAILABLE")
        assert await asyncio.to_thread(behind.one.wait) == 0
        assert time.monotonic() - begun < 5
    assert "Traceback" not in behind.one.log()


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        ("", "write HOST:PORT"),
        ("agent", "write HOST:PORT"),
        ("agent:", "write HOST:PORT"),
        (":50051", "write HOST:PORT"),
        ("agent:0", "write HOST:PORT"),
        ("agent:65536", "write HOST:PORT"),
        ("agent:grpc", "write HOST:PORT"),
        ("::1:50051", "write HOST:PORT"),
        ("agent:50051/", "write HOST:PORT"),
        ("user@agent:50051", "write HOST:PORT"),
        ("my agent:50051", "write HOST:PORT"),
        ("http://agent:8080", "without http://"),
        ("ftp:agent:50051", "write HOST:PORT"),
        ("10.0.0.1:1,10.0.0.2:1", "ipv4:10.0.0.1:50051,10.0.0.2:50051"),
        ("ipv4:agent:1,other:1", "one DNS name"),
    ],
)
def test_a_wrong_upstream_is_told_with_what_to_write(
    target: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.gateway(["--upstream", target]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"a2a-grpc: --upstream {target!r} is no address of a gRPC server: ")
    assert advice in told
    assert told.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["--upstream"], ["--upstream", "http://agent:8080"]])
def test_without_an_upstream_the_command_ends_with_2(arguments: list[str]) -> None:
    command = [sys.executable, "-m", "a2a_grpc.server", "gateway", *arguments]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert "--upstream" in told.stderr.splitlines()[-1]
    assert "Traceback" not in told.stderr
