"""Sensors as configured: opened, read and calibrated as the table of their kinds says."""

from __future__ import annotations

import sys
from bisect import bisect_left
from functools import partial
from importlib import import_module
from math import inf
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from growd.bus.fields import Field, Kind
from growd.control.calibration import SteadyAir, steady_reading
from growd.control.device_services import DeviceService
from growd.control.plausibility import Plausibility
from growd.device_kinds import SENSOR_KINDS
from growd.own_kinds import reason_of
from growd.runtime.sentence import Sentence, reworded
from growd.variables import VARIABLES
from growd.wiring.own_drivers import OwnDriverGuard, numbers
from growd_drivers.errors import DeviceMissingError, DriverError, HardwareUnavailableError, NotReadyError
from growd_drivers.sc16is750 import place_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from growd.config import Sensor
    from growd_drivers.hardware import Hardware
    from growd_drivers.kinds import CalibrationKind, Opening

_MOST_GAP_S: Final = 30.0  # between two readings of steady air, or two intervals if that is longer


def open_sensor(hardware: Hardware, sensor: Sensor) -> Any:
    """A new driver of the sensor, which has not talked to it yet. Raises `DriverError`."""
    kind = SENSOR_KINDS[sensor.kind]
    if reason := reason_of(kind):
        raise HardwareUnavailableError(reason, device=sensor.kind)
    driver = resolve_name(kind.driver)
    options = sensor.driver_options
    if kind.measurement_interval_s:
        options["interval_s"] = kind.measurement_interval_s(sensor.interval_s)
    return _OPENERS[kind.opens](hardware, sensor, driver, options)


def _on_i2c(hardware: Hardware, sensor: Sensor, driver: Any, options: dict[str, Any]) -> Any:
    bus = hardware.i2c(sensor.bus)
    if SENSOR_KINDS[sensor.kind].takes_monotonic:
        options["monotonic"] = hardware.monotonic
    return driver(bus, sleep=hardware.sleep, address=sensor.i2c_address, **options)


def _on_a_line(hardware: Hardware, sensor: Sensor, driver: Any, options: dict[str, Any]) -> Any:
    place, part = sensor.port or place_of(sensor.bus, sensor.i2c_address), SENSOR_KINDS[sensor.kind].part
    line = hardware.serial(place, baud=driver.BAUD, timeout_s=driver.ANSWER_S)
    return driver(line, monotonic=hardware.monotonic, device=part, **options)


def _on_one_wire(hardware: Hardware, _: Sensor, driver: Any, options: dict[str, Any]) -> Any:
    return driver(hardware.one_wire, **options)


def _on_a_pin(hardware: Hardware, sensor: Sensor, driver: Any, options: dict[str, Any]) -> Any:
    return driver(hardware.pins, name=sensor.name, **options)


def _on_nothing(hardware: Hardware, sensor: Sensor, driver: Any, options: dict[str, Any]) -> Any:
    return driver(name=sensor.name, sleep=hardware.sleep, monotonic=hardware.monotonic, **options)


_OPENERS: Final[dict[Opening, Callable[..., Any]]] = {
    "i2c": _on_i2c,
    "serial": _on_a_line,
    "one_wire": _on_one_wire,
    "gpio": _on_a_pin,
    "none": _on_nothing,
}


def plausibility_of(sensor: Sensor, on_restart: Callable[[], None] = lambda: None) -> Plausibility:
    """The judge of a sensor's readings. The state of an output that it confirms is of no variable."""
    kind = SENSOR_KINDS[sensor.kind]
    return Plausibility(
        kind,
        sensor.fields,
        range_end=sensor.driver_options.get(kind.range_option),
        ends=[value for _, value in sensor.points],
        stuck_after_s=sensor.stuck_after_s,
        on_restart=on_restart,
    )


class SensorDevice:
    """A sensor that is opened at its first read, so that a missing bus affects nothing else.

    Blocking; the worker thread of its bus or line calls it. `known` returns the present value of a variable,
    `why_in_use` why its probe may not leave the tank for a calibration now, or "".
    """

    def __init__(
        self,
        hardware: Hardware,
        sensor: Sensor,
        known: Callable[[str], float | None] = lambda _: None,
        why_in_use: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._known = known
        self._why_in_use = why_in_use
        self.name = sensor.name
        self.variables = sensor.variables
        self._fields = {field: name or sensor.confirms for field, name in sensor.fields.items()}
        self._kind = SENSOR_KINDS[sensor.kind]
        self._hardware = hardware
        self._sensor = sensor
        self._driver: Any = None
        self._plausibility = plausibility_of(sensor, self._has_restarted)
        self._guard = OwnDriverGuard(sensor.name) if self._kind.api else None
        calibrations = self._kind.calibrations
        self._recent = {
            name: _RecentReadings(sensor, [each for each in calibrations if self._variable_of(each) == name])
            for name in dict.fromkeys(map(self._variable_of, calibrations))
        }

    @property
    def prepare(self) -> Callable[[], object] | None:
        """What takes long before the first read, if anything does. Blocking; it does not call the device."""
        module = "" if self._kind.api else self._kind.slow_import
        return partial(import_module, module) if module and module not in sys.modules else None

    @property
    def services(self) -> tuple[DeviceService, ...]:
        """The services of the device; their calls may raise `DriverError`."""
        return tuple(self._services())

    def read(self) -> dict[str, float]:
        """One plausible reading, by variable, in the unit of `growd.variables`, or by the name of the output
        that it confirms. Raises `DriverError`.
        """
        try:
            reading: dict[str, float] = self._guarded(self._sampled)
        except NotReadyError:
            raise
        except DriverError as error:
            self._plausibility.missed(self._hardware.monotonic(), error)
            if isinstance(error, DeviceMissingError):
                self._begin_anew()  # it may have lost its power
            raise
        now = self._hardware.monotonic()
        self._plausibility.check(reading, now)
        for name, recent in self._recent.items():
            recent.add(now, reading[name])
        return reading

    def _sampled(self) -> dict[str, float]:
        if self._kind.compensated_by:
            self._opened().compensate(self._known(self._kind.compensated_by))
        sample = self._opened().read()
        reading = {name: getattr(sample, field) for field, name in self._fields.items()}
        return numbers(reading) if self._kind.api else reading

    def _opened(self) -> Any:
        if self._driver is None:
            self._driver = open_sensor(self._hardware, self._sensor)
        return self._driver

    def _services(self) -> Iterator[DeviceService]:
        for calibration in self._kind.calibrations:
            takes_reference = calibration.reference_range is not None
            yield DeviceService(
                calibration.name,
                "growd/Calibrate" if takes_reference else "std_srvs/Trigger",
                partial(self._calibrate, calibration),
                (_reference(calibration.unit, *calibration.reference_range),)
                if calibration.reference_range
                else (),
                doc=calibration.doc,
                variable=self._variable_of(calibration),
                calibrates=calibration,
                air=self._air,
            )
        if self._kind.self_calibration_method:
            yield DeviceService(
                "set_automatic_baseline",
                "std_srvs/SetBool",
                self._set_automatic_baseline,
                (Field("data", Kind.BOOL, doc="whether the lowest value of a day counts as fresh air"),),
                doc="Switch the automatic baseline, which is wrong in a closed or enriched chamber.",
                is_automatic=True,
            )

    def _variable_of(self, calibration: CalibrationKind) -> str:
        """The first variable in its unit, else the first one."""
        in_unit = [name for name in self.variables if VARIABLES[name].unit == calibration.unit]
        return (in_unit or self.variables)[0]

    def _air(self, wanted: CalibrationKind) -> SteadyAir:
        variable = self._variable_of(wanted)
        found = self._recent[variable].air(self._hardware.monotonic(), wanted)
        if not wanted.is_of_carbon_dioxide and (reason := self._why_in_use(variable)):
            return SteadyAir(found.recent, found.lasted_s, reason=reason)
        return found

    def _has_restarted(self) -> None:
        self._begin_anew()
        if hasattr(self._driver, "set_up_again"):
            self._guarded(self._driver.set_up_again)

    def _begin_anew(self) -> None:
        for recent in self._recent.values():
            recent.clear()

    def _calibrate(self, calibration: CalibrationKind, reference: float | None = None) -> str:
        arguments = () if reference is None else (reference,)
        said = self._call(calibration.method, *arguments)
        remark = f"; {said}" if isinstance(said, str) and said else ""
        if reference is None and not calibration.is_of_carbon_dioxide:
            return f"the probe is calibrated{remark}"
        value = calibration.reference if reference is None else reference
        around = "the air around it" if calibration.is_of_carbon_dioxide else "what is around it"
        return f"the sensor now reads {around} as {value:g} {calibration.unit}{remark}"

    def _set_automatic_baseline(self, *, data: bool) -> str:
        self._call(self._kind.self_calibration_method, data)
        return f"the automatic baseline is {'on' if data else 'off'} until growd starts again"

    def _call(self, method: str, *arguments: float) -> Any:
        """Call a method of the driver that changes what it measures."""
        self._begin_anew()
        self._plausibility.expect_jump()
        return self._guarded(lambda: getattr(self._opened(), method)(*arguments))

    def _guarded(self, call: Callable[[], Any]) -> Any:
        """Call a driver. An error of growd's own that is not of the device is a bug, and ends the sampler."""
        return call() if self._guard is None else self._guard.call(call)


def _reference(unit: str, minimum: float, maximum: float) -> Field:
    if unit == "ppm":
        doc = "the true CO2 of the air around the sensor"
        return Field("reference", Kind.INT64, minimum, maximum, unit, doc=doc)
    return Field("reference", Kind.FLOAT64, minimum, maximum, unit, doc="the true value around the sensor")


class _RecentReadings:
    """The latest readings of a sensor, for as long as its calibrations look back. Times are monotonic.

    The worker adds to them, as new tuples, so that any thread may read them at any time.
    """

    def __init__(self, sensor: Sensor, calibrations: Iterable[CalibrationKind]) -> None:
        self._sensor = sensor
        self._look_back_s = max((each.steady_s for each in calibrations), default=0.0)
        self._gap_s = max(_MOST_GAP_S, 2 * sensor.interval_s)
        self._readings: tuple[tuple[float, float], ...] = ()

    def clear(self) -> None:
        self._readings = ()

    def add(self, now: float, ppm: float) -> None:
        if self._readings and now - self._readings[-1][0] > self._gap_s:
            self.clear()
        first = bisect_left(self._readings, (now - self._look_back_s - self._gap_s, -inf))
        self._readings = (*self._readings[first:], (now, ppm))

    def air(self, now: float, wanted: CalibrationKind) -> SteadyAir:
        """What was measured in the time that a calibration looks back."""
        last = [(at, ppm) for at, ppm in self._readings if now - at <= wanted.steady_s + self._gap_s]
        lasted = now - last[0][0] if last and now - last[-1][0] <= self._gap_s else 0.0
        recent = [(now - at, ppm) for at, ppm in last]
        values = [value for _, value in last]
        if reason := self._why_not(values, lasted, wanted):
            return SteadyAir(recent, lasted, reason=reworded(f"{self._sensor.name} {reason}", reason))
        return SteadyAir(recent, lasted, _steady(values, wanted))

    def _why_not(self, values: list[float], lasted: float, wanted: CalibrationKind) -> str:
        if self._sensor.interval_s > wanted.most_interval_s:
            text = (
                f"is not read often enough for a calibration: set its interval_s to "
                f"{wanted.most_interval_s:.0f} or less in the configuration, and restart growd"
            )
            return Sentence(text, "calibration_interval", most=wanted.most_interval_s, unit="s")
        if lasted < wanted.steady_s:
            text = (
                f"must measure for {wanted.steady_s:.0f} s without a gap before it is calibrated, "
                f"{wanted.steady_s - lasted:.0f} s more"
            )
            times = {"steady": wanted.steady_s, "left": wanted.steady_s - lasted}
            return Sentence(text, "calibration_gap", unit="s", **times)
        if _steady(values, wanted) is None:
            digits, what = (0, "air") if wanted.is_of_carbon_dioxide else (2, "reading")
            text = (
                f"went from {min(values):.{digits}f} to {max(values):.{digits}f} {wanted.unit} in the last "
                f"{wanted.steady_s:.0f} s: the {what} must be steady for a calibration"
            )
            ends = {"least": round(min(values), digits), "most": round(max(values), digits)}
            return Sentence(text, "calibration_unsteady", unit=wanted.unit, **ends)
        return ""


def _steady(values: list[float], wanted: CalibrationKind) -> float | None:
    """The reading, if it is steady."""
    if wanted.is_of_carbon_dioxide:
        return steady_reading(values)
    return values[-1] if max(values) - min(values) <= wanted.steady_within else None
