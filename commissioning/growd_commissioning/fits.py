"""Least squares. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from growd_commissioning.experiments import ExperimentError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Line(NamedTuple):
    """A straight line: its slope, and one of its points."""

    slope: float
    x: float
    y: float

    def __call__(self, x: float) -> float:
        """Its value."""
        return self.y + self.slope * (x - self.x)


def line_through(points: Sequence[tuple[float, float]]) -> Line:
    """The line nearest to points; its own point is their middle."""
    x, y = (math.fsum(each) / len(points) for each in zip(*points, strict=True))
    spread = math.fsum((each - x) ** 2 for each, _ in points)
    both = math.fsum((each - x) * (value - y) for each, value in points)
    return Line(both / spread if spread else 0.0, x, y)


def least_squares(rows: Sequence[tuple[float, ...]]) -> list[float]:
    """The factors of the first columns whose sum is nearest to the last (normal equations, Gauss)."""
    size = len(rows[0]) - 1
    table = [[math.fsum(row[i] * row[j] for row in rows) for j in range(size + 1)] for i in range(size)]
    for pivot in range(size):
        if not table[pivot][pivot]:
            raise ExperimentError("too little was measured during the test", "few_readings")
        table[pivot] = [each / table[pivot][pivot] for each in table[pivot]]
        for other in range(size):
            if other != pivot:
                factor = table[other][pivot]
                table[other] = [a - factor * b for a, b in zip(table[other], table[pivot], strict=True)]
    return [row[-1] for row in table]
