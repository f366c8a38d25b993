"""Nine clock pulses for an I2C bus whose data line a chip holds low (NXP UM10204, 3.1.16 "Bus clear").

A chip that lost count in the middle of a byte waits for clocks to end it; after nine it has let go. The pins
belong to the I2C controller, and the GPIO packages can make one an output but not give it back. `pinctrl`,
Raspberry Pi's own tool (package raspi-utils), can do both on every model.
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
"""BCM numbers of SCL, for the buses that every 40 pin header has at the same pins."""

_PINCTRL: Final = "/usr/bin/pinctrl"
_ANSWER_S: Final = 1.0
_FUNCTION: Final = re.compile(r"\s*\d+:\s+(a\d)\s.*?\b(pu|pd|pn)\b")


def run_pinctrl(*arguments: str) -> str:
    """What the tool says. Raises OSError where it is not there, refuses, or takes more than a second."""
    try:
        done = subprocess.run(  # noqa: S603  the tool's own path, and arguments made here
            [_PINCTRL, *arguments], capture_output=True, text=True, timeout=_ANSWER_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise OSError(errno.ETIMEDOUT, "pinctrl does not come back") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise OSError(errno.EPERM, f"pinctrl {' '.join(arguments)} failed: {said}")
    return done.stdout


def clear_bus(number: int, *, pinctrl: Callable[..., str] = run_pinctrl) -> None:
    """Send nine pulses on SCL of bus `number`, at some 100 Hz, and give the pin back to the controller.

    Blocking, some 0.1 s. Low is driven, high is let go, as on every open-drain line. Raises OSError for a bus
    whose pins are not known, where the pin is no I2C pin now, and where the tool is missing or refuses.
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
