"""Nine clock pulses for an I2C bus whose data line a chip holds low (NXP UM10204, 3.1.16 "Bus clear").

After nine clocks a chip that was interrupted in a byte releases the line. The pins belong to the I2C
controller. The kernel's GPIO interface can't give a pin back to it; Raspberry Pi's `pinctrl` (raspi-utils)
can.
"""

from __future__ import annotations

import errno
import re
import subprocess
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

PULSES: Final = 9
_CLOCK_PINS: Final = {0: 1, 1: 3}
"""BCM numbers of SCL, for the buses whose pins are the same on every 40 pin header."""

_PINCTRL: Final = "/usr/bin/pinctrl"
_ANSWER_S: Final = 1.0
_FUNCTION: Final = re.compile(r"\s*\d+:\s+(a\d)\s.*?\b(pu|pd|pn)\b")


def run_pinctrl(*arguments: str) -> str:
    """The output of the tool. Raises OSError if it is missing, fails, or takes more than a second."""
    try:
        done = subprocess.run(  # noqa: S603  the tool's own path, and arguments made here
            [_PINCTRL, *arguments], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(errno.ETIMEDOUT, "pinctrl does not return") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise OSError(errno.EPERM, f"pinctrl {' '.join(arguments)} failed: {said}")
    return done.stdout


def clear_bus(number: int, *, pinctrl: Callable[..., str] = run_pinctrl) -> None:
    """Send nine pulses on SCL of bus `number`, at about 100 Hz, and return the pin to the controller.

    Blocks about 0.1 s. The line is open-drain: low is driven, high is released. Raises OSError if the pins
    of the bus are not known, the pin is not an I2C pin now, or the tool is missing or fails.
    """
    pin = _CLOCK_PINS.get(number)
    if pin is None:
        raise OSError(errno.ENOTSUP, f"the pins of I2C bus {number} are not known")
    was = _FUNCTION.match(pinctrl("get", str(pin)))
    if was is None:
        raise OSError(errno.EBUSY, f"GPIO {pin} is not a pin of I2C bus {number} now")
    try:
        for _ in range(PULSES):
            pinctrl("set", str(pin), "op", "dl")
            pinctrl("set", str(pin), "ip", "pu")
    finally:
        pinctrl("set", str(pin), *was.groups())
