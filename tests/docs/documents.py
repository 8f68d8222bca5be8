"""The documents of this repository, as the tests of them see them."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_HEADING = re.compile(r"#+ (.*)")
_FENCE = re.compile(r"```(\w*)")


def documents() -> list[Path]:
    """Every page that people read, the records of decisions included."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")])


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the heading that it stands under."""

    heading: str
    language: str
    text: str


def blocks(path: Path) -> list[Block]:
    """The fenced blocks of a page, in their order."""
    found: list[Block] = []
    heading, language, lines = "", None, list[str]()
    for line in path.read_text(encoding="utf-8").splitlines():
        fence = _FENCE.fullmatch(line)
        if language is not None:
            if line == "```":
                found.append(Block(heading, language, textwrap.dedent("\n".join(lines)) + "\n"))
                language, lines = None, []
            else:
                lines.append(line)
        elif fence:
            language = fence[1]
        elif title := _HEADING.fullmatch(line):
            heading = title[1]
    assert language is None, f"{path.name} ends inside a fenced block"
    return found


def prose(path: Path) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The fragments that links into a page may have, formed as GitHub forms them."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def table(path: Path, first_column: str) -> list[str]:
    """The rows of the table whose header begins with `first_column`, without header and rule."""
    lines = path.read_text(encoding="utf-8").splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith(f"| {first_column} |")), None)
    assert start is not None, f"{path.name} has no table that begins with {first_column!r}"
    rows: list[str] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(line)
    return rows
