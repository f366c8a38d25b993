"""The pins of a Raspberry Pi's header, over the kernel's GPIO character device and the package gpiod.

Sources: Linux, Documentation/userspace-api/gpio/chardev.rst, and include/uapi/linux/gpio.h for the call that
sets a line; pinctrl-bcm2835.c (Pi 1 to 4) and pinctrl-rp1.c (Pi 5) of Raspberry Pi's kernel. The number of a
line is the BCM number of its pin. The number of the chip depends on model and kernel: on a Pi 5 it is 4
before Linux 6.6.45, and 0 from then on.
"""

from __future__ import annotations

import errno
import fcntl
import struct
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from growd_drivers.hardware_pwm import channel_of
from growd_drivers.pin_lines import PulsedLine

if TYPE_CHECKING:
    import gpiod

    from growd_drivers.pin_lines import Drive

CHIPS: Final = ("pinctrl-bcm2835", "pinctrl-bcm2711", "pinctrl-rp1")
"""Labels of the chips: Pi 1 to 3 and Zero 2; Pi 4; Pi 5."""

CONSUMER: Final = "growd"
"""The user of a line, as `gpioinfo` shows it."""

_MOST_CHIPS: Final = 32
_SET_VALUES: Final = 0xC010B40F  # GPIO_V2_LINE_SET_VALUES_IOCTL
_LEVELS: Final = struct.pack("=QQ", 0, 1), struct.pack("=QQ", 1, 1)  # bits and mask of a request's only line


def header_chip() -> gpiod.Chip:
    """The open chip of the header's pins. Raises OSError (ENODEV) with what to do."""
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


def _no_chip(others: list[str], refusal: OSError | None) -> OSError:
    if refusal is not None and refusal.errno in {errno.EACCES, errno.EPERM}:
        return _unavailable(f"{refusal.strerror}: add growd's user to the group gpio")
    if refusal is not None:
        return _unavailable(f"the GPIO pins can't be used: {refusal.strerror}")
    found = f"its GPIO chips are {', '.join(others)}" if others else "it has no GPIO chip"
    return _unavailable(
        f"this machine is not a Raspberry Pi: {found}. Choose simulated hardware: [simulator] enabled = true"
    )


def _unavailable(sentence: str) -> OSError:
    return OSError(errno.ENODEV, sentence)


class GpiodLines:
    """As `pin_lines.PinLines`, on the lines of `chip`. A line is kept until the process ends."""

    def __init__(self, chip: gpiod.Chip) -> None:
        self._chip = chip
        self._requests: dict[int, gpiod.LineRequest] = {}

    def is_output(self, pin: int) -> bool:
        """As `pin_lines.PinLines`."""
        from gpiod.line import Direction  # noqa: PLC0415  as in `header_chip`

        return bool(self._chip.get_line_info(pin).direction == Direction.OUTPUT)

    def claim(self, pin: int, rest: int, chip: int) -> Drive:
        """As `pin_lines.PinLines`."""
        from gpiod import LineSettings  # noqa: PLC0415  likewise
        from gpiod.line import Direction, Value  # noqa: PLC0415

        if (channel := channel_of(pin, chip)) is not None:
            return channel
        value = Value.ACTIVE if rest else Value.INACTIVE
        line = self._request(pin, LineSettings(direction=Direction.OUTPUT, output_value=value))
        return PulsedLine(partial(_drive, line.fd), rest)

    def claim_input(self, pin: int, pull: str, debounce_ns: int) -> None:
        """As `pin_lines.PinLines`."""
        from gpiod import LineSettings  # noqa: PLC0415  likewise
        from gpiod.line import Bias, Direction  # noqa: PLC0415

        bias = {"up": Bias.PULL_UP, "down": Bias.PULL_DOWN, "none": Bias.DISABLED}[pull]
        debounce = timedelta(microseconds=debounce_ns / 1_000)
        self._request(pin, LineSettings(direction=Direction.INPUT, bias=bias, debounce_period=debounce))

    def read(self, pin: int) -> int:
        """As `pin_lines.PinLines`."""
        from gpiod.line import Value  # noqa: PLC0415  likewise

        if pin not in self._requests:
            raise OSError(errno.EPERM, "it is not set up as an input")
        return int(self._requests[pin].get_value(pin) == Value.ACTIVE)

    def _request(self, pin: int, settings: gpiod.LineSettings) -> gpiod.LineRequest:
        try:
            if pin in self._requests:
                self._requests[pin].reconfigure_lines({pin: settings})
            else:
                self._requests[pin] = self._chip.request_lines({pin: settings}, consumer=CONSUMER)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            user = self._chip.get_line_info(pin).consumer or "the kernel"
            raise OSError(errno.EBUSY, f"it is in use by {user}") from error
        return self._requests[pin]


def _drive(line: int, is_high: bool) -> None:  # noqa: FBT001  it is the level
    """Set the level of a line by its file descriptor: faster than gpiod, which matters for pulses."""
    fcntl.ioctl(line, _SET_VALUES, _LEVELS[is_high])
