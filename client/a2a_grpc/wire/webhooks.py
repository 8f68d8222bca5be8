"""What sender and receiver of push notifications agree on (4.3.3): header names, and the form of the signature.

A signature is a detached JWS (RFC 7515, appendix F): `PROTECTED..SIGNATURE`, over the exact bytes of the body. Its
protected header also says what the body does not: which delivery it is of (`jti`), the number of its event (`seq`), for
which URL (`aud`), and when it was made (`iat`, seconds since 1970).
"""

from typing import Final

NOTIFICATION_TOKEN: Final = "x-a2a-notification-token"  # noqa: S105 - the name of the header
DELIVERY_ID: Final = "x-a2a-delivery-id"
"""The same for each attempt to deliver an event to a webhook, and for nothing else."""
EVENT_SEQ: Final = "x-a2a-event-seq"
"""The number of the event in its task: that of the event's `id` in a stream."""
SIGNATURE: Final = "x-a2a-signature"

JWKS_PATH: Final = "/.well-known/jwks.json"
"""Where the keys are published, behind the URL of the agent."""
