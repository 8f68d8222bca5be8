"""Everything that `make bench` measures, in the order of the README."""

from typing import Any

from bench import growth, latency, listing, recovery, soak, startup, subscriptions, throughput
from bench.subject import Subject

SUBJECTS: list[Subject[Any]] = [
    throughput.SUBJECT,
    latency.SUBJECT,
    recovery.SUBJECT,
    growth.SUBJECT,
    listing.SUBJECT,
    subscriptions.SUBJECT,
    startup.SUBJECT,
    soak.SUBJECT,
]
