"""The pins of a Raspberry Pi's header, over the kernel's GPIO character device and the package gpiod.

Sources: Linux, Documentation/userspace-api/gpio/chardev.rst; pinctrl-bcm2835.c (Pi 1 to 4) and pinctrl-rp1.c
(Pi 5) of Raspberry Pi's kernel. The number of a line is the BCM number of its pin. The number of the chip
depends on model and kernel: on a Pi 5 it is 4 before Linux 6.6.45, and 0 from then on.
"""

from __future__ import annotations

import errno
import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from growd_drivers.errors import HardwareUnavailableError
from growd_drivers.gpio import MAXIMUM_SOFTWARE_PWM_HZ
from growd_drivers.software_pwm import PulseProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

    import gpiod

    from growd_drivers.gpio import Pull

CHIPS: Final = ("pinctrl-bcm2835", "pinctrl-bcm2711", "pinctrl-rp1")
"""Labels of the chips: Pi 1 to 3 and Zero 2; Pi 4; Pi 5."""

CONSUMER: Final = "growd"
"""The user of a line, as `gpioinfo` shows it."""

_MOST_CHIPS: Final = 32
_CLAIM_S: Final = 1.0  # the longest wait for another claim, which may hang


def header_chip() -> gpiod.Chip:
    """The open chip of the header's pins. Raises `HardwareUnavailableError`."""
    try:
        import gpiod  # noqa: PLC0415  only real hardware needs it
    except ImportError as error:
        raise _unavailable(f"the package gpiod can't be imported ({error}): install growd again") from error
    others: list[str] = []
    refusal: OSError | None = None
    for number in range(_MOST_CHIPS):
        try:
            chip = gpiod.Chip(f"/dev/gpiochip{number}")
            label = chip.get_info().label
        except FileNotFoundError:
            continue
        except OSError as error:
            refusal = refusal or OSError(error.errno, f"/dev/gpiochip{number}: {error.strerror}")
            continue
        if label in CHIPS:
            return chip
        others.append(label)
        chip.close()
    raise _no_chip(others, refusal)


def _no_chip(others: list[str], refusal: OSError | None) -> HardwareUnavailableError:
    if refusal is not None and refusal.errno in {errno.EACCES, errno.EPERM}:
        return _unavailable(f"{refusal.strerror}: add growd's user to the group gpio")
    if refusal is not None:
        return _unavailable(f"the GPIO pins can't be used: {refusal.strerror}")
    found = f"its GPIO chips are {', '.join(others)}" if others else "it has no GPIO chip"
    return _unavailable(
        f"this machine is not a Raspberry Pi: {found}. Choose simulated hardware: [simulator] enabled = true"
    )


def _unavailable(sentence: str) -> HardwareUnavailableError:
    return HardwareUnavailableError(sentence, device="gpio")


class GpioLines:
    """RPi.GPIO's API on the lines of `chip`. Thread-safe.

    A pin is requested at its first `setup` and kept until the process ends. All methods raise OSError.
    """

    OUT = 0
    IN = 1

    def __init__(self, chip: gpiod.Chip) -> None:
        self._chip = chip
        self._requests: dict[int, gpiod.LineRequest] = {}
        self._inputs: dict[int, gpiod.LineRequest] = {}
        self._rests: dict[int, int] = {}
        self._lock = threading.Lock()
        self._pulses = PulseProcess(self._write)

    def setup(self, channel: int, direction: int, *, initial: int) -> None:
        """Make a pin an output at a level, without another level before."""
        if direction != self.OUT:
            raise OSError(errno.EINVAL, "only outputs are supported")
        with self._one_claim_at_a_time():
            is_new = channel not in self._requests
            if is_new:
                self._requests[channel] = self._claim(channel, _output_settings(initial))
        if not is_new:
            self.output(channel, initial)
        self._rests[channel] = initial

    def claim_input(self, channel: int, *, pull: Pull, debounce_s: float) -> None:
        """Make a pin an input, whose level changes after `debounce_s` seconds at a new one."""
        with self._one_claim_at_a_time():
            if channel not in self._inputs:
                self._inputs[channel] = self._claim(channel, _input_settings(pull, debounce_s))

    def input(self, channel: int, /) -> int:
        """The level of an input, 0 or 1."""
        from gpiod.line import Value  # noqa: PLC0415  as in `header_chip`

        if channel not in self._inputs:
            raise OSError(errno.EPERM, "it is not set up as an input")
        return int(self._inputs[channel].get_value(channel) == Value.ACTIVE)

    def output(self, channel: int, value: int, /) -> None:
        """Drive a pin low (0) or high (1), and end its pulses."""
        self._pulses.end(channel)
        self._write(channel, value)

    def PWM(self, channel: int, frequency: float, /) -> SoftwarePwm:  # noqa: N802  RPi.GPIO's name
        """Pulses on a pin, not yet started. Without them it rests at the level of its `setup`."""
        self._request_of(channel)
        if not 0 < frequency <= MAXIMUM_SOFTWARE_PWM_HZ:
            raise OSError(errno.EINVAL, f"software PWM has up to {MAXIMUM_SOFTWARE_PWM_HZ:g} Hz")
        self._pulses.start()  # now, so that it is ready at the first pulse
        return SoftwarePwm(self, channel, frequency)

    def gpio_function(self, channel: int, /) -> int:
        """Whether a pin is `OUT` or `IN` now, in any process."""
        from gpiod.line import Direction  # noqa: PLC0415  as in `header_chip`

        with self._one_claim_at_a_time():
            direction = self._chip.get_line_info(channel).direction
        return self.OUT if direction == Direction.OUTPUT else self.IN

    def pulse(self, channel: int, frequency_hz: float, high: float) -> None:
        """Let a pin be high for a fraction of the time, 0..1."""
        line, rest = self._request_of(channel).fd, self._rests[channel]
        if high == rest:
            self.output(channel, rest)
        else:
            self._pulses.pulse(channel, line, rest, frequency_hz, high)

    def end_pulses(self, channel: int) -> None:
        """Let a pin rest."""
        self.output(channel, self._rests[channel])

    def close(self) -> None:
        """Release all pins and the chip. Only tests do so: the kernel may make released pins inputs."""
        self._pulses.close()
        for claimed in (self._requests, self._inputs):
            while claimed:
                claimed.popitem()[1].release()
        self._chip.close()

    def _claim(self, pin: int, settings: gpiod.LineSettings) -> gpiod.LineRequest:
        try:
            return self._chip.request_lines({pin: settings}, consumer=CONSUMER)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            user = self._chip.get_line_info(pin).consumer or "the kernel"
            raise OSError(errno.EBUSY, f"it is in use by {user}") from error

    def _write(self, pin: int, level: int) -> None:
        from gpiod.line import Value  # noqa: PLC0415  as in `header_chip`

        self._request_of(pin).set_value(pin, Value.ACTIVE if level else Value.INACTIVE)

    def _request_of(self, pin: int) -> gpiod.LineRequest:
        if pin not in self._requests:
            raise OSError(errno.EPERM, "it is not set up as an output")
        return self._requests[pin]

    @contextmanager
    def _one_claim_at_a_time(self) -> Iterator[None]:
        is_locked = self._lock.acquire(timeout=_CLAIM_S)
        try:
            yield
        finally:
            if is_locked:
                self._lock.release()


def _output_settings(level: int) -> gpiod.LineSettings:
    from gpiod import LineSettings  # noqa: PLC0415  as in `header_chip`
    from gpiod.line import Direction, Value  # noqa: PLC0415

    value = Value.ACTIVE if level else Value.INACTIVE
    return LineSettings(direction=Direction.OUTPUT, output_value=value)


def _input_settings(pull: Pull, debounce_s: float) -> gpiod.LineSettings:
    from gpiod import LineSettings  # noqa: PLC0415  as in `header_chip`
    from gpiod.line import Bias, Direction  # noqa: PLC0415

    bias = {"up": Bias.PULL_UP, "down": Bias.PULL_DOWN, "none": Bias.DISABLED}[pull]
    return LineSettings(direction=Direction.INPUT, bias=bias, debounce_period=timedelta(seconds=debounce_s))


class SoftwarePwm:
    """`RPi.GPIO.PWM` on a pin of `GpioLines`. `stop` lets the pin rest."""

    def __init__(self, gpio: GpioLines, pin: int, frequency_hz: float) -> None:
        self._gpio = gpio
        self._pin = pin
        self._frequency_hz = frequency_hz
        self._is_running = False

    def start(self, dutycycle: float, /) -> None:
        """Begin with a duty cycle in percent."""
        self._is_running = True
        self.ChangeDutyCycle(dutycycle)

    def ChangeDutyCycle(self, dutycycle: float, /) -> None:  # noqa: N802  RPi.GPIO's name
        """Set the duty cycle in percent; no effect before `start` or after `stop`."""
        if self._is_running:
            self._gpio.pulse(self._pin, self._frequency_hz, dutycycle / 100.0)

    def stop(self) -> None:
        """End."""
        self._is_running = False
        self._gpio.end_pulses(self._pin)
