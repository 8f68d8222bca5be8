"""The service and its client with an OpenID Connect provider that others have written."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from a2a_grpc.client import A2AClient, BearerToken, ClientCredentials, CredentialsError, message
from a2a_grpc.pb import a2a_pb2 as pb
from tests.auth.conftest import PERMISSION_DENIED, Connect, Everywhere, challenges, serving
from tests.auth.provider import Client, Provider, forged, providing
from tests.auth.test_audit import records
from tests.conformance.callers import refused
from tests.conformance.expected import TASK_NOT_FOUND, UNAUTHENTICATED
from tests.support.replica import Replica
from tests.support.waiting import wait_until

pytestmark = pytest.mark.wide

SEND = pb.SendMessageRequest(message=message("echo hello"))


class Place(NamedTuple):
    """A service that lets in who has signed in to `client` and has the scope `tasks`."""

    provider: Provider
    client: Client
    service: Replica

    def token(self, subject: str = "alice", scope: str = "openid tasks") -> str:
        return self.provider.sign_in(self.client, subject, scope=scope).id_token


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with providing(tmp_path_factory.mktemp("provider")) as provider:
        client = provider.register()
        with serving(**trusting(provider, client)) as service:
            yield Place(provider, client, service)


def trusting(provider: Provider, client: Client) -> dict[str, str]:
    """The keys are found by discovery."""
    return {"A2A_OIDC_ISSUER": provider.url, "A2A_JWT_AUDIENCE": client.id, "A2A_JWT_SCOPES": "tasks"}


async def test_who_has_signed_in_owns_what_they_began(connect: Connect, place: Place) -> None:
    """By issuer and subject (OpenID Connect Core 1.0, 2), so that another sign-in of the same person is the same."""
    alice = await connect(place.service, token=place.token())
    again, bob = (
        await connect(place.service, token=place.token()),
        await connect(place.service, token=place.token("bob")),
    )

    task = await alice.task("ask")

    assert (await again.get(task.id)).id == task.id
    await refused(TASK_NOT_FOUND, bob.get(task.id))
    await again.cancel(task.id)

    def ended() -> list[str]:
        return [one["principal"] for one in records(place.service) if one.get("task_id") == task.id]

    assert await wait_until(ended, "it is on record") == [f"{place.provider.url}#alice"]


REFUSED: dict[str, tuple[Callable[[Place], str], str]] = {
    "of another client": (
        lambda place: place.provider.sign_in(place.provider.register(), scope="tasks").id_token,
        "The token is not meant for this service: its audience is another one.",
    ),
    "of the provider by another name": (
        lambda place: place.provider.sign_in(place.client, host="login.example.com", scope="tasks").id_token,
        "The token is of an issuer that is not trusted here.",
    ),
    "expired": (
        lambda place: place.provider.sign_in(place.client, scope="tasks", exp=int(time.time()) - 60).id_token,
        "The token has expired.",
    ),
    "with another subject": (
        lambda place: forged(place.token("bob"), sub="alice"),
        "The signature of the token does not hold.",
    ),
    "with a scope more": (
        lambda place: forged(place.token(scope="openid"), scope="openid tasks"),
        "The signature of the token does not hold.",
    ),
    "opaque": (
        lambda place: place.provider.sign_in(place.client, scope="tasks").access_token,
        "The bearer token is no JSON Web Token.",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_other_tokens_of_the_provider_do_not_open(name: str, everywhere: Everywhere, place: Place) -> None:
    make, said = REFUSED[name]
    for caller in await everywhere(place.service, token=make(place)):
        failure = await refused(UNAUTHENTICATED, caller.get("unknown"))
        assert failure.message == said
        assert challenges(failure) == f'Bearer error="invalid_token", error_description="{said}"'


async def test_who_lacks_the_scope_hears_its_name(connect: Connect, place: Place) -> None:
    """RFC 6750, 3.1."""
    caller = await connect(place.service, token=place.token(scope="openid"))
    failure = await refused(PERMISSION_DENIED, caller.get("unknown"))
    assert "the scope tasks" in failure.message
    assert challenges(failure) == 'Bearer error="insufficient_scope", scope="tasks"'


async def test_the_client_shows_what_a_sign_in_gave(binding: str, place: Place) -> None:
    """And is led by the card to the provider's own description."""
    async with await A2AClient.connect(
        place.service.http_url, bindings=[binding], credentials=BearerToken(place.token)
    ) as client:
        answer = await client.send_message(SEND)
    assert answer.task.status.state == pb.TASK_STATE_COMPLETED
    assert client.card is not None
    scheme = client.card.security_schemes["openIdConnect"].open_id_connect_security_scheme
    assert scheme.open_id_connect_url == f"{place.provider.url}/.well-known/openid-configuration"
    assert place.provider.described()["issuer"] == place.provider.url


async def test_the_client_says_what_the_provider_has_refused(place: Place) -> None:
    """A grant that the provider does not have (RFC 6749, 5.2); it is asked where its description says."""
    async with await A2AClient.connect(
        place.service.http_url,
        credentials=ClientCredentials(*place.client),
        allow_origins=[place.provider.url],
    ) as client:
        with pytest.raises(CredentialsError, match="unsupported_grant_type"):
            await client.send_message(SEND)


async def test_the_next_key_of_the_provider_is_known_as_soon_as_it_signs(
    everywhere: Everywhere, tmp_path: Path
) -> None:
    """Though its tokens do not say that they are signed with another."""
    with providing(tmp_path) as provider:
        client = provider.register()
        with serving(**{**trusting(provider, client), "A2A_JWT_SCOPES": ""}) as service:
            old = provider.sign_in(client).id_token
            for caller in await everywhere(service, token=old):
                await refused(TASK_NOT_FOUND, caller.get("unknown"))
            provider.stop()
            provider.start()
            fresh = provider.sign_in(provider.register(), aud=client.id).id_token
            for caller in await everywhere(service, token=fresh):
                await refused(TASK_NOT_FOUND, caller.get("unknown"))
            for caller in await everywhere(service, token=old):
                failure = await refused(UNAUTHENTICATED, caller.get("unknown"))
                assert failure.message == "The signature of the token does not hold."
