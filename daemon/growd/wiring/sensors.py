"""The devices of the chamber: a table of what is known of each kind of sensor, and how it is opened."""

from __future__ import annotations

import functools
from collections import deque
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from growd.bus.fields import Field, Kind
from growd.config import Finding
from growd.control.calibration import steady_reading
from growd.control.device_services import Calibrates, DeviceService
from growd.variables import CARBON_DIOXIDE
from growd_drivers import bh1750, mhz19, sc16is750, scd30, tsl2591
from growd_drivers.errors import DeviceMissingError, NotReadyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from growd.config import Config, Sensor
    from growd.config.findings import OptionPath
    from growd_drivers.hardware import Hardware


@dataclass(frozen=True, slots=True)
class SensorKind:
    """A kind of sensor: its usual address, how it is opened, and which variable each field of a sample is.

    The address is 0 where the sensor has a serial line, and that of the bridge has to be given where it is
    behind one. A sensor that was switched on has no reading for `warm_up_s` seconds. The `call` of each of
    its `services` takes the driver first.
    """

    address: int
    open: Callable[[Hardware, Sensor, int], Any]
    variables: Mapping[str, str]
    services: tuple[DeviceService, ...] = ()
    warm_up_s: float = 0.0


_LEAST_INTERVAL_S: Final = 0.1
_MOST_GAP_S: Final = 30.0  # between two readings, or of two intervals if that is longer


def _reference(minimum_ppm: int, maximum_ppm: int) -> Field:
    """The argument of a calibration."""
    doc = "the carbon dioxide in the air that the sensor is in"
    return Field("reference", Kind.INT64, minimum_ppm, maximum_ppm, "ppm", doc=doc)


def _calibrated(ppm: int) -> str:
    """What a calibration has done."""
    return f"from now on the air that it is in counts as {ppm} ppm"


_OF_SCD30: Final = Calibrates(steady_s=120.0, most_interval_s=5.9)
"""Two minutes in a stable environment, each 2 s (Interface Description 1.4.6): see `_interval_of_scd30`."""

_MHZ19_STEADY_S: Final = 1200.0  # "at least 20 minutes" (MH-Z19B manual 1.0, "Notes")


def _interval_of_scd30(sensor: Sensor) -> int:
    """The chip measures twice as often as it is read (each 2 to 1800 s: Interface Description 1.4.3), so that
    a reading that comes a little early does not find it empty-handed.
    """
    return min(max(2, int(sensor.interval_s / 2)), 1800)


def least_interval_s(sensor: Sensor) -> float:
    """A sensor that is read more often than it measures would seem to fall silent."""
    return float(_interval_of_scd30(sensor)) if sensor.kind == "scd30" else _LEAST_INTERVAL_S


def _open_scd30(hardware: Hardware, sensor: Sensor, address: int) -> Any:
    return scd30.Scd30(
        hardware.i2c(sensor.bus),
        sleep=hardware.sleep,
        address=address,
        interval_s=_interval_of_scd30(sensor),
        self_calibration=sensor.self_calibration,
        ambient_pressure_hpa=sensor.ambient_pressure_hpa or 0,
        temperature_offset_degc=sensor.temperature_offset_degc,
        altitude_m=sensor.altitude_m,
    )


def _calibrate_scd30(driver: scd30.Scd30, reference: int) -> str:
    driver.recalibrate(reference)
    return _calibrated(reference)


def _open_bh1750(hardware: Hardware, sensor: Sensor, address: int) -> Any:
    return bh1750.Bh1750(hardware.i2c(sensor.bus), sleep=hardware.sleep, address=address)


def _open_tsl2591(hardware: Hardware, sensor: Sensor, address: int) -> Any:
    return tsl2591.Tsl2591(hardware.i2c(sensor.bus), sleep=hardware.sleep, address=address)


def _open_mhz19(device: str, hardware: Hardware, sensor: Sensor, address: int) -> Any:
    place = sensor.port or sc16is750.place_of(sensor.bus, address)
    return mhz19.Mhz19(
        hardware.serial(place, baud=mhz19.BAUD, timeout_s=mhz19.ANSWER_S),
        monotonic=hardware.monotonic,
        device=device,
        range_ppm=sensor.range_ppm,
        self_calibration=sensor.self_calibration,
        stuck_after_s=sensor.stuck_after_s,
    )


def _calibrate_zero_mhz19(driver: mhz19.Mhz19) -> str:
    driver.calibrate_zero()
    return _calibrated(mhz19.ZERO_POINT_PPM)


def _calibrate_span_mhz19(driver: mhz19.Mhz19, reference: int) -> str:
    driver.calibrate_span(reference)
    return _calibrated(reference)


def _set_baseline_mhz19(driver: mhz19.Mhz19, *, data: bool) -> str:
    driver.set_self_calibration(data)
    return f"the automatic baseline is {'on' if data else 'off'} until growd starts again"


def _mhz19(device: str) -> SensorKind:
    """An MH-Z19, or the MH-Z16, which speaks the same."""
    return SensorKind(
        0,
        functools.partial(_open_mhz19, device),
        {"carbon_dioxide_ppm": "air_carbon_dioxide"},
        (
            DeviceService(
                "calibrate_zero",
                "std_srvs/Trigger",
                _calibrate_zero_mhz19,
                doc="Take the air for fresh air, for good. The sensor must have been in it for 20 minutes.",
                calibrates=Calibrates(_MHZ19_STEADY_S, reference_ppm=mhz19.ZERO_POINT_PPM),
            ),
            DeviceService(
                "calibrate_span",
                "growd/Calibrate",
                _calibrate_span_mhz19,
                (_reference(mhz19.MINIMUM_SPAN_PPM, mhz19.RANGES_PPM[-1]),),
                doc="After the zero point, for good. The sensor must have been in the air for 20 minutes.",
                calibrates=Calibrates(_MHZ19_STEADY_S, scales=True),
            ),
            DeviceService(
                "set_automatic_baseline",
                "std_srvs/SetBool",
                _set_baseline_mhz19,
                (Field("data", Kind.BOOL, doc="whether the lowest value of a day counts as fresh air"),),
                doc="Switch the automatic baseline, which is wrong in a closed or enriched chamber.",
                is_automatic=True,
            ),
        ),
        warm_up_s=mhz19.WARM_UP_S,
    )


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
                (_reference(scd30.MINIMUM_REFERENCE_PPM, scd30.MAXIMUM_REFERENCE_PPM),),
                doc="Forced recalibration, for good. The air must have been steady for two minutes before.",
                calibrates=_OF_SCD30,
            ),
        ),
    ),
    "bh1750": SensorKind(bh1750.ADDRESS, _open_bh1750, {"illuminance_lux": "light_illuminance"}),
    "tsl2591": SensorKind(tsl2591.ADDRESS, _open_tsl2591, {"illuminance_lux": "light_illuminance"}),
    "mhz19": _mhz19("MH-Z19"),
    "mhz16": _mhz19("MH-Z16"),
}


def shared_places(config: Config) -> Iterator[Finding]:
    """Sensors of any environment that share an address on a bus, or a serial port: both names."""
    taken: dict[tuple[int, int], str] = {}
    ports: list[tuple[str, Sensor]] = []
    for path, name, sensor in _sensors(config):
        if sensor.port is not None:
            yield from _shared_port(path, name, sensor, ports)
            ports.append((name, sensor))
            continue
        place = (sensor.bus, sensor.address or SENSOR_KINDS[sensor.kind].address)
        if place in taken:
            both = f"{taken[place]} and {name}"
            yield Finding((*path, "address"), f"{both} are both at {place[1]:#04x} on bus {place[0]}")
        taken.setdefault(place, name)


def _sensors(config: Config) -> Iterator[tuple[OptionPath, str, Sensor]]:
    """All there are, each with its place in the file and its name for a person."""
    for environment, chamber in config.chambers().items():
        for number, sensor in enumerate(chamber.sensor):
            path = (*config.path(environment, "sensor"), number)
            yield path, config.device(environment, sensor.name), sensor


def _shared_port(
    path: OptionPath, name: str, sensor: Sensor, others: Sequence[tuple[str, Sensor]]
) -> Iterator[Finding]:
    """A pattern takes what it finds first, so no other sensor may be at a port that it fits."""
    port = sensor.port or ""
    for other_name, other in others:
        other_port = other.port or ""
        if fnmatchcase(other_port, port) or fnmatchcase(port, other_port):
            shared = port if fnmatchcase(port, other_port) else other_port
            yield Finding((*path, "port"), f"{other_name} and {name} are both at {shared}")


def line_of(sensor: Sensor) -> str:
    """The bus or serial line of a sensor: what is on one is worked in one thread."""
    return sensor.port or f"i2c-{sensor.bus}"


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
        self._recent: deque[tuple[float, float]] = deque()
        calibrations = [each.calibrates.steady_s for each in self._kind.services if each.calibrates]
        self._look_back_s = max(calibrations, default=0.0)
        self._gap_s = max(_MOST_GAP_S, 2 * sensor.interval_s)

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that a reading has."""
        return tuple(self._kind.variables.values())

    @property
    def services(self) -> tuple[DeviceService, ...]:
        """What the device can be asked to do; their calls may raise `DriverError`."""
        return tuple(
            replace(
                service,
                call=functools.partial(self._serve, service.call),
                steady=self._steady,
            )
            for service in self._kind.services
        )

    def read(self) -> dict[str, float]:
        """One reading, by variable, in the unit of `growd.variables`. Raises `DriverError`."""
        try:
            sample = self._opened().read()
        except DeviceMissingError:
            self._recent.clear()  # it may have lost its power
            raise
        reading = {variable: getattr(sample, field) for field, variable in self._kind.variables.items()}
        self._remember(reading)
        return reading

    def _opened(self) -> Any:
        if self._driver is None:
            address = self._sensor.address or self._kind.address
            self._driver = self._kind.open(self._hardware, self._sensor, address)
        return self._driver

    def _serve(self, call: Callable[..., str], **arguments: Any) -> str:
        self._recent.clear()  # what it measured before may not be what it measures then
        return call(self._opened(), **arguments)

    def _remember(self, reading: Mapping[str, float]) -> None:
        """Readings of CO2, for as long as a calibration wants to look back."""
        if CARBON_DIOXIDE not in reading:
            return
        now = self._hardware.monotonic()
        if self._recent and now - self._recent[-1][0] > self._gap_s:
            self._recent.clear()
        self._recent.append((now, reading[CARBON_DIOXIDE]))
        while now - self._recent[0][0] > self._look_back_s + self._gap_s:
            self._recent.popleft()

    def _steady(self, wanted: Calibrates) -> float:
        """The CO2 that it says now. Raises `NotReadyError` where it is not ready for a calibration."""
        if self._sensor.interval_s > wanted.most_interval_s:
            raise self._not_ready(
                f"measures too seldom for a calibration: set its interval_s to {wanted.most_interval_s:.0f} "
                "or less in the configuration, and start growd anew"
            )
        now = self._hardware.monotonic()
        last = [(came, ppm) for came, ppm in self._recent if now - came <= wanted.steady_s + self._gap_s]
        lasted = now - last[0][0] if last and now - last[-1][0] <= self._gap_s else 0.0
        if lasted < wanted.steady_s:
            raise self._not_ready(
                f"has to measure for {wanted.steady_s:.0f} s without a gap before it is calibrated, "
                f"{wanted.steady_s - lasted:.0f} s more"
            )
        reading = steady_reading([ppm for _, ppm in last])
        if reading is None:
            values = [ppm for _, ppm in last]
            raise self._not_ready(
                f"went from {min(values):.0f} to {max(values):.0f} ppm in the last {wanted.steady_s:.0f} s: "
                "the air has to be steady for a calibration"
            )
        return reading

    def _not_ready(self, reason: str) -> NotReadyError:
        return NotReadyError(f"{self.name} {reason}", device=self._sensor.kind)
