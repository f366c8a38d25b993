"""Simulated pins and software PWM, as `growd_drivers.gpio_lines` offers them."""

from __future__ import annotations

import errno
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from growd_drivers.gpio import Pull

HISTORY_LENGTH = 10_000


@dataclass(frozen=True)
class PinEvent:
    """From `time` (monotonic seconds) the pin is high for the fraction `high` of the time, 0..1.

    `frequency_hz` is 0 for a steady level.
    """

    time: float
    pin: int
    high: float
    frequency_hz: float


@dataclass
class _Pin:
    high: float
    rest: float


class SimulatedGpio:
    """Output pins, whose changes are in `history`, and inputs, whose levels are those of `wires`.

    A pin that is in no wire, or whose wire gives None, has the level of its pull resistor; that of a pin
    without one is low. A wire is asked at each reading; the simulation has no bounces.

    `on_change(pin, high)` is called with every change, in the thread that makes it. If `is_refused(pin)`, a
    write raises OSError (EBUSY) and the pin keeps its level. `hold(pin)` is called before, and may block the
    caller; other pins go on.
    """

    OUT = 0

    def __init__(
        self,
        monotonic: Callable[[], float],
        *,
        on_change: Callable[[int, float], None] = lambda _pin, _high: None,
        is_refused: Callable[[int], bool] = lambda _pin: False,
        hold: Callable[[int], None] = lambda _pin: None,
        wires: Mapping[int, Callable[[], bool | None]] | None = None,
    ) -> None:
        self.wires = dict(wires or {})
        self._pulls: dict[int, Pull] = {}
        self.history: deque[PinEvent] = deque(maxlen=HISTORY_LENGTH)
        self._monotonic = monotonic
        self._on_change = on_change
        self._is_refused = is_refused
        self._hold = hold
        self._pins: dict[int, _Pin] = {}
        self._lock = threading.RLock()

    def setup(self, channel: int, direction: int, *, initial: int) -> None:
        """Make a pin an output."""
        if direction != self.OUT:
            raise OSError(errno.EINVAL, "only outputs are supported")
        self._hold(channel)
        with self._lock:
            self._claim(channel)
            level = float(bool(initial))
            self._pins[channel] = _Pin(level, rest=level)
            self._drive(channel, level)

    def claim_input(self, channel: int, *, pull: Pull, debounce_s: float) -> None:  # noqa: ARG002  no bounces
        """Make a pin an input."""
        self._hold(channel)
        with self._lock:
            self._claim(channel)
            self._pulls[channel] = pull

    def input(self, channel: int, /) -> int:
        """The level of an input."""
        self._hold(channel)
        with self._lock:
            if channel not in self._pulls:
                raise OSError(errno.EPERM, "it is not set up as an input")
            self._claim(channel)
            level = self.wires[channel]() if channel in self.wires else None
            return int(self._pulls[channel] == "up" if level is None else level)

    def output(self, channel: int, value: int, /) -> None:
        """Drive a pin low or high, and end its pulses."""
        self._hold(channel)
        with self._lock:
            self._check_output(channel)
            self._claim(channel)
            self._drive(channel, float(bool(value)))

    def PWM(self, channel: int, frequency: float, /) -> SimulatedPwm:  # noqa: N802  RPi.GPIO's name
        """Pulses on an output pin, not yet started."""
        with self._lock:
            self._check_output(channel)
            return SimulatedPwm(self, channel, float(frequency))

    def high(self, pin: int) -> float:
        """The fraction of time the pin is high now, 0..1."""
        with self._lock:
            return self._pins[pin].high if pin in self._pins else 0.0

    def drive_pwm(self, pin: int, duty_percent: float, frequency_hz: float) -> None:
        """The output of a running PWM."""
        self._hold(pin)
        with self._lock:
            self._claim(pin)
            self._drive(pin, duty_percent / 100.0, frequency_hz)

    def stop_pwm(self, pin: int) -> None:
        """End a PWM: the pin rests at the level of its `setup`."""
        self._hold(pin)
        with self._lock:
            self._claim(pin)
            self._drive(pin, self._pins[pin].rest)

    def _check_output(self, pin: int) -> None:
        if pin not in self._pins:
            raise OSError(errno.EPERM, "it is not set up as an output")

    def _claim(self, pin: int) -> None:
        if self._is_refused(pin):
            raise OSError(errno.EBUSY, "it is in use by gpioset")

    def _drive(self, pin: int, high: float, frequency_hz: float = 0.0) -> None:
        self._pins[pin].high = high
        self.history.append(PinEvent(self._monotonic(), pin, high, frequency_hz))
        self._on_change(pin, high)


class SimulatedPwm:
    """Pulses on one pin."""

    def __init__(self, gpio: SimulatedGpio, pin: int, frequency_hz: float) -> None:
        self._running = False
        self._gpio = gpio
        self._pin = pin
        self._frequency_hz = frequency_hz

    def start(self, dutycycle: float, /) -> None:
        """Begin with a duty cycle in percent."""
        self._running = True
        self.ChangeDutyCycle(dutycycle)

    def ChangeDutyCycle(self, dutycycle: float, /) -> None:  # noqa: N802  RPi.GPIO's name
        """Another duty cycle in percent; no effect before `start` or after `stop`."""
        if self._running:
            self._gpio.drive_pwm(self._pin, float(dutycycle), self._frequency_hz)

    def stop(self) -> None:
        """End."""
        self._running = False
        self._gpio.stop_pwm(self._pin)
