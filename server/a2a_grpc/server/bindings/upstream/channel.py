"""The connection to the upstream, and what its state says about readiness."""

import asyncio
import json
from typing import Final

import grpc
import grpc.aio

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.server.core.readiness import Readiness

COMPONENT: Final = "upstream"

_LOOK_EVERY: Final = 0.1

# Any replica can answer anything, so calls go to all addresses of the name in turn. The gRPC core watches the health of
# each of them (grpc.health.v1) and leaves out those that are draining or have lost their store; one that has no health
# service counts as healthy.
_SERVICE_CONFIG: Final = json.dumps(
    {
        "loadBalancingConfig": [{"round_robin": {}}],
        "healthCheckConfig": {"serviceName": a2a_pb2.DESCRIPTOR.services_by_name["A2AService"].full_name},
        # A call that reaches a server in the moment of its leaving is ended by the library there and never seen by the
        # service (docs/DEPLOY.md). It may be sent to another one; nothing else is: its caller knows better.
        "methodConfig": [
            {
                "name": [{}],
                "retryPolicy": {
                    "maxAttempts": 3,
                    "initialBackoff": "0.05s",
                    "maxBackoff": "0.5s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["CANCELLED"],
                },
            }
        ],
    }
)
_OPTIONS: Final = (
    ("grpc.service_config", _SERVICE_CONFIG),
    # Otherwise a channel to where an earlier one found nobody takes over its wait before the next attempt.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.service_config_disable_resolution", 1),
    # A dead upstream must show in seconds, on an idle connection too; our servers accept a ping every 10 s.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # the one that counts; a minute by default
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.min_reconnect_backoff_ms", 2_000),  # also the limit of one attempt to connect
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Replaced replicas have other addresses. By default it takes half a minute until a name is looked up again.
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    # The binding in front has bounded the request, the upstream answers for its responses.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
)


def open_channel(target: str, authorities: bytes | None = None) -> grpc.aio.Channel:
    """A channel to `target`: "host:port", or another name that gRPC resolves. It connects when used or watched.

    With `authorities` (PEM) it speaks TLS, to whom they vouch for.
    """
    if authorities is None:
        return grpc.aio.insecure_channel(target, options=_OPTIONS)
    return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(authorities), options=_OPTIONS)


async def watch(channel: grpc.aio.Channel, readiness: Readiness) -> None:
    """Keep the component "upstream" of `readiness` true: ready while one replica is. Runs until it is cancelled."""
    while True:
        # Looked at, not waited for: wait_for_state_change cannot be cancelled in the core, and what that delivers later
        # to nobody has been seen to hang other calls and to crash the process.
        state = channel.get_state(try_to_connect=True)
        readiness.set(
            COMPONENT, state is grpc.ChannelConnectivity.READY, "no replica of the remote agent can be reached"
        )
        await asyncio.sleep(_LOOK_EVERY)
