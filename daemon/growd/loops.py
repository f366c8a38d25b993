"""The table of control loops: for each variable how it is controlled, and the figures to start from.

The gains were found in the simulated chamber of 100 l and its tank of 20 l (`bench/run control`). They are
cautious in other chambers; the autotune finds the gains of a real one.
"""

from __future__ import annotations

from math import inf
from typing import Final

import msgspec

from growd.output_roles import OutputClass
from growd.variables import (
    ACIDITY,
    CARBON_DIOXIDE,
    CONDUCTIVITY,
    DISSOLVED_OXYGEN,
    HUMIDITY,
    SOIL_MOISTURE,
    TEMPERATURE,
    VARIABLES,
    WATER_LEVEL,
    WATER_TEMPERATURE,
)

FRESH_AIR_PPM: Final = 420.0
"""CO2 of outside air (NOAA, Mauna Loa, 2023): a fan cannot reach less."""


class LoopKind(msgspec.Struct, frozen=True):
    """How one variable is controlled, unless the configuration says otherwise. Bands in its unit."""

    band: float
    """Hysteresis of on_off, and the error that needs no dose."""

    lowers_band: float
    """Outputs that lower it run from this far above the set point."""

    method: str = "pid"
    """pid, on_off or dose."""

    kp: float = 0.0
    ti_s: float = 600.0
    td_s: float = 0.0

    lowers_by_integral: bool = True
    """Whether the PID holds it from above too. Else outputs that lower it only remove what is too much."""

    lowering_kp: float | None = None
    """kp of the outputs that lower it, if it differs."""

    overshoot_goes: bool = True
    """Whether too much that its own outputs gave goes by itself, as CO2 leaks."""

    needs_raising: bool = False
    """Without an output that raises it there is no controller."""

    least: float = -inf
    """No output that lowers it reaches less."""

    ml_per_unit_litre: float = 0.0
    """For doses: volume that raises one litre of water by one unit."""

    lowering_ml_per_unit_litre: float = 0.0
    """For doses: volume that lowers one litre of water by one unit."""

    dose_step: float = inf
    """For doses: the largest error that one dose is for. Water has no constant response to acid and base."""

    tolerance: tuple[float, float] = (0.0, 0.0)
    """What counts as reached: a share of the set point, and at least this much."""

    far: float = inf
    """What is too far from the set point on a side from which no output moves it back."""

    test_on_s: float = 0.0
    """The longest time for which an autotune has its outputs on; 0 for no autotune."""

    name: str = ""
    """For people, if it is not the variable's."""


LOOPS: Final[dict[str, LoopKind]] = {
    CARBON_DIOXIDE: LoopKind(
        # a chamber of 100 l with 1.5 air changes per hour, a valve of 50 ml/min, an SCD30 (response 20 s)
        kp=0.003, ti_s=2400.0, td_s=20.0, band=20.0, lowers_band=30.0, lowers_by_integral=False,
        needs_raising=True, least=FRESH_AIR_PPM, tolerance=(0.05, 50.0), far=1_500.0,
        test_on_s=120.0, name="CO2",
    ),
    TEMPERATURE: LoopKind(
        # a heater of 200 W, and a sensor that lags by 10 to 30 s; fans and coolers are weaker
        kp=0.3, ti_s=600.0, td_s=15.0, band=0.5, lowers_band=1.0, lowering_kp=0.6, tolerance=(0.0, 1.0),
        far=10.0, test_on_s=300.0,
    ),
    HUMIDITY: LoopKind(
        # an ultrasonic humidifier of 40 g/h
        kp=0.05, ti_s=300.0, td_s=5.0, band=3.0, lowers_band=5.0, tolerance=(0.0, 5.0), far=35.0,
        test_on_s=180.0,
    ),
    WATER_TEMPERATURE: LoopKind(
        kp=0.5, ti_s=3600.0, band=0.3, lowers_band=0.7, tolerance=(0.0, 1.0), far=8.0, test_on_s=1_800.0,
    ),
    ACIDITY: LoopKind(
        # acid and base of 0.5 mol/l in soft water; hard water takes more doses
        method="dose", band=0.1, lowers_band=0.3, tolerance=(0.0, 0.3), far=0.5,
        ml_per_unit_litre=0.2, lowering_ml_per_unit_litre=0.2, dose_step=0.5,
    ),
    CONDUCTIVITY: LoopKind(
        # concentrates in two parts, 1:100; fresh water replaces a share of what is there
        method="dose", band=0.05, lowers_band=0.2, tolerance=(0.05, 0.1), far=0.5,
        ml_per_unit_litre=4.0, lowering_ml_per_unit_litre=600.0, dose_step=0.5,
    ),
    WATER_LEVEL: LoopKind(
        method="on_off", band=5.0, lowers_band=5.0, overshoot_goes=False, tolerance=(0.0, 10.0), far=15.0,
    ),
    DISSOLVED_OXYGEN: LoopKind(method="on_off", band=0.5, lowers_band=1.0, tolerance=(0.1, 1.0)),
    SOIL_MOISTURE: LoopKind(method="on_off", band=3.0, lowers_band=5.0, tolerance=(0.0, 6.0), far=30.0),
}  # fmt: skip

SWITCHING_S: Final[dict[OutputClass, tuple[float, float]]] = {
    OutputClass.HEATER: (4.0, 4.0),
    OutputClass.COOLER: (120.0, 180.0),  # compressors need minutes between two starts
    OutputClass.HUMIDIFIER: (4.0, 4.0),
    OutputClass.DEHUMIDIFIER: (120.0, 180.0),
    OutputClass.VALVE: (4.0, 2.0),
    OutputClass.FAN: (10.0, 10.0),
    OutputClass.PUMP: (5.0, 5.0),
    OutputClass.DOSING: (0.5, 0.5),
}
"""The shortest time on and off of a switched output in s, by its class."""

CONTACT_CYCLE_S: Final[dict[OutputClass, float]] = {
    OutputClass.HEATER: 300.0,
    OutputClass.HUMIDIFIER: 30.0,
    OutputClass.FAN: 300.0,
    OutputClass.VALVE: 90.0,
}
"""The shortest time from one start to the next in s for doses on mechanical contacts, by class.

With 12 starts an hour 100 000 starts take a year. CO2 has more, because it leaks away. A humidifier moves
the air by 10 % in seconds, and starts about 12 times an hour by itself."""

_OTHER_SWITCHING_S: Final = (10.0, 10.0)


def loop_kind(variable: str) -> LoopKind:
    """How a variable is controlled; one that is not in the table by hysteresis."""
    if variable in LOOPS:
        return LOOPS[variable]
    known = VARIABLES[variable]
    band = known.usual_band
    return LoopKind(
        method="on_off", band=band, lowers_band=2 * band, tolerance=(known.relative_band, 2 * band)
    )


def switching_s(output_class: OutputClass | None) -> tuple[float, float]:
    """The shortest time on and off of a switched output of a class, in s."""
    if output_class is None:
        return _OTHER_SWITCHING_S
    return SWITCHING_S.get(output_class, _OTHER_SWITCHING_S)
