"""Where the options of a command come from: its flags, the environment, two files, what is built in.

That is also the order in which they count (a2a-cli specification 0.2, 6.5 and 8.3). Nothing is ever written: what a
command has seen of tasks and contexts is gone when it ends.
"""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from a2a_grpc.client.cli.failures import USAGE, CommandError
from a2a_grpc.wire.errors import excerpt

PREFIX: Final = "A2ACLI_"
GLOBAL_FILE: Final = Path(".config/a2a-cli/.env")
"""In the home of the user, where every implementation of the specification looks."""

SECRET_OPTIONS: Final = ("bearer", "api-key", "client-secret", "svc-param", "registry-bearer", "registry-api-key")
"""Options whose values nobody may see."""

_MAX_BYTES: Final = 64 * 1024


class Value(NamedTuple):
    """The text of a setting, and where it was found."""

    text: str
    source: str


class Settings:
    """What the environment and the files say, by the name of the option."""

    def __init__(self, sources: Mapping[str, Value], warnings: list[str]) -> None:
        self._values = sources
        self.warnings = warnings
        """What is wrong with the files, though they can be used."""

    def get(self, option: str) -> Value | None:
        """What is set for `--option`; None: nothing."""
        return self._values.get(variable(option))

    def unknown(self, options: Iterator[str]) -> list[str]:
        """The names that are set and stand for no option."""
        known = {variable(option) for option in options}
        return sorted(name for name in self._values if name not in known)


def variable(option: str) -> str:
    """The name of an option in the environment and in files."""
    return PREFIX + option.upper().replace("-", "_")


def environment(option: str) -> str | None:
    """What the environment says about an option."""
    return os.environ.get(variable(option))


def load(explicit: Path | None = None) -> Settings:
    """The settings in effect. `explicit` is read in place of the local file.

    The local file is the first `.env` from the working directory upwards. One that others could have written is left
    alone: it could send the user's credentials anywhere. Raises CommandError for a file that cannot be read.
    """
    values: dict[str, Value] = {}
    warnings: list[str] = []
    files = [Path.home() / GLOBAL_FILE]
    if explicit is not None:
        if not explicit.is_file():
            raise CommandError(USAGE, f"There is no configuration file {excerpt(str(explicit))}.")
        files.append(explicit)
    elif (local := _local()) is not None:
        files.append(local)
    for file in files:
        found = _read(file, warnings, trusted=file == explicit)
        values |= {name: Value(text, str(file)) for name, text in found.items()}
    values |= {name: Value(text, "environment") for name, text in os.environ.items() if name.startswith(PREFIX)}
    return Settings(values, warnings)


def _local() -> Path | None:
    here = Path.cwd()
    return next((found for folder in (here, *here.parents) if (found := folder / ".env").is_file()), None)


def _read(file: Path, warnings: list[str], *, trusted: bool) -> dict[str, str]:
    try:
        status = file.stat()
        if not stat.S_ISREG(status.st_mode):
            return {}
        with file.open("rb") as opened:
            text = opened.read(_MAX_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CommandError(
            USAGE, f"The configuration {excerpt(str(file))} cannot be read: {error.strerror}."
        ) from error
    found = dict(_assignments(text))
    if not found:
        return {}
    if not trusted and (status.st_uid not in (os.getuid(), 0) or status.st_mode & stat.S_IWOTH):
        warnings.append(f"{file} belongs to somebody else, or others may write it: it is not used (--config names it)")
        return {}
    if found.keys() & set(map(variable, SECRET_OPTIONS)) and status.st_mode & 0o077:
        warnings.append(f"{file} holds credentials and others may read it: chmod 600 it")
    return found


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    """The lines of a dotenv file that are for this command: `A2ACLI_KEY=value`."""
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name.startswith(PREFIX):
            continue
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        yield name, value
