"""Draws the dashboard as a picture, from a real Prometheus that watches a real service for two minutes.

`python -m tests.deploy.picture FILE [SECONDS]`. Grafana is not needed: the panels, their queries, units and places are
those of dashboard.json, and matplotlib draws them.
"""

import asyncio
import io
import re
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator
from PIL import Image

from tests.deploy.prometheus import RULES, Panel, Prometheus, Series, panels, prometheus
from tests.deploy.watched import Watched, load, watched

mpl.use("Agg")

_WIDTH: Final = 15.0
"""Inches."""
_UNIT: Final = 0.27
"""Inches of height that stand for one of Grafana's."""
_MOST: Final = 8
"""Series that the legend of a panel names; those that are highest."""
_INK, _DIM, _GRID = "#1f2933", "#6b7785", "#e4e7eb"


async def draw(file: Path, seconds: float) -> None:
    """Let a service work for `seconds`, some of it in trouble, and draw what Prometheus has seen."""
    with tempfile.TemporaryDirectory(prefix="a2a-picture-") as home:
        async with watched() as service, prometheus(service.targets, [RULES], Path(home)) as seen:
            await load(service, 6)
            began = time.time()
            await _work(service, seconds)
            ended = time.time()
            shown = [(panel, await _series(seen, panel, began, ended)) for panel in panels()]
    picture = io.BytesIO()
    _drawn(shown, began, ended).savefig(picture, dpi=80, facecolor="white")
    # A few dozen colours, without a loss that shows.
    Image.open(picture).convert("RGB").quantize(96, dither=Image.Dither.NONE).save(file, optimize=True)


async def _work(service: Watched, seconds: float) -> None:
    await load(service, seconds * 0.4)
    await load(service, seconds * 0.2, trouble=True)
    async with service.caller(service.replica, "GRPC") as caller:
        for _ in range(12):
            await caller.task("long", return_immediately=True)
    # What it runs is taken over.
    service.replica.kill()
    await load(service, seconds * 0.1)
    await asyncio.to_thread(service.replica.start)
    await load(service, seconds * 0.3)


Shown = list[tuple[str, Series]]
"""By what stands in the legend."""


async def _series(seen: Prometheus, panel: Panel, began: float, ended: float) -> Shown:
    return [
        (_named(legend, series.labels) or panel.title, series)
        for query, legend in panel.queries
        for series in await seen.between(query, began, ended)
        if series.points
    ]


def _named(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend)


def _drawn(shown: Sequence[tuple[Panel, Shown]], began: float, ended: float) -> Any:
    bottom = max(panel.place["y"] + panel.place["h"] for panel, _ in shown)
    figure = plt.figure(figsize=(_WIDTH, bottom * _UNIT))
    for panel, series in shown:
        place = panel.place
        left, top = place["x"] / 24, 1 - place["y"] / bottom
        if panel.kind == "row":
            figure.text(
                left + 0.008, top - 0.5 / bottom, panel.title, fontsize=11, weight="bold", color=_INK, va="center"
            )
            continue
        # Inside: a title above, the legend below.
        above, below = 1.5, 0.4 if panel.kind == "stat" else 2.5
        height = (place["h"] - above - below) / bottom
        axes = figure.add_axes((left + 0.045, top - above / bottom - height, place["w"] / 24 - 0.06, height))
        more = f"  (named: {_MOST} of {len(series)})" if len(series) > _MOST else ""
        axes.set_title(panel.title + more, fontsize=9.5, loc="left", x=-0.11, color=_INK)
        if panel.kind == "stat":
            _stat(axes, panel, series)
        else:
            _lines(axes, panel, series, began, ended)
    return figure


def _stat(axes: Axes, panel: Panel, shown: Shown) -> None:
    axes.axis("off")
    last = _written(panel.unit, shown[0][1].points[-1][1]) if shown else "no data"
    axes.text(0.5, 0.45, last, fontsize=24, color="#1b6ca8", ha="center", va="center", transform=axes.transAxes)


def _lines(axes: Axes, panel: Panel, shown: Shown, began: float, ended: float) -> None:
    for _, series in shown:
        times, values = zip(*series.points, strict=True)
        axes.plot([at - began for at in times], values, linewidth=1.3)
    axes.set(xlim=(0, ended - began))
    axes.set_ylim(bottom=0)
    if axes.get_ylim()[1] < 1e-9 or not shown or max(v for _, s in shown for _, v in s.points) == 0:
        axes.set_ylim(0, 1)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=panel.unit == "short"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _written(panel.unit, value)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{int(at) // 60}:{int(at) % 60:02d}"))
    axes.tick_params(labelsize=7.5, colors=_DIM, length=0)
    axes.grid(color=_GRID, linewidth=0.6)
    axes.spines[:].set_visible(False)
    highest = sorted(
        zip(axes.get_lines(), shown, strict=True), key=lambda pair: -max(value for _, value in pair[1][1].points)
    )
    named = highest[:_MOST]
    labels = [_short(name) for _, (name, _) in named]
    if not shown:
        axes.text(0.5, 0.5, "no data", fontsize=8, color=_DIM, ha="center", va="center", transform=axes.transAxes)
        return
    axes.legend(
        [line for line, _ in named],
        labels,
        loc="upper left",
        bbox_to_anchor=(-0.12, -0.15),
        ncols=4 if max(map(len, labels)) < 12 else 3 if max(map(len, labels)) < 20 else 2,
        fontsize=7.5,
        labelcolor=_INK,
        frameon=False,
        handlelength=1.0,
        columnspacing=1.0,
        labelspacing=0.25,
    )


def _short(name: str) -> str:
    """Operations without the name of their service."""
    return name.rpartition("/")[2]


def _written(unit: str, value: float) -> str:
    if unit == "percentunit":
        return f"{100 * value:.3g} %"
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 or value == 0 else f"{1000 * value:.3g} ms"
    return f"{value:,.0f}" if unit == "short" else f"{value:.3g}/s"


if __name__ == "__main__":
    asyncio.run(draw(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 120.0))
