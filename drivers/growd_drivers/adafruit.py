"""Adafruit's CircuitPython drivers below ours: opened when needed, with our clock, and with our errors."""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from growd_drivers.errors import (
    DeviceMissingError,
    DriverError,
    NotReadyError,
    SettingError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from growd_drivers.i2c import I2CBus


class AdafruitChip:
    """A chip under Adafruit's class, which `open_chip` makes from the module that `load` returns.

    The constructor does not talk to the chip. `open_chip` sets it up, at the first use and at the first one
    after it was missing.
    """

    def __init__(
        self,
        bus: I2CBus,
        address: int,
        part: str,
        *,
        load: Callable[[], Any],
        open_chip: Callable[[Any], Any],
    ) -> None:
        bus.label(address, part)
        self._bus = bus
        self._address = address
        self._part = part
        self._load = load
        self._open = open_chip
        self._module: Any = None
        self._chip: Any = None

    @property
    def is_set_up(self) -> bool:
        """The chip has our settings, as far as is known."""
        return self._chip is not None

    def forget(self) -> None:
        """Set the chip up again at its next use."""
        self._chip = None

    @contextmanager
    def used(self) -> Iterator[Any]:
        """Adafruit's object for the chip. Its errors become `DriverError`.

        A RuntimeError is a wrong checksum. An error with an error of the bus behind it, such as that of a
        failed probe, becomes the error of the bus.
        """
        try:
            if self._chip is None:
                self._module = self._module or self._load()
                self._chip = self._open(self._module)
            yield self._chip
        except DriverError as error:
            self._note(error)
            raise
        except (RuntimeError, ValueError) as error:
            reason = error.__cause__ or error.__context__
            if isinstance(reason, DriverError):
                self._note(reason)
                raise reason from None
            if isinstance(error, ValueError):
                raise
            raise self._bus.wrong_checksum(self._address) from error

    def not_ready(self, reason: str) -> NotReadyError:
        """The error of a chip that has no reading, and why."""
        return NotReadyError(f"{self._bus.name_of(self._address)} {reason}", device=self._part)

    def _note(self, error: DriverError) -> None:
        if isinstance(error, DeviceMissingError):
            self.forget()  # it may have lost its power


def check_setting(part: str, name: str, value: float | None, minimum: float, maximum: float) -> None:
    """Raise `SettingError` for a value beyond the range. None is no value."""
    if value is not None and not minimum <= value <= maximum:
        raise SettingError(f"{part}: {name} must be {minimum}..{maximum}, not {value}", device=part)


def with_sleep(name: str, sleep: Callable[[float], None]) -> Any:
    """A private copy of Adafruit's module of that name, whose `time.sleep` is `sleep`.

    The modules sleep 1 to 500 ms of real time in each transaction, which is too long for accelerated clocks
    and tests. They import Blinka, which takes 0.4 s on a PC and seconds on a small Pi; the caller may import
    the module before.
    """
    return private_copy(name, time=SimpleNamespace(sleep=sleep))


def private_copy(name: str, **names: object) -> Any:
    """A copy of a module of its own, in which `names` replace what the module has imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(f"{name} is not installed")
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module).update(names)
    return module
