"""Who is let in, over every binding: keys, tokens, scopes, and what those hear who are not."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from a2a_grpc.pb import a2a_pb2 as pb
from tests.auth.conftest import AGENT, API_KEYS, PERMISSION_DENIED, Connect, Everywhere, challenges, serving, trusting
from tests.auth.issuer import AUDIENCE, Issuer, encoded, issuing, private_key
from tests.conformance.callers import KEYS, OPERATIONS, CallError, JsonRpcCaller, refused, say
from tests.conformance.expected import TASK_NOT_FOUND, UNAUTHENTICATED, UNAVAILABLE
from tests.conformance.test_versions import valid_request
from tests.support.replica import Replica, free_ports
from tests.support.servers import fresh_store_server
from tests.support.waiting import wait_until

VERSION = {"a2a-version": "1.0"}


@pytest.fixture(scope="module")
def service(issuer: Issuer) -> Iterator[Replica]:
    """Lets in who has a key, or a token with the scope `tasks`."""
    with serving(**trusting(issuer, A2A_API_KEYS=API_KEYS, A2A_JWT_SCOPES="tasks")) as one:
        yield one


def card_of(service: Replica) -> Any:
    """The public card as JSON."""
    return httpx.get(f"{service.http_url}/.well-known/agent-card.json", trust_env=False).json()


@pytest.mark.parametrize("method", OPERATIONS)
async def test_7_4_every_operation_asks_for_credentials(method: str, connect: Connect, service: Replica) -> None:
    """7.4, 13.1: and says which there are, before it looks at the request."""
    requests = [valid_request(method, "unknown")]
    if "{" not in OPERATIONS[method].path:  # over HTTP an empty id is another path
        requests.append(OPERATIONS[method].request())
    for request in requests:
        failure = await refused(UNAUTHENTICATED, (await connect(service)).call(method, request))
        assert challenges(failure) == 'Bearer, ApiKey header="x-api-key"'
        assert failure.metadata["schemes"] == "bearer(tasks), apiKey"
        for token, key in (("nonsense", ""), ("", "wrong")):
            bad = await connect(service, token=token, key=key)
            failure = await refused(UNAUTHENTICATED, bad.call(method, request))
            assert failure.metadata["schemes"] == "bearer(tasks), apiKey"
            assert (token or key) not in failure.message


@pytest.mark.parametrize("method", OPERATIONS)
async def test_7_5_every_operation_asks_for_the_scope(
    method: str, connect: Connect, service: Replica, issuer: Issuer
) -> None:
    for scope in (None, "", "task", "tasks.read other"):
        known = await connect(service, token=issuer.token(scope=scope))
        failure = await refused(PERMISSION_DENIED, known.call(method, valid_request(method, "unknown")))
        assert failure.message == "Your credentials do not include what this needs: the scope tasks."
        assert challenges(failure) == 'Bearer error="insufficient_scope", scope="tasks"'
        assert "tasks" in failure.metadata.values()


async def test_a_token_and_a_key_open_each_their_own(connect: Connect, service: Replica, issuer: Issuer) -> None:
    """The same name by two schemes is two callers."""
    token = issuer.token(scope="tasks more")
    by_token, by_key = await connect(service, token=token), await connect(service, key=KEYS["alice"])
    again = await connect(service, token=issuer.token(scope="tasks"))
    other = await connect(service, token=issuer.token(sub="bob", scope="tasks"))
    task = await by_token.task("ask")
    assert (await again.get(task.id)).id == task.id
    for stranger in (by_key, other):
        await refused(TASK_NOT_FOUND, stranger.get(task.id))
    both = await connect(service, token=token, key=KEYS["bob"])
    assert (await both.get(task.id)).id == task.id


async def test_bad_credentials_beside_good_ones_do_no_harm(connect: Connect, service: Replica) -> None:
    """A proxy on the way may add a token of its own; any one scheme is enough."""
    caller = await connect(service, token="of something else", key=KEYS["alice"])
    assert (await caller.task("echo hello")).artifacts


async def test_a_bad_token_hears_why(connect: Connect, service: Replica, issuer: Issuer) -> None:
    for changes, said in (
        ({"exp": 1}, "The token has expired."),
        ({"aud": "https://other.example.com"}, "The token is not meant for this service: its audience is another one."),
        ({"iss": "https://other.example.com"}, "The token is of an issuer that is not trusted here."),
        ({"kid": "zwei", "key": private_key("EC")}, "The token is signed with a key that its issuer does not publish."),
    ):
        caller = await connect(service, token=issuer.token(scope="tasks", **changes))
        failure = await refused(UNAUTHENTICATED, caller.get("unknown"))
        assert failure.message == said
        expected = f'Bearer error="invalid_token", error_description="{said}", ApiKey header="x-api-key"'
        assert challenges(failure) == expected


@pytest.mark.parametrize("algorithm", ["A" * 20, "\u00e9", 'x", realm="here', "a\\", "\n"])
async def test_no_token_writes_into_the_challenge(
    algorithm: str, connect: Connect, service: Replica, issuer: Issuer
) -> None:
    """What a token has as its algorithm is told, and is no header of its own; over gRPC it would end the call."""
    token = f"{encoded({'alg': algorithm})}.{encoded({'iss': issuer.url})}.AAAA"
    failure = await refused(UNAUTHENTICATED, (await connect(service, token=token)).get("unknown"))
    assert "which is not accepted" in failure.message
    challenge, _, rest = challenges(failure).partition(", ApiKey ")
    assert re.fullmatch(r'Bearer error="invalid_token", error_description="[\x20\x21\x23-\x5b\x5d-\x7e]+"', challenge)
    assert rest == 'header="x-api-key"'
    assert "ExecuteBatchError" not in service.log(None)


async def test_another_version_is_told_first(connect: Connect, service: Replica) -> None:
    """3.6.2."""
    for version in ("0.3", "2.0"):
        with pytest.raises(CallError) as caught:
            await (await connect(service, a2a_version=version)).get("unknown")
        assert caught.value.reason == "VERSION_NOT_SUPPORTED"


async def test_a_long_token_opens_every_time(connect: Connect, service: Replica, issuer: Issuer) -> None:
    """The gRPC library refuses more than 8 KiB of metadata at random unless it is told otherwise."""
    caller = await connect(service, token=issuer.token(scope="tasks", groups=["g" * 100] * 100))
    for _ in range(10):
        await refused(TASK_NOT_FOUND, caller.get("unknown"))
    longer = await connect(service, token=issuer.token(scope="tasks", groups=["g" * 100] * 150))
    failure = await refused(UNAUTHENTICATED, longer.get("unknown"))
    assert failure.message == "The bearer token is empty or too long."


async def test_streams_are_guarded_as_everything_else(connect: Connect, service: Replica, issuer: Issuer) -> None:
    with pytest.raises(CallError) as caught:
        async with (await connect(service)).stream("SendStreamingMessage", say("echo hello")):
            pass
    assert caught.value.is_of(UNAUTHENTICATED)
    caller = await connect(service, token=issuer.token(scope="tasks"))
    async with caller.stream("SendStreamingMessage", say("echo hello")) as stream:
        assert [event.WhichOneof("payload") for event in await stream.all()][-1] == "status_update"


def test_the_card_says_what_is_checked(service: Replica, issuer: Issuer) -> None:
    card = card_of(service)
    assert card["securitySchemes"] == {
        "bearer": {
            "httpAuthSecurityScheme": {
                "scheme": "Bearer",
                "bearerFormat": "JWT",
                "description": f"A token of {issuer.url}.",
            }
        },
        "apiKey": {"apiKeySecurityScheme": {"location": "header", "name": "x-api-key", "description": "An API key."}},
    }
    assert card["securityRequirements"] == [
        {"schemes": {"bearer": {"list": ["tasks"]}}},
        {"schemes": {"apiKey": {}}},
    ]


async def test_who_is_not_let_in_need_not_send_a_body(service: Replica) -> None:
    """The answer comes while the body is still awaited, and whatever the body is."""
    port = int(service.http_url.rpartition(":")[2])
    for path in ("/message:send", "/"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\na2a-version: 1.0\r\ncontent-type: text/plain\r\n"
        writer.write(f"{head}content-length: 1000000\r\n\r\n".encode())
        async with asyncio.timeout(5):
            assert (await reader.readline()).startswith(b"HTTP/1.1 401 ")
        writer.close()
    async with httpx.AsyncClient(base_url=service.http_url, headers=VERSION, trust_env=False) as http:
        for path in ("/message:send", "/"):
            for body in (b"", b"{", b"[]", b'{"message": 7}', b"\xff"):
                answer = await http.post(path, content=body, headers={"content-type": "application/json"})
                assert answer.status_code == 401, body
                known = await http.post(
                    path, content=body, headers={"content-type": "application/json", "x-api-key": KEYS["alice"]}
                )
                assert known.status_code == (400 if path != "/" else 200), body
        answer = await http.post("/", json={"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {"id": "x"}})
        assert (answer.json()["id"], answer.json()["error"]["code"]) == (None, -32010)


async def test_the_extended_card_is_for_callers_with_credentials(
    connect: Connect, service: Replica, issuer: Issuer
) -> None:
    """B097."""
    await refused(UNAUTHENTICATED, (await connect(service)).call("GetExtendedAgentCard"))
    for caller in (
        await connect(service, token=issuer.token(scope="tasks")),
        await connect(service, key=KEYS["alice"]),
    ):
        card = await caller.call("GetExtendedAgentCard")
        assert isinstance(card, pb.AgentCard) and set(card.security_schemes) == {"bearer", "apiKey"}


@pytest.fixture(scope="module")
def combined(issuer: Issuer) -> Iterator[Replica]:
    with serving(**trusting(issuer, A2A_API_KEYS=API_KEYS, A2A_SECURITY="bearer(tasks)+apiKey")) as one:
        yield one


async def test_schemes_that_go_together(connect: Connect, combined: Replica, issuer: Issuer) -> None:
    """A token and a key, and who calls is who the token says."""
    service = combined
    token = issuer.token(scope="tasks")
    for credentials in ({"token": token}, {"key": KEYS["alice"]}, {"token": token, "key": "wrong"}):
        failure = await refused(UNAUTHENTICATED, (await connect(service, **credentials)).get("unknown"))
        assert failure.metadata["schemes"] == "bearer(tasks)+apiKey"
    task = await (await connect(service, token=token, key=KEYS["alice"])).task("ask")
    assert (await (await connect(service, token=token, key=KEYS["bob"])).get(task.id)).id == task.id
    short = await connect(service, token=issuer.token(), key=KEYS["alice"])
    await refused(PERMISSION_DENIED, short.get(task.id))


@pytest.fixture(scope="module")
def scoped(issuer: Issuer) -> Iterator[Replica]:
    with serving("tests.auth.scoped_agent:agent", **trusting(issuer, A2A_API_KEYS=API_KEYS)) as one:
        yield one


async def test_a_skill_may_want_more_than_the_agent(connect: Connect, scoped: Replica, issuer: Issuer) -> None:
    service = scoped
    card = card_of(service)
    assert card["skills"][1]["securityRequirements"] == [{"schemes": {"bearer": {"list": ["publish"]}}}]
    plain, may, by_key, with_both = (
        await connect(service, token=issuer.token()),
        await connect(service, token=issuer.token(scope="publish")),
        await connect(service, key=KEYS["alice"]),
        await connect(service, token=issuer.token(), key=KEYS["alice"]),
    )
    for caller in (plain, may, by_key):
        assert (await caller.task("echo hello")).artifacts
    assert (await may.task("publish hello")).artifacts
    failure = await refused(PERMISSION_DENIED, plain.task("publish hello"))
    assert challenges(failure) == 'Bearer error="insufficient_scope", scope="publish"'
    failure = await refused(UNAUTHENTICATED, by_key.task("publish hello"))
    assert challenges(failure) == "Bearer"
    assert failure.metadata["schemes"] == "bearer(publish)"
    for caller in (plain, by_key):
        failure = await refused(UNAUTHENTICATED, caller.task("both hello"))
        assert challenges(failure) == 'Bearer, ApiKey header="x-api-key"'
    assert (await with_both.task("both hello")).artifacts


@pytest.fixture(scope="module", params=["query", "cookie"])
def located(request: pytest.FixtureRequest) -> Iterator[tuple[str, Replica]]:
    with serving(A2A_API_KEYS=API_KEYS, A2A_API_KEY_IN=request.param, A2A_API_KEY_NAME="api-key") as one:
        yield request.param, one


async def test_a_key_in_the_query_or_in_a_cookie(located: tuple[str, Replica], connect: Connect, binding: str) -> None:
    """Over gRPC there are neither, and the key is metadata."""
    location, service = located
    card = card_of(service)
    scheme = card["securitySchemes"]["apiKey"]["apiKeySecurityScheme"]
    assert (scheme["location"], scheme["name"]) == (location, "api-key")
    for key, row in ((KEYS["alice"], TASK_NOT_FOUND), ("wrong", UNAUTHENTICATED)):
        if binding == "GRPC":
            await refused(row, (await connect(service, api_key=key)).get("unknown"))
            continue
        cookies = {"cookie": f"a=b; api-key={key}; c"} if location == "cookie" else {}
        query = {"api-key": key} if location == "query" else {}
        async with httpx.AsyncClient(base_url=service.http_url, headers=VERSION | cookies, trust_env=False) as http:
            if binding == "JSONRPC":
                body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "unknown"}}
                answer = await http.post("/", params=query, json=body)
                assert answer.json()["error"]["code"] == row.jsonrpc
            else:
                assert (await http.get("/tasks/unknown", params=query)).status_code == row.http
    if binding != "GRPC":
        elsewhere = await connect(service, api_key=KEYS["alice"])
        await refused(UNAUTHENTICATED, elsewhere.get("unknown"))
    assert all(key not in service.log() for key in KEYS.values())


async def test_a_token_that_one_tenant_cannot_check_is_not_refused_for_all(issuer: Issuer, tmp_path: Path) -> None:
    """JSON-RPC at `/`: of whom the call is only its body would tell, which is not read yet."""
    (closed,) = free_ports(1)
    keys = {"api_keys": {"keys": {"alice": "ab" * 32}}}
    jwt = {"jwt": {"issuer": issuer.url, "audience": AUDIENCE, "jwks_url": f"http://127.0.0.1:{closed}/keys"}}
    path = tmp_path / "agents.yaml"
    tenants = {"first": keys, "second": jwt, "third": keys}
    path.write_text(json.dumps({"agents": {name: {"agent": AGENT, "auth": auth} for name, auth in tenants.items()}}))
    with serving(str(path)) as service:
        given = {**VERSION, "authorization": f"Bearer {issuer.token()}"}
        async with JsonRpcCaller(service, given, "second") as caller:
            failure = await refused(UNAVAILABLE, caller.get("unknown"))
        assert failure.http == 200
        async with JsonRpcCaller(service, {**VERSION, "x-api-key": "wrong"}, "first") as caller:
            await refused(UNAUTHENTICATED, caller.get("unknown"))


async def test_of_two_keys_in_one_place_none_counts(located: tuple[str, Replica]) -> None:
    """Who reads the first and who reads the last would take the request for that of two callers."""
    location, service = located
    async with httpx.AsyncClient(base_url=service.http_url, headers=VERSION, trust_env=False) as http:
        for first, second in ((KEYS["alice"], KEYS["bob"]), ("wrong", KEYS["alice"]), (KEYS["alice"], "wrong")):
            if location == "query":
                answer = await http.get("/tasks", params={"api-key": [first, second]})
            else:
                answer = await http.get("/tasks", headers={"cookie": f"api-key={first}; api-key={second}"})
            assert answer.status_code == 401


@pytest.fixture(scope="module")
def by_claim(issuer: Issuer) -> Iterator[Replica]:
    with serving(**trusting(issuer, A2A_OWNER="claim:org")) as one:
        yield one


async def test_whose_a_task_is_can_be_what_a_claim_says(connect: Connect, by_claim: Replica, issuer: Issuer) -> None:
    service = by_claim
    people: dict[str, Any] = {"alice": "acme", "bob": "acme", "mallory": "evil", "eve": ["acme"]}
    alice, bob, mallory, listed = [
        await connect(service, token=issuer.token(sub=sub, org=org)) for sub, org in people.items()
    ]
    task = await alice.task("ask")
    for friend in (bob, listed):
        assert (await friend.get(task.id)).id == task.id
        assert task.id in [listed.id for listed in (await friend.page()).tasks]
    await refused(TASK_NOT_FOUND, mallory.get(task.id))
    for org in (None, "", 7, ["acme", "evil"], {"acme": 1}, "x" * 300):
        nobody = await connect(service, token=issuer.token(org=org))
        failure = await refused(PERMISSION_DENIED, nobody.get(task.id))
        assert failure.metadata["claim"] == "org"


async def test_one_claim_of_two_issuers_is_two_owners(everywhere: Everywhere, issuer: Issuer) -> None:
    """What one of them calls acme is not what the other does."""
    with issuing() as other, serving(**trusting(issuer, A2A_OIDC_ISSUER=other.url, A2A_OWNER="claim:org")) as service:
        mine = await everywhere(service, token=issuer.token(org="acme"))
        task = await mine[0].task("ask")
        for caller in mine:
            assert (await caller.get(task.id)).id == task.id
        for caller in await everywhere(service, token=other.token(org="acme")):
            await refused(TASK_NOT_FOUND, caller.get(task.id))
            await refused(TASK_NOT_FOUND, caller.cancel(task.id))
            assert (await caller.page()).total_size == 0


@pytest.fixture(scope="module")
def by_tenant(issuer: Issuer) -> Iterator[Replica]:
    with serving(**trusting(issuer, A2A_API_KEYS=API_KEYS, A2A_OWNER="tenant")) as one:
        yield one


async def test_whose_a_task_is_can_be_the_tenants(connect: Connect, by_tenant: Replica, issuer: Issuer) -> None:
    service = by_tenant
    alice = await connect(service, token=issuer.token(), tenant="one")
    task = await alice.task("ask")
    bob = await connect(service, key=KEYS["bob"], tenant="one")
    assert (await bob.get(task.id)).id == task.id
    await refused(TASK_NOT_FOUND, (await connect(service, key=KEYS["bob"], tenant="two")).get(task.id))


async def test_an_issuer_that_is_down_keeps_nobody_else_out(everywhere: Everywhere) -> None:
    """A token that cannot be checked is UNAVAILABLE; keys go on, and so do tokens once the issuer is back."""
    with issuing() as issuer:
        issuer.status = 503
        with serving(**trusting(issuer, A2A_API_KEYS=API_KEYS)) as service:
            callers = await everywhere(service, token=issuer.token())
            for caller in callers:
                failure = await refused(UNAVAILABLE, caller.get("unknown"))
                assert failure.retry_after
            for caller in await everywhere(service, key=KEYS["alice"]):
                await refused(TASK_NOT_FOUND, caller.get("unknown"))
            for caller in await everywhere(service):
                await refused(UNAUTHENTICATED, caller.get("unknown"))
            issuer.status = 200

            async def back() -> bool:
                with pytest.raises(CallError) as caught:
                    await callers[0].get("unknown")
                return caught.value.is_of(TASK_NOT_FOUND)

            await wait_until(back, "tokens are checked again", timeout=10)


async def test_keys_are_rotated_without_a_refusal(everywhere: Everywhere) -> None:
    """OpenID Connect: the key is found by discovery, and the next one as soon as it signs."""
    with (
        issuing() as issuer,
        serving(A2A_OIDC_ISSUER=issuer.url, A2A_JWT_AUDIENCE=AUDIENCE) as service,
    ):
        scheme = card_of(service)["securitySchemes"]["openIdConnect"]["openIdConnectSecurityScheme"]
        assert scheme["openIdConnectUrl"] == f"{issuer.url}/.well-known/openid-configuration"
        for caller in await everywhere(service, token=issuer.token()):
            await refused(TASK_NOT_FOUND, caller.get("unknown"))
        issuer.rotate("two")
        for caller in await everywhere(service, token=issuer.token("two")):
            await refused(TASK_NOT_FOUND, caller.get("unknown"))
        for caller in await everywhere(service, token=issuer.token()):
            await refused(UNAUTHENTICATED, caller.get("unknown"))


@pytest.mark.parametrize("rule", ["caller", "tenant"])
async def test_b087_tasks_of_the_anonymous_stay_theirs(everywhere: Everywhere, issuer: Issuer, rule: str) -> None:
    """Auth is switched on over a store with anonymous tasks: no rule and no credentials open them, now or then."""
    with fresh_store_server() as store, serving(redis_url=store.url, A2A_OWNER=rule) as before:
        task = await (await everywhere(before))[0].task("ask", context_id="shared")
        for owner in ("caller", "tenant", "claim:org"):
            with serving(redis_url=store.url, **trusting(issuer, A2A_OWNER=owner)) as after:
                for bob in await everywhere(after, token=issuer.token(sub="bob", org="acme")):
                    await refused(TASK_NOT_FOUND, bob.get(task.id))
                    await refused(TASK_NOT_FOUND, bob.cancel(task.id))
                    assert (await bob.page(context_id="shared")).total_size == 0
                for nobody in await everywhere(after):
                    await refused(UNAUTHENTICATED, nobody.get(task.id))
        for anonymous in await everywhere(before):
            assert (await anonymous.get(task.id)).id == task.id
