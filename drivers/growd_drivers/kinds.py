"""What growd knows of a kind of device: of its own kinds, and of those that other packages bring.

The table of growd's own kinds is `growd.device_kinds`. This module imports no driver, so that it is quick to
import and works where a driver does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

API_VERSION: Final = 1
"""The version of what a driver of another package relies on; docs/drivers.md describes it."""

Opening: TypeAlias = Literal["i2c", "serial", "one_wire", "gpio", "messages", "none"]
"""What a sensor is on; `growd.wiring.sensors` has how a driver is opened there."""


@dataclass(frozen=True)
class DriverOption:
    """An option of a kind of another package, as users write it in [[sensor]] or [[output]].

    Without a default it must be given. A number is within `least`..`most`; with `choices` it is one of them.
    The end of the name is the unit, as in `offset_degc`.
    """

    name: str
    kind: type[bool | int | float | str]
    doc: str
    default: bool | float | str | None = None
    least: float | None = None
    most: float | None = None
    choices: tuple[int | str, ...] = ()


@dataclass(frozen=True)
class CalibrationKind:
    """A calibration that a sensor offers as a service: it calls `method` of the driver.

    The sensor must have had steady readings for `steady_s`, at least one per `most_interval_s`. The service
    has an argument `reference` within `reference_range`; without a range the reference is `reference`. With
    `scales` the reading is multiplied, else shifted.

    All references are in `unit`. In ppm it is a calibration of CO2, which the interlocks judge, and readings
    are steady as `growd.control.calibration` says. In other units they are steady within `steady_within`, and
    a reference further from the reading than `most_off` is refused.
    """

    name: str
    method: str
    doc: str
    steady_s: float
    most_interval_s: float = inf
    reference_range: tuple[float, float] | None = None
    reference: float = 0.0
    scales: bool = False
    unit: str = "ppm"
    steady_within: float = 0.0
    most_off: float = inf

    @property
    def is_of_carbon_dioxide(self) -> bool:
        """Whether it changes readings that interlocks depend on."""
        return self.unit == "ppm"


@dataclass(frozen=True)
class SensorKind:
    """One kind of sensor. Its simulated chip has the same name, in `growd_hwsim.chips`."""

    part: str
    """The name of the part in messages."""

    driver: str
    """Its class, "module:Class". Its arguments depend on `opens`, and are the options below by name:

    - i2c: an I2CBus, `sleep` and `address`, and `monotonic` with `takes_monotonic`
    - serial: a SerialLine, `monotonic` and `device`; the class has `BAUD` and `ANSWER_S`
    - one_wire: the files of 1-wire devices
    - gpio: the pins of the machine, and `name`
    - none: `name`, `sleep` and `monotonic`

    A kind that opens messages has no driver: others send its values.

    `read()` returns a sample.
    """

    variables: Mapping[str, str]
    """The variable that each field of a sample is. With the option `variable` there is one field, with the
    default of the option; "" if it must be given."""

    opens: Opening = "i2c"

    addresses: tuple[int, ...] = ()
    """Its I2C addresses, the default first; none for a sensor on a serial line."""

    options: tuple[str, ...] = ()
    """Its options of [[sensor]] that not every kind has. All but `NOT_OF_DRIVERS` go to the driver."""

    needs: tuple[str, ...] = ()
    """Those that must be given."""

    limits: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The ranges of those that are narrower than in [[sensor]]."""

    part_of_chip: str = ""
    """The option that tells several sensors of one chip apart, "" if a chip is one sensor."""

    units: tuple[str, ...] = ()
    """With the option `variable`: the units of the variables that it can measure, none for all."""

    measurement_interval_s: Callable[[float], int] | None = None
    """For a chip that measures continuously: its `interval_s`, from the seconds between two readings."""

    takes_monotonic: bool = False

    slow_import: str = ""
    """A module that its driver needs and that takes a second or more to import on a small Pi."""

    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """For fields of a sample, the ends of what the part can measure (the datasheet). `growd` judges readings
    by this and the five facts below; the driver need not."""

    range_option: str = ""
    """The option that sets the upper end of the first field, if it is given."""

    range_hint: str = ""
    """What to look for if a reading is at the end of its range."""

    same_for_s: float = inf
    """For how long an intact part may give exactly the same sample: 0 if noise changes each one."""

    warm_up_s: float = 0.0
    """Time after power-on without a reading."""

    warm_up_values: tuple[float, ...] = ()
    """Constants of the first field that the part sends before it measures."""

    most_jump: float = inf
    """The first field moves no further between two readings, so a jump is a sign of a restart; by default
    what growd knows of its variable. If the driver has a method `set_up_again()`, it is called after a
    restart that the driver could not see."""

    read_s: float = 0.0
    """For how long a reading occupies its bus, if that is long."""

    calibrations: tuple[CalibrationKind, ...] = ()

    compensated_by: str = ""
    """The variable by which its driver compensates: `compensate(value)` is called before each reading, with
    None while it is not known."""

    self_calibration_method: str = ""
    """The driver's method that switches its automatic baseline on and off."""

    most_bus_hz: int | None = None
    """The clock frequency of I2C that its maker recommends at most, if it stretches the clock."""

    api: int = 0
    """For a kind of another package: the `API_VERSION` that it was written for."""

    own_options: tuple[DriverOption, ...] = ()
    """For a kind of another package: its own options, which go to the driver by name."""

    chip: str = ""
    """For a kind of another package: the class of its simulated chip, "module:Class"; "" for none."""


@dataclass(frozen=True)
class UnloadedKind(SensorKind):
    """A kind whose driver is not loaded, for `reason`. What it measures is not known."""

    opens: Opening = "none"
    reason: str = ""


@dataclass(frozen=True)
class OutputKind:
    """One kind of output of another package."""

    part: str
    """The name of the part in messages."""

    driver: str
    """Its class, "module:Class". Its arguments are those of a sensor that opens the same, and `name`. It
    opens i2c, serial or none.

    `write(level)` drives it at 0..1, which is 0 or 1 unless it `can_dim`; with `takes_valid_s` it is
    `write(level, valid_s)`. `close()` gives it up; the output has been made safe before. Both may raise
    errors of `growd_drivers.errors`.
    """

    api: int
    """The `API_VERSION` that it was written for."""

    opens: Opening = "i2c"
    addresses: tuple[int, ...] = ()
    """Its I2C addresses, the default first."""

    can_dim: bool = False
    """Whether it takes levels between off and on."""

    timer_s: float | None = None
    """The device makes itself safe after this time without a write; growd writes every quarter of it."""

    takes_valid_s: bool = False
    """The device makes itself safe when `valid_s` seconds have passed since the last write. The driver may
    return for how many seconds the output was not safe since the write before."""

    own_options: tuple[DriverOption, ...] = ()
    """Its options, which go to the driver by name."""

    chip: str = ""
    """The class of its simulated chip on I2C, "module:Class"; without one, levels only move the chamber."""


@dataclass(frozen=True)
class UnloadedOutput(OutputKind):
    """A kind whose driver is not loaded, for `reason`."""

    opens: Opening = "none"
    reason: str = ""
