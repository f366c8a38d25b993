"""Calibrations of CO2 sensors: which are refused, and their effect on the readings. Pure: no bus here.

A calibration changes the readings permanently, in the sensor. The measured value is the calibrated one. The
CO2 ceiling uses the reading without calibrations if that is higher.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import msgspec

from growd.runtime.sentence import Sentence

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_BELOW_PPM: Final = 150.0
MOST_BELOW_SHARE: Final = 0.25
"""A reference may be below the reading by the larger of the two."""

SHUT_S: Final = 1200.0
"""The valve must have been shut for this long: a calibration needs steady air (at least 20 minutes in the
manual of the MH-Z19B, "Notes")."""

STEADY_PPM: Final = 50.0
STEADY_SHARE: Final = 0.05
"""Readings within the larger of the two are steady. The noise of an SCD30 is 10 ppm (datasheet, table 1)."""

MOST_PPM: Final = 1000.0
MOST_FACTOR: Final = 2.0
"""All calibrations together may lower a reading by this shift and this factor."""

_Line = tuple[float, float]


class Calibration(msgspec.Struct, frozen=True):
    """A reading of `reading` becomes `reference`, both in ppm.

    The manual of a sensor says whether a calibration `scales` its readings or shifts them.
    """

    reading: float
    reference: float
    scales: bool = False

    @property
    def lowers(self) -> bool:
        return self.reference < self.reading

    def why_not(self) -> str:
        """Why the calibration is probably a mistake, or ""."""
        most = max(MOST_BELOW_PPM, MOST_BELOW_SHARE * self.reading)
        if self.reading - self.reference <= most:
            return ""
        first = math.ceil(self.reading - most)
        text = (
            f"the sensor reads {self.reading:.0f} ppm; a reference of {self.reference:g} ppm is more than "
            f"{most:.0f} ppm lower: use air whose CO2 is known; if the sensor really is that far off, "
            f"calibrate it in steps, first to {first} ppm"
        )
        fields = {"reading": round(self.reading), "reference": self.reference, "first": first, "unit": "ppm"}
        return Sentence(text, "reference_too_low", **fields)


class Correction(msgspec.Struct, frozen=True):
    """The effect of all calibrations on the readings of a sensor.

    A chip does not say whether a calibration shifts its readings or scales them. Each of `lines` (slope,
    offset) maps a reading to the one without calibrations, under one assumption: all calibrations shift, all
    scale, or each does what its manual says.
    """

    lines: tuple[_Line, _Line, _Line] = ((1.0, 0.0), (1.0, 0.0), (1.0, 0.0))

    @classmethod
    def restored(cls, saved: Any) -> Correction:
        """From JSON. Raises ValueError or TypeError if it is invalid."""
        shifted, scaled, documented = ((float(slope), float(offset)) for slope, offset in saved)
        lines = (shifted, scaled, documented)
        if not all(math.isfinite(number) for line in lines for number in line):
            raise ValueError("the correction is not a number")
        return cls(lines)

    def judged(self, reading: float) -> float:
        """The highest possible CO2 in ppm for a reading."""
        return max(reading, *(slope * reading + offset for slope, offset in self.lines))

    def reading_of(self, ppm: float) -> float:
        """The lowest reading that may mean `ppm` of CO2."""
        return max(0.0, min(ppm, *((ppm - offset) / slope for slope, offset in self.lines)))

    def after(self, calibration: Calibration) -> Correction:
        """The correction after one more calibration."""
        shifted, scaled, documented = self.lines
        return Correction(
            (
                _before_shift(shifted, calibration),
                _before_scaling(scaled, calibration),
                (_before_scaling if calibration.scales else _before_shift)(documented, calibration),
            )
        )

    def is_within(self) -> bool:
        """Whether it lowers no reading by more than `UNKNOWN` does."""
        kink = MOST_PPM / (MOST_FACTOR - 1)  # where shift and factor are equal
        return all(
            slope <= MOST_FACTOR and offset <= MOST_PPM and slope * kink + offset <= MOST_FACTOR * kink
            for slope, offset in self.lines
        )


UNKNOWN: Final = Correction(((1.0, MOST_PPM), (MOST_FACTOR, 0.0), (1.0, MOST_PPM)))
"""The worst case, for a sensor whose record is lost."""


class SteadyAir(msgspec.Struct, frozen=True):
    """What a sensor measured before a calibration: `recent` has the age in s and the ppm of its readings.

    They last for `lasted_s` without a gap. `reading` is the one in steady air, None with a `reason`.
    """

    recent: list[tuple[float, float]]
    lasted_s: float
    reading: float | None = None
    reason: str = ""


def steady_reading(readings: Sequence[float]) -> float | None:
    """The reading in steady air, in ppm; None if it is not steady. In a slow rise the end counts."""
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
