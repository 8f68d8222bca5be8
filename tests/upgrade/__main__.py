"""`python -m tests.upgrade [--rounds N]`: rehearse a rolling upgrade; status 1 where something went wrong."""

import argparse
import asyncio
import sys
import time

from tests.upgrade.run import rehearse

parser = argparse.ArgumentParser(prog="python -m tests.upgrade", description="Rehearse a rolling upgrade under load.")
parser.add_argument("--rounds", type=int, default=1, help="how many times each of the three pods is replaced")
given = parser.parse_args()
begun = time.monotonic()
outcome = asyncio.run(rehearse(given.rounds))
print(f"{outcome.replaced} pods replaced in {time.monotonic() - begun:.0f} s")
for what, count in sorted(outcome.seen.calls.items()):
    print(f"{count:6} {what}")
print(f"{len(outcome.seen.streams):6} streams, {sum(len(stream.events) for stream in outcome.seen.streams)} events")
print(f"{outcome.moved:6} of their turns moved to another pod")
problems = outcome.problems()
for problem in problems:
    print(f"WRONG: {problem}")
sys.exit(bool(problems))
