"""A lamp of one to three channels, dimmed by pulse width on GPIO pins."""

from __future__ import annotations

import math
from contextlib import ExitStack
from typing import TYPE_CHECKING

from growd_drivers.errors import HardwareUnavailableError, SettingError
from growd_drivers.gpio import check_pin, claim_output, refusals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from growd_drivers.gpio import GpioLike, PwmLike

MAXIMUM_FREQUENCY_HZ = 10_000.0
"""The limit of hardware PWM here; software PWM ends at `gpio.MAXIMUM_SOFTWARE_PWM_HZ`."""


class PwmLight:
    """A dimmable lamp; `pins` gives the BCM pin of each channel.

    Levels are 0 (off) to 1 (full). A level above 0 becomes the duty cycle
    `minimum_duty + (1 - minimum_duty) * level ** gamma`. Below the minimum some LED drivers flicker. With
    gamma 1 half the level is half the photons; with 2.2 it looks about half as bright. An `inverted` lamp is
    lit by a low pin. The pins are off from the start, and stay driven after `close`, since a floating pin
    could light an inverted lamp. docs/installation.md describes the pins after the process has ended.

    All methods raise `HardwareUnavailableError` if the kernel refuses a pin.
    """

    def __init__(
        self,
        gpio: GpioLike,
        pins: Mapping[str, int],
        *,
        frequency_hz: float = 200.0,
        minimum_duty: float = 0.0,
        inverted: bool = False,
        gamma: float = 1.0,
    ) -> None:
        _check_settings(pins, frequency_hz, minimum_duty, gamma)
        self._gpio = gpio
        self._pins = dict(pins)
        self._frequency_hz = frequency_hz
        self._minimum_duty = minimum_duty
        self._inverted = inverted
        self._gamma = gamma
        self._duties = dict.fromkeys(self._pins, 0.0)
        self._pwms: dict[str, PwmLike] = {}
        for pin in self._pins.values():
            claim_output(gpio, pin, self._level_off, device="light")
        try:
            for channel in self._pins:
                self._start(channel)
        except HardwareUnavailableError:
            self.close()
            raise

    @property
    def duties(self) -> dict[str, float]:
        """The fraction of time that each channel is lit, 0..1; NaN after a failed write."""
        return dict(self._duties)

    def set(self, channel: str, level: float) -> None:
        """Dim a channel to `level`, 0..1. An unchanged level is not written again.

        Raises `SettingError` for an unknown channel, a level outside 0..1, or a closed lamp.
        """
        if channel not in self._pwms:
            reason = "is closed" if channel in self._pins else f"has no channel {channel!r}"
            raise SettingError(f"the light {reason}", device="light")
        if not 0.0 <= level <= 1.0:
            raise SettingError(f"light {channel}: level must be 0..1, not {level}", device="light")
        duty = self._duty_of(level)
        if duty != self._duties[channel]:
            self._duties[channel] = math.nan  # so that after a failure any level is written again
            with refusals("light", self._pins[channel]):
                self._pwms[channel].ChangeDutyCycle(self._percent_high(duty))
            self._duties[channel] = duty

    def close(self) -> None:
        """Switch all channels off and end their PWM. Closing twice does nothing."""
        if not self._pwms:
            return
        with ExitStack() as last_first:  # all steps are taken, also if one of them raises
            last_first.callback(self._pwms.clear)
            for channel in self._pwms:
                last_first.callback(self._put_out, self._pins[channel])
                last_first.callback(self._end, channel)

    def _end(self, channel: str) -> None:
        self._duties[channel] = 0.0
        with refusals("light", self._pins[channel]):
            self._pwms[channel].ChangeDutyCycle(self._percent_high(0.0))
            self._pwms[channel].stop()

    def _put_out(self, pin: int) -> None:
        with refusals("light", pin):
            self._gpio.output(pin, self._level_off)

    def _start(self, channel: str) -> None:
        pin = self._pins[channel]
        with refusals("light", pin):
            self._pwms[channel] = self._gpio.PWM(pin, self._frequency_hz)
            self._pwms[channel].start(self._percent_high(0.0))

    @property
    def _level_off(self) -> int:
        return int(self._inverted)

    def _duty_of(self, level: float) -> float:
        if level == 0.0:
            return 0.0
        return self._minimum_duty + (1.0 - self._minimum_duty) * math.pow(level, self._gamma)

    def _percent_high(self, duty: float) -> float:
        return 100.0 * (1.0 - duty if self._inverted else duty)


def _check_settings(pins: Mapping[str, int], frequency_hz: float, minimum_duty: float, gamma: float) -> None:
    if not pins or len(set(pins.values())) != len(pins):
        raise SettingError(f"light: each channel needs its own pin, not {dict(pins)}", device="light")
    for channel, pin in pins.items():
        check_pin(pin, owner=f"light {channel}", device="light")
    if not 0 < frequency_hz <= MAXIMUM_FREQUENCY_HZ:
        limit = f"above 0, up to {MAXIMUM_FREQUENCY_HZ:g}"
        raise SettingError(f"light: frequency_hz must be {limit}, not {frequency_hz}", device="light")
    if not 0 <= minimum_duty < 1:
        raise SettingError(f"light: minimum_duty must be 0 to below 1, not {minimum_duty}", device="light")
    if not gamma > 0:
        raise SettingError(f"light: gamma must be above 0, not {gamma}", device="light")
