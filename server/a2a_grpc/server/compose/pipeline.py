"""The steps that every call goes through."""

from a2a_grpc.server.calls import steps
from a2a_grpc.server.calls.pipeline import Pipeline
from a2a_grpc.server.calls.tracing import Tracing
from a2a_grpc.server.calls.validation import Validator
from a2a_grpc.server.compose.push import destinations
from a2a_grpc.server.hosting.attempts import Attempts
from a2a_grpc.server.hosting.hosts import Hosts
from a2a_grpc.server.hosting.limiter import Limiter
from a2a_grpc.server.push.terms import Terms
from a2a_grpc.server.service.operations import Operations
from a2a_grpc.server.settings import Settings


def compose_pipeline(
    settings: Settings, hosts: Hosts, attempts: Attempts, limiter: Limiter, operations: Operations
) -> Pipeline:
    """The pipeline around `operations`."""
    return Pipeline(
        operations,
        (
            steps.RequestId(),
            Tracing(),
            steps.AccessLog(),
            steps.Audit(),
            steps.Errors(),
            steps.Deadline(),
            steps.Version(settings.protocol.assume_version),
            steps.Tenant(hosts),
            steps.Authentication(hosts, attempts),
            steps.Limits(limiter),
            steps.Extensions(),
            steps.Capabilities(),
            steps.Validation(
                Validator(
                    max_nesting=settings.limits.max_nesting,
                    max_id_length=settings.limits.max_id_length,
                    webhook=Terms(destinations(settings)).violations,
                )
            ),
        ),
    )
