"""`make bench`: every figure and every plot of this folder's README, in one run.

`python -m bench NAME...` takes some subjects anew and keeps the others. `--quick` takes a short look at each and leaves
the README alone.
"""

import argparse
import shutil
import sys
from pathlib import Path

from bench import plots, report, results
from bench.subject import FULL, QUICK
from bench.subjects import SUBJECTS

_QUICK = Path("build/bench")


def main() -> int:
    """Measure, and write what was measured. Returns the exit status."""
    names = [subject.name for subject in SUBJECTS]
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*names, []], metavar="NAME", help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help=f"one short round of each, into {_QUICK}")
    arguments = parser.parse_args()
    for program, package in (("h2load", "nghttp2-client"), ("taskset", "util-linux")):
        if shutil.which(program) is None:
            sys.stderr.write(f"bench: {program} is missing; Debian has it in the package {package}\n")
            return 2
    folder, page = (_QUICK / "results", _QUICK / "README.md") if arguments.quick else (results.FOLDER, report.README)
    for subject in SUBJECTS:
        if subject.name in (arguments.names or names):
            sys.stdout.write(f"{subject.title} …\n")
            sys.stdout.flush()
            taken = results.take(subject, QUICK if arguments.quick else FULL)
            results.save(subject, taken, folder)
            sys.stdout.write(subject.tables(taken.result) + "\n\n")
    plots.draw(folder)
    report.write(folder, page)
    sys.stdout.write(f"{page}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
