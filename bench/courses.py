"""Draws what there was over time as small multiples in one SVG, in the manner of `curves`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from curves import COLOURS, INK, small_multiples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Course:
    """CO2 in ppm by the time in minutes."""

    label: str
    points: dict[float, float]


@dataclass(frozen=True)
class Plot:
    """One small picture; what is drawn first is on top."""

    title: str
    courses: Sequence[Course]


def draw_courses(file: Path, plots: Sequence[Plot], caption: str) -> None:
    """Write the picture. Needs matplotlib."""
    small_multiples(file, plots, _draw, caption)


def _draw(axes: Axes, plot: Plot) -> None:
    for order, (course, colour) in enumerate(zip(plot.courses, COLOURS, strict=False)):
        axes.plot(
            list(course.points), list(course.points.values()),
            color=colour, linewidth=1.0, label=course.label, zorder=10 - order,
        )  # fmt: skip
    axes.set(title=plot.title, xlabel="min", ylabel="CO2, ppm")
    axes.grid(color=INK, alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False, fontsize=8)
