"""The dashboard and the alerts: they ask for what is measured, do what they say, and each alert has a way out."""

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from a2a_grpc.server.telemetry.instruments import ALL, Durations
from tests.docs.documents import ROOT
from tests.telemetry.test_instruments import read_as

pytestmark = pytest.mark.wide

FOLDER = ROOT / "deploy" / "observability"
RUNBOOK = (ROOT / "docs" / "OPERATIONS.md").read_text()
RULES = [rule for group in yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"] for rule in group["rules"]]
PANELS = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel.get("targets", [])]
_METRIC = re.compile(r"\b(?:a2a|rpc|db)_[a-z0-9_]+")
_LABELS = re.compile(r"\b(?:by|on|without) \(([^)]*)\)|\{([^}]*)\}|label_values\([^)]*\)")


def promtool(*arguments: str, cwd: Path = FOLDER, code: int = 0) -> str:
    """What it tells, with the exit code `code`."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian: prometheus)")
    done = subprocess.run([program, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def labels_of() -> dict[str, set[str]]:
    """The names of all samples, as Prometheus has them, each with its labels."""
    found: dict[str, set[str]] = {}
    for instrument in ALL:
        labels = {label.replace(".", "_") for label in getattr(instrument, "labels", ())}
        name = read_as(instrument)
        if isinstance(instrument, Durations):
            found |= {f"{name}_{part}": labels | {"le"} for part in ("bucket", "count", "sum")}
        else:
            found[name] = labels
    # What a supervisor tells by itself (tests/process/test_workers.py).
    return found | {"a2a_worker_up": {"worker"}, "a2a_worker_replacements_total": {"worker"}}


def test_the_dashboard_is_what_its_code_makes() -> None:
    made = runpy.run_path(str(FOLDER / "dashboard.py"))["dashboard"]()
    assert json.loads((FOLDER / "dashboard.json").read_text()) == made, "run `make dashboard`"


def test_panels_stand_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert all(0 <= x < 24 for x, _ in cells)
        taken |= cells
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


@pytest.mark.parametrize("query", [*QUERIES, *(rule["expr"] for rule in RULES)])
def test_all_that_is_asked_for_is_measured(query: str) -> None:
    known = labels_of()
    bare = re.sub(_LABELS, "", query)
    asked = set(_METRIC.findall(bare))
    assert asked, query
    assert asked <= known.keys(), asked - known.keys()
    # Labels of ours; the others come from Prometheus, or from several workers in one process.
    own = {"job", "instance", "worker", "le"}.union(*(known[name] for name in asked))
    named = [group for found in _LABELS.findall(query) for group in found if group]
    labels = {
        label for group in named for label in re.findall(r"[a-z_0-9]+(?=\s*(?:=|!|,|$))", re.sub(r'"[^"]*"', "", group))
    }
    assert labels <= own, labels - own


def test_every_instrument_is_shown() -> None:
    shown = {name for query in QUERIES for name in _METRIC.findall(query)}
    missing = [
        read_as(each)
        for each in ALL
        if not any(name.removesuffix("_count").removesuffix("_bucket") == read_as(each) for name in shown)
    ]
    assert missing == []


def test_queries_are_what_prometheus_reads(tmp_path: Path) -> None:
    """Its parser is in promtool, which takes them as rules."""
    rules = [
        {"record": f"panel:{at}", "expr": query.replace("$__rate_interval", "5m").replace("$job", "x")}
        for at, query in enumerate(QUERIES)
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", str(file))


def test_the_rules_do_what_their_tests_say() -> None:
    promtool("check", "rules", "rules.yaml")
    promtool("test", "rules", "rules_test.yaml")


def test_no_alert_comes_before_its_time(tmp_path: Path) -> None:
    """Each has a moment in the tests at which it would have fired if it waited for nothing."""
    rules = yaml.safe_load((FOLDER / "rules.yaml").read_text())
    waiting = [rule for group in rules["groups"] for rule in group["rules"] if "for" in rule]
    for rule in waiting:
        rule["for"] = "0s"
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    shutil.copy(FOLDER / "rules_test.yaml", tmp_path)
    told = promtool("test", "rules", "rules_test.yaml", cwd=tmp_path, code=1)
    early = set(re.findall(r"alertname\W+(\w+)", told))
    assert {rule["alert"] for rule in waiting} == early


def test_every_alert_is_tried_out_and_has_a_way_out() -> None:
    tried: list[dict[str, Any]] = yaml.safe_load((FOLDER / "rules_test.yaml").read_text())["tests"]
    assert sorted(each["name"] for each in tried) == sorted(rule["alert"] for rule in RULES)
    section = RUNBOOK.partition("\n## Alerts\n")[2].partition("\n## ")[0]
    assert re.findall(r"^### (\w+)$", section, re.MULTILINE) == [rule["alert"] for rule in RULES]
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"docs/OPERATIONS.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert {"summary", "description"} < rule["annotations"].keys()
