"""Sensirion SCD30: carbon dioxide, temperature and humidity, over Adafruit's driver.

Sources: "Interface Description Sensirion SCD30 Sensor Module" (commands, CRC, limits).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from growd_drivers.adafruit import AdafruitChip, check_setting, with_sleep

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.i2c import I2CBus

ADDRESS = 0x61
MINIMUM_INTERVAL_S, MAXIMUM_INTERVAL_S = 2, 1800  # Interface Description 1.4.3
MAXIMUM_TEMPERATURE_OFFSET_DEGC = 655.35  # Interface Description 1.4.7: 16 bit in steps of 0.01
MAXIMUM_ALTITUDE_M = 65_535  # Interface Description 1.4.8: 16 bit
MINIMUM_REFERENCE_PPM, MAXIMUM_REFERENCE_PPM = 400, 2000  # Interface Description 1.4.6


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

    The first `read` sets the chip up, and so does the first one after it was missing. The constructor does
    not talk to the chip. It raises `SettingError` for an invalid setting.
    """

    def __init__(
        self,
        bus: I2CBus,
        *,
        sleep: Callable[[float], None],
        address: int = ADDRESS,
        interval_s: int = 2,
        self_calibration: bool = False,
        temperature_offset_degc: float | None = None,
        altitude_m: int | None = None,
    ) -> None:
        _check_settings(interval_s, temperature_offset_degc, altitude_m)
        self._bus = bus
        self._address = address
        self._settings = {
            "measurement_interval": interval_s,
            "self_calibration_enabled": self_calibration,
            # in whole steps of the chip, or it would always differ and be written again
            "temperature_offset": None
            if temperature_offset_degc is None
            else round(temperature_offset_degc, 2),
            "altitude": altitude_m,
        }
        self._chip = AdafruitChip(
            bus,
            address,
            "SCD30",
            load=partial(with_sleep, "adafruit_scd30", sleep),
            open_chip=self._set_up,
        )
        self._has_measured = False

    def read(self) -> Scd30Sample:
        """The latest measurement, each one once.

        Raises `NotReadyError` without a new measurement; `DeviceMissingError` or `TransferError` for a failed
        transfer. Right after power-up the chip measures
        0 ppm.
        """
        with self._chip.used() as chip:
            if not chip.data_available:
                raise self._chip.not_ready("has no new measurement yet")
            # The properties would ask for data-ready again before each value and could mix two measurements.
            chip._read_data()  # noqa: SLF001
            sample = Scd30Sample(chip._co2, chip._temperature, chip._relative_humidity)  # noqa: SLF001  as above
        self._has_measured = True
        return sample

    def recalibrate(self, carbon_dioxide_ppm: int) -> None:
        """Forced recalibration: the present air has `carbon_dioxide_ppm` (400..2000). It is permanent.

        The air must have been steady for two minutes before, measured every 2 s (Interface Description
        1.4.6). Raises `SettingError` beyond the range, `NotReadyError` before the first measurement since the
        chip was set up, and as `read`.
        """
        check_setting(
            "SCD30", "carbon_dioxide_ppm", carbon_dioxide_ppm, MINIMUM_REFERENCE_PPM, MAXIMUM_REFERENCE_PPM
        )
        if not (self._has_measured and self._chip.is_set_up):
            raise self._chip.not_ready("has not measured yet, so it can't be calibrated")
        with self._chip.used() as chip:
            chip.forced_recalibration_reference = carbon_dioxide_ppm

    def _set_up(self, adafruit: Any) -> Any:
        """Adafruit's object for the chip, which has our settings."""
        chip = adafruit.SCD30(self._bus, 0, self._address)
        for setting, value in self._settings.items():
            if value is not None and getattr(chip, setting) != value:
                setattr(chip, setting, value)
        self._has_measured = False
        return chip


def _check_settings(interval: int, offset: float | None, altitude: int | None) -> None:
    check_setting("SCD30", "interval_s", interval, MINIMUM_INTERVAL_S, MAXIMUM_INTERVAL_S)
    check_setting("SCD30", "temperature_offset_degc", offset, 0, MAXIMUM_TEMPERATURE_OFFSET_DEGC)
    check_setting("SCD30", "altitude_m", altitude, 0, MAXIMUM_ALTITUDE_M)
