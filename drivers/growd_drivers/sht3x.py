"""Sensirion SHT30, SHT31 and SHT35: temperature and humidity, over Adafruit's driver.

Source: SHT3x-DIS datasheet (Sensirion, version 7).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from growd_drivers.adafruit import AdafruitChip, with_sleep

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.i2c import I2CBus

ADDRESS = 0x44
"""With the ADDR pin low; 0x45 with it high."""


@dataclass(frozen=True)
class AirSample:
    """Degrees Celsius and percent relative humidity."""

    temperature_degc: float
    humidity_percent: float


class Sht3x:
    """An SHT3x that measures once for each value, with high repeatability and without clock stretching.

    The command of a measurement has all its settings, so a loss of power changes nothing. The constructor
    does not talk to the chip.
    """

    def __init__(self, bus: I2CBus, *, sleep: Callable[[float], None], address: int = ADDRESS) -> None:
        self._chip = AdafruitChip(
            bus,
            address,
            "SHT3x",
            load=partial(with_sleep, "adafruit_sht31d", sleep),
            open_chip=lambda adafruit: adafruit.SHT31D(bus, address),
        )

    def read(self) -> AirSample:
        """Measure now. Blocks for 32 ms.

        Raises `DeviceMissingError` or `TransferError` for a failed transfer.
        """
        with self._chip.used() as chip:
            return AirSample(chip.temperature, chip.relative_humidity)
