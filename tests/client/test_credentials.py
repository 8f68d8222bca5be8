"""What the client shows to agents, to whom, and what it keeps to itself: specification 4.5, 7.3, 7.4 and 13.1.

The agents that only look at what they are shown are peers on real sockets; the service has tokens and keys checked.
"""

# ruff: noqa: ARG002 - a method of a servicer takes what gRPC gives it

import asyncio
import hashlib
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import grpc
import pytest

from a2a_grpc.client import (
    A2AClient,
    ApiKey,
    BearerToken,
    ClientCertificate,
    ClientCredentials,
    Credentials,
    CredentialsError,
    DeviceCode,
    DeviceFlow,
    InvalidArgumentError,
    NotConnectedError,
    UnauthenticatedError,
    UnavailableError,
    message,
)
from a2a_grpc.client.credentials import Surroundings, Wanted
from a2a_grpc.client.credentials.endpoint import token_in
from a2a_grpc.client.interfaces import BINDINGS, GRPC
from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from tests.auth.authorization import Authorization, authorizing
from tests.auth.conftest import trusting
from tests.auth.test_mutual_tls import serving as mutual_tls
from tests.client.peers import (
    SSE_HEAD,
    Context,
    Request,
    answer_to,
    card,
    data,
    events_for,
    grpc_peer,
    http_peer,
    operation_of,
    refuse,
    response,
    status_event,
    task,
    task_event,
)
from tests.support.certificates import Authority, Files
from tests.support.replica import Replica
from tests.support.waiting import wait_until

SEND = a2a_pb2.SendMessageRequest(message=message("echo hello"))
GET = a2a_pb2.GetTaskRequest(id="t1")
COMPLETED = a2a_pb2.TASK_STATE_COMPLETED
WORKING = a2a_pb2.TASK_STATE_WORKING
SECRET = "s3cret%"  # of the client "machine" at the authorization server
KEY = "k3y-of-alice"


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture
def auth() -> Iterator[Authorization]:
    with authorizing() as one:
        yield one


# -- agents that look at what they are shown ---------------------------------------------------------------------------


class Doorkeeper:
    """Lets in who shows what `lets_in` wants to see, and keeps what everybody has shown."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []
        """Of each call: metadata over gRPC; else headers, and parameters of the query with a question mark."""
        self.lets_in: Callable[[dict[str, str]], bool] = lambda _: True

    def look(self, shown: dict[str, str]) -> UnauthenticatedError | None:
        self.shown.append(shown)
        return None if self.lets_in(shown) else UnauthenticatedError("Who are you?")

    async def _look(self, context: Context) -> None:
        shown = {str(name): str(value) for name, value in context.invocation_metadata() or ()}
        if refusal := self.look(shown):
            await refuse(context, refusal)

    async def get_task(self, request: a2a_pb2.GetTaskRequest, context: Context) -> a2a_pb2.Task:
        await self._look(context)
        return task(COMPLETED, request.id)

    async def send_streaming_message(
        self, request: a2a_pb2.SendMessageRequest, context: Context
    ) -> AsyncIterator[a2a_pb2.StreamResponse]:
        await self._look(context)
        yield task_event(WORKING)
        yield status_event(COMPLETED)

    async def over_http(self, request: Request, writer: asyncio.StreamWriter) -> None:
        query = {f"?{name}": value for name, value in parse_qsl(urlsplit(request.target).query)}
        if refusal := self.look({**request.headers, **query}):
            writer.write(response(401, data(request, refusal), "application/json"))
        elif operation_of(request) == "GetTask":
            writer.write(answer_to(request, task(COMPLETED, "t1")))
        else:
            writer.write(SSE_HEAD + events_for(request, task_event(WORKING), status_event(COMPLETED)))
            writer.close()


@asynccontextmanager
async def guarded(
    agent: Doorkeeper,
    binding: str,
    schemes: dict[str, a2a_pb2.SecurityScheme],
    *required: dict[str, Sequence[str]],
) -> AsyncIterator[a2a_pb2.AgentCard]:
    """The card of an agent behind these schemes, each requirement an alternative."""
    async with AsyncExitStack() as stack:
        if binding == GRPC:
            url = await stack.enter_async_context(grpc_peer(agent))
        else:
            url = (await stack.enter_async_context(http_peer(agent.over_http))).url
        yield secured(card((binding, "1.0", url)), schemes, *required)


def secured(
    found: a2a_pb2.AgentCard, schemes: dict[str, a2a_pb2.SecurityScheme], *required: dict[str, Sequence[str]]
) -> a2a_pb2.AgentCard:
    for name, scheme in schemes.items():
        found.security_schemes[name].CopyFrom(scheme)
    for alternative in required:
        requirement = found.security_requirements.add()
        for name, scopes in alternative.items():
            requirement.schemes[name].list.extend(scopes)
    return found


def api_key(location: str, name: str) -> a2a_pb2.SecurityScheme:
    return a2a_pb2.SecurityScheme(api_key_security_scheme=a2a_pb2.APIKeySecurityScheme(location=location, name=name))


BEARER = a2a_pb2.SecurityScheme(http_auth_security_scheme=a2a_pb2.HTTPAuthSecurityScheme(scheme="bearer"))
MTLS = a2a_pb2.SecurityScheme(mtls_security_scheme=a2a_pb2.MutualTlsSecurityScheme())


def oauth(auth: Authorization, flow: str = "client_credentials") -> a2a_pb2.SecurityScheme:
    flows = a2a_pb2.OAuthFlows()
    if flow == "client_credentials":
        flows.client_credentials.token_url = auth.token_url
    else:
        flows.device_code.token_url = auth.token_url
        flows.device_code.device_authorization_url = auth.device_url
    return a2a_pb2.SecurityScheme(oauth2_security_scheme=a2a_pb2.OAuth2SecurityScheme(flows=flows))


def openid(auth: Authorization) -> a2a_pb2.SecurityScheme:
    url = f"{auth.issuer.url}/.well-known/openid-configuration"
    return a2a_pb2.SecurityScheme(
        open_id_connect_security_scheme=a2a_pb2.OpenIdConnectSecurityScheme(open_id_connect_url=url)
    )


async def shown_by(
    binding: str,
    credentials: Credentials | Sequence[Credentials],
    schemes: dict[str, a2a_pb2.SecurityScheme],
    *required: dict[str, Sequence[str]],
) -> dict[str, str]:
    """What an agent with these requirements is shown."""
    agent = Doorkeeper()
    async with (
        guarded(agent, binding, schemes, *required) as found,
        await A2AClient.connect(found, credentials=credentials) as client,
    ):
        await client.get_task(GET)
    return agent.shown[0]


@pytest.mark.parametrize("location", ["header", "query", "cookie"])
async def test_an_api_key_is_where_the_card_says_and_metadata_over_grpc(binding: str, location: str) -> None:
    shown = await shown_by(binding, ApiKey(KEY), {"key": api_key(location, "X-Key")}, {"key": []})

    if binding == GRPC or location == "header":
        assert shown["x-key"] == KEY
    elif location == "query":
        assert shown["?X-Key"] == KEY
    else:
        assert shown["cookie"] == f"X-Key={KEY}"


async def test_a_bearer_token_is_for_every_scheme_that_takes_one(binding: str, auth: Authorization) -> None:
    for scheme in (BEARER, oauth(auth), openid(auth)):
        shown = await shown_by(binding, BearerToken("abc"), {"token": scheme}, {"token": ["read"]})
        assert shown["authorization"] == "Bearer abc"
    assert auth.asked == []


async def test_the_first_alternative_that_can_be_met_is_met_and_nothing_else_is_shown(binding: str) -> None:
    schemes = {"token": BEARER, "one": api_key("header", "x-one"), "two": api_key("header", "x-two"), "cert": MTLS}
    required: tuple[dict[str, Sequence[str]], ...] = ({"cert": []}, {"one": [], "two": []}, {"token": []}, {})

    both = await shown_by(
        binding, [BearerToken("abc"), ApiKey("1", scheme="one"), ApiKey("2", scheme="two")], schemes, *required
    )
    assert (both["x-one"], both["x-two"], both.get("authorization")) == ("1", "2", None)

    half = await shown_by(binding, [BearerToken("abc"), ApiKey("1", scheme="one")], schemes, *required)
    assert (half["authorization"], half.get("x-one")) == ("Bearer abc", None)


async def test_who_need_show_nothing_may_still_show_what_the_agent_knows(binding: str) -> None:
    """A card that requires nothing: an agent may give more to callers that it knows."""
    assert (await shown_by(binding, BearerToken("abc"), {"token": BEARER}))["authorization"] == "Bearer abc"
    assert "authorization" not in await shown_by(binding, BearerToken("abc"), {})
    assert "x-api-key" not in await shown_by(binding, ApiKey("k"), {"token": BEARER})


async def test_without_a_card_credentials_are_shown_in_the_usual_way() -> None:
    agent = Doorkeeper()
    async with grpc_peer(agent) as address:
        for credentials in (BearerToken("abc"), ApiKey("k")):
            async with await A2AClient.connect(f"grpc://{address}", credentials=credentials) as client:
                await client.get_task(GET)
    assert agent.shown[0]["authorization"] == "Bearer abc"
    assert agent.shown[1]["x-api-key"] == "k"


async def test_what_cannot_be_met_is_said_in_a_sentence(auth: Authorization) -> None:
    schemes = {
        "key": api_key("header", "x-key"),
        "cert": MTLS,
        "token": BEARER,
        "login": oauth(auth, "device_code"),
        "basic": a2a_pb2.SecurityScheme(http_auth_security_scheme=a2a_pb2.HTTPAuthSecurityScheme(scheme="Basic")),
    }
    found = secured(
        card((GRPC, "1.0", "127.0.0.1:1")), schemes, {"key": [], "cert": []}, {"login": []}, {"basic": []}, {"gone": []}
    )

    with pytest.raises(CredentialsError) as caught:
        await A2AClient.connect(found, credentials=ClientCredentials("machine", SECRET))

    assert caught.value.message == (
        'The agent wants a client certificate ("cert") together with an API key in the header x-key ("key"), '
        'or a token of OAuth 2.0 (device code) ("login"), or HTTP authentication by Basic ("basic"), '
        'or something that this client does not know ("gone"). The credentials that were given are not for that.'
    )
    assert isinstance(caught.value, UnauthenticatedError)


async def test_who_shows_nothing_and_is_refused_hears_what_the_agent_wants(binding: str) -> None:
    agent = Doorkeeper()
    agent.lets_in = lambda _: False
    async with (
        guarded(agent, binding, {"token": BEARER}, {"token": []}) as found,
        await A2AClient.connect(found) as client,
    ):
        with pytest.raises(UnauthenticatedError, match=r"Who are you\? The agent wants HTTP authentication by bearer"):
            await client.get_task(GET)
    assert len(agent.shown) == 1


async def test_who_is_refused_by_an_agent_whose_card_asks_for_nothing_hears_that_nothing_was_shown(
    binding: str,
) -> None:
    agent = Doorkeeper()
    agent.lets_in = lambda shown: "authorization" in shown
    async with (
        guarded(agent, binding, {}) as found,
        await A2AClient.connect(found, credentials=BearerToken("abc")) as client,
    ):
        with pytest.raises(UnauthenticatedError, match=r"Who are you\? Its card asks for none of the credentials"):
            await client.get_task(GET)
    assert len(agent.shown) == 1


# -- tokens that the client fetches ------------------------------------------------------------------------------------


@asynccontextmanager
async def trusting_agent(
    auth: Authorization, binding: str, credentials: Credentials, scheme: a2a_pb2.SecurityScheme | None = None
) -> AsyncIterator[tuple[A2AClient, Doorkeeper]]:
    """A client of an agent that lets in who has one of the tokens that `auth` gave."""
    agent = Doorkeeper()
    agent.lets_in = lambda shown: shown.get("authorization", "").removeprefix("Bearer ") in auth.given
    async with (
        guarded(agent, binding, {"login": scheme or oauth(auth)}, {"login": ["read", "write"]}) as found,
        await A2AClient.connect(found, credentials=credentials) as client,
    ):
        yield client, agent


async def test_client_credentials_fetch_one_token_for_all_calls(binding: str, auth: Authorization) -> None:
    async with trusting_agent(auth, binding, ClientCredentials("machine", SECRET)) as (client, agent):
        auth.delay.clear()
        calls = [asyncio.create_task(client.get_task(GET)) for _ in range(20)]
        await wait_until(lambda: auth.asked, "the token is asked for")
        auth.delay.set()
        await asyncio.gather(*calls)
        await client.get_task(GET)

    assert auth.asked == [{"grant_type": "client_credentials", "scope": "read write"}]
    assert {shown["authorization"] for shown in agent.shown} == {f"Bearer {auth.given[0]}"}


async def test_client_credentials_by_the_discovery_document_of_a_provider(binding: str, auth: Authorization) -> None:
    async with trusting_agent(auth, binding, ClientCredentials("machine", SECRET), openid(auth)) as (client, _):
        await client.get_task(GET)
    assert auth.issuer.asked == ["/.well-known/openid-configuration"]
    assert auth.grants == ["client_credentials"]


async def test_one_object_brings_one_token_to_many_clients(auth: Authorization) -> None:
    credentials = ClientCredentials("machine", SECRET, scopes=["admin"])
    for _ in range(3):
        async with trusting_agent(auth, GRPC, credentials) as (client, _):
            await client.get_task(GET)
    assert auth.asked == [{"grant_type": "client_credentials", "scope": "admin"}]


async def test_another_agent_does_not_get_a_token_by_naming_somebody_elses_server(auth: Authorization) -> None:
    """One object for two agents: the token of the first is not for the second, whose card names the same server."""
    credentials = ClientCredentials("machine", SECRET)
    wanted = Wanted("login", oauth(auth))
    own = Surroundings(1.0, None, lambda url: url == auth.token_url)
    assert (await credentials.access(wanted, own)).headers
    with pytest.raises(CredentialsError, match="not on its own host"):
        await credentials.access(wanted, Surroundings(1.0, None, lambda _: False))
    assert len(auth.given) == 1


@pytest.mark.parametrize("renews", [True, False], ids=["refresh-token", "anew"])
async def test_a_token_that_the_agent_refuses_is_renewed_once_for_all_calls(
    binding: str, auth: Authorization, renews: bool
) -> None:
    """As after a key was replaced: its time is not over. A call and a stream were refused, and are made once more."""
    auth.renews = renews
    async with trusting_agent(auth, binding, ClientCredentials("machine", SECRET)) as (client, agent):
        await client.get_task(GET)
        auth.given.clear()

        async def stream() -> list[a2a_pb2.StreamResponse]:
            return [event async for event in client.send_streaming_message(SEND)]

        *_, events = await asyncio.gather(*(client.get_task(GET) for _ in range(10)), stream())

    assert events == [task_event(WORKING), status_event(COMPLETED)]
    assert auth.grants == ["client_credentials", "refresh_token" if renews else "client_credentials"]
    assert len(agent.shown) <= 1 + 2 * 11


async def test_a_token_is_renewed_before_its_time_is_over(auth: Authorization) -> None:
    """The last tenth of its life is not used; of 1 s, that is gone after 0.9 s."""
    auth.lives, auth.renews = 1, True
    async with trusting_agent(auth, GRPC, ClientCredentials("machine", SECRET)) as (client, agent):
        await client.get_task(GET)

        async def renewed() -> bool:
            await client.get_task(GET)
            return len(auth.given) > 1

        await wait_until(renewed, "a second token is fetched", 3)
    assert auth.grants == ["client_credentials", "refresh_token"]
    assert {shown["authorization"] for shown in agent.shown} == {f"Bearer {token}" for token in auth.given}


@pytest.mark.parametrize(("lives", "used"), [(10, 9.0), ("10", 9.0), (600, 570.0), (None, float("inf"))])
def test_for_how_long_a_token_is_used(lives: object, used: float) -> None:
    """Up to the last tenth of its life, or its last 30 s; without an end, until it is refused."""
    answer = {"access_token": "a", "token_type": "bearer", "expires_in": lives}
    assert token_in(answer, "https://auth").fresh_until == pytest.approx(time.monotonic() + used, abs=1)


async def test_while_no_other_can_be_had_a_token_is_used_to_its_end(auth: Authorization) -> None:
    """What is kept in reserve is for this."""
    auth.lives = 10
    async with trusting_agent(auth, GRPC, ClientCredentials("machine", SECRET)) as (client, agent):
        await client.get_task(GET)
        [kept] = client._authenticator._uses[0].credentials._tokens.values()  # type: ignore[attr-defined]
        kept._token = replace(kept._token, fresh_until=time.monotonic())
        auth.refusal = 503, b""
        await client.get_task(GET)
        kept._token = replace(kept._token, holds_until=time.monotonic())
        with pytest.raises(UnavailableError, match="cannot answer now"):
            await client.get_task(GET)
    assert len(agent.shown) == 2


async def test_a_refresh_token_that_is_over_leads_to_a_new_grant(auth: Authorization) -> None:
    auth.renews = True
    async with trusting_agent(auth, GRPC, ClientCredentials("machine", SECRET)) as (client, _):
        await client.get_task(GET)
        auth.given.clear()
        auth.forget_refresh_tokens()
        await client.get_task(GET)
    assert auth.grants == ["client_credentials", "refresh_token", "client_credentials"]


async def test_a_fresh_token_that_is_refused_is_refused_for_good(binding: str, auth: Authorization) -> None:
    async with trusting_agent(auth, binding, ClientCredentials("machine", SECRET)) as (client, agent):
        agent.lets_in = lambda _: False
        with pytest.raises(UnauthenticatedError, match=r"Who are you\?"):
            await client.get_task(GET)
    assert len(agent.shown) == 2 and auth.grants == ["client_credentials"] * 2


async def test_a_token_that_cannot_be_replaced_is_shown_once(binding: str, auth: Authorization) -> None:
    async with trusting_agent(auth, binding, BearerToken("wrong")) as (client, agent):
        with pytest.raises(UnauthenticatedError, match=r"Who are you\?"):
            await client.get_task(GET)
    assert len(agent.shown) == 1


async def test_a_function_that_gives_tokens_is_asked_again_after_a_refusal(binding: str, auth: Authorization) -> None:
    tokens = iter(["old", "new"])

    async def given() -> str:
        return next(tokens)

    async with trusting_agent(auth, binding, BearerToken(given)) as (client, agent):
        auth.given.append("new")
        await client.get_task(GET)
    assert [shown["authorization"] for shown in agent.shown] == ["Bearer old", "Bearer new"]


async def test_a_function_that_gives_the_same_token_again_is_no_reason_to_call_again(binding: str) -> None:
    """Whatever else is shown beside it."""
    agent = Doorkeeper()
    agent.lets_in = lambda _: False
    schemes = {"token": BEARER, "key": api_key("header", "x-key")}
    async with (
        guarded(agent, binding, schemes, {"token": [], "key": []}) as found,
        await A2AClient.connect(found, credentials=[BearerToken(lambda: "same"), ApiKey(KEY)]) as client,
    ):
        with pytest.raises(UnauthenticatedError, match=r"Who are you\?$"):
            await client.get_task(GET)
    assert len(agent.shown) == 1 and agent.shown[0]["x-key"] == KEY


async def test_a_caller_that_leaves_does_not_take_the_token_from_the_others(auth: Authorization) -> None:
    async with trusting_agent(auth, GRPC, ClientCredentials("machine", SECRET)) as (client, _):
        auth.delay.clear()
        first, second = (asyncio.create_task(client.get_task(GET)) for _ in range(2))
        await wait_until(lambda: auth.asked, "the token is asked for")
        first.cancel()
        auth.delay.set()
        assert (await second).id == "t1"
        with pytest.raises(asyncio.CancelledError):
            await first
    assert auth.grants == ["client_credentials"]


async def test_the_time_of_a_call_is_for_its_token_too(auth: Authorization) -> None:
    async with trusting_agent(auth, GRPC, ClientCredentials("machine", SECRET)) as (client, agent):
        auth.delay.clear()
        with pytest.raises(Exception, match=r"No answer within the 0\.2 seconds"):
            await client.get_task(GET, timeout=0.2)
    assert agent.shown == []


@pytest.mark.parametrize(
    ("refusal", "error", "text"),
    [
        ((400, b'{"error": "invalid_scope"}'), CredentialsError, "gives no token: invalid_scope"),
        (
            (401, b'{"error": "invalid_client", "error_description": "not s3cret%!"}'),
            CredentialsError,
            "invalid_client",
        ),
        ((200, b'{"access_token": "a", "token_type": "mac"}'), CredentialsError, "without a bearer token"),
        ((200, b"<html>"), CredentialsError, "no JSON object"),
        ((503, b""), UnavailableError, "cannot answer now: HTTP status 503"),
    ],
)
async def test_what_an_authorization_server_may_answer_instead(
    auth: Authorization, refusal: tuple[int, bytes], error: type[Exception], text: str
) -> None:
    auth.refusal = refusal
    async with trusting_agent(auth, GRPC, ClientCredentials("machine", SECRET)) as (client, agent):
        with pytest.raises(error, match=text) as caught:
            await client.get_task(GET)
    assert SECRET not in str(caught.value) and agent.shown == []


async def test_an_authorization_server_that_is_not_there() -> None:
    credentials = ClientCredentials("machine", SECRET, token_url="http://127.0.0.1:1/token")
    async with (
        grpc_peer(Doorkeeper()) as address,
        await A2AClient.connect(f"grpc://{address}", credentials=credentials) as client,
    ):
        with pytest.raises(NotConnectedError, match=r"127\.0\.0\.1:1/token"):
            await client.get_task(GET)


# -- device flow -------------------------------------------------------------------------------------------------------


async def test_a_person_signs_in_elsewhere_while_the_calls_wait(binding: str, auth: Authorization) -> None:
    told: list[DeviceCode] = []

    async def prompt(code: DeviceCode) -> None:
        told.append(code)

    credentials = DeviceFlow("screen", prompt)
    async with trusting_agent(auth, binding, credentials, oauth(auth, "device_code")) as (client, _):
        calls = [asyncio.create_task(client.get_task(GET)) for _ in range(3)]
        await wait_until(lambda: auth.grants.count("device_code") >= 2, "it is asked whether the person is done")
        assert not any(call.done() for call in calls)
        auth.users[told[0].user_code] = ("alice", True)
        await asyncio.gather(*calls)

    assert [code.verification_uri for code in told] == ["https://auth.example.com/device"]
    assert told[0].verification_uri_complete.endswith(f"user_code={told[0].user_code}")
    assert told[0].expires_in == 60 and told[0].user_code not in repr(told[0])
    assert auth.asked[0] == {"client_id": "screen", "scope": "read write"}


async def test_a_person_signs_in_although_the_call_has_left(auth: Authorization) -> None:
    """Signing in takes longer than the time that one call has; nobody is asked twice."""
    told: list[DeviceCode] = []
    credentials = DeviceFlow("screen", told.append)
    async with trusting_agent(auth, GRPC, credentials, oauth(auth, "device_code")) as (client, _):
        with pytest.raises(Exception, match="No answer within"):
            await client.get_task(GET, timeout=0.2)
        auth.users[told[0].user_code] = ("alice", True)
        await client.get_task(GET)
    assert len(told) == 1


async def test_a_token_of_a_person_is_renewed_without_the_person(auth: Authorization) -> None:
    auth.renews = True
    told: list[DeviceCode] = []

    def prompt(code: DeviceCode) -> None:
        told.append(code)
        auth.users[code.user_code] = ("alice", True)

    async with trusting_agent(auth, GRPC, DeviceFlow("screen", prompt), openid(auth)) as (client, _):
        await client.get_task(GET)
        auth.given.clear()
        await client.get_task(GET)
    assert len(told) == 1 and auth.grants == ["device_code", "refresh_token"]


async def test_a_device_that_asks_too_often_or_in_vain_asks_again_later(
    auth: Authorization, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RFC 8628, 3.5: 5 s more between two requests after a slow_down, which are 0.3 s here."""
    monkeypatch.setattr("a2a_grpc.client.credentials.oauth._SLOWER", 0.3)
    told: list[DeviceCode] = []
    auth.too_fast = 1
    credentials = DeviceFlow("screen", told.append)
    async with trusting_agent(auth, GRPC, credentials, oauth(auth, "device_code")) as (client, _):
        began = time.monotonic()
        call = asyncio.create_task(client.get_task(GET))
        await wait_until(lambda: auth.grants, "it was told to slow down")
        auth.refusal = 503, b""
        await wait_until(lambda: len(auth.grants) > 1, "it asks again")
        assert time.monotonic() - began >= 0.05 + 0.35
        auth.refusal = None
        auth.users[told[0].user_code] = ("alice", True)
        await call


async def test_a_person_who_says_no(auth: Authorization) -> None:
    def prompt(code: DeviceCode) -> None:
        auth.users[code.user_code] = ("alice", False)

    credentials = DeviceFlow("screen", prompt)
    async with trusting_agent(auth, GRPC, credentials, oauth(auth, "device_code")) as (client, _):
        with pytest.raises(CredentialsError, match="access_denied"):
            await client.get_task(GET)


# -- certificates ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def server_files(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Files:
    return Files(tmp_path_factory.mktemp("server"), authority.issue_server(), authority.pem)


@pytest.fixture(scope="module")
def client_files(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Files:
    return Files(tmp_path_factory.mktemp("client"), authority.issue("caller"))


async def test_a_client_certificate_is_shown_to_who_asks_for_one(
    binding: str, server_files: Files, client_files: Files
) -> None:
    assert server_files.client_ca is not None
    agent = Doorkeeper()
    async with AsyncExitStack() as stack:
        if binding == GRPC:
            pair = [(server_files.key.read_bytes(), server_files.cert.read_bytes())]
            tls = grpc.ssl_server_credentials(pair, server_files.client_ca.read_bytes(), require_client_auth=True)
            url = f"grpcs://{await stack.enter_async_context(grpc_peer(agent, tls))}"
        else:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(server_files.client_ca))
            context.load_cert_chain(server_files.cert, server_files.key)
            context.verify_mode = ssl.CERT_REQUIRED
            url = (await stack.enter_async_context(http_peer(agent.over_http, context))).url
        found = secured(card((binding, "1.0", url)), {"cert": MTLS}, {"cert": []})
        mine = ClientCertificate(client_files.cert, client_files.key)

        async with await A2AClient.connect(found, credentials=mine, ca_file=server_files.client_ca) as client:
            assert (await client.get_task(GET)).id == "t1"
        with pytest.raises(UnavailableError):
            async with await A2AClient.connect(found, ca_file=server_files.client_ca) as client:
                await client.get_task(GET)


async def test_the_service_knows_callers_by_certificate_and_key_together(tmp_path: Path) -> None:
    """Over TLS from the card on: it is fetched with the certificate, and names its own host."""
    keys = f"alice:{hashlib.sha256(KEY.encode()).hexdigest()}"
    async with mutual_tls(tmp_path, A2A_MTLS="subject", A2A_API_KEYS=keys, A2A_SECURITY="mtls+apiKey") as places:
        trusted = tmp_path / "authority.pem"
        trusted.write_bytes(places.authority.pem)
        own = tmp_path / "own"
        own.mkdir()
        mine = Files(own, places.authority.issue("alice"))
        both = [ApiKey(KEY), ClientCertificate(mine.cert, mine.key)]
        for binding in BINDINGS:
            async with await A2AClient.connect(
                places.url, bindings=[binding], credentials=both, ca_file=trusted
            ) as client:
                assert (await client.send_message(SEND)).task.id
        with pytest.raises(
            CredentialsError,
            match=r'an API key in the header x-api-key \("apiKey"\) together with a client certificate \("mtls"\)',
        ):
            await A2AClient.connect(places.url, credentials=ApiKey(KEY), ca_file=trusted)


async def test_a_certificate_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    mine = ClientCertificate(tmp_path / "none.crt", tmp_path / "none.key")
    for binding in BINDINGS:
        with pytest.raises(InvalidArgumentError, match="cannot be read"):
            await A2AClient.connect(card((binding, "1.0", "https://127.0.0.1:1")), credentials=mine)


# -- what is kept secret -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["http://agent.example.com", "http://127.0.0.1.example.com"])
async def test_credentials_do_not_go_over_a_plain_connection_to_another_machine(url: str) -> None:
    for binding in BINDINGS:
        found = card((binding, "1.0", url.replace("http", "grpc") if binding == GRPC else url))
        secured(found, {"token": BEARER}, {"token": []})
        for allowed in ([], ["agent.example.com"], ["*"]):
            with pytest.raises(CredentialsError, match="in plain text") as caught:
                await A2AClient.connect(found, credentials=BearerToken("abc"), allow_origins=allowed)
            assert "abc" not in caught.value.message


async def test_credentials_go_over_a_plain_connection_where_the_caller_says_so() -> None:
    """The name does not resolve, so that nothing is sent; but it would have been."""
    found = secured(card((GRPC, "1.0", "grpc://agent.invalid:80")), {"token": BEARER}, {"token": []})
    for allowed in ("http://agent.invalid:80", "grpc://agent.invalid", "http://*"):
        with pytest.raises(NotConnectedError):
            await A2AClient.connect(found, credentials=BearerToken("abc"), allow_origins=[allowed], connect_timeout=3)


async def test_an_interface_in_plain_text_is_left_for_the_next(auth: Authorization) -> None:
    agent = Doorkeeper()
    async with guarded(agent, GRPC, {"token": BEARER}, {"token": []}) as found:
        safe = found.supported_interfaces[0]
        plain = a2a_pb2.AgentInterface(url="grpc://agent.example.com:80", protocol_binding=GRPC, protocol_version="1.0")
        del found.supported_interfaces[:]
        found.supported_interfaces.extend([plain, safe])
        async with await A2AClient.connect(found, credentials=BearerToken("abc")) as client:
            await client.get_task(GET)
            assert client.interface.url == safe.url


async def test_a_card_that_was_fetched_cannot_send_the_secret_elsewhere(auth: Authorization) -> None:
    """A card is written by whoever runs the agent: its own host may be trusted with the secret, nobody else."""
    elsewhere = oauth(auth)
    elsewhere.oauth2_security_scheme.flows.client_credentials.token_url = "https://evil.example.com/token"
    found = a2a_pb2.AgentCard()

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.target.endswith(".json"):
            writer.write(response(body=protojson.dumps(found)))
        else:
            writer.write(response(body=protojson.dumps(task(COMPLETED))))

    async with http_peer(respond) as peer:
        found.CopyFrom(secured(card(("HTTP+JSON", "1.0", peer.url)), {"login": elsewhere}, {"login": []}))
        async with await A2AClient.connect(peer.url, credentials=ClientCredentials("machine", SECRET)) as client:
            with pytest.raises(CredentialsError, match=r"sends for tokens to https://evil\.example\.com/token"):
                await client.get_task(GET)
        pinned = ClientCredentials("machine", SECRET, token_url=auth.token_url)
        async with await A2AClient.connect(peer.url, credentials=pinned) as client:
            await client.get_task(GET)
    assert peer.requests[-1].headers["authorization"] == f"Bearer {auth.given[0]}"


@pytest.mark.parametrize("url", ["http://auth.example.com/token", "ftp://127.0.0.1/token", "/token"])
def test_tokens_are_not_fetched_over_plain_connections(url: str) -> None:
    with pytest.raises(CredentialsError, match="over https only"):
        ClientCredentials("machine", SECRET, token_url=url)


async def test_secrets_stand_in_no_repr_and_in_no_log(auth: Authorization, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    auth.renews = True
    everything: list[Credentials] = [
        ApiKey(KEY),
        BearerToken("t0ken"),
        ClientCredentials("machine", SECRET),
        DeviceFlow("screen", print, client_secret=SECRET),
    ]
    for location in ("header", "query", "cookie"):
        agent = Doorkeeper()
        async with guarded(agent, "HTTP+JSON", {"key": api_key(location, "x-key")}, {"key": []}) as found:
            async with await A2AClient.connect(found, credentials=ApiKey(KEY)) as client:
                await client.get_task(GET)
                assert KEY not in repr(vars(client))
            assert KEY in str(agent.shown)
    async with trusting_agent(auth, "JSONRPC", ClientCredentials("machine", SECRET)) as (client, _):
        await client.get_task(GET)

    # The server's library, which is not the subject, writes down what it gives.
    logged = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("authlib"))
    said = logged + repr(everything)
    assert "HTTP Request: GET" in logged
    for secret in (KEY, "t0ken", SECRET, *auth.given, "refresh-0"):
        assert secret not in said


@pytest.mark.parametrize("token", ["", "a\nb", "tökén"])
async def test_a_token_that_no_header_can_carry_is_refused_without_showing_it(token: str) -> None:
    async with (
        grpc_peer(Doorkeeper()) as address,
        await A2AClient.connect(f"grpc://{address}", credentials=BearerToken(token)) as client,
    ):
        with pytest.raises(CredentialsError, match="printable ASCII text") as caught:
            await client.get_task(GET)
    assert not token or token not in caught.value.message


# -- the service -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service_auth() -> Iterator[Authorization]:
    with authorizing() as one:
        yield one


@pytest.fixture(scope="module")
def service(service_auth: Authorization) -> Iterator[Replica]:
    """Lets in who has a key, or a token of the authorization server."""
    env = trusting(
        service_auth.issuer,
        A2A_API_KEYS=f"alice:{hashlib.sha256(KEY.encode()).hexdigest()}",
        A2A_OAUTH2_FLOWS="client_credentials,device_code",
        A2A_OAUTH2_TOKEN_URL=service_auth.token_url,
        A2A_OAUTH2_DEVICE_URL=service_auth.device_url,
        A2A_JWT_LEEWAY="0",
    )
    replica = Replica(agent="tests.client.agent:agent", redis_url=None, env=env)
    try:
        replica.start()
        yield replica
    finally:
        replica.close()


@pytest.mark.parametrize("given", [{"token_url": "https://x/token"}, {"device_url": "https://x/device"}])
def test_one_address_of_the_device_flow_does_not_do_without_the_other(given: dict[str, str]) -> None:
    """The card would say where to sign in, though somebody has named another server."""
    with pytest.raises(InvalidArgumentError, match="token_url and device_url go together"):
        DeviceFlow("screen", print, **given)


async def test_the_service_knows_callers_by_whatever_they_have(
    binding: str, service: Replica, service_auth: Authorization
) -> None:
    def prompt(code: DeviceCode) -> None:
        service_auth.users[code.user_code] = ("alice", True)

    for credentials in (
        ApiKey(KEY),
        BearerToken(service_auth.issuer.token()),
        ClientCredentials("machine", SECRET),
        DeviceFlow("screen", prompt),
    ):
        async with await A2AClient.connect(service.http_url, bindings=[binding], credentials=credentials) as client:
            assert (await client.send_message(SEND)).task.status.state == COMPLETED
    async with await A2AClient.connect(service.http_url, bindings=[binding]) as client:
        with pytest.raises(UnauthenticatedError, match=r"The agent wants .*an API key in the header x-api-key"):
            await client.send_message(SEND)


async def test_a_token_whose_time_is_over_is_replaced(
    binding: str, service: Replica, service_auth: Authorization
) -> None:
    tokens = iter([service_auth.issuer.token(exp=0), service_auth.issuer.token()])
    async with await A2AClient.connect(
        service.http_url, bindings=[binding], credentials=BearerToken(lambda: next(tokens))
    ) as client:
        events = [event async for event in client.send_streaming_message(SEND)]
    assert events[-1].status_update.status.state == COMPLETED


@pytest.mark.parametrize(
    ("flow", "field"), [("client_credentials", "refresh_url"), ("device_code", "device_authorization_url")]
)
async def test_every_address_of_a_flow_has_to_be_on_the_own_host_of_the_card(
    auth: Authorization, flow: str, field: str
) -> None:
    """What is sent to either has the secret of the client with it, as what is sent for a token has."""
    stranger = "https://evil.example.com/more"
    scheme = oauth(auth, flow)
    setattr(getattr(scheme.oauth2_security_scheme.flows, flow), field, stranger)
    credentials: Credentials = (
        ClientCredentials("machine", SECRET)
        if flow == "client_credentials"
        else DeviceFlow("screen", print, client_secret=SECRET)
    )
    around = Surroundings(1.0, None, lambda url: url != stranger)
    with pytest.raises(CredentialsError, match=r"sends for tokens to https://evil\.example\.com/more"):
        await credentials.access(Wanted("login", scheme), around)
    assert auth.asked == []
