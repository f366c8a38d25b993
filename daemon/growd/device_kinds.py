"""The table of device kinds: what growd knows of each kind of sensor and of each switched output.

Configuration, checks, wiring, simulator and `growd check --hardware` read it. It imports no driver, so that
it is quick to import and works where a driver does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from growd.variables import CARBON_DIOXIDE, FAN, HUMIDITY, ILLUMINANCE, TEMPERATURE, VALVE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True)
class CalibrationKind:
    """A calibration that a CO2 sensor offers as a service: it calls `method` of the driver.

    The sensor must have read steady air for `steady_s`, at least once per `most_interval_s`. The service has
    an argument `reference` within `reference_range_ppm`; without a range the reference is `reference_ppm`.
    With `scales` the reading is multiplied, else shifted.
    """

    name: str
    method: str
    doc: str
    steady_s: float
    most_interval_s: float = inf
    reference_range_ppm: tuple[int, int] | None = None
    reference_ppm: float = 0.0
    scales: bool = False


@dataclass(frozen=True)
class SensorKind:
    """One kind of sensor. Its simulated chip has the same name, in `growd_hwsim.chips`."""

    part: str
    """The name of the part in messages."""

    driver: str
    """Its class, "module:Class". It takes an I2CBus, `sleep` and `address`, or a SerialLine, `monotonic` and
    `device` (and then has `BAUD` and `ANSWER_S`), and the options below by name. `read()` returns a sample.
    """

    variables: Mapping[str, str]
    """The variable that each field of a sample is."""

    addresses: tuple[int, ...] = ()
    """Its I2C addresses, the default first; none for a sensor on a serial line."""

    options: tuple[str, ...] = ()
    """Its options of [[sensor]] that not every kind has. All but `port` go to the driver."""

    measurement_interval_s: Callable[[float], int] | None = None
    """For a chip that measures continuously: its `interval_s`, from the seconds between two readings."""

    slow_import: str = ""
    """A module that its driver needs and that takes a second or more to import on a small Pi."""

    warm_up_s: float = 0.0
    """Time after power-on without a reading."""

    calibrations: tuple[CalibrationKind, ...] = ()
    self_calibration_method: str = ""
    """The driver's method that switches its automatic baseline on and off."""

    most_bus_hz: int | None = None
    """The clock frequency of I2C that its maker recommends at most, if it stretches the clock."""


def _scd30_interval_s(between_readings_s: float) -> int:
    """Half the time between readings, so that an early reading finds a new measurement.

    2 to 1800 s: SCD30 Interface Description 1.4.3.
    """
    return min(max(2, int(between_readings_s / 2)), 1800)


def _mhz19(part: str, driver: str) -> SensorKind:
    """An MH-Z19, or the MH-Z16, which has the same protocol (MH-Z19B manual 1.0, "Notes")."""
    steady_s = 1200.0
    return SensorKind(
        part,
        f"growd_drivers.mhz19:{driver}",
        {"carbon_dioxide_ppm": CARBON_DIOXIDE},
        options=("port", "range_ppm", "self_calibration", "stuck_after_s"),
        warm_up_s=180.0,
        calibrations=(
            CalibrationKind(
                "calibrate_zero",
                "calibrate_zero",
                "Calibrate the zero point in fresh air, permanently. "
                "The sensor must be in this air for 20 minutes before.",
                steady_s,
                reference_ppm=400.0,
            ),
            CalibrationKind(
                "calibrate_span",
                "calibrate_span",
                "Calibrate the span after the zero point, permanently. "
                "The sensor must be in this air for 20 minutes before.",
                steady_s,
                reference_range_ppm=(1000, 10_000),
                scales=True,
            ),
        ),
        self_calibration_method="set_self_calibration",
    )


SENSOR_KINDS: Final[dict[str, SensorKind]] = {
    "scd30": SensorKind(
        "SCD30",
        "growd_drivers.scd30:Scd30",
        {
            "carbon_dioxide_ppm": CARBON_DIOXIDE,
            "temperature_degc": TEMPERATURE,
            "humidity_percent": HUMIDITY,
        },
        addresses=(0x61,),  # Interface Description 1.1
        slow_import="adafruit_scd30",  # with Blinka
        options=("ambient_pressure_hpa", "altitude_m", "temperature_offset_degc", "self_calibration"),
        measurement_interval_s=_scd30_interval_s,
        calibrations=(
            CalibrationKind(
                "calibrate",
                "recalibrate",
                "Forced recalibration, permanent. The air must have been steady for two minutes before.",
                steady_s=120.0,  # measured each 2 s: Interface Description 1.4.6
                most_interval_s=5.9,
                reference_range_ppm=(400, 2000),
            ),
        ),
        most_bus_hz=50_000,  # Interface Description 1.1
    ),
    "bh1750": SensorKind(
        "BH1750",
        "growd_drivers.bh1750:Bh1750",
        {"illuminance_lux": ILLUMINANCE},
        addresses=(0x23, 0x5C),
    ),
    "tsl2591": SensorKind(
        "TSL2591", "growd_drivers.tsl2591:Tsl2591", {"illuminance_lux": ILLUMINANCE}, addresses=(0x29,)
    ),
    "mhz19": _mhz19("MH-Z19", "Mhz19"),
    "mhz16": _mhz19("MH-Z16", "Mhz16"),
}


@dataclass(frozen=True)
class SwitchKind:
    """What a relay can switch, by the variable that commands it."""

    name: str
    """For people."""

    simulated: str = ""
    """What it moves in a simulated chamber: "valve" for `SimulatedChamber.set_valve`, "" for nothing."""

    needs: str = ""
    """The default of `needs`, if a sensor measures that variable."""

    must_be_safe_off: bool = False


SWITCH_KINDS: Final[dict[str, SwitchKind]] = {
    VALVE: SwitchKind("valve for CO2", "valve", needs=CARBON_DIOXIDE, must_be_safe_off=True),
    FAN: SwitchKind("exhaust fan", "fan"),
}

LAMP_CHANNELS: Final = ("white", "red", "blue")


def kinds_with(option: str) -> tuple[str, ...]:
    """The kinds of sensors that have an option of [[sensor]] which not all have."""
    return tuple(name for name, kind in SENSOR_KINDS.items() if option in kind.options)


def with_article(part: str) -> str:
    """A part as "an SCD30" or "a BH1750". The names of parts are read letter by letter."""
    return f"{'an' if part[0] in 'AEFHILMNORSX' else 'a'} {part}"
