"""Sensirion SCD40 and SCD41: carbon dioxide, temperature and humidity, over Adafruit's driver.

Source: SCD4x datasheet (Sensirion, version 1.7), sections given below.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from growd_drivers.adafruit import AdafruitChip, check_setting, with_sleep
from growd_drivers.errors import DriverError, NotReadyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.i2c import I2CBus

ADDRESS = 0x62
MAXIMUM_TEMPERATURE_OFFSET_DEGC = 20  # 3.7.1, the recommended range
MAXIMUM_ALTITUDE_M = 3000  # 3.7.3
MINIMUM_REFERENCE_PPM, MAXIMUM_REFERENCE_PPM = 400, 2000  # where the accuracy of an SCD40 is specified
MEASURES_EVERY_S = 5.0  # 3.6.1, start_periodic_measurement
NOT_MEASURING_AFTER_S = 2.5 * MEASURES_EVERY_S


@dataclass(frozen=True)
class Scd4xSample:
    """One measurement: ppm by volume, degrees Celsius, percent relative humidity."""

    carbon_dioxide_ppm: float
    temperature_degc: float
    humidity_percent: float


class Scd4x:
    """An SCD40 or SCD41 that measures every 5 s.

    Automatic self-calibration takes the lowest value of a week for fresh air (400 ppm), which is wrong in a
    closed or enriched chamber. The chip has it on after each power-on. The settings go into its volatile
    memory at each set-up, since its EEPROM lasts for 2000 writes only; None keeps what the EEPROM has.

    After a loss of power the chip is idle and has no new measurement. So a chip without one for 12.5 s is
    set up again. The constructor does not talk to the chip. It raises `SettingError` for an invalid setting.
    """

    def __init__(
        self,
        bus: I2CBus,
        *,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
        address: int = ADDRESS,
        self_calibration: bool = False,
        temperature_offset_degc: float | None = None,
        altitude_m: int | None = None,
    ) -> None:
        check_setting(
            "SCD4x", "temperature_offset_degc", temperature_offset_degc, 0, MAXIMUM_TEMPERATURE_OFFSET_DEGC
        )
        check_setting("SCD4x", "altitude_m", altitude_m, 0, MAXIMUM_ALTITUDE_M)
        self._bus = bus
        self._address = address
        self._monotonic = monotonic
        self._settings = {
            "self_calibration_enabled": self_calibration,
            "temperature_offset": temperature_offset_degc,
            "altitude": altitude_m,
        }
        self._chip = AdafruitChip(
            bus,
            address,
            "SCD4x",
            load=partial(with_sleep, "adafruit_scd4x", sleep),
            open_chip=self._set_up,
        )
        self._measured_at = 0.0
        self._has_measured = False

    def read(self) -> Scd4xSample:
        """The latest measurement, each one once. The first read and one after an outage block for 0.5 s.

        Raises `NotReadyError` without a new measurement; `DeviceMissingError` or `TransferError` for a failed
        transfer.
        """
        with self._chip.used() as chip:
            if not chip.data_ready:
                raise self._not_ready()
            # The properties would ask for data-ready again before each value and could mix two measurements.
            chip._read_data()  # noqa: SLF001
            sample = Scd4xSample(chip._co2, chip._temperature, chip._relative_humidity)  # noqa: SLF001  as above
        self._measured_at = self._monotonic()
        self._has_measured = True
        return sample

    def recalibrate(self, carbon_dioxide_ppm: int) -> None:
        """Forced recalibration: the present air has `carbon_dioxide_ppm` (400..2000). It is permanent.

        The chip must have measured for three minutes in steady air before (3.8.1). Blocks for 1 s. Raises
        `SettingError` beyond the range; `NotReadyError` before the first measurement since the chip was set
        up, and if the chip refuses; and as `read`.
        """
        check_setting(
            "SCD4x", "carbon_dioxide_ppm", carbon_dioxide_ppm, MINIMUM_REFERENCE_PPM, MAXIMUM_REFERENCE_PPM
        )
        if not (self._has_measured and self._chip.is_set_up):
            raise self._chip.not_ready("has not measured yet, so it can't be calibrated")
        try:
            with self._chip.used() as chip:
                self._force_calibration(chip, carbon_dioxide_ppm)
        finally:
            self._chip.forget()  # the calibration has stopped its measurements

    def _force_calibration(self, chip: Any, reference_ppm: int) -> None:
        try:
            chip.force_calibration(reference_ppm)
        except RuntimeError as error:
            is_refused = not isinstance(error.__cause__, DriverError) and "CRC" not in str(error)
            if is_refused:  # the answer 0xffff
                raise self._chip.not_ready(
                    "refused the calibration: it must have measured for three minutes before"
                ) from error
            raise

    def _set_up(self, adafruit: Any) -> Any:
        """Adafruit's object for the chip, which has our settings and measures."""
        chip = adafruit.SCD4X(self._bus, self._address)  # stops the measurements, which settings need
        for setting, value in self._settings.items():
            if value is not None:
                setattr(chip, setting, value)
        chip.start_periodic_measurement()
        self._measured_at = self._monotonic()
        self._has_measured = False
        return chip

    def _not_ready(self) -> NotReadyError:
        if self._monotonic() - self._measured_at < NOT_MEASURING_AFTER_S:
            return self._chip.not_ready("has no new measurement yet")
        self._chip.forget()
        return self._chip.not_ready("does not measure any more, as after a loss of power; it is set up again")
