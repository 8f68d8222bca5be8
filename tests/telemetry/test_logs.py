"""What a real service writes: one record of each call, whatever became of it, and nothing that opens a door."""

import asyncio
import base64
import contextlib
import io
import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, Literal

import grpc
import httpx
import pytest

from a2a_grpc.server import logs
from a2a_grpc.server.calls import access
from a2a_grpc.server.calls.call import Call
from a2a_grpc.wire.errors import TaskNotFoundError
from tests.conformance.callers import KEYS, VERSION, Caller, CallError, Connect, say
from tests.conformance.conftest import API_KEYS
from tests.process.gateway import Gateway
from tests.push.config import QUICK
from tests.support.leaks import secret
from tests.support.receiver import Answer, receiver
from tests.support.replica import Replica
from tests.support.waiting import wait_until

AGENT = "tests.telemetry.agent:agent"
SYSTEMS = {"GRPC": "grpc", "HTTP+JSON": "http_json", "JSONRPC": "jsonrpc"}
JSON = {"A2A_LOG_FORMAT": "json", "A2A_API_KEYS": API_KEYS}
WRONG = secret("wrong")
HOOK = {name: secret(name) for name in ("token", "credentials")}

Record = dict[str, Any]


@pytest.fixture(scope="module")
def service() -> Iterator[Replica]:
    replica = Replica(agent=AGENT, redis_url=None, env={**QUICK, **JSON, "A2A_LOG_LEVEL": "debug"})
    try:
        replica.start()
        yield replica
    finally:
        replica.close()


@pytest.fixture
async def caller(connect: Connect, service: Replica) -> Caller:
    return await connect(service, key=KEYS["alice"])


def records(of: Replica, logger: str = "a2a_grpc.access") -> list[Record]:
    """Each line is an object; those of one logger."""
    return [record for line in of.log().splitlines() if (record := json.loads(line))["logger"] == logger]


class Since:
    """The access records that a service writes from now on."""

    def __init__(self, service: Replica) -> None:
        self._service = service
        self._before = len(records(service))

    def seen(self) -> list[Record]:
        return records(self._service)[self._before :]

    async def until(self, count: int) -> list[Record]:
        """Exactly so many, once they are there."""
        await wait_until(lambda: len(self.seen()) >= count, f"{count} calls are on record")
        assert len(self.seen()) == count, self.seen()
        return self.seen()


async def test_each_call_is_one_record(caller: Caller, service: Replica) -> None:
    since = Since(service)
    task = await caller.task("hi")
    await caller.get(task.id)
    with pytest.raises(CallError):
        await caller.get("nobody-s")
    events = await caller.events("hi")
    sent, got, missing, streamed = await since.until(4)
    for record in (sent, got, missing, streamed):
        assert record["level"] == "info"
        assert record["binding"] == SYSTEMS[caller.binding]
        assert record["caller"] == "alice"
        assert record["peer"].startswith("127.0.0.1:")
        assert 0 < record["duration_ms"] < 20_000
        assert len(record["request_id"]) == 32
        assert record["message"].endswith(f"request {record['request_id']})")
    assert [record["method"] for record in (sent, got, missing)] == ["SendMessage", "GetTask", "GetTask"]
    assert streamed["method"] == "SendStreamingMessage"
    for record in (sent, got):
        assert (record["code"], record["task_id"], record["context_id"]) == ("OK", task.id, task.context_id)
        assert "reason" not in record
    assert (missing["code"], missing["reason"]) == ("NOT_FOUND", "TASK_NOT_FOUND")
    assert missing["task_id"] == "nobody-s"
    assert streamed["code"] == "OK"
    assert streamed["task_id"] == next(event.task.id for event in events if event.HasField("task"))


async def test_a_call_that_is_refused_for_its_credentials(connect: Connect, service: Replica, caller: Caller) -> None:
    since = Since(service)
    with pytest.raises(CallError):
        await (await connect(service, key=WRONG)).get("x")
    [record] = await since.until(1)
    assert (record["code"], record["reason"]) == ("UNAUTHENTICATED", "UNAUTHENTICATED")
    assert "caller" not in record
    assert record["binding"] == SYSTEMS[caller.binding]


HTTP: list[tuple[str, Callable[[httpx.AsyncClient], Any], str, str]] = [
    ("no such path", lambda http: http.get("/nowhere/at/all"), "http_json", "NOT_FOUND"),
    ("no such verb", lambda http: http.put("/tasks"), "http_json", "UNIMPLEMENTED"),
    ("no JSON", lambda http: http.post("/message:send", json=None, content=b"{"), "http_json", "INVALID_ARGUMENT"),
    ("no method", lambda http: http.post("/", json={"jsonrpc": "2.0", "id": 1, "method": "x"}), "jsonrpc", ""),
    ("no request", lambda http: http.post("/", content=b"["), "jsonrpc", "INVALID_ARGUMENT"),
]


@pytest.mark.parametrize(("what", "send", "binding", "code"), HTTP, ids=[row[0] for row in HTTP])
async def test_what_a_binding_refuses_is_a_call_too(
    what: str, send: Callable[[httpx.AsyncClient], Any], binding: str, code: str, service: Replica
) -> None:
    since = Since(service)
    headers = {"x-api-key": KEYS["alice"], "content-type": "application/json", **VERSION}
    async with httpx.AsyncClient(trust_env=False, base_url=service.http_url, headers=headers) as http:
        response = await send(http)
    assert response.status_code >= 400 or "error" in response.json(), what
    [record] = await since.until(1)
    assert record["binding"] == binding
    assert record["code"] == code or not code
    assert record["code"] != "OK"


async def test_bytes_that_are_no_message_are_a_call_too(service: Replica) -> None:
    since = Since(service)
    async with grpc.aio.insecure_channel(service.grpc_addr) as channel:
        method: Any = channel.unary_unary("/lf.a2a.v1.A2AService/GetTask")
        with pytest.raises(grpc.aio.AioRpcError):
            await method(b"\xff\xff\xff")
    [record] = await since.until(1)
    assert (record["binding"], record["method"], record["code"]) == ("grpc", "GetTask", "INVALID_ARGUMENT")


@pytest.mark.parametrize("binding", ["GRPC"])
async def test_what_an_agent_logs_is_known_by_its_task(caller: Caller, service: Replica, binding: str) -> None:
    task = await caller.task("log")
    [record] = [each for each in records(service, "tests.telemetry.agent") if each.get("task_id") == task.id]
    assert record["message"] == "at work"
    assert record["context_id"] == task.context_id


@pytest.mark.parametrize("binding", ["GRPC"])
async def test_a_failure_is_found_by_its_request(caller: Caller, service: Replica, binding: str) -> None:
    await caller.cancel((await caller.task("wait", return_immediately=True)).id)
    [audit] = [each for each in records(service, "a2a_grpc.audit") if each.get("event") == "task-canceled"][-1:]
    [access] = [each for each in records(service) if each.get("method") == "CancelTask"][-1:]
    assert audit["request_id"] == access["request_id"]


async def test_no_secret_is_written(caller: Caller, connect: Connect, service: Replica) -> None:
    """With everything on record that can be: keys, tokens, cookies, queries, parts, and what webhooks are told."""
    part = secret("part")

    async def refuse(_: object) -> Answer:
        return Answer(status=500)

    async with receiver() as hook:
        hook.behave = refuse
        request = say(part)
        config = request.configuration.task_push_notification_config
        config.url, config.token = f"{hook.url}/hook?key={HOOK['token']}", HOOK["token"]
        config.authentication.scheme, config.authentication.credentials = "Bearer", HOOK["credentials"]
        await caller.send(request)
        await hook.until(1)
    for key in (WRONG, ""):
        with pytest.raises(CallError):
            await (await connect(service, key=key)).send(say(part))
    basic = base64.b64encode(f"user:{WRONG}".encode()).decode()
    async with httpx.AsyncClient(trust_env=False, base_url=service.http_url) as http:
        for headers in ({"authorization": f"Bearer {WRONG}"}, {"authorization": f"Basic {basic}"}):
            await http.get("/tasks", headers={**headers, **VERSION, "cookie": f"session={WRONG}"})
            await http.get(f"/tasks?api_key={WRONG}&x-api-key={WRONG}", headers={**headers, **VERSION})
            await http.post("/", headers={**headers, **VERSION}, json={"jsonrpc": "2.0", "id": WRONG, "method": WRONG})
    log = service.log()
    for found in (part, WRONG, basic, *KEYS.values(), *HOOK.values()):
        assert found not in log


def test_a_gateway_keeps_a_record_of_its_own(service: Replica) -> None:
    gateway = Gateway(upstream=service.grpc_addr, env={"A2A_LOG_FORMAT": "json"})
    try:
        gateway.start()
        headers = {"x-api-key": KEYS["alice"], **VERSION}
        with httpx.Client(trust_env=False, base_url=gateway.http_url, headers=headers) as http:
            assert http.get("/tasks/none").status_code == 404
            assert http.get("/nowhere/at/all").status_code == 404
        passed, refused = records(gateway)
    finally:
        gateway.close()
    assert (passed["method"], passed["code"], passed["task_id"]) == ("GetTask", "NOT_FOUND", "none")
    # The upstream's record of the same call has the same id.
    [upstream] = [each for each in records(service) if each["request_id"] == passed["request_id"]]
    assert upstream["caller"] == "alice"
    assert refused["code"] == "NOT_FOUND"


def test_nothing_that_is_quoted_passes_for_a_record(capsys: pytest.CaptureFixture[str]) -> None:
    """What an agent raises may hold what its caller has said."""
    forged = "2026-01-01 00:00:00,000 INFO    a2a_grpc.audit: all is well"
    root, before = logging.getLogger(), logging.getLogger().handlers[:]
    level = root.level
    try:
        logs.configure("info", "text")
        error = ValueError(f"no such place: x\n{forged}\r{forged}\x1b[2J\u2028{forged}")
        logging.getLogger("some.agent").error("it failed: %s", error, exc_info=error)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        access.write_with(None)
    first, *others = capsys.readouterr().err.splitlines()
    assert first.endswith("ERROR   some.agent: it failed: no such place: x")
    assert len(others) == 3
    assert all(line.startswith("    ") for line in others)
    assert "\\x1b[2J\\u2028" in others[-1]


def test_an_agent_has_its_own_meaning_of_fields() -> None:
    record = logging.LogRecord("some.agent", logging.INFO, "x", 1, "%d read", (2,), None)
    record.fields = ["a", "b"]
    assert json.loads(logs.JsonFormatter().format(record))["message"] == "2 read"


def test_a_defect_is_no_caller_who_left() -> None:
    assert access.outcome(RuntimeError("x")) == ("INTERNAL", "")
    assert access.outcome(asyncio.CancelledError()) == ("CANCELLED", "")


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_short_way_writes_what_logging_would(form: Literal["json", "text"]) -> None:
    root, before = logging.getLogger(), logging.getLogger().handlers[:]
    stream, level = io.StringIO(), root.level
    stderr, sys.stderr = sys.stderr, stream
    try:
        logs.configure("info", form)
        call = Call(method="GetTask", binding="GRPC", parameters={}, peer="127.0.0.1:1")
        for sink in (access._sink, None):
            access.write_with(sink)
            access.record(
                call, begun=time.perf_counter(), error=TaskNotFoundError("x"), request_id="r\ud800", caller="\x1b"
            )
        # Whoever listens elsewhere hears of it.
        access.write_with(sink := logs.AccessLines(root.handlers[0], as_json=form == "json"))  # type: ignore[arg-type]
        with contextlib.ExitStack() as stack:
            access.log.addHandler(heard := logging.NullHandler())
            stack.callback(access.log.removeHandler, heard)
            assert not sink(access.Record(call, "OK", "", 1.0, "", "", "", "", ""))
    finally:
        sys.stderr = stderr
        access.write_with(None)
        logging.basicConfig(handlers=before, level=level, force=True)
    one, other = stream.getvalue().splitlines()
    if form == "json":
        short, long = json.loads(one), json.loads(other)
        assert list(short) == list(long)
        assert short["caller"] == "\ufffd"
        for record in (short, long):
            datetime.fromisoformat(record.pop("time"))
            assert record.pop("duration_ms") < 10_000
        assert _untimed(short.pop("message")) == _untimed(long.pop("message"))
        assert short == long
    else:
        assert _untimed(one) == _untimed(other)


def _untimed(text: str) -> str:
    return re.sub(r"\d+\.\d ms|^[-\d]+ [:\d]+,\d{3}", "", text)


def test_the_level_switches_it_off() -> None:
    replica = Replica(agent=AGENT, redis_url=None, env={**JSON, "A2A_LOG_LEVEL": "warning"})
    try:
        replica.start()
        with httpx.Client(trust_env=False, base_url=replica.http_url) as http:
            assert http.get("/tasks", headers=VERSION).status_code == 401
        assert records(replica) == []
        # Who was refused is on record all the same.
        assert [each["event"] for each in records(replica, "a2a_grpc.audit")] == ["authentication-failed"]
    finally:
        replica.close()
