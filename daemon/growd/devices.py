"""The devices of the chamber: a table of what is known of each kind of sensor, and how it is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from growd.config import ConfigError
from growd_drivers import bh1750, scd30

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from growd.config import Sensor
    from growd_drivers.hardware import Hardware


@dataclass(frozen=True, slots=True)
class SensorKind:
    """A kind of sensor: its usual address, how it is opened, and which variable each field of a sample is."""

    address: int
    open: Callable[[Hardware, Sensor, int], Any]
    variables: Mapping[str, str]


def _open_scd30(hardware: Hardware, sensor: Sensor, address: int) -> Any:
    # The chip measures twice as often as it is read (each 2 to 1800 s: interface description, section
    # 1.4.3), so that a reading that comes a little early does not find it empty-handed.
    interval = min(max(2, int(sensor.interval_s / 2)), 1800)
    return scd30.Scd30(
        hardware.i2c(sensor.bus),
        sleep=hardware.sleep,
        address=address,
        interval_s=interval,
        self_calibration=sensor.self_calibration,
        ambient_pressure_hpa=sensor.ambient_pressure_hpa or 0,
        temperature_offset_degc=sensor.temperature_offset_degc,
        altitude_m=sensor.altitude_m,
    )


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


def check_addresses(sensors: Sequence[Sensor]) -> None:
    """No two sensors share an address on a bus. Raises `ConfigError` with both names."""
    taken: dict[tuple[int, int], str] = {}
    for sensor in sensors:
        place = (sensor.bus, sensor.address or SENSOR_KINDS[sensor.kind].address)
        if place in taken:
            both = f"{taken[place]} and {sensor.name}"
            raise ConfigError(f"[sensor] address: {both} are both at {place[1]:#04x} on bus {place[0]}")
        taken[place] = sensor.name


class SensorDevice:
    """A sensor that is opened at its first read, so that one whose bus is missing stops nothing else.

    Blocking; its bus's worker thread calls it.
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
        """One reading, by variable, in the unit of `growd.variables`. Raises `DriverError`."""
        if self._driver is None:
            address = self._sensor.address or self._kind.address
            self._driver = self._kind.open(self._hardware, self._sensor, address)
        sample = self._driver.read()
        return {variable: getattr(sample, field) for field, variable in self._kind.variables.items()}
