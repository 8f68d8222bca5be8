"""The official Python client reads from our card how to identify itself, and does, with a key or with a token."""

from collections.abc import Iterator

import pytest
from a2a.client import AuthInterceptor, Client, ClientCallContext, CredentialService
from a2a.client.errors import A2AClientError
from a2a.types import GetTaskRequest

from tests.auth.conftest import API_KEYS, serving, trusting
from tests.auth.issuer import AUDIENCE, Issuer
from tests.conformance.callers import KEYS
from tests.interop.python_sdk.sdk import connect as sdk_connect
from tests.interop.python_sdk.sdk import request, send
from tests.support.replica import Replica


class Store(CredentialService):
    """Credentials by the name of the scheme in the card."""

    def __init__(self, **known: str) -> None:
        self.known = known

    async def get_credentials(
        self,
        security_scheme_name: str,
        context: ClientCallContext | None,  # noqa: ARG002 - the interface has it
    ) -> str | None:
        return self.known.get(security_scheme_name)


@pytest.fixture(scope="module")
def service(issuer: Issuer) -> Iterator[Replica]:
    more = {
        "A2A_API_KEYS": API_KEYS,
        "A2A_OAUTH2_FLOWS": "client_credentials",
        "A2A_OAUTH2_TOKEN_URL": f"{issuer.url}/token",
    }
    with serving(**trusting(issuer, **more)) as one:
        yield one


@pytest.fixture(scope="module")
def discovered(issuer: Issuer) -> Iterator[Replica]:
    with serving(A2A_OIDC_ISSUER=issuer.url, A2A_JWT_AUDIENCE=AUDIENCE) as one:
        yield one


async def identified(service: Replica, binding: str, **known: str) -> Client:
    client = await sdk_connect(service.http_url, binding, streaming=False)
    await client.add_interceptor(AuthInterceptor(Store(**known)))
    return client


@pytest.mark.parametrize("scheme", ["bearer", "oauth2ClientCredentials", "apiKey"])
async def test_each_scheme_of_the_card_opens(scheme: str, binding: str, service: Replica, issuer: Issuer) -> None:
    credential = KEYS["alice"] if scheme == "apiKey" else issuer.token()
    async with await identified(service, binding, **{scheme: credential}) as client:
        task = await send(client, request("echo hello"))
        assert (await client.get_task(GetTaskRequest(id=task.id))).artifacts


async def test_openid_connect_opens(binding: str, discovered: Replica, issuer: Issuer) -> None:
    async with await identified(discovered, binding, openIdConnect=issuer.token()) as client:
        assert (await send(client, request("echo hello"))).artifacts


async def test_bad_credentials_do_not(binding: str, service: Replica, issuer: Issuer) -> None:
    code = "UNAUTHENTICATED" if binding == "GRPC" else "401"
    for known in ({}, {"bearer": issuer.token(aud="other")}, {"apiKey": "wrong"}):
        async with await identified(service, binding, **known) as client:
            with pytest.raises(A2AClientError, match=code):
                await client.get_task(GetTaskRequest(id="any"))
