"""The outputs of the last run with real hardware, in two small files of the data folder.

The pins in them are brought to rest before anything else of growd is imported, and if the configuration can't
be read. So this needs the standard library only.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from growd_drivers.pins import MAXIMUM_PIN, kept_pins

if TYPE_CHECKING:
    from pathlib import Path

    from growd_drivers.pins import Library

FILE_NAMES: Final = ("outputs.json", "outputs.copy.json")
_MOST_BYTES: Final = 65_536


@dataclass(frozen=True)
class SafePin:
    """An output pin (BCM) and its safe level (0 or 1); with hardware PWM also the number of the PWM chip."""

    device: str
    pin: int
    level: int
    pwm_chip: int | None = None

    def __str__(self) -> str:
        return f"{self.device}: GPIO {self.pin} is {'high' if self.level else 'low'}, its safe level"


@dataclass(frozen=True)
class LastRun:
    """The pins that the last run with real hardware drove, and whether a simulated run came after it.

    `network` has the given options of the outputs that are driven over HTTP, by their names.
    """

    outputs: list[SafePin] = field(default_factory=list)
    is_simulated: bool = False
    network: dict[str, dict[str, Any]] = field(default_factory=dict)
    library: Library = "gpiod"

    def encoded(self) -> bytes:
        """The content of the files. A damaged number would be another pin, so it has a CRC-32."""
        content = asdict(self)
        return json.dumps({**content, "check": _sum(content)}, indent=2).encode() + b"\n"


def last_run(data: Path) -> tuple[LastRun, str]:
    """The saved outputs, and why a file can't be read, or "". Without a file there are none. Blocking."""
    troubles, found = [], None
    for name in FILE_NAMES:
        try:
            descriptor = os.open(data / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:  # which no link and no pipe can make wait
                run = _decoded(file.read(_MOST_BYTES))
            found = found or run
        except FileNotFoundError:
            continue
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            troubles.append(f"{data / name} can't be read: {error}")
    return found or LastRun(), "; ".join(troubles)


def rest_last_run(data: Path) -> None:
    """Bring the pins of the last run to rest that are outputs now. Blocking; never raises OSError.

    `growd run` and `growd safe` claim the pins again later, and report failures.
    """
    run, _ = last_run(data)
    if run.is_simulated or not run.outputs:
        return
    pins = kept_pins(run.library)
    for each in run.outputs:
        try:
            pins.claim(each.pin, each.level, each.pwm_chip, only_if_driven=True)
        except OSError:
            continue  # the other ones must rest too


def _decoded(content: bytes) -> LastRun:
    """Raises ValueError, TypeError, KeyError or AttributeError for a damaged content."""
    read = json.loads(content)
    if read.pop("check") != _sum(read):
        raise ValueError("it is damaged")
    outputs = [SafePin(**each) for each in read.pop("outputs")]
    if not all(0 <= each.pin <= MAXIMUM_PIN and each.level in (0, 1) for each in outputs):
        raise ValueError("a pin or a level is out of range")
    return LastRun(outputs, **read)


def _sum(content: dict[str, Any]) -> int:
    return crc32(json.dumps(content, sort_keys=True).encode())
