"""What a caller shows to an agent, as the agent's card asks for it (specification 4.5 and 7)."""

from a2a_grpc.client.credentials.base import Access, Credentials, Surroundings, Wanted
from a2a_grpc.client.credentials.fixed import ApiKey, BearerToken, ClientCertificate
from a2a_grpc.client.credentials.oauth import ClientCredentials, DeviceCode, DeviceFlow

__all__ = [
    "Access",
    "ApiKey",
    "BearerToken",
    "ClientCertificate",
    "ClientCredentials",
    "Credentials",
    "DeviceCode",
    "DeviceFlow",
    "Surroundings",
    "Wanted",
]
