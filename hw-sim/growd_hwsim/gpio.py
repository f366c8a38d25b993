"""The module RPi.GPIO as an object, as far as `growd_drivers.gpio` uses it: output pins and software PWM.

Refuses what RPi.GPIO 0.7.1 and rpi-lgpio 0.6 refuse, with the same exceptions.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HISTORY_LENGTH = 10_000
MAXIMUM_PIN = 53


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
    high: float = 0.0
    low_at: float | None = None  # when the thread of a stopped PWM drives it low


class LgpioError(Exception):
    """`lgpio.error`, which rpi-lgpio lets through: its base is Exception, and it quotes its text."""

    def __str__(self) -> str:
        return repr(self.args[0])


class SimulatedGpio:
    """RPi.GPIO's API on output pins, whose changes are in `history`.

    `on_change(pin, high)` is called with every change, in the thread that makes it. If `is_refused(pin)`, a
    write raises `LgpioError` and the pin keeps its level. `hold(pin)` is called before, and may block the
    caller; other pins go on.
    """

    BCM, OUT = 11, 0

    def __init__(
        self,
        monotonic: Callable[[], float],
        *,
        on_change: Callable[[int, float], None] = lambda _pin, _high: None,
        is_refused: Callable[[int], bool] = lambda _pin: False,
        hold: Callable[[int], None] = lambda _pin: None,
    ) -> None:
        self.history: deque[PinEvent] = deque(maxlen=HISTORY_LENGTH)
        self._monotonic = monotonic
        self._on_change = on_change
        self._is_refused = is_refused
        self._hold = hold
        self._mode: int | None = None
        self._pins: dict[int, _Pin] = {}
        self._pwms: weakref.WeakValueDictionary[int, SimulatedPwm] = weakref.WeakValueDictionary()
        self._lock = threading.RLock()

    def setmode(self, mode: int, /) -> None:
        """BCM numbers only."""
        if self._mode not in (None, mode):
            raise ValueError("A different mode has already been set!")
        if mode != self.BCM:
            raise ValueError("An invalid mode was passed to setmode()")
        self._mode = mode

    def setwarnings(self, enabled: bool, /) -> None:  # noqa: FBT001  RPi.GPIO's signature
        """Accepted; the simulator has no warnings."""

    def setup(self, channel: int, direction: int, *, initial: int) -> None:
        """Make a pin an output."""
        if direction != self.OUT:
            raise ValueError("An invalid direction was passed to setup()")
        self._reach(channel)
        with self._lock:
            self._claim(channel)
            before = self._pins.get(channel)
            self._pins[channel] = _Pin(before.high if before else 0.0)
            self._drive(channel, float(bool(initial)))

    def output(self, channel: int, value: int, /) -> None:
        """Drive a pin low or high."""
        self._reach(channel)
        with self._lock:
            self.settle()
            self._check_output(channel, "The GPIO channel has not been set up as an OUTPUT")
            self._claim(channel)
            self._drive(channel, float(bool(value)))

    def PWM(self, channel: int, frequency: float, /) -> SimulatedPwm:  # noqa: N802  RPi.GPIO's name
        """A software PWM on an output pin. One object per pin; it runs as long as the object lives."""
        with self._lock:
            self._check_number(channel)
            if channel in self._pwms:
                raise RuntimeError("A PWM object already exists for this GPIO channel")
            self._check_output(channel, "You must setup() the GPIO channel as an output first")
            if frequency <= 0.0:
                raise ValueError("frequency must be greater than 0.0")
            pwm = SimulatedPwm(self, channel, float(frequency))
            self._pwms[channel] = pwm
            return pwm

    def high(self, pin: int) -> float:
        """The fraction of time the pin is high now, 0..1."""
        with self._lock:
            self.settle()
            return self._pins[pin].high if pin in self._pins else 0.0

    def settle(self) -> None:
        """Drive the pins of stopped PWMs low, if it is time."""
        with self._lock:
            now = self._monotonic()
            for number, pin in self._pins.items():
                if pin.low_at is not None and now >= pin.low_at:
                    pin.low_at = None
                    self._drive(number, 0.0)

    def drive_pwm(self, pin: int, duty_percent: float, frequency_hz: float) -> None:
        """The output of a running PWM."""
        self._reach(pin)
        with self._lock:
            self.settle()
            self._claim(pin)
            self._drive(pin, duty_percent / 100.0, frequency_hz)

    def stop_pwm(self, pin: int, frequency_hz: float) -> None:
        """End a PWM: its thread drives the pin low after the running period (RPi.GPIO, soft_pwm.c).

        Takes no lock: a finalizer calls it, in any thread.
        """
        state = self._pins.get(pin)
        if state is not None:
            state.low_at = self._monotonic() + 1.0 / frequency_hz

    def _reach(self, pin: int) -> None:
        """Check the pin, and wait while it hangs. Without the lock, so that other pins go on."""
        self._check_number(pin)
        self._hold(pin)

    def _check_number(self, pin: int) -> None:
        if self._mode is None:
            raise RuntimeError(
                "Please set pin numbering mode using GPIO.setmode(GPIO.BOARD) or GPIO.setmode(GPIO.BCM)"
            )
        if not 0 <= pin <= MAXIMUM_PIN:
            raise ValueError("The channel sent is invalid on a Raspberry Pi")

    def _check_output(self, pin: int, sentence: str) -> None:
        if pin not in self._pins:
            raise RuntimeError(sentence)

    def _claim(self, pin: int) -> None:
        if self._is_refused(pin):
            raise LgpioError("GPIO busy")

    def _drive(self, pin: int, high: float, frequency_hz: float = 0.0) -> None:
        self._pins[pin].high = high
        self.history.append(PinEvent(self._monotonic(), pin, high, frequency_hz))
        self._on_change(pin, high)


class SimulatedPwm:
    """RPi.GPIO.PWM on one pin."""

    def __init__(self, gpio: SimulatedGpio, pin: int, frequency_hz: float) -> None:
        self._running = False
        self._gpio = gpio
        self._pin = pin
        self._frequency_hz = frequency_hz

    def __del__(self) -> None:
        self.stop()

    def start(self, dutycycle: float, /) -> None:
        """Begin with a duty cycle in percent."""
        self._running = True
        self.ChangeDutyCycle(dutycycle)

    def ChangeDutyCycle(self, dutycycle: float, /) -> None:  # noqa: N802  RPi.GPIO's name
        """Another duty cycle in percent; without effect before `start`."""
        if not 0.0 <= dutycycle <= 100.0:  # noqa: PLR2004  percent
            raise ValueError("dutycycle must have a value from 0.0 to 100.0")
        if self._running:
            self._gpio.drive_pwm(self._pin, float(dutycycle), self._frequency_hz)

    def stop(self) -> None:
        """End; the pin goes low, also if the PWM had been stopped before (rpi-lgpio)."""
        self._running = False
        self._gpio.stop_pwm(self._pin, self._frequency_hz)
