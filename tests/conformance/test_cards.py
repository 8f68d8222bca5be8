"""3.1.11 and 13.3 the extended card; section 8 the public one."""

import json
from email.utils import parsedate_to_datetime
from typing import NamedTuple

import httpx
import pytest
from google.protobuf import json_format

from a2a_grpc.pb import a2a_pb2 as pb
from tests.conformance import shape
from tests.conformance.callers import CALLERS, KEYS, Caller, Connect, HttpCaller, refused, say, texts
from tests.conformance.expected import EXTENDED_AGENT_CARD_NOT_CONFIGURED, UNAUTHENTICATED, UNSUPPORTED_OPERATION
from tests.support.replica import Replica


class Declared(NamedTuple):
    """A service where the card says it is."""

    grpc_addr: str
    http_url: str


WELL_KNOWN = "/.well-known/agent-card.json"
EXTENDED = "GetExtendedAgentCard"


async def fetch(replica: Replica, headers: dict[str, str] | None = None, path: str = WELL_KNOWN) -> httpx.Response:
    async with HttpCaller(replica) as caller:
        return await caller.http.get(path, headers=headers)


def read(response: httpx.Response) -> pb.AgentCard:
    """The card of a response, whose JSON has to be right (5.5, 5.7)."""
    assert response.status_code == httpx.codes.OK
    value = response.json()
    assert list(shape.problems(value, pb.AgentCard.DESCRIPTOR)) == []
    return json_format.ParseDict(value, pb.AgentCard())


# -- the extended card ------------------------------------------------------------------------------------------------


async def test_3_1_11_an_extended_card_that_is_not_declared(connect: Connect, minimal: Replica) -> None:
    """3.3.4: the operation is not supported."""
    caller = await connect(minimal)
    await refused(UNSUPPORTED_OPERATION, caller.call(EXTENDED))
    assert not (read(await fetch(minimal))).capabilities.extended_agent_card


async def test_3_1_11_an_extended_card_that_is_declared_and_not_configured(
    connect: Connect, declaring: Replica
) -> None:
    caller = await connect(declaring)
    await refused(EXTENDED_AGENT_CARD_NOT_CONFIGURED, caller.call(EXTENDED))
    assert (read(await fetch(declaring))).capabilities.extended_agent_card


async def test_3_1_11_the_extended_card_needs_authentication(
    connect: Connect, replicas: tuple[Replica, Replica], guarded: tuple[Replica, Replica]
) -> None:
    """13.3, B097: no key, a wrong one, and a service that knows nobody."""
    failure = await refused(UNAUTHENTICATED, (await connect(replicas[0])).call(EXTENDED))
    assert failure.message == "The extended card needs credentials, and there are none that this service would take."
    assert "www-authenticate" not in failure.parameters  # RFC 9110 section 15.5.2: one that applies, and none does
    said = "The card of the agent declares an extended card, which is for callers that are known, and nobody is"
    assert said in replicas[0].log(None) and said not in guarded[0].log(None)
    for key in ("", "wrong", KEYS["alice"] + "x", KEYS["alice"].upper()):
        failure = await refused(UNAUTHENTICATED, (await connect(guarded[0], key=key)).call(EXTENDED))
        if failure.binding != "GRPC":
            # 3.3.2: a challenge, also over JSON-RPC, since HTTP clients act on the status.
            assert failure.http == 401
            assert failure.parameters["www-authenticate"]


async def test_3_1_11_the_extended_card_for_those_we_know(connect: Connect, guarded: tuple[Replica, Replica]) -> None:
    """3.1.11: it has a skill that the public card does not show; it is for this caller alone."""
    public = read(await fetch(guarded[0]))
    for name, replica in zip(KEYS, guarded, strict=True):
        answer = await (await connect(replica, key=KEYS[name])).answer(EXTENDED)
        card: pb.AgentCard = answer.message
        assert {skill.id for skill in card.skills} - {skill.id for skill in public.skills} == {"secret"}
        assert card.supported_interfaces == public.supported_interfaces
        assert card.security_schemes == public.security_schemes
        if "cache-control" in answer.parameters:
            assert "private" in answer.parameters["cache-control"]
    assert b"secret" not in (await fetch(guarded[0])).content


# -- the public card --------------------------------------------------------------------------------------------------


async def test_8_3_1_every_interface_is_reachable_as_declared(replicas: tuple[Replica, Replica]) -> None:
    """5.2, 8.3.1: each binding that is served is in the card, and each entry of the card is served."""
    for replica in replicas:
        card = read(await fetch(replica))
        served = {entry.protocol_binding: entry for entry in card.supported_interfaces}
        assert list(served) == ["GRPC", "HTTP+JSON", "JSONRPC"]
        for binding, entry in served.items():
            assert (entry.protocol_version, entry.tenant) == ("1.0", "")
            async with CALLERS[binding](Declared(entry.url, entry.url)) as caller:
                assert texts(await caller.task("echo reached")) == ["reached"]


async def test_8_3_1_json_rpc_is_served_with_and_without_a_trailing_slash(replicas: tuple[Replica, Replica]) -> None:
    """5.3: a client may append a slash to what the card says, or take one away."""
    card = read(await fetch(replicas[0]))
    [url] = [entry.url for entry in card.supported_interfaces if entry.protocol_binding == "JSONRPC"]
    envelope = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": json_format.MessageToDict(say("echo hi"))}
    async with httpx.AsyncClient(trust_env=False) as http:
        for variant in (url, url.rstrip("/"), url + "/"):
            envelope["params"]["message"]["messageId"] = variant  # type: ignore[index]
            response = await http.post(variant, json=envelope, headers={"A2A-Version": "1.0"})
            assert "result" in response.json(), variant


async def test_8_2_the_card_is_valid_and_says_what_the_agent_is(replicas: tuple[Replica, Replica]) -> None:
    """8.1, 8.2, 4.4.1: found at the well-known path, and at the one of earlier versions."""
    response = await fetch(replicas[0])
    assert response.headers["content-type"].partition(";")[0] in ("application/json", "application/a2a+json")
    card = read(response)
    assert list(shape.missing(card)) == []
    assert card.name == "Conformance agent" and card.version == "1.0.0"
    assert {skill.id for skill in card.skills} == {"task", "message"}
    assert not card.security_schemes and not card.security_requirements
    assert (await fetch(replicas[0], path="/.well-known/agent.json")).content == response.content


async def test_4_5_the_card_declares_how_to_authenticate(guarded: tuple[Replica, Replica]) -> None:
    """7.3, 4.5.2: the scheme that the service checks, in the header that it reads."""
    card = read(await fetch(guarded[0]))
    [(name, scheme)] = card.security_schemes.items()
    assert (scheme.api_key_security_scheme.location, scheme.api_key_security_scheme.name) == ("header", "x-api-key")
    assert [list(requirement.schemes) for requirement in card.security_requirements] == [[name]]


async def test_8_6_1_the_card_can_be_cached(guarded: tuple[Replica, Replica]) -> None:
    """8.6.1, B095: the same tag and time on each replica, so that a balancer does not spoil them."""
    one, two = await fetch(guarded[0]), await fetch(guarded[1])
    assert one.content == two.content
    assert one.headers["etag"] == two.headers["etag"]
    assert one.headers["last-modified"] == two.headers["last-modified"]
    assert parsedate_to_datetime(one.headers["last-modified"]).tzinfo is not None
    assert "max-age=" in one.headers["cache-control"]
    assert one.headers["etag"].startswith('"')


async def test_8_6_2_a_card_that_is_known_is_not_sent_again(guarded: tuple[Replica, Replica]) -> None:
    """8.6.2, B095, RFC 9110 section 13.1: asked of the other replica than the one that sent it."""
    known = await fetch(guarded[0])
    tag, modified = known.headers["etag"], known.headers["last-modified"]
    for headers in (
        {"if-none-match": tag},
        {"if-none-match": f"W/{tag}"},
        {"if-none-match": f'"other", {tag}'},
        {"if-none-match": "*"},
        {"if-modified-since": modified},
        {"if-none-match": tag, "if-modified-since": "Thu, 01 Jan 1970 00:00:00 GMT"},
    ):
        response = await fetch(guarded[1], headers)
        assert (response.status_code, response.content) == (304, b""), headers
        assert response.headers["etag"] == tag
    for headers in (
        {"if-none-match": '"other"'},
        {"if-none-match": tag.strip('"')},
        {"if-none-match": '"other"', "if-modified-since": modified},
        {"if-modified-since": "Thu, 01 Jan 1970 00:00:00 GMT"},
        {"if-modified-since": "yesterday"},
    ):
        assert (await fetch(guarded[1], headers)).status_code == 200, headers


async def test_8_2_head_and_browsers(guarded: tuple[Replica, Replica]) -> None:
    """RFC 9110 section 9.3.2; a web page of anybody may read the card."""
    async with HttpCaller(guarded[0]) as caller:
        card = await caller.http.get(WELL_KNOWN, headers={"origin": "https://page.example"})
        head = await caller.http.head(WELL_KNOWN)
        options = await caller.http.options(
            WELL_KNOWN, headers={"origin": "https://page.example", "access-control-request-method": "GET"}
        )
        wrong = await caller.http.post(WELL_KNOWN, json={})
    assert head.status_code == 200 and head.content == b""
    for name in ("etag", "cache-control", "last-modified", "content-length", "content-type"):
        assert head.headers[name] == card.headers[name]
    assert card.headers["access-control-allow-origin"] == "*"
    assert options.status_code in (200, 204)
    assert "GET" in options.headers["access-control-allow-methods"]
    assert wrong.status_code == 405 and "GET" in wrong.headers["allow"]


@pytest.mark.parametrize("name", ["host", "x-forwarded-host", "forwarded", "x-forwarded-prefix"])
async def test_8_3_1_the_card_does_not_repeat_what_a_request_says(name: str, guarded: tuple[Replica, Replica]) -> None:
    """B093: addresses come from the settings; the card is cached for others."""
    known = await fetch(guarded[0])
    evil = await fetch(guarded[0], {name: "evil.example", "x-forwarded-proto": "gopher"})
    assert evil.content == known.content
    assert [entry["url"] for entry in json.loads(evil.content)["supportedInterfaces"]] == [
        "agent.example.com:443",
        "https://agent.example.com/a2a",
        "https://agent.example.com/a2a/",
    ]


async def test_8_2_the_card_needs_no_credentials(guarded: tuple[Replica, Replica]) -> None:
    """7.3: it is what says which ones are needed."""
    response = await fetch(guarded[0], {"x-api-key": "wrong"})
    assert response.status_code == 200


async def test_8_2_other_tenants_have_no_card_here(caller: Caller) -> None:
    """8.2: a path that looks like a card and is none gives an error, not the card of somebody else."""
    async with HttpCaller(caller.service) as http:
        response = await http.http.get("/acme/.well-known/agent-card.json")
    assert response.status_code == 404
