"""The plots of this folder's README."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from bench import growth, latency, listing, recovery, results, soak, subscriptions, throughput
from bench.rounds import percentile
from bench.subjects import SUBJECTS

mpl.use("Agg")
_COLOURS = {
    throughput.OURS: "#1b6ca8",
    throughput.FLOOR: "#9aa5b1",
    throughput.IN_MEMORY: "#e09f3e",
    throughput.ON_POSTGRESQL: "#9e2a2b",
}


def file_of(name: str, folder: Path) -> Path:
    """Where the plot of a subject goes whose results stand in `folder`."""
    return folder.parent / "plots" / f"{name}.png"


def draw(folder: Path) -> None:
    """All for which there are results."""
    for subject, taken in results.loaded(SUBJECTS, folder):
        painter = _PAINTERS.get(subject.name)
        if painter is not None:
            figure = painter(taken.result)
            file = file_of(subject.name, folder)
            file.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(file, dpi=110, metadata={"Software": ""})
            plt.close(figure)


def _axes(count: int, height: float = 3.4) -> tuple[Any, list[Axes]]:
    figure, axes = plt.subplots(1, count, figsize=(4.4 * count, height), layout="constrained", squeeze=False)
    for one in axes[0]:
        one.spines[["top", "right"]].set_visible(False)
    return figure, list(axes[0])


def _throughput(result: throughput.Throughput) -> Any:
    """Above the rates, below the percentiles; logarithmic, since the sides are far apart."""
    figure, axes = plt.subplots(
        2, len(result.works), figsize=(3.6 * len(result.works), 5.6), layout="constrained", sharey="row"
    )
    for (rates, times), work in zip(axes.T, result.works, strict=True):
        names = [side.name for side in work.sides]
        rates.set_title(work.name, fontsize=9)
        bars = rates.barh(names, [side.per_second for side in work.sides], color=[_COLOURS[name] for name in names])
        rates.bar_label(bars, fmt=" %.0f", fontsize=8)
        rates.set(xscale="log", xlabel="calls a second", xlim=(10, 60_000))
        for side in work.sides:
            times.plot(["p50", "p90", "p99"], [side.p50, side.p90, side.p99], marker="o", color=_COLOURS[side.name])
        times.set(yscale="log", xlabel="of the calls, 32 in flight")
        for one in (rates, times):
            one.spines[["top", "right"]].set_visible(False)
    axes[0][0].invert_yaxis()
    axes[1][0].set_ylabel("ms")
    return figure


def _latency(result: latency.Latency) -> Any:
    figure, (axes,) = _axes(1)
    shares = [share / 1000 for share in range(1, 1000)]
    axes.plot([100 * share for share in shares], [percentile(result.milliseconds, share) for share in shares])
    axes.axhline(2, color="#9aa5b1", linestyle=":")
    axes.axhline(10, color="#9aa5b1", linestyle=":")
    axes.set(xlabel="% of the events", ylabel="ms at most", ylim=(0, None))
    return figure


def _recovery(result: recovery.Recovery) -> Any:
    figure, (axes,) = _axes(1)
    for name, taken in result.seconds.items():
        axes.step(taken, [100 * (at + 1) / len(taken) for at in range(len(taken))], where="post", label=name)
    axes.axvline(6, color="#9aa5b1", linestyle=":")
    axes.set(xlabel="seconds since the signal", ylabel="% of the turns run again", xlim=(0, None), ylim=(0, 100))
    axes.legend(frameon=False)
    return figure


def _growth(result: growth.Growth) -> Any:
    figure, (times, sent) = _axes(2)
    sizes = [one.chunks for one in result.artifacts]
    times.plot(sizes, [one.microseconds for one in result.artifacts], marker="o")
    times.set(xlabel="chunks of one artifact", ylabel="µs a chunk", ylim=(0, None))
    sent.plot(sizes, [one.store_bytes for one in result.artifacts], marker="o")
    sent.set(xlabel="chunks of one artifact", ylabel="bytes sent to the store for a chunk", ylim=(0, None))
    return figure


def _listing(result: listing.Listings) -> Any:
    figure, (axes,) = _axes(1)
    for one in result.listings:
        axes.plot(result.tasks, one.milliseconds, marker="o", label=one.page)
    axes.set(xscale="log", xlabel="tasks of the caller", ylabel="ms a page", ylim=(0, None))
    axes.legend(fontsize=8, frameon=False)
    return figure


def _subscriptions(result: subscriptions.Subscriptions) -> Any:
    figure, (axes,) = _axes(1)
    for side, colour in ((result.ours, throughput.OURS), (result.floor, throughput.FLOOR)):
        axes.plot(
            side.counts, [one / 2**20 for one in side.memory], marker="o", label=side.name, color=_COLOURS[colour]
        )
    axes.set(xlabel="open streams", ylabel="MiB of the process", ylim=(0, None))
    axes.legend(frameon=False)
    return figure


def _soak(result: soak.Soak) -> Any:
    figure, (memory, calls) = _axes(2)
    minutes = [sample.second / 60 for sample in result.samples]
    memory.plot(minutes, [sample.service / 2**20 for sample in result.samples], label="the service")
    memory.plot(minutes, [sample.store / 2**20 for sample in result.samples], label="the store")
    memory.set(xlabel="minutes", ylabel="MiB", ylim=(0, None))
    memory.legend(frameon=False)
    calls.plot(minutes, [sample.calls / 1000 for sample in result.samples])
    calls.set(xlabel="minutes", ylabel="thousand calls answered", ylim=(0, None))
    return figure


_PAINTERS: dict[str, Callable[[Any], Any]] = {
    throughput.SUBJECT.name: _throughput,
    latency.SUBJECT.name: _latency,
    recovery.SUBJECT.name: _recovery,
    growth.SUBJECT.name: _growth,
    listing.SUBJECT.name: _listing,
    subscriptions.SUBJECT.name: _subscriptions,
    soak.SUBJECT.name: _soak,
}
