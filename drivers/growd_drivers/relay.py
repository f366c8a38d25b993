"""A relay, or another switch such as a MOSFET, on one GPIO pin: a valve, a fan."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from growd_drivers.errors import HardwareUnavailableError, SettingError
from growd_drivers.gpio import check_pin, claim_output, refusals

if TYPE_CHECKING:
    from growd_drivers.gpio import GpioLike

_ON_FROM: Final = 0.5


class Relay:
    """A switched output on a BCM pin, on at a high pin (`active_high`) or at a low one.

    It is in its safe state (`safe_on`) from the start, after a failed write if the pin can be driven, and
    after `close`. The pin stays driven then: many relay boards switch on at a floating pin.
    docs/installation.md describes the pin after the process has ended.

    All methods raise `HardwareUnavailableError` if the kernel refuses the pin.
    """

    def __init__(
        self,
        gpio: GpioLike,
        pin: int,
        *,
        name: str = "relay",
        active_high: bool = True,
        safe_on: bool = False,
    ) -> None:
        check_pin(pin, owner=name, device=name)
        self._gpio = gpio
        self._pin = pin
        self._name = name
        self._active_high = active_high
        self._safe_on = safe_on
        self._closed = False
        self._is_on: bool | None = safe_on
        claim_output(gpio, pin, self._level(safe_on), device=name)

    @property
    def is_on(self) -> bool | None:
        """Whether it is on; None after a failed write."""
        return self._is_on

    def set(self, on: bool) -> None:  # noqa: FBT001  its only argument
        """Switch on or off. An unchanged state is not written again. Raises `SettingError` if closed."""
        if self._closed:
            raise SettingError(f"{self._name} is closed", device=self._name)
        if on == self._is_on:
            return
        try:
            self._write(on)
        except HardwareUnavailableError:
            with suppress(HardwareUnavailableError):  # the first one is raised
                self._write(self._safe_on)
            raise

    def write(self, level: float) -> None:
        """Switch on from a level of one half, else off. As `set`."""
        self.set(level >= _ON_FROM)

    def close(self) -> None:
        """Make it safe. Closing twice does nothing, unless the first time failed."""
        if not (self._closed and self._is_on == self._safe_on):
            self._closed = True
            self._write(self._safe_on)

    def _write(self, on: bool) -> None:  # noqa: FBT001
        self._is_on = None
        with refusals(self._name, self._pin):
            self._gpio.output(self._pin, self._level(on))
        self._is_on = on

    def _level(self, on: bool) -> int:  # noqa: FBT001
        return int(on == self._active_high)
