"""The measured part of this folder's README, written from the results. `python -m bench.report` writes it anew."""

import re
from pathlib import Path

from bench import plots, results
from bench.subject import Budget
from bench.subjects import SUBJECTS

README = Path(__file__).parent / "README.md"
_BEGIN, _END = "<!-- what stands from here on is written by bench/report.py -->", "<!-- to here -->"


def markdown(folder: Path) -> str:
    """All goals, those that were missed by name, and the tables of each subject."""
    found = list(results.loaded(SUBJECTS, folder))
    held = [budget for subject, taken in found for budget in subject.budgets(taken.result)]
    parts = [
        "## Goals",
        "| work | against | reached | goal | met |\n|---|---|---|---|---|\n" + "\n".join(one.row() for one in held),
        missed(held),
    ]
    for subject, taken in found:
        picture = plots.file_of(subject.name, folder)
        parts += [
            f"## {subject.title}",
            taken.circumstances(),
            subject.tables(taken.result),
            *([f"![{subject.title}](plots/{picture.name})"] if picture.exists() else []),
        ]
    return "\n\n".join(parts)


def missed(budgets: list[Budget]) -> str:
    """Those that were missed, in a sentence."""
    found = [one for one in budgets if not one.met]
    if not found:
        return "All goals are met."
    return (
        f"**{len(found)} missed:** "
        + "; ".join(f"{one.work}{'' if one.against == '–' else f', against {one.against}'}" for one in found)
        + "."
    )


def write(folder: Path, page: Path) -> None:
    """Put it into `page`, between its marks; a page that is not there is made."""
    text = page.read_text(encoding="utf-8") if page.exists() else f"# Figures\n\n{_BEGIN}\n{_END}\n"
    written, count = re.subn(
        f"(?<={re.escape(_BEGIN)}\n).*?(?={re.escape(_END)})",
        lambda _: f"\n{markdown(folder)}\n\n",
        text,
        flags=re.DOTALL,
    )
    if count != 1:
        raise RuntimeError(f"{page} has no place for the figures")
    page.write_text(written, encoding="utf-8")


if __name__ == "__main__":
    plots.draw(results.FOLDER)
    write(results.FOLDER, README)
