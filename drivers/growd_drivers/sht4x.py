"""Sensirion SHT40, SHT41 and SHT45: temperature and humidity, over Adafruit's driver.

Source: SHT4x datasheet (Sensirion, version 6). The types A, B and C have the addresses 0x44, 0x45 and 0x46.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from growd_drivers.adafruit import AdafruitChip, with_sleep
from growd_drivers.sht3x import AirSample

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd_drivers.i2c import I2CBus

ADDRESS = 0x44


class Sht4x:
    """An SHT4x that measures with high precision, without its heater.

    The command of a measurement has all its settings, so a loss of power changes nothing. The constructor
    does not talk to the chip.
    """

    def __init__(self, bus: I2CBus, *, sleep: Callable[[float], None], address: int = ADDRESS) -> None:
        self._chip = AdafruitChip(
            bus,
            address,
            "SHT4x",
            load=partial(with_sleep, "adafruit_sht4x", sleep),
            open_chip=lambda adafruit: adafruit.SHT4x(bus, address),
        )

    def read(self) -> AirSample:
        """Measure now. Blocks for 10 ms. Raises as `Sht3x.read`."""
        with self._chip.used() as chip:
            return AirSample(*chip.measurements)
