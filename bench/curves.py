"""Draws curves over the number of things as small multiples, log-log, in one SVG.

The colours read on white and on black, and what is text or frame takes the colour of the reader's scheme.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

P = TypeVar("P")

COLUMNS = 3
COLOURS = ("#3b82d6", "#d97706", "#12985c", "#c2569b")
MARKERS = "osD^"
INK = "#777778"  # stands for the colour of text until the picture is drawn; no other colour is this one
SCHEMES = "<style>svg{color:#24292f}@media(prefers-color-scheme:dark){svg{color:#d0d7de}}</style>"
SETTINGS: dict[Any, Any] = {  # names of matplotlib's own
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "growd",  # the same curves give the same file
    "font.family": "sans-serif",
    "font.size": 9.0,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}


@dataclass(frozen=True)
class Curve:
    """Values by the number of things."""

    label: str
    points: dict[int, float]


@dataclass(frozen=True)
class Panel:
    """One small picture; the axes say what is counted and, with its unit, what is measured."""

    title: str
    things: str
    measured: str
    curves: Sequence[Curve]


def draw(file: Path, panels: Sequence[Panel], caption: str) -> None:
    """Write the picture. Needs matplotlib."""
    small_multiples(file, panels, _draw, caption)


def small_multiples(
    file: Path, panels: Sequence[P], draw_one: Callable[[Axes, P], None], caption: str
) -> None:
    """Write a picture of small ones, each of which `draw_one` draws. Needs matplotlib."""
    import matplotlib as mpl  # noqa: PLC0415  not a dependency of what only measures
    from matplotlib.figure import Figure  # noqa: PLC0415  as above

    rows = -(-len(panels) // COLUMNS)
    with mpl.rc_context(SETTINGS):
        picture = Figure(figsize=(3.4 * COLUMNS, 2.8 * rows + 0.3), layout="constrained")
        for place, panel in enumerate(panels, start=1):
            draw_one(picture.add_subplot(rows, COLUMNS, place), panel)
        picture.supxlabel(caption, fontsize=8)
        svg = io.StringIO()
        picture.savefig(svg, format="svg", transparent=True, metadata={"Date": None})
    text = svg.getvalue().replace(INK, "currentColor")
    file.write_text(text.replace("<defs>", f"{SCHEMES}<defs>", 1), encoding="utf-8")


def _draw(axes: Axes, panel: Panel) -> None:
    for curve, colour, marker in zip(panel.curves, COLOURS, MARKERS, strict=False):
        axes.plot(
            *zip(*curve.points.items(), strict=True), color=colour, marker=marker, ms=4, label=curve.label
        )
    axes.set(xscale="log", yscale="log", title=panel.title, xlabel=panel.things, ylabel=panel.measured)
    sizes = max((sorted(curve.points) for curve in panel.curves), key=lambda sizes: sizes[-1])
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
    axes.set_xticks([], minor=True)
    axes.set_ylim(*_decades([value for curve in panel.curves for value in curve.points.values()]))
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.grid(which="major", color=INK, alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False, fontsize=8)


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """Whole decades about the values, and one at least, so that what stays level looks level."""
    low = 10.0 ** math.floor(math.log10(min(values)))
    high = 10.0 ** math.ceil(math.log10(max(values)))
    return low, max(high, 10 * low)
