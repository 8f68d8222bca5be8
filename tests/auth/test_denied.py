"""Deny by default: every operation, over every binding, with every scheme alone, and with all of them together."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.auth.conftest import API_KEYS, Connect, challenges, serving, trusting
from tests.auth.issuer import AUDIENCE, Issuer, private_key
from tests.conformance.callers import OPERATIONS, refused
from tests.conformance.expected import UNAUTHENTICATED
from tests.conformance.test_versions import valid_request
from tests.support.replica import Replica

FLOWS = {
    "A2A_OAUTH2_FLOWS": "client_credentials,authorization_code,device_code",
    "A2A_OAUTH2_TOKEN_URL": "https://issuer.example.com/token",
    "A2A_OAUTH2_AUTHORIZATION_URL": "https://issuer.example.com/login",
    "A2A_OAUTH2_DEVICE_URL": "https://issuer.example.com/device",
}
KEYS = {"A2A_API_KEYS": API_KEYS}
SCHEMES: dict[str, Any] = {
    "header": lambda _: KEYS,
    "query": lambda _: KEYS | {"A2A_API_KEY_IN": "query", "A2A_API_KEY_NAME": "x-api-key"},
    "cookie": lambda _: KEYS | {"A2A_API_KEY_IN": "cookie", "A2A_API_KEY_NAME": "x-api-key"},
    "jwt": trusting,
    "oidc": lambda issuer: {"A2A_OIDC_ISSUER": issuer.url, "A2A_JWT_AUDIENCE": AUDIENCE},
    "oauth2": lambda issuer: trusting(issuer, **FLOWS, A2A_SECURITY="oauth2ClientCredentials, oauth2DeviceCode"),
    "together": lambda issuer: trusting(issuer, **KEYS, A2A_SECURITY="bearer+apiKey"),
}


@pytest.fixture(scope="module", params=SCHEMES)
def service(request: pytest.FixtureRequest, issuer: Issuer) -> Iterator[Replica]:
    with serving(**SCHEMES[request.param](issuer)) as one:
        yield one


@pytest.mark.parametrize("method", OPERATIONS)
async def test_nothing_opens_without_credentials_that_hold(
    method: str, connect: Connect, service: Replica, issuer: Issuer
) -> None:
    stolen = issuer.token(key=private_key("EC"))
    for credentials in (
        {},
        {"token": stolen},
        {"key": "wrong"},
        {"token": stolen, "key": "wrong"},
        {"cookie": "x-api-key=x"},
    ):
        caller = await connect(service, **credentials)
        failure = await refused(UNAUTHENTICATED, caller.call(method, valid_request(method, "unknown")))
        assert challenges(failure)
