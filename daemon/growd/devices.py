"""The devices of the chamber: a table of what is known of each kind of sensor, and how it is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from growd_drivers import bh1750, scd30
from growd_drivers.errors import DriverError, NotReadyError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from growd_drivers.hardware import Hardware

    from growd.config import Sensor


@dataclass(frozen=True, slots=True)
class SensorKind:
    """A kind of sensor: its usual address, how it is opened, and which variable each field of a sample is."""

    address: int
    open: Callable[[Hardware, Sensor, int], Any]
    variables: Mapping[str, str]


def _open_scd30(hardware: Hardware, sensor: Sensor, address: int) -> Any:
    # the chip measures each 2 s at the most (interface description, section 1.4.3)
    interval = max(2, int(sensor.interval_s))
    bus = hardware.i2c(sensor.bus)
    return scd30.Scd30(bus, sleep=hardware.sleep, address=address, interval_s=min(interval, 1800))


def _open_bh1750(hardware: Hardware, sensor: Sensor, address: int) -> Any:
    return bh1750.Bh1750(hardware.i2c(sensor.bus), sleep=hardware.sleep, address=address)


SENSOR_KINDS: Final[dict[str, SensorKind]] = {
    "scd30": SensorKind(
        scd30.ADDRESS,
        _open_scd30,
        {
            "carbon_dioxide_ppm": "air_carbon_dioxide",
            "temperature_degc": "air_temperature",
            "humidity_percent": "air_humidity",
        },
    ),
    "bh1750": SensorKind(bh1750.ADDRESS, _open_bh1750, {"illuminance_lux": "light_illuminance"}),
}


class SensorDevice:
    """A sensor that is opened at its first read, and opened anew after an error.

    So a chip that is absent at the start, or was pulled and put back, comes to life by itself. Blocking; its
    bus's worker thread calls it.
    """

    def __init__(self, hardware: Hardware, sensor: Sensor) -> None:
        self.name = sensor.name
        self._kind = SENSOR_KINDS[sensor.kind]
        self._hardware = hardware
        self._sensor = sensor
        self._driver: Any = None

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that a reading has."""
        return tuple(self._kind.variables.values())

    def read(self) -> dict[str, float]:
        """One reading, by variable, each in the unit of `growd.variables`. Raises `DriverError`."""
        if self._driver is None:
            address = self._sensor.address or self._kind.address
            self._driver = self._kind.open(self._hardware, self._sensor, address)
        try:
            sample = self._driver.read()
        except NotReadyError:
            raise  # it is well, it only has nothing new
        except DriverError:
            self._driver = None
            raise
        return {variable: getattr(sample, field) for field, variable in self._kind.variables.items()}
