"""Which verbs a resource has: the answer to OPTIONS, and to those that it does not have."""

from collections.abc import Sequence

from a2a_grpc.server.bindings.asgi.cors import Cors
from a2a_grpc.server.bindings.asgi.exchange import Exchange
from a2a_grpc.server.bindings.asgi.failure import allowed_verbs
from a2a_grpc.server.bindings.asgi.types import Header
from a2a_grpc.wire.errors import MethodNotAllowedError


async def answer_options(exchange: Exchange, cors: Cors, verbs: Sequence[str], headers: Sequence[Header] = ()) -> None:
    """Answer OPTIONS, a preflight (CORS) or not, for a resource that has `verbs`."""
    allow = (b"allow", ", ".join(verbs).encode())
    asked = exchange.parameters.get("access-control-request-headers")
    await exchange.respond_empty(204, [allow, *headers, *cors.preflight(verbs, asked)])


async def answer_other_verb(
    exchange: Exchange, cors: Cors, refusal: MethodNotAllowedError, headers: Sequence[Header] = ()
) -> None:
    """Answer OPTIONS, or raise `refusal`, which knows what verbs there are."""
    if exchange.verb != "OPTIONS":
        raise refusal
    await answer_options(exchange, cors, allowed_verbs(refusal), headers)
