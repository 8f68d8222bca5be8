"""`make bench`: every figure of this folder's README, in one run. `--quick` for a look."""

import argparse
import os
import platform
import shutil
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import median

from bench import growth, latency, startup, throughput


def main() -> int:
    """Measure and print the tables in Markdown. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round of each")
    quick = parser.parse_args().quick
    for program, package in (("h2load", "nghttp2-client"), ("taskset", "util-linux")):
        if shutil.which(program) is None:
            sys.stderr.write(f"bench: {program} is missing; Debian has it in the package {package}\n")
            return 2
    rounds, requests = (1, 1_000) if quick else (5, 5_000)
    _print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} before,")
    _print(f"Python {platform.python_version()}, grpcio {version('grpcio')}, protobuf {version('protobuf')}.")
    _print("\n| work | floor /s | ours /s | ratio | goal | CPU floor µs | CPU ours µs |\n|---|---|---|---|---|---|---|")
    for row in throughput.measure(rounds, requests):
        _print(
            f"| {row.work} | {row.floor:.0f} | {row.ours:.0f} | **{row.ratio:.2f}** | ≥ {row.goal:g} "
            f"| {row.floor_cpu:.0f} | {row.ours_cpu:.0f} |"
        )
    seen = latency.measure(200 if quick else 2_000)
    p50, p99 = latency.percentile(seen, 0.5), latency.percentile(seen, 0.99)
    _print("\n| event seen on another replica | p50 ms | p99 ms | max ms | goal |\n|---|---|---|---|---|")
    _print(f"| {len(seen)} events, one each 5 ms | {p50:.2f} | {p99:.2f} | {seen[-1]:.2f} | p50 ≤ 2, p99 ≤ 10 |")
    _print("\n| chunks of one artifact | µs a chunk | store bytes a chunk |\n|---|---|---|")
    for size in growth.measure(1 if quick else 5):
        _print(f"| {size.chunks} | {size.microseconds:.1f} | {size.store_bytes:.0f} |")
    taken = startup.measure(2 if quick else 5)
    _print("\n| serve until ready, embedded store | median s | max s | goal |\n|---|---|---|---|")
    _print(f"| {len(taken)} starts | {median(taken):.2f} | {taken[-1]:.2f} | ≤ 1.5 |")
    return 0


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
