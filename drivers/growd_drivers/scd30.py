"""Sensirion SCD30: carbon dioxide, temperature and humidity, over Adafruit's driver.

Sources: "Interface Description Sensirion SCD30 Sensor Module" (commands, CRC, limits); SCD30 datasheet
(ranges); Adafruit's driver (the ambient pressure can be read, and is 0 after a power cut).
"""

from __future__ import annotations

import errno
import importlib.util
import math
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from growd_drivers.errors import (
    DeviceMissingError,
    DriverError,
    NotReadyError,
    OutOfRangeError,
    SettingError,
    TransferError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd_drivers.i2c import I2CBus

ADDRESS = 0x61
MINIMUM_INTERVAL_S, MAXIMUM_INTERVAL_S = 2, 1800  # Interface Description 1.4.3
MINIMUM_PRESSURE_HPA, MAXIMUM_PRESSURE_HPA = 700, 1400  # Interface Description 1.4.1; 0 switches it off
MAXIMUM_TEMPERATURE_OFFSET_DEGC = 655.35  # Interface Description 1.4.7: 16 bit in steps of 0.01
MAXIMUM_ALTITUDE_M = 65_535  # Interface Description 1.4.8: 16 bit
MINIMUM_REFERENCE_PPM, MAXIMUM_REFERENCE_PPM = 400, 2000  # Interface Description 1.4.6

_RANGES = {  # datasheet, tables 1 to 3
    "carbon_dioxide_ppm": (0.0, 40_000.0),
    "temperature_degc": (-40.0, 70.0),
    "humidity_percent": (0.0, 100.0),
}
_NO_MEASUREMENT_PPM, _SATURATED_PPM = _RANGES["carbon_dioxide_ppm"]
"""The value right after power-up, and every value beyond the range."""


@dataclass(frozen=True)
class Scd30Sample:
    """One measurement: ppm by volume, degrees Celsius, percent relative humidity."""

    carbon_dioxide_ppm: float
    temperature_degc: float
    humidity_percent: float


class Scd30:
    """An SCD30 that measures every `interval_s` seconds (2..1800).

    Automatic self-calibration takes the lowest value of a week for fresh air (400 ppm), which is wrong in a
    closed or enriched chamber. Interval, self-calibration, temperature offset and altitude are in the chip's
    non-volatile memory and are written only if they differ; None keeps the present one.
    `ambient_pressure_hpa` (700..1400) overrides the altitude.

    The first `read` sets the chip up, and so does the first one after it was missing. Each `read` checks the
    ambient pressure, which is lost with the power. The constructor does not talk to the chip. It raises
    `SettingError` for an invalid setting.
    """

    def __init__(
        self,
        bus: I2CBus,
        *,
        sleep: Callable[[float], None],
        address: int = ADDRESS,
        interval_s: int = 2,
        self_calibration: bool = False,
        ambient_pressure_hpa: int | None = None,
        temperature_offset_degc: float | None = None,
        altitude_m: int | None = None,
    ) -> None:
        _check_settings(interval_s, ambient_pressure_hpa, temperature_offset_degc, altitude_m)
        bus.label(address, "SCD30")
        self._bus = bus
        self._address = address
        self._sleep = sleep
        self._ambient_pressure_hpa = ambient_pressure_hpa or 0
        self._settings = {
            "measurement_interval": interval_s,
            "self_calibration_enabled": self_calibration,
            # in whole steps of the chip, or it would always differ and be written again
            "temperature_offset": None
            if temperature_offset_degc is None
            else round(temperature_offset_degc, 2),
            "altitude": altitude_m,
        }
        self._adafruit: Any = None
        self._chip: Any = None
        self._has_measured = False
        self._last: Scd30Sample | None = None

    def read(self) -> Scd30Sample:
        """The latest measurement, each one once.

        Raises `NotReadyError` without a new measurement, or where the chip had lost its ambient pressure;
        `DeviceMissingError` or `TransferError` for a failed transfer; `OutOfRangeError` for a value the chip
        can't have measured (0 ppm right after power-up) and for 40 000 ppm, its full scale.
        """
        with self._translated():
            chip = self._set_up()
            if not chip.data_available:
                raise self._not_ready("has no new measurement yet")
            # The properties would ask for data-ready again before each value and could mix two measurements.
            chip._read_data()  # noqa: SLF001
            sample = Scd30Sample(chip._co2, chip._temperature, chip._relative_humidity)  # noqa: SLF001  as above
            self._check_pressure(chip)
        self._check_measured(sample)
        self._check_new(sample)
        self._has_measured = True
        return sample

    def recalibrate(self, carbon_dioxide_ppm: int) -> None:
        """Forced recalibration: the present air has `carbon_dioxide_ppm` (400..2000). It is permanent.

        The air must have been steady for two minutes before, measured every 2 s (Interface Description
        1.4.6). Raises `SettingError` beyond the range, `NotReadyError` before the first measurement since the
        chip was set up, and as `read`.
        """
        _check("carbon_dioxide_ppm", carbon_dioxide_ppm, MINIMUM_REFERENCE_PPM, MAXIMUM_REFERENCE_PPM)
        if not self._has_measured:
            raise self._not_ready("has not measured yet, so it can't be calibrated")
        with self._translated():
            self._set_up().forced_recalibration_reference = carbon_dioxide_ppm

    def _set_up(self) -> Any:
        """Adafruit's object for the chip, which has our settings."""
        if self._chip is None:
            self._adafruit = self._adafruit or _adafruit_scd30(self._sleep)
            chip = self._adafruit.SCD30(self._bus, self._ambient_pressure_hpa, self._address)
            for setting, value in self._settings.items():
                if value is not None and getattr(chip, setting) != value:
                    setattr(chip, setting, value)
            self._chip = chip
        return self._chip

    def _check_pressure(self, chip: Any) -> None:
        """A measurement without its ambient pressure is not a reading."""
        if self._ambient_pressure_hpa and chip.ambient_pressure != self._ambient_pressure_hpa:
            chip.ambient_pressure = self._ambient_pressure_hpa
            raise self._not_ready("had lost its ambient pressure, and so its power; it is set again")

    def _check_measured(self, sample: Scd30Sample) -> None:
        for name, (minimum, maximum) in _RANGES.items():
            value: float = getattr(sample, name)
            if not math.isfinite(value) or not minimum <= value <= maximum:
                raise self._out_of_range(name, value, "which is impossible")
        ppm = sample.carbon_dioxide_ppm
        if ppm == _SATURATED_PPM:
            raise self._out_of_range("carbon_dioxide_ppm", ppm, "the end of its range: it is saturated")
        if ppm == _NO_MEASUREMENT_PPM:
            raise self._out_of_range("carbon_dioxide_ppm", ppm, "which is impossible")

    def _check_new(self, sample: Scd30Sample) -> None:
        """The same three floats again are the same measurement, since noise changes their last bits."""
        if sample == self._last:
            raise self._not_ready("repeated its last measurement as a new one")
        self._last = sample

    def _not_ready(self, reason: str) -> NotReadyError:
        return NotReadyError(f"{self._bus.name_of(self._address)} {reason}", device="SCD30")

    def _out_of_range(self, name: str, value: float, reason: str) -> OutOfRangeError:
        minimum, maximum = _RANGES[name]
        sentence = f"{self._bus.name_of(self._address)} measured {name} = {value:g}, {reason}"
        return OutOfRangeError(sentence, device="SCD30", value=value, minimum=minimum, maximum=maximum)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate Adafruit's errors: RuntimeError is a bad CRC, ValueError a failed probe."""
        try:
            yield
        except DeviceMissingError:
            self._chip = None
            self._has_measured = False
            raise
        except DriverError:
            raise
        except ValueError as error:
            if isinstance(error.__context__, DriverError):
                raise error.__context__ from None  # the error of the bus
            raise
        except RuntimeError as error:
            hz = self._bus.speed_hz()
            speed = "unknown speed" if hz is None else f"{hz / 1000:g} kHz"
            sentence = f"{self._bus.name_of(self._address)} sent data with a wrong checksum, at {speed}"
            raise TransferError(
                sentence, device="SCD30", address=self._address, errno=errno.EBADMSG
            ) from error


def _check_settings(interval: int, pressure: int | None, offset: float | None, altitude: int | None) -> None:
    _check("interval_s", interval, MINIMUM_INTERVAL_S, MAXIMUM_INTERVAL_S)
    if pressure:
        _check("ambient_pressure_hpa", pressure, MINIMUM_PRESSURE_HPA, MAXIMUM_PRESSURE_HPA)
    if offset is not None:
        _check("temperature_offset_degc", offset, 0, MAXIMUM_TEMPERATURE_OFFSET_DEGC)
    if altitude is not None:
        _check("altitude_m", altitude, 0, MAXIMUM_ALTITUDE_M)


def _check(name: str, value: float, minimum: float, maximum: float) -> None:
    if not minimum <= value <= maximum:
        raise SettingError(f"SCD30: {name} must be {minimum}..{maximum}, not {value}", device="SCD30")


def _adafruit_scd30(sleep: Callable[[float], None]) -> Any:
    """Adafruit's module, in a copy of its own whose `time.sleep` is `sleep`.

    The module sleeps 10 to 50 ms of real time in each transaction, which is too long for accelerated clocks
    and tests. So this is a private copy with our sleep. It imports Blinka, which takes 0.4 s on a PC and
    seconds on a small Pi; the caller may import `adafruit_scd30` before.
    """
    spec = importlib.util.find_spec("adafruit_scd30")
    if spec is None or spec.loader is None:
        raise ImportError("adafruit-circuitpython-scd30 is not installed")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.time = SimpleNamespace(sleep=sleep)
    return module
