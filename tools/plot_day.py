# ruff: noqa: INP001 - a script
"""Draws a day of a chamber from a CSV of `growd db export`: measured values, and set points as dashed lines.

    growd db export --category all -o points.csv
    python tools/plot_day.py points.csv -o day.svg --date 2026-11-23

It needs matplotlib. Without --date it draws the whole file.
"""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.dates as mdates
from matplotlib import pyplot as plt

PANELS = {
    "light_illuminance": ("Light", "lux", "#c98a00"),
    "air_carbon_dioxide": ("CO₂", "ppm", "#2b6cb0"),
    "air_temperature": ("Temperature", "°C", "#b83a3a"),
    "air_humidity": ("Humidity", "%", "#2f855a"),
}
DRAWN = {"measured", "desired"}
DASHES = (0, (4, 2))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "file", type=Path, help="CSV with the columns time, environment, category, variable, value"
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="SVG, PNG or PDF")
    parser.add_argument("--environment", default="environment_1")
    parser.add_argument("--date", type=date.fromisoformat, help="one day (UTC)")
    options = parser.parse_args()
    draw(read(options.file, options.environment), options.output, options.date)


def read(file: Path, environment: str) -> dict[tuple[str, str], list[tuple[datetime, float]]]:
    """Times and values of each (category, variable); an empty cell becomes NaN, which ends a line."""
    series = defaultdict(list)
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["environment"] == environment and row["variable"] in PANELS and row["category"] in DRAWN:
                value = float(row["value"] or "nan")
                moment = datetime.fromisoformat(row["time"])
                series[row["category"], row["variable"]].append((moment, value))
    return {key: sorted(points) for key, points in series.items()}


def draw(
    series: dict[tuple[str, str], list[tuple[datetime, float]]], output: Path, day: date | None = None
) -> None:
    """One panel for each variable that was measured."""
    names = [name for name in PANELS if ("measured", name) in series]
    end = max(points[-1][0] for points in series.values())
    plt.rcParams.update(
        {"font.family": "sans-serif", "font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "growd"}
    )
    figure, axes = plt.subplots(len(names), sharex=True, figsize=(9, 1.25 * len(names)), squeeze=False)
    for axis, name in zip(axes[:, 0], names, strict=True):
        title, unit, colour = PANELS[name]
        axis.step(*zip(*series["measured", name], strict=True), where="post", color=colour, linewidth=1.6)
        if set_points := series.get(("desired", name)):
            set_points.append((end, set_points[-1][1]))
            axis.step(
                *zip(*set_points, strict=True), where="post", color="0.2", linestyle=DASHES, linewidth=1.0
            )
        axis.set_title(f"{title} ({unit})", loc="left", fontsize=9)
        axis.grid(color="0.9")
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(y=0.15)
    _label_hours(axes[-1, 0], day)
    axes[0, 0].set_title("solid: measured, dashed: set point", loc="right", fontsize=9, color="0.3")
    figure.tight_layout()
    figure.savefig(output, metadata={"Date": None} if output.suffix == ".svg" else None)


def _label_hours(axis: plt.Axes, day: date | None) -> None:
    axis.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M", tz=UTC))
    if day:
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
        axis.set_xlim(midnight, midnight + timedelta(days=1))
        axis.xaxis.set_major_locator(mdates.HourLocator(range(0, 24, 3), tz=UTC))


if __name__ == "__main__":
    main()
