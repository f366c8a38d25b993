"""Draws a day of a chamber from a CSV of `growd db export`: measured values, and set points as dashed lines.

    growd db export --category all -o points.csv
    python tools/plot_day.py points.csv -o day.svg --date 2026-11-23

It needs matplotlib. Without --date it draws the whole file.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

try:
    import matplotlib as mpl
except ImportError:
    sys.exit("matplotlib is missing; install it with: .venv/bin/pip install matplotlib")

mpl.use("Agg")

import matplotlib.dates as mdates
from matplotlib import pyplot as plt

Series = dict[tuple[str, str], list[tuple[datetime, float]]]

PANELS = {
    "light_illuminance": ("Light", "lux", "#c98a00"),
    "air_carbon_dioxide": ("CO₂", "ppm", "#2b6cb0"),
    "air_temperature": ("Temperature", "°C", "#b83a3a"),
    "air_humidity": ("Humidity", "%", "#2f855a"),
}
DRAWN = {"measured", "desired"}
COLUMNS = {"time", "environment", "category", "variable", "value"}
NOT_LONG = "is not a long CSV of growd; make one with growd db export --category all -o points.csv"
DASHES = (0, (4, 4))


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
    parser.add_argument("--date", type=_date, metavar="YYYY-MM-DD", help="one day (UTC)")
    options = parser.parse_args()
    try:
        series = read(options.file, options.environment, options.date)
        draw(series, options.output, options.date)
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
    except ValueError as error:
        sys.exit(str(error))


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a date such as 2026-11-22, got {text!r}") from None


def read(file: Path, environment: str, day: date | None = None) -> Series:
    """Times and values of each (category, variable).

    An empty cell becomes NaN, which ends a line. Raises `OSError`, and `ValueError` with a remedy for a file
    of another kind and for one without measured values to draw.
    """
    series: Series = defaultdict(list)
    found = set()
    with file.open(encoding="utf-8", newline="") as lines:
        try:
            rows = csv.DictReader(lines)
            if not COLUMNS.issubset(rows.fieldnames or ()):
                raise ValueError(f"{file} {NOT_LONG}")
            for row in rows:
                if row["variable"] in PANELS and row["category"] in DRAWN:
                    found.add(row["environment"])
                    if row["environment"] == environment:
                        moment = datetime.fromisoformat(row["time"])
                        series[row["category"], row["variable"]].append(
                            (moment, float(row["value"] or "nan"))
                        )
        except (UnicodeDecodeError, csv.Error):
            raise ValueError(f"{file} {NOT_LONG}") from None
    _check_drawable(series, file, environment, found, day)
    return {key: sorted(points) for key, points in series.items()}


def _check_drawable(series: Series, file: Path, environment: str, found: set[str], day: date | None) -> None:
    measured = [
        moment for (category, _), points in series.items() if category == "measured" for moment, _ in points
    ]
    names = ", ".join(sorted(found)) or "none"
    if not measured:
        raise ValueError(
            f"{file} has no measured values of {environment} to draw; "
            f"environments in it: {names} (--environment)"
        )
    if day and not any(moment.astimezone(UTC).date() == day for moment in measured):
        first, last = (f"{moment.astimezone(UTC):%Y-%m-%d}" for moment in (min(measured), max(measured)))
        raise ValueError(f"{file} has no values of {day}; its days are {first} to {last} (UTC)")


def draw(series: Series, output: Path, day: date | None = None) -> None:
    """One panel for each variable that was measured."""
    names = [name for name in PANELS if ("measured", name) in series]
    end = max(points[-1][0] for points in series.values())
    plt.rcParams.update(
        {"font.family": "sans-serif", "font.size": 10, "svg.fonttype": "none", "svg.hashsalt": "growd"}
    )
    figure, axes = plt.subplots(len(names), sharex=True, figsize=(9, 1.25 * len(names)), squeeze=False)
    for axis, name in zip(axes[:, 0], names, strict=True):
        title, unit, colour = PANELS[name]
        axis.step(*zip(*series["measured", name], strict=True), where="post", color=colour, linewidth=2.6)
        if set_points := series.get(("desired", name)):
            set_points.append((end, set_points[-1][1]))
            axis.step(
                *zip(*set_points, strict=True), where="post", color="0.2", linestyle=DASHES, linewidth=0.9
            )
        axis.set_title(f"{title} ({unit})", loc="left", fontsize=9)
        axis.grid(color="0.9")
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(y=0.15)
    _label_hours(axes[-1, 0], day)
    axes[-1, 0].set_xlabel("time (UTC)", fontsize=9)
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
