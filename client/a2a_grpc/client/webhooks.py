"""For receivers of push notifications (4.3.3, 13.2): who sent this, and what it says.

    keys = httpx.get("https://agent.example.com/.well-known/jwks.json").json()   # keep them for a while
    ...
    verify(request.headers, body, keys, url="https://me.example.com/hook")       # raises NotVerifiedError
    delivery = parse(request.headers, body)
    if delivery.id in seen: return 200                                           # a repeat

Answer with a 2xx status once the delivery is safe: it comes again until then.
"""

import base64
import hmac
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson
from jwt import PyJWK, PyJWS
from jwt.exceptions import PyJWTError

from a2a_grpc.pb import a2a_pb2
from a2a_grpc.wire import protojson
from a2a_grpc.wire.errors import InvalidArgumentError, UnauthenticatedError
from a2a_grpc.wire.webhooks import DELIVERY_ID, EVENT_SEQ, NOTIFICATION_TOKEN, SIGNATURE

ALGORITHMS = ("ES256", "RS256", "EdDSA")
_SKEW = 60.0
# Of the number of an event: more are no number that an agent counted up to.
_MOST_DIGITS = 18


class NotVerifiedError(UnauthenticatedError):
    """A request that is not known to be from the agent: answer 401, and do nothing with it."""


class Delivery(NamedTuple):
    """One notification."""

    id: str
    """The same each time the same event comes; "" where the agent does not say."""
    seq: int
    """The number of the event in its task: higher than that of the one before. 0 where the agent does not say."""
    task_id: str
    """To be compared with the tasks that the receiver knows (13.2); "" for a message without one."""
    event: a2a_pb2.StreamResponse
    """Exactly one of task, message, status update and artifact update."""


def parse(headers: Mapping[str, str], body: bytes) -> Delivery:
    """What a notification says. Raises: InvalidArgumentError where it is none."""
    event = protojson.loads(body, a2a_pb2.StreamResponse)
    kind = event.WhichOneof("payload")
    if kind is None:
        raise InvalidArgumentError("The notification holds no task, message, status update or artifact update.")
    payload = getattr(event, kind)
    seq = _header(headers, EVENT_SEQ)
    numbered = seq.isascii() and seq.isdigit() and len(seq) <= _MOST_DIGITS
    return Delivery(
        id=_header(headers, DELIVERY_ID),
        seq=int(seq) if numbered else 0,
        task_id=payload.id if kind == "task" else payload.task_id,
        event=event,
    )


def check_token(headers: Mapping[str, str], token: str) -> None:
    """See that the notification carries the `token` of its config. Raises: NotVerifiedError."""
    if not token or not hmac.compare_digest(_bytes(_header(headers, NOTIFICATION_TOKEN)), _bytes(token)):
        raise NotVerifiedError("The notification does not carry the token that its receiver gave.")


def verify(
    headers: Mapping[str, str],
    body: bytes,
    jwks: Mapping[str, Any],
    *,
    url: str,
    max_age: float = 300,
    now: float | None = None,
) -> None:
    """See that `body`, byte for byte, was signed by a key in `jwks`, for the webhook at `url`, and not long ago.

    `url` is that of the config, letter for letter. `max_age` in seconds: what is older may be a copy of something that
    was sent once. `now` in seconds since 1970, default: the clock's.

    Raises: NotVerifiedError.
    """
    protected, dots, signature = _header(headers, SIGNATURE).partition("..")
    if not dots or not signature:
        raise NotVerifiedError("The notification is not signed.")
    payload = base64.urlsafe_b64encode(body).rstrip(b"=").decode()
    try:
        about = orjson.loads(base64.urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))
        key = _key(jwks, about)
        PyJWS().decode_complete(f"{protected}.{payload}.{signature}", key, algorithms=[key.algorithm_name])
        made = float(about["iat"])
        addressed = (about["aud"], about["jti"], str(about["seq"]))
    except (PyJWTError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise NotVerifiedError("The signature of the notification does not hold.") from error
    if addressed != (url, _header(headers, DELIVERY_ID), _header(headers, EVENT_SEQ)):
        raise NotVerifiedError("The notification was signed for another webhook, or another delivery.")
    age = (time.time() if now is None else now) - made
    if not -_SKEW <= age <= max_age:
        raise NotVerifiedError("The notification was signed too long ago.")


def _key(jwks: Mapping[str, Any], about: Mapping[str, Any]) -> PyJWK:
    """The key that the header names. Its algorithm is what the key says, whatever the header does."""
    for jwk in jwks["keys"]:
        if jwk.get("kid") == about["kid"]:
            key = PyJWK(jwk)
            if key.algorithm_name in ALGORITHMS and key.algorithm_name == about["alg"]:
                return key
    raise KeyError("kid")


def _header(headers: Mapping[str, str], name: str) -> str:
    found = headers.get(name)
    if found is None:
        found = next((value for known, value in headers.items() if known.lower() == name), "")
    return found


def _bytes(text: str) -> bytes:
    """Servers give what is not UTF-8 in a header as lone surrogates."""
    return text.encode(errors="surrogatepass")


__all__ = ["Delivery", "NotVerifiedError", "check_token", "parse", "verify"]
