"""Where traces and metrics are sent."""

from typing import TYPE_CHECKING, Final

from a2a_grpc.server.settings import Settings

if TYPE_CHECKING:
    from a2a_grpc.server.telemetry.otlp import Collector

_FAREWELL: Final = 1.0
_SHARE: Final = 0.25


def farewell(settings: Settings) -> float:
    """The seconds that a collector has at the end to take the last traces, and again for the metrics.

    Where the drain leaves little of its time, they are fewer: a collector that is away must not make a stop overdue.
    """
    drain = settings.drain
    return min(_FAREWELL, _SHARE * (drain.timeout - drain.delay - drain.grace))


def collector_of(settings: Settings, replica: str) -> "Collector | None":
    """The collector that the settings name, for the process `replica`; None where they name none."""
    otlp = settings.otlp
    if otlp.endpoint is None or otlp.disabled:
        return None
    # It takes a third of a second to load.
    from a2a_grpc.server.telemetry.otlp import Collector  # noqa: PLC0415

    return Collector(
        endpoint=otlp.endpoint, replica=replica, attributes=otlp.attributes, headers=dict(otlp.headers.pairs)
    )
