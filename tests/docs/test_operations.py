"""What docs/OPERATIONS.md tells operators is what tests prove: each entry of its lists names them."""

import ast
import re
from functools import cache

import pytest

from tests.docs.documents import ROOT

PAGE = (ROOT / "docs" / "OPERATIONS.md").read_text()
_PROOF = re.compile(r"<!-- (tests/[a-z0-9_/]+\.py)::(test_[a-z0-9_]+) -->")


def entries() -> list[str]:
    """Every entry of every list, with what stands behind it up to the next one or the next paragraph."""
    return re.findall(r"^- (?:.|\n(?=  ))+", PAGE, re.MULTILINE)


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of the test functions in a file."""
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_the_page_has_entries() -> None:
    assert len(entries()) > 50


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry[2:50])
def test_an_entry_names_tests_that_are_there(entry: str) -> None:
    named = _PROOF.findall(entry)
    assert named, "no test is named behind this entry"
    missing = [f"{path}::{name}" for path, name in named if not (ROOT / path).is_file() or name not in names_in(path)]
    assert missing == []
