"""The interlocks of what raises CO2, and the exhaust fans that lower it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from growd.control.interlocks.carbon_dioxide import (
    VALVE_WORDS,
    CarbonDioxideCeiling,
    DosePerHour,
    NoRise,
    SensorCalibrations,
    StaysHigh,
)
from growd.control.interlocks.conditions import Threshold, WhileBeyond
from growd.control.interlocks.limits import OnTooLong
from growd.variables import CARBON_DIOXIDE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from growd.control.interlocks.base import Interlock
    from growd.control.interlocks.node import Interlocks
    from growd.runtime.clock import Clock
    from growd.wiring.interlock_inputs import InterlockInputs

_LEAST_PPM: Final = 150.0
"""Plants in light seldom leave less. A sensor that reads a tenth of 1000 ppm does."""
_LITTLE_S: Final = 60.0
_CEILING_HYSTERESIS_PPM: Final = 500.0
_VALVE_REST_S: Final = 60.0
_RISE_PPM: Final = 40.0
"""The smallest rise that an SCD30 shows beyond its noise (30 ppm + 3 %)."""


class ValveInterlocks:
    """The interlocks of the outputs `raising` CO2, and of exhaust `fans`; both by their own variables."""

    def __init__(self, inputs: InterlockInputs, raising: frozenset[str], fans: frozenset[str]) -> None:
        self._inputs = inputs
        self._limits = inputs.limits
        self._readings = inputs.readings
        self._raising = raising
        self._fans = fans
        self._times = inputs.times(raising)
        self._sensors = inputs.chamber.sensor_names(CARBON_DIOXIDE)
        self._dose: DosePerHour | None = None
        self._above: CarbonDioxideCeiling | None = None

    def of_doses(self) -> Iterator[Interlock]:
        """Those that hold the valve shut after too much, or without effect."""
        limits, times, holds = self._limits, self._times, self._raising
        if not holds:
            return
        yield OnTooLong(
            "valve_open_too_long",
            holds,
            times,
            longest_s=limits.valve_open_s,
            rest_s=_VALVE_REST_S,
            words=VALVE_WORDS,
        )
        valves = (each for each in self._inputs.chamber.outputs if each.own_variable in holds)
        flows = [each.flow_ml_min or 0.0 for each in valves]
        flow_l_min = sum(flows) / 1000 if all(flows) else None
        self._dose = DosePerHour(times, limits.dose_s, flow_l_min, holds)
        yield self._dose
        if self._sensors:
            yield NoRise(
                times,
                self._readings,
                open_s=limits.no_rise_open_s,
                rise_ppm=_RISE_PPM,
                fans=self._inputs.times(self._fans),
                holds=holds,
            )
            yield self._too_little()

    def ceiling(self) -> Iterator[Interlock]:
        """Those of too much CO2, whose command for the fan overrides the others."""
        limit = self._limits.ceiling_ppm, _CEILING_HYSTERESIS_PPM
        if self._sensors and self._raising:
            yield StaysHigh(self._readings, self._times, self._raising, *limit)
        if self._sensors:
            self._above = CarbonDioxideCeiling(
                self._readings, self._raising, *limit, sensors=self._sensors, fans=self._fans
            )
            yield self._above

    def judge_calibrations(self, interlocks: Interlocks, clock: Clock) -> None:
        """Let `interlocks` judge calibrations of the CO2 sensors."""
        if self._above is not None:
            interlocks.calibrations = SensorCalibrations(
                interlocks.node, interlocks.saved, clock, self._above, self._dose
            )

    def _too_little(self) -> Interlock:
        """A sensor that reads less CO2 than plants leave is not in order."""
        little = Threshold(
            CARBON_DIOXIDE,
            self._inputs.reader(CARBON_DIOXIDE),
            below=_LEAST_PPM,
            hysteresis=_LEAST_PPM / 5,
            unit="ppm",
        )
        return WhileBeyond(
            "carbon_dioxide_too_low",
            self._raising,
            [little],
            after_s=_LITTLE_S,
            holds_unknown=False,
            failure="let fresh air in, which has 420 ppm; if it still reads less, check the sensor",
        )
