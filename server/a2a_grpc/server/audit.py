"""The audit trail: who was refused, who ended what, what operators did. One record for each event, without secrets.

The records go to the logger `a2a_grpc.audit`, whatever the level of the log; in the JSON form of the log each fact is a
field of its own.
"""

import logging

from a2a_grpc.wire.errors import excerpt

log = logging.getLogger("a2a_grpc.audit")


def note(
    event: str, *, principal: str = "", tenant: str = "", peer: str = "", request_id: str = "", **facts: str | int
) -> None:
    """Put `event` on record.

    `principal` is the name of the caller, "" for one that is not known; `peer` its network address. Facts must
    hold nothing that opens a door: names of schemes and scopes, ids, addresses, never what was sent as credentials.
    """
    fields: dict[str, str | int] = {
        "event": event,
        "principal": excerpt(principal),
        "tenant": excerpt(tenant),
        "peer": excerpt(peer),
        "request_id": excerpt(request_id),
        **{name: excerpt(value) if isinstance(value, str) else value for name, value in facts.items()},
    }
    told = " ".join(f"{name}={value!r}" for name, value in fields.items() if value != "" and name != "event")
    log.info("%s %s", event, told, extra={"fields": fields})
