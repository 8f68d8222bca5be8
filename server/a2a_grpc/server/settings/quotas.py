"""The settings of what callers may ask for in which time and at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BeforeValidator, Field

from a2a_grpc.server.hosting.limits import GROUPS, SLOWEST, Group, HostLimits, Quota
from a2a_grpc.server.settings.source import Group as SettingsGroup
from a2a_grpc.server.settings.values import Variable
from a2a_grpc.server.store.stock import Rate

_FASTEST = 1e6
_MOST = 1e9


@dataclass(frozen=True)
class Rates:
    """Rates by groups of operations."""

    values: Mapping[Group, Rate] = field(default_factory=dict)

    def __str__(self) -> str:
        return ",".join(f"{group}={rate}" for group, rate in self.values.items())


def parse_rates(text: str) -> Rates:
    """`GROUP=RATE` or `GROUP=RATE:BURST`, with commas between them. Raises: ValueError."""
    rates: dict[Group, Rate] = {}
    for entry in text.split(","):
        name, _, numbers = entry.strip().partition("=")
        group = next((known for known in GROUPS if known == name.strip()), None)
        if group is None:
            raise ValueError(f"{name[:32]!r} is none of the groups of operations, which are {', '.join(GROUPS)}")
        rates[group] = parse_rate(numbers, group)
    return Rates(rates)


def parse_rate(text: str, name: str = "it") -> Rate:
    """`RATE` or `RATE:BURST`. Raises: ValueError that speaks of `name`."""
    rate, colon, burst = text.partition(":")
    try:
        per_second = float(rate)
        at_once = float(burst) if colon else max(1.0, per_second)
    except ValueError:
        raise ValueError(f"{name} must be a number of calls a second, or RATE:BURST, for example 5:20") from None
    if not SLOWEST <= per_second <= _FASTEST or not 1 <= at_once <= _MOST:
        raise ValueError(
            f"{name} needs a rate from {SLOWEST:f} to {_FASTEST:.0f} calls a second, and a burst of at least 1"
        )
    return Rate(per_second, at_once)


RatesText = Annotated[Rates, BeforeValidator(lambda value: parse_rates(value) if isinstance(value, str) else value)]
RateText = Annotated[Rate | None, BeforeValidator(lambda value: parse_rate(value) if isinstance(value, str) else value)]
Count = Annotated[int, Field(ge=0, le=10**9)]

_GROUPS = (
    "`send` (SendMessage, SendStreamingMessage), `read` (GetTask, ListTasks, the extended card, reading push configs), "
    "`follow` (SubscribeToTask) and `change` (CancelTask, writing push configs); of a registry `read` (GetAgent, "
    "SearchAgents) and `change` (the others)"
)


class QuotaSettings(SettingsGroup):
    """Limits on callers."""

    caller_rates: Annotated[
        RatesText,
        Variable(
            name="A2A_LIMIT_CALLER_RATES",
            default="none",
            doc="Calls a second of one caller, by groups of operations, as GROUP=RATE or GROUP=RATE:BURST with commas "
            f"between them: `send=5:20,read=50`. The groups are {_GROUPS}. Without a burst a second's worth may come "
            "at once. Callers without a name are told apart by their network address.",
        ),
    ] = Rates()
    caller_calls: Annotated[
        Count, Variable(name="A2A_LIMIT_CALLER_CALLS", doc="Unary calls of one caller in progress. 0 sets no limit.")
    ] = 0
    caller_streams: Annotated[
        Count, Variable(name="A2A_LIMIT_CALLER_STREAMS", doc="Open streams of one caller. 0 sets no limit.")
    ] = 0
    caller_tasks: Annotated[
        Count,
        Variable(
            name="A2A_LIMIT_CALLER_TASKS",
            doc="Tasks of one owner that run or wait for their turn; a few more may get in at the same moment. "
            "0 sets no limit.",
        ),
    ] = 0
    tenant_rates: Annotated[
        RatesText,
        Variable(
            name="A2A_LIMIT_TENANT_RATES",
            default="none",
            doc="The same for all callers of a tenant together; of the service where one agent serves all tenants.",
        ),
    ] = Rates()
    tenant_calls: Annotated[
        Count,
        Variable(name="A2A_LIMIT_TENANT_CALLS", doc="Unary calls of a tenant in progress. 0 sets no limit."),
    ] = 0
    tenant_streams: Annotated[
        Count, Variable(name="A2A_LIMIT_TENANT_STREAMS", doc="Open streams of a tenant. 0 sets no limit.")
    ] = 0

    failed_authentication: Annotated[
        RateText,
        Variable(
            name="A2A_LIMIT_FAILED_AUTHENTICATION",
            expects="RATE or RATE:BURST",
            default="none",
            doc="Bad credentials a second of one network address, as RATE or RATE:BURST: `0.1:20`. Beyond that nobody "
            "there is listened to, so leave it out where a proxy or a gateway stands in front: all callers have one "
            "address then.",
        ),
    ] = None

    def limits(self, max_message_bytes: int) -> HostLimits:
        """The limits of an agent that has none of its own."""
        return HostLimits(
            max_message_bytes=max_message_bytes,
            caller=Quota(
                rates=self.caller_rates.values,
                calls=self.caller_calls or None,
                streams=self.caller_streams or None,
                tasks=self.caller_tasks or None,
            ),
            tenant=Quota(
                rates=self.tenant_rates.values,
                calls=self.tenant_calls or None,
                streams=self.tenant_streams or None,
            ),
        )
