"""Calibrations of CO2 sensors: which are refused, and what they do to the readings. No bus here.

A calibration moves what the sensor says for good, in the sensor itself. What is measured is what the user has
calibrated; the ceiling of CO2 goes by what the sensor would say without, where that is more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BELOW_PPM: Final = 150.0
MOST_BELOW_SHARE: Final = 0.25
"""A reference may be below the reading by so much, or by this share of the reading if that is more."""

SHUT_S: Final = 1200.0
"""For so long the valve has been shut: a calibration takes steady air ("at least 20 minutes" in the manual of
the MH-Z19B, "Notes")."""

STEADY_PPM: Final = 50.0
STEADY_SHARE: Final = 0.05
"""Readings that differ by so much, or by this share of them, are of steady air: noise of an SCD30 is 10 ppm
(datasheet, table 1)."""

MOST_PPM: Final = 1000.0
MOST_FACTOR: Final = 2.0
"""All calibrations together may take away as much as this shift and this factor from a reading."""

_Line = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Air in which a sensor says `reading` counts as `reference`, both in ppm. One that `scales` turns the
    sensor's line about zero, any other shifts it, as its manual has it.
    """

    reading: float
    reference: float
    scales: bool = False

    @property
    def lowers(self) -> bool:
        return self.reference < self.reading

    def why_not(self) -> str:
        """Why it is probably a mistake, or ""."""
        most = max(MOST_BELOW_PPM, MOST_BELOW_SHARE * self.reading)
        if self.reading - self.reference <= most:
            return ""
        return (
            f"the sensor says {self.reading:.0f} ppm, and a reference of {self.reference:g} ppm is more than "
            f"{most:.0f} ppm below: bring it into air whose CO2 is known; where it really is that far off, "
            f"calibrate it in steps, first to {math.ceil(self.reading - most)} ppm"
        )


@dataclass(frozen=True, slots=True)
class Correction:
    """What all calibrations did to the readings of a sensor.

    A chip does not say whether a calibration shifts its readings or scales them. Each of `lines` (slope,
    offset) maps a reading to the one without calibrations, under one assumption: all calibrations shift, all
    scale, or each does what its manual says.
    """

    lines: tuple[_Line, _Line, _Line] = ((1.0, 0.0), (1.0, 0.0), (1.0, 0.0))

    @classmethod
    def restored(cls, kept: Any) -> Correction:
        """From JSON. Raises ValueError or TypeError for anything else."""
        shifted, scaled, documented = ((float(slope), float(offset)) for slope, offset in kept)
        lines = (shifted, scaled, documented)
        if not all(math.isfinite(number) for line in lines for number in line):
            raise ValueError("a correction that is no number")
        return cls(lines)

    def judged(self, reading: float) -> float:
        """The most that CO2 may be, in ppm, where the sensor says `reading`."""
        return max(reading, *(slope * reading + offset for slope, offset in self.lines))

    def reading_of(self, ppm: float) -> float:
        """The lowest reading that is judged to be so much, or more."""
        return max(0.0, min(ppm, *((ppm - offset) / slope for slope, offset in self.lines)))

    def after(self, calibration: Calibration) -> Correction:
        """That with one more calibration."""
        shifted, scaled, documented = self.lines
        return Correction(
            (
                _before_shift(shifted, calibration),
                _before_scaling(scaled, calibration),
                (_before_scaling if calibration.scales else _before_shift)(documented, calibration),
            )
        )

    def is_within(self) -> bool:
        """Whether it takes away no more from any reading than `UNKNOWN` does."""
        kink = MOST_PPM / (MOST_FACTOR - 1)  # where that goes over from its shift to its factor
        return all(
            slope <= MOST_FACTOR and offset <= MOST_PPM and slope * kink + offset <= MOST_FACTOR * kink
            for slope, offset in self.lines
        )


UNKNOWN: Final = Correction(((1.0, MOST_PPM), (MOST_FACTOR, 0.0), (1.0, MOST_PPM)))
"""The most that calibrations may have taken away, for a sensor whose record is lost."""


class Calibrations(Protocol):
    """Who is asked before a CO2 sensor is calibrated, and hears that it was."""

    async def begin_calibration(self, device: str, calibration: Calibration) -> str:
        """Why the device may not be calibrated so now; "" where it may, and then it counts as done if it
        lowers the readings.
        """

    def end_calibration(self, device: str, calibration: Calibration) -> None:
        """It was done."""


def steady_reading(readings: Sequence[float]) -> float | None:
    """The reading in steady air, in ppm, or None where it is not steady. Of a slow rise the end counts."""
    if max(readings) - min(readings) > max(STEADY_PPM, STEADY_SHARE * max(readings)):
        return None
    last = readings[-max(1, len(readings) // 4) :]
    return max(math.fsum(readings) / len(readings), math.fsum(last) / len(last))


def _before_shift(line: _Line, calibration: Calibration) -> _Line:
    slope, offset = line
    return slope, offset + slope * (calibration.reading - calibration.reference)


def _before_scaling(line: _Line, calibration: Calibration) -> _Line:
    slope, offset = line
    return slope * calibration.reading / calibration.reference, offset
