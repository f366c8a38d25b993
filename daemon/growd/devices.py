"""The devices of the chamber: a table of what is known of each kind of sensor, and how it is opened."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from growd.bus.fields import Field, Kind
from growd.config import ConfigError
from growd.control.device_services import DeviceService
from growd_drivers import bh1750, scd30, tsl2591

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from growd.config import Sensor
    from growd_drivers.hardware import Hardware


@dataclass(frozen=True, slots=True)
class SensorKind:
    """A kind of sensor: its usual address, how it is opened, and which variable each field of a sample is.

    The `call` of each of its `services` takes the driver first.
    """

    address: int
    open: Callable[[Hardware, Sensor, int], Any]
    variables: Mapping[str, str]
    services: tuple[DeviceService, ...] = ()


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


def _calibrate_scd30(driver: scd30.Scd30, reference: int) -> str:
    driver.recalibrate(reference)
    return f"from now on the air that it is in counts as {reference} ppm"


def _open_bh1750(hardware: Hardware, sensor: Sensor, address: int) -> Any:
    return bh1750.Bh1750(hardware.i2c(sensor.bus), sleep=hardware.sleep, address=address)


def _open_tsl2591(hardware: Hardware, sensor: Sensor, address: int) -> Any:
    return tsl2591.Tsl2591(hardware.i2c(sensor.bus), sleep=hardware.sleep, address=address)


SENSOR_KINDS: Final[dict[str, SensorKind]] = {
    "scd30": SensorKind(
        scd30.ADDRESS,
        _open_scd30,
        {
            "carbon_dioxide_ppm": "air_carbon_dioxide",
            "temperature_degc": "air_temperature",
            "humidity_percent": "air_humidity",
        },
        (
            DeviceService(
                "calibrate",
                "growd/Calibrate",
                _calibrate_scd30,
                (
                    Field(
                        "reference",
                        Kind.INT64,
                        scd30.MINIMUM_REFERENCE_PPM,
                        scd30.MAXIMUM_REFERENCE_PPM,
                        "ppm",
                        doc="the carbon dioxide in the air that the sensor is in",
                    ),
                ),
                doc="Forced recalibration, for good. The air must have been steady for two minutes before.",
            ),
        ),
    ),
    "bh1750": SensorKind(bh1750.ADDRESS, _open_bh1750, {"illuminance_lux": "light_illuminance"}),
    "tsl2591": SensorKind(tsl2591.ADDRESS, _open_tsl2591, {"illuminance_lux": "light_illuminance"}),
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

    @property
    def services(self) -> tuple[DeviceService, ...]:
        """What the device can be asked to do; their calls may raise `DriverError`."""
        return tuple(
            replace(service, call=functools.partial(self._serve, service.call))
            for service in self._kind.services
        )

    def read(self) -> dict[str, float]:
        """One reading, by variable, in the unit of `growd.variables`. Raises `DriverError`."""
        sample = self._opened().read()
        return {variable: getattr(sample, field) for field, variable in self._kind.variables.items()}

    def _opened(self) -> Any:
        if self._driver is None:
            address = self._sensor.address or self._kind.address
            self._driver = self._kind.open(self._hardware, self._sensor, address)
        return self._driver

    def _serve(self, call: Callable[..., str], **arguments: Any) -> str:
        return call(self._opened(), **arguments)
