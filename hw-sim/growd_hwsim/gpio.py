"""The module RPi.GPIO as an object: output pins and software PWM, with a history.

Refuses what RPi.GPIO 0.7.1 and rpi-lgpio 0.6 refuse, with the same exceptions.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HISTORY_LENGTH = 10_000
MAXIMUM_PIN = 53


@dataclass(frozen=True)
class PinEvent:
    """From `time` (monotonic seconds) on, the pin is high for the fraction `high` of the time, 0..1.

    `frequency_hz` is 0 where the pin is steady.
    """

    time: float
    pin: int
    high: float
    frequency_hz: float


@dataclass
class _Pin:
    direction: int
    high: float = 0.0
    low_at: float | None = None  # a stopped PWM's thread drives it low then


class LgpioError(Exception):
    """As `lgpio.error`, which rpi-lgpio lets through: it has no base but Exception, and quotes its text."""

    def __str__(self) -> str:
        return repr(self.args[0])


class SimulatedGpio:
    """RPi.GPIO's API on pins whose changes are kept in `history`.

    `on_change(pin, high)` is called with every change, in the thread that makes it. `is_refused(pin)` is
    asked before each: where it is so, the pin stays as it is and the write raises `LgpioError`. `hold(pin)`
    is called before that, and may block: only the caller hangs then, the other pins do not.
    """

    BCM, BOARD = 11, 10
    OUT, IN = 0, 1
    LOW, HIGH = 0, 1
    VERSION = "0.7.1"

    def __init__(
        self,
        monotonic: Callable[[], float],
        *,
        on_change: Callable[[int, float], None] | None = None,
        is_refused: Callable[[int], bool] | None = None,
        hold: Callable[[int], None] | None = None,
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
        """BCM numbers only: the simulated board has no header."""
        if self._mode not in (None, mode):
            raise ValueError("A different mode has already been set!")
        if mode != self.BCM:
            raise ValueError("An invalid mode was passed to setmode()")
        self._mode = mode

    def getmode(self) -> int | None:
        """The numbering chosen, None before."""
        return self._mode

    def setwarnings(self, enabled: bool, /) -> None:  # noqa: FBT001  RPi.GPIO's signature
        """Accepted; the simulator has nothing to warn of."""

    def setup(self, channel: int | Iterable[int], direction: int, *, initial: int | None = None) -> None:
        """Make pins inputs or outputs."""
        if direction not in (self.IN, self.OUT):
            raise ValueError("An invalid direction was passed to setup()")
        if direction == self.IN and initial is not None:
            raise ValueError("initial parameter is not valid for inputs")
        pins = self._reached(channel)
        with self._lock:
            for pin in pins:
                self._claim(pin)
                before = self._pins.get(pin)
                self._pins[pin] = _Pin(direction, before.high if before else 0.0)
                if initial is not None:
                    self._drive(pin, float(bool(initial)))

    def output(self, channel: int | Iterable[int], value: int, /) -> None:
        """Drive pins low or high."""
        pins = self._reached(channel)
        with self._lock:
            self.settle()
            for pin in pins:
                self.check_output(pin, "The GPIO channel has not been set up as an OUTPUT")
                self._claim(pin)
                self._drive(pin, float(bool(value)))

    def input(self, channel: int, /) -> int:
        """The level of a pin."""
        with self._lock:
            if channel not in self._pins:
                raise RuntimeError("You must setup() the GPIO channel first")
            return int(self.high(channel) > 0)

    def PWM(self, channel: int, frequency: float, /) -> SimulatedPwm:  # noqa: N802  RPi.GPIO's name
        """A software PWM on an output pin. One object a pin, and it runs as long as that lives."""
        with self._lock:
            (pin,) = self._numbers(channel)
            if pin in self._pwms:
                raise RuntimeError("A PWM object already exists for this GPIO channel")
            self.check_output(pin, "You must setup() the GPIO channel as an output first")
            pwm = SimulatedPwm(self, pin, _checked_frequency(frequency))
            self._pwms[pin] = pwm
            return pwm

    def cleanup(self, channel: int | Iterable[int] | None = None) -> None:
        """Make pins inputs again; they float, which is taken for low. All pins: forget the numbering too."""
        with self._lock:
            for pin in list(self._pins) if channel is None else self._numbers(channel):
                if pin in self._pins:
                    self._drive(pin, 0.0)
                    del self._pins[pin]
            if channel is None:
                self._mode = None

    def high(self, pin: int) -> float:
        """The fraction of time the pin is high now, 0..1."""
        with self._lock:
            self.settle()
            return self._pins[pin].high if pin in self._pins else 0.0

    def settle(self) -> None:
        """Let happen what has come due: stopped PWMs go low."""
        with self._lock:
            now = self._monotonic()
            for number, pin in self._pins.items():
                if pin.low_at is not None and now >= pin.low_at:
                    pin.low_at = None
                    self._drive(number, 0.0)

    def check_output(self, pin: int, sentence: str) -> None:
        """Raise RuntimeError unless the pin is an output."""
        if pin not in self._pins or self._pins[pin].direction != self.OUT:
            raise RuntimeError(sentence)

    def drive_pwm(self, pin: int, duty_percent: float, frequency_hz: float) -> None:
        """What a running PWM puts on its pin."""
        self._reached(pin)
        with self._lock:
            self.settle()
            self._claim(pin)
            self._drive(pin, duty_percent / 100.0, frequency_hz)

    def stop_pwm(self, pin: int, frequency_hz: float) -> None:
        """End a PWM: its thread drives the pin low after the running period (RPi.GPIO, soft_pwm.c).

        Takes no lock: a finalizer calls it, in any thread, whatever that holds.
        """
        state = self._pins.get(pin)
        if state is not None:
            state.low_at = self._monotonic() + 1.0 / frequency_hz

    def _reached(self, channel: int | Iterable[int]) -> list[int]:
        """The pins' numbers, once none of them hangs. Not under the lock: the others go on meanwhile."""
        pins = self._numbers(channel)
        if self._hold is not None:
            for pin in pins:
                self._hold(pin)
        return pins

    def _claim(self, pin: int) -> None:
        if self._is_refused is not None and self._is_refused(pin):
            raise LgpioError("GPIO busy")

    def _drive(self, pin: int, high: float, frequency_hz: float = 0.0) -> None:
        self._pins[pin].high = high
        self.history.append(PinEvent(self._monotonic(), pin, high, frequency_hz))
        if self._on_change is not None:
            self._on_change(pin, high)

    def _numbers(self, channel: int | Iterable[int]) -> list[int]:
        if self._mode is None:
            raise RuntimeError(
                "Please set pin numbering mode using GPIO.setmode(GPIO.BOARD) or GPIO.setmode(GPIO.BCM)"
            )
        pins = [channel] if isinstance(channel, int) else list(channel)
        if not all(0 <= pin <= MAXIMUM_PIN for pin in pins):
            raise ValueError("The channel sent is invalid on a Raspberry Pi")
        return pins


class SimulatedPwm:
    """RPi.GPIO.PWM on one pin."""

    def __init__(self, gpio: SimulatedGpio, pin: int, frequency_hz: float) -> None:
        self._running = False
        self._gpio = gpio
        self._pin = pin
        self._duty_percent = 0.0
        self._frequency_hz = frequency_hz

    def __del__(self) -> None:
        self.stop()

    def start(self, dutycycle: float, /) -> None:
        """Begin with a duty cycle in percent."""
        self._duty_percent = _checked_duty(dutycycle)
        self._running = True
        self._put()

    def ChangeDutyCycle(self, dutycycle: float, /) -> None:  # noqa: N802  RPi.GPIO's name
        """Another duty cycle in percent; heard at once when running."""
        self._duty_percent = _checked_duty(dutycycle)
        self._put()

    def ChangeFrequency(self, frequency: float, /) -> None:  # noqa: N802  RPi.GPIO's name
        """Another frequency in Hz."""
        self._frequency_hz = _checked_frequency(frequency)
        self._put()

    def stop(self) -> None:
        """End; the pin goes low, also when it had been stopped before (rpi-lgpio)."""
        self._running = False
        self._gpio.stop_pwm(self._pin, self._frequency_hz)

    def _put(self) -> None:
        if self._running:
            self._gpio.drive_pwm(self._pin, self._duty_percent, self._frequency_hz)


def _checked_duty(percent: float) -> float:
    if not 0.0 <= percent <= 100.0:  # noqa: PLR2004  percent
        raise ValueError("dutycycle must have a value from 0.0 to 100.0")
    return float(percent)


def _checked_frequency(frequency: float) -> float:
    if frequency <= 0.0:
        raise ValueError("frequency must be greater than 0.0")
    return float(frequency)
