"""What docs/SIZING.md takes from `make bench` is what the last run has left in bench/results."""

import json
from statistics import median
from typing import Any

import pytest

from tests.docs.documents import ROOT

PAGE = " ".join((ROOT / "docs" / "SIZING.md").read_text().split())
_MIB = 2**20


def result(name: str) -> Any:
    return json.loads((ROOT / "bench" / "results" / f"{name}.json").read_text())["result"]


def calls() -> list[str]:
    rows = {
        "SendMessage over gRPC, blocking, with three events": "blocking SendMessage over gRPC",
        "SendMessage over HTTP+JSON, the same": "blocking SendMessage over HTTP+JSON",
        "SendStreamingMessage over gRPC, 20 chunks at once": "SendStreamingMessage, 20 chunks",
        "GetTask over gRPC": "GetTask over gRPC",
    }
    works = {work["name"]: work["sides"] for work in result("throughput")["works"]}
    found = []
    for said, work in rows.items():
        [side] = [side for side in works[work] if side["name"] == "a2a-grpc"]
        found.append(f"| {said} | {side['cpu'] / 1000:.2f} ms | {10 * round(side['per_second'] / 10):,} |")
    return found


def events() -> list[str]:
    took = sorted(result("latency")["milliseconds"])
    p50, p99 = took[len(took) // 2], took[len(took) * 99 // 100]
    return [f"{p50:.1f} ms in the median and {p99:.1f} ms at the 99th percentile"]


def recovery() -> list[str]:
    took = result("recovery")["seconds"]["SIGKILL"]
    return [f"({median(took):.1f} s in the median, {max(took):.1f} s at most)"]


def start() -> list[str]:
    return [f"A new one is ready after {median(result('startup')['seconds']):.1f} s,"]


def subscriptions() -> list[str]:
    ours = result("subscriptions")["ours"]
    streams, memory = ours["counts"][-1], ours["memory"]
    each = (memory[-1] - memory[0]) / streams / 1024
    return [
        (
            f"| an idle subscription over gRPC | {each:.0f} KiB; the process with {streams:,} of them "
            f"{memory[-1] / _MIB:.0f} MiB |"
        )
    ]


def soak() -> list[str]:
    found = result("soak")
    samples = found["samples"]
    last = samples[-(len(samples) // 4) :]
    rate = (last[-1]["calls"] - last[0]["calls"]) / (last[-1]["second"] - last[0]["second"])
    whole = round(sum(found["calls"].values()) / 1000)
    service, store = (median(sample[name] for sample in last) / _MIB for name in ("service", "store"))
    most = max(sample["store"] for sample in samples) / _MIB
    return [
        f"After {found['minutes']:.0f} minutes at full load, {whole},000 calls, a process had {service:.0f} MiB.",
        f"{rate:.0f} calls a second in its last quarter",
        f"the store held {store:.0f} MiB in the median and {most:.0f} MiB at most.",
    ]


def tasks() -> list[str]:
    return [
        (
            "| a task: a message, three events with a text of four bytes, rows in the indexes | "
            f"{result('listing')['bytes_a_task'] / 1024:.1f} KiB |"
        )
    ]


SAID = [said for part in (calls, events, recovery, start, subscriptions, soak, tasks) for said in part()]


@pytest.mark.parametrize("said", SAID)
def test_what_the_page_says_was_measured(said: str) -> None:
    assert said in PAGE
