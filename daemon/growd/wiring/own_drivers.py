"""Drivers of other packages: whatever they do is a failure of their device, and of nothing else."""

from __future__ import annotations

from functools import partial
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, TypeVar

from growd.config.outputs import OwnOutput
from growd.control.errors import DEVICE_ERRORS
from growd.device_kinds import OWN_OUTPUTS
from growd.output_roles import ON_FROM
from growd.own_kinds import reason_of
from growd.runtime.text import words_of
from growd_drivers.errors import DriverError, HardwareUnavailableError, SettingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from growd.config import Output
    from growd_drivers.hardware import Hardware
    from growd_drivers.kinds import OutputKind

T = TypeVar("T")
_LATE_S: Final = 0.5  # the clock of a device may differ by so much
_MOST_HUNG: Final = 2
"""How many calls of a driver may hang for good. Each takes a thread of its bus, which has few."""


class OwnDriverError(DriverError, RuntimeError):
    """A driver of another package raised an error that is not a `DriverError`, or returned no numbers."""


class OwnDriverGuard:
    """For a driver of another package: any error is one of its device, and a value is a number.

    Even SystemExit is, which would end growd. A driver whose calls hang for good is not called any more.
    """

    def __init__(self, device: str) -> None:
        self._device = device
        self._under_way: set[object] = set()  # calls; several threads add to it

    def call(self, function: Callable[[], T]) -> T:
        hung = len(self._under_way)
        if hung >= _MOST_HUNG:
            sentence = f"the driver of {self._device} has hung {hung} times; correct it, and restart growd"
            raise HardwareUnavailableError(sentence, device=self._device)
        call = object()
        self._under_way.add(call)
        try:
            return function()
        except BaseException as error:
            if isinstance(error, DriverError) and isinstance(error, DEVICE_ERRORS):
                raise
            sentence = f"the driver of {self._device} failed: {words_of(error)}"
            raise OwnDriverError(sentence, device=self._device) from error
        finally:
            self._under_way.discard(call)


def numbers(reading: dict[str, Any]) -> dict[str, float]:
    """The reading with floats. Raises TypeError or ValueError for a value that is no number."""
    for name, value in reading.items():
        if isinstance(value, bool | str | bytes) or value is None:
            raise TypeError(f"{name} must be a number, got {value!r:.60}")
    return {name: float(value) for name, value in reading.items()}


class OwnOutputDriver:
    """The driver of an output of another package, which is safe when it is opened and before it is closed."""

    def __init__(self, hardware: Hardware, output: Output) -> None:
        if not isinstance(output, OwnOutput):
            raise SettingError(f"{output.name} has no driver", device=output.name)
        kind = OWN_OUTPUTS[output.kind]
        if reason := reason_of(kind):
            raise HardwareUnavailableError(reason, device=output.name)
        self._guard = OwnDriverGuard(output.name)
        self._can_dim = kind.can_dim
        self._takes_valid_s = kind.takes_valid_s
        self._monotonic = hardware.monotonic
        self._wrote_at = hardware.monotonic()
        self._safe = float(output.safe == "on")
        self._driver = self._guard.call(partial(opened_output, hardware, output, kind))
        self.write(self._safe, 0.0)

    def write(self, level: float, valid_s: float) -> float | None:
        """Drive it at a level, 0..1, for a time. Raises `DriverError`."""
        wanted = level if self._can_dim else float(level >= ON_FROM)
        given = (wanted, valid_s) if self._takes_valid_s else (wanted,)
        began = self._monotonic()
        was_on_s = self._guard.call(lambda: self._checked(self._driver.write(*given)))
        self._wrote_at = began
        return was_on_s

    def _checked(self, was_on_s: Any) -> float | None:
        """What the driver returned, if it can be. Raises ValueError."""
        if not self._takes_valid_s or was_on_s is None:
            return None
        most = self._monotonic() - self._wrote_at + _LATE_S
        if isinstance(was_on_s, bool) or not isinstance(was_on_s, int | float) or not 0 <= was_on_s <= most:
            raise ValueError(
                f"write() returned {was_on_s!r:.60}; expected seconds since the last write, or None"
            )
        return float(was_on_s)

    def close(self) -> None:
        """Leave it safe. Raises `DriverError` if it may not be."""
        try:
            self.write(self._safe, 0.0)
        finally:
            self._guard.call(self._driver.close)


def opened_output(hardware: Hardware, output: OwnOutput, kind: OutputKind) -> Any:
    """Its driver; in a simulation without a simulated chip, what moves the chamber instead."""
    if (stand_in := hardware.stand_in(output)) is not None:
        return _StandIn(stand_in)
    driver: Any = resolve_name(kind.driver)
    options = dict(output.own)
    if kind.opens == "i2c":
        bus = hardware.i2c(options.pop("bus"))
        return driver(bus, sleep=hardware.sleep, name=output.name, **options)
    if kind.opens == "serial":
        line = hardware.serial(options.pop("port"), baud=driver.BAUD, timeout_s=driver.ANSWER_S)
        return driver(line, monotonic=hardware.monotonic, device=kind.part, name=output.name, **options)
    return driver(name=output.name, sleep=hardware.sleep, monotonic=hardware.monotonic, **options)


class _StandIn:
    def __init__(self, move: Callable[[float], None]) -> None:
        self._move = move

    def write(self, level: float, _valid_s: float = 0.0) -> None:
        self._move(level)

    def close(self) -> None:
        """It holds nothing."""
