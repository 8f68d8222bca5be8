"""`python -m tests.chaos --seed N --seconds S`: a run of any length by hand, or a look at one that was kept."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.chaos.faults import ON_ONE_SERVER, ON_SENTINEL
from tests.chaos.fleet import plain_fleet, sentinel_fleet
from tests.chaos.history import load
from tests.chaos.report import judge
from tests.chaos.rolling import PREVIOUS, roll, unpack_previous
from tests.chaos.run import chaos


def main() -> int:
    """Exit status 1 where something was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--sentinel", action="store_true", help="on a master, its replicas and sentinels")
    parser.add_argument(
        "--rolling",
        nargs="?",
        const=PREVIOUS,
        metavar="COMMIT",
        help="beside another version, by default the previous one; without faults, unless --only names some",
    )
    parser.add_argument("--only", help="kinds of faults, with commas between them")
    parser.add_argument("--check", type=Path, metavar="FILE", help="check a history that was kept, and run nothing")
    given = parser.parse_args()
    only = given.only.split(",") if given.only else []
    if given.check is not None:
        report = judge(load(given.check))
    elif given.rolling:
        with tempfile.TemporaryDirectory(prefix="a2a-chaos-previous-") as folder:
            if why_not := unpack_previous(Path(folder), given.rolling):
                parser.error(why_not)
            faults = {name: ON_ONE_SERVER[name] for name in only}
            report = asyncio.run(roll(given.seed, given.seconds, Path(folder), faults))
    else:
        make, kinds = (sentinel_fleet, ON_SENTINEL) if given.sentinel else (plain_fleet, ON_ONE_SERVER)
        if only:
            kinds = {name: kinds[name] for name in only}
        report = asyncio.run(chaos(given.seed, given.seconds, make, kinds))
    print(report)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
