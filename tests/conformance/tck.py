"""Runs the public A2A test kit on the conformance agent: `make tck TCK=DIR`.

DIR is the caller's checkout of github.com/a2aproject/a2a-tck, branch 1.0-dev. Nothing is written into it: reports, logs
and the kit's own environment go to build/tck. Each profile is a server and a run of the kit of its own, all at the same
time, since the kit spends its two minutes on waiting. The outcome is compared with known_failures.toml.
"""

import argparse
import asyncio
import contextlib
import hashlib
import os
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.tck_expectations import PROFILES, Verdict, judge, load_expectations, read_results
from tests.push.config import LOCAL
from tests.support.replica import replica

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "tck"

# What of the kit a profile runs, as a pytest -k expression; all of it if not listed. A server that requires an
# extension refuses every message of the kit, since the kit activates none: one test expects that, the others do not.
SELECTION = {"reqext": "TestCapabilityExtensionRequired or agent_card"}
KIT_TIMEOUT = 600.0
TRANSPORTS = ("GRPC", "HTTP+JSON", "JSONRPC", "card", "any")
KINDS = ("passed", "known failure", "skipped", "surprise")


class KitError(Exception):
    """The kit could not be run; the text says what to do."""


async def environment(kit: Path) -> Path:
    """The Python of an environment with the kit's dependencies, made on first use, one for each list of them."""
    try:
        project = tomllib.loads((kit / "pyproject.toml").read_text())["project"]
    except (OSError, KeyError) as error:
        raise KitError(f"{kit} is not a checkout of a2a-tck: it has no usable pyproject.toml ({error})") from None
    if not (kit / "tests" / "compatibility").is_dir():
        raise KitError(f"{kit} has no tests/compatibility: check out its branch 1.0-dev")
    dependencies = sorted(project["dependencies"])
    key = hashlib.sha256("\n".join([sys.version, *dependencies]).encode()).hexdigest()[:12]
    venv = WORK / f"venv-{key}"
    python, done = venv / "bin" / "python", venv / "installed"
    if not done.exists():
        say(f"installing what the kit needs into {venv.relative_to(ROOT)}")
        log = WORK / "install.log"
        await _run([sys.executable, "-m", "venv", "--clear", str(venv)], log, ROOT)
        await _run([str(python), "-m", "pip", "install", "--quiet", *dependencies], log, ROOT)
        done.touch()
    return python


async def run_profile(profile: str, kit: Path, python: Path) -> Path:
    """Serves the profile, runs the kit against it, and returns the JUnit file."""
    report, log = WORK / f"{profile}.xml", WORK / f"{profile}.log"
    report.unlink(missing_ok=True)
    # The kit sends the same messageId many times and means a new message each time.
    async with replica(agent=f"tests.conformance.agent:{profile}", env={**LOCAL, "A2A_DEDUPE_TTL": "0"}) as server:
        command = [str(python), "-m", "pytest", "tests/compatibility", f"--sut-host={server.http_url}"]
        command += ["-q", "--tb=short", "-p", "no:cacheprovider", f"--junitxml={report}"]
        if profile in SELECTION:
            command += ["-k", SELECTION[profile]]
        status = await _run(command, log, kit, failure_is_fine=True)
    # 0: all passed, 1: some failed. Everything else means that the tests did not run.
    if status not in (0, 1) or not report.exists():
        raise KitError(f"the kit did not run for profile {profile} (exit code {status}); see {log.relative_to(ROOT)}")
    return report


async def _run(command: list[str], log: Path, cwd: Path, *, failure_is_fine: bool = False) -> int:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=cwd, stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
            env=kept | {"PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
        try:
            async with asyncio.timeout(KIT_TIMEOUT):
                status = await process.wait()
        except TimeoutError:
            raise KitError(f"{command[0]} did not end within {KIT_TIMEOUT:g} s; see {log.relative_to(ROOT)}") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    if status and not failure_is_fine:
        raise KitError(f"{' '.join(command[:4])} failed; see {log.relative_to(ROOT)}")
    return status


def summary(profile: str, verdict: Verdict) -> str:
    """The counts of a profile as lines of a table, then what was not as expected."""
    rows = [(transport, verdict.counts[transport]) for transport in TRANSPORTS if transport in verdict.counts]
    rows.append(("all", sum(verdict.counts.values(), Counter())))
    lines = [
        f"{profile:8} {transport:10} " + "  ".join(f"{counts[kind]:4d} {kind}" for kind in KINDS)
        for transport, counts in rows
    ]
    return "\n".join([*lines, *(f"  ! {surprise}" for surprise in verdict.surprises)])


def say(text: str) -> None:
    """To the caller's terminal, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def run(kit: Path, profiles: Sequence[str]) -> int:
    """Runs the profiles and returns the exit code: 0 if everything was as expected."""
    expectations = load_expectations()
    WORK.mkdir(parents=True, exist_ok=True)
    for old in WORK.glob("*.log"):
        old.unlink()
    python = await environment(kit)
    reports = await asyncio.gather(*(run_profile(profile, kit, python) for profile in profiles))
    surprises = 0
    for profile, report in zip(profiles, reports, strict=True):
        verdict = judge(profile, read_results(report), expectations)
        surprises += len(verdict.surprises)
        say(summary(profile, verdict))
    say(f"{surprises} surprises" if surprises else "everything as expected")
    return 1 if surprises else 0


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Run the public A2A test kit on the conformance agent.")
    parser.add_argument("kit", type=Path, help="a checkout of a2a-tck, branch 1.0-dev")
    parser.add_argument("--profile", action="append", choices=PROFILES, help="run only this one (repeatable)")
    arguments = parser.parse_args()
    try:
        sys.exit(asyncio.run(run(arguments.kit.resolve(), arguments.profile or PROFILES)))
    except KitError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
