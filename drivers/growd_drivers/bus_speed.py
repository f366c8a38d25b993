"""The speed of an I2C bus, as the device tree sets it.

Source: Linux, Documentation/devicetree/bindings/i2c/i2c.txt (`clock-frequency`). On a Raspberry Pi it is
`dtparam=i2c_arm_baudrate` of config.txt, by default 100 kHz.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_ADAPTERS: Final = Path("/sys/bus/i2c/devices")
_BYTES: Final = 4  # a cell of the device tree: big-endian


def bus_speed_hz(number: int, *, adapters: Path = _ADAPTERS) -> int | None:
    """The clock frequency of I2C bus `number`; None if the device tree has none. Blocking."""
    try:
        cell = (adapters / f"i2c-{number}" / "of_node" / "clock-frequency").read_bytes()
    except OSError:
        return None
    return int.from_bytes(cell, "big") or None if len(cell) == _BYTES else None
