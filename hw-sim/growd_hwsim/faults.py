"""Faults on the wire: what passes between bus and chip is refused, delayed, changed or repeated.

The chips know nothing of them. A faults file is TOML:

    [[fault]]
    kind = "bad_crc"        # absent, bus_error, timeout, bad_crc, frozen
    device = "scd30"        # or "bh1750", or an address on a bus: "i2c-1:0x61"
    at = 60                 # seconds after the start (default 0)
    for = 30                # seconds (default: until the end)
    probability = 0.5       # of each message (default 1)
    seed = 7                # of the dice (default 0)
"""

from __future__ import annotations

import errno
import os
import random
import re
import threading
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from growd_hwsim.errors import FaultError, FaultFileError
from growd_hwsim.i2c import NoAcknowledgeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from growd_hwsim.i2c import Message

    Forward = Callable[[Message], bytes]

DEVICES = ("scd30", "bh1750")
BUS_TIMEOUT_S = 1.0
"""After which the Pi's adapter gives up (i2c-bcm2835 leaves Linux's default of 1 s)."""

_PLACE = re.compile(r"i2c-\d+:0x[0-9a-f]{2}")
_WITHOUT_CHECKSUM = {"bh1750"}


@dataclass(frozen=True)
class Fault:
    """A fault of `kind` at `device` from `at` seconds on for `duration` seconds (None: until cleared).

    `at` counts from when the fault is injected, which is the start for those of a file. Each message meets it
    with `probability`, by dice of its own from `seed`. Raises `FaultError` where it makes no sense.
    """

    kind: str
    device: str
    at: float = 0.0
    duration: float | None = None
    probability: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise FaultError(f"kind must be one of {', '.join(KINDS)}, not {self.kind!r}", key="kind")
        if self.device not in DEVICES and not _PLACE.fullmatch(self.device):
            known = f"{', '.join(DEVICES)} or an address such as i2c-1:0x61"
            raise FaultError(f"device must be {known}, not {self.device!r}", key="device")
        if self.kind == "bad_crc" and self.device in _WITHOUT_CHECKSUM:
            raise FaultError(f"kind bad_crc can't be: {self.device} sends no checksum", key="kind")
        if not 0 <= self.at < float("inf"):
            raise FaultError(f"at must be 0 or more seconds, not {self.at}", key="at")
        if self.duration is not None and not self.duration > 0:
            raise FaultError(f"for must be above 0 seconds, not {self.duration}", key="for")
        if not 0 < self.probability <= 1:
            raise FaultError(
                f"probability must be above 0, up to 1, not {self.probability}", key="probability"
            )


class Faults:
    """The faults of one simulated machine, and the wire that has them. Safe to use from several threads."""

    def __init__(
        self,
        *,
        sleep: Callable[[float], None],
        monotonic: Callable[[], float],
        faults: Iterable[Fault] = (),
    ) -> None:
        self._sleep = sleep
        self._monotonic = monotonic
        self._armed: list[_Armed] = []
        self._frames: dict[tuple[int, int], bytes] = {}
        self._lock = threading.Lock()
        for fault in faults:
            self.inject(fault)

    def inject(self, fault: Fault) -> None:
        """Add a fault; its time counts from now."""
        with self._lock:
            self._armed.append(_Armed(fault, self._monotonic()))

    def clear(self, device: str | None = None) -> None:
        """Take away all faults, or those of one device."""
        with self._lock:
            self._armed = [armed for armed in self._armed if device not in (None, armed.fault.device)]

    def wire(self, message: Message, forward: Forward) -> bytes:
        """Pass a message on through the faults that it meets. For `I2CAdapter`."""
        met = self._met_by(message)
        for fault in met:
            forward = _through(KINDS[fault.kind], self, forward)
        answer = forward(message)
        if not met and message.data is None and len(answer) >= len(self.last_frame(message)):
            self.remember(message, answer)
        return answer

    def hold_the_clock(self) -> None:
        """Let the time pass after which the adapter gives up."""
        self._sleep(BUS_TIMEOUT_S)

    def last_frame(self, message: Message) -> bytes:
        """The last measurement that came from this address: the longest answer it gives. Empty before."""
        with self._lock:
            return self._frames.get((message.bus, message.address), b"")

    def remember(self, message: Message, frame: bytes) -> None:
        """Take `frame` for the last measurement from this address."""
        with self._lock:
            self._frames[message.bus, message.address] = frame

    def _met_by(self, message: Message) -> list[Fault]:
        names = (message.device, f"i2c-{message.bus}:{message.address:#04x}")
        with self._lock:
            now = self._monotonic()
            return [
                armed.fault for armed in self._armed if armed.fault.device in names and armed.strikes(now)
            ]


class _Armed:
    """A fault with the time it was injected and its dice."""

    def __init__(self, fault: Fault, injected: float) -> None:
        self.fault = fault
        self._begin = injected + fault.at
        self._end = None if fault.duration is None else self._begin + fault.duration
        self._dice = random.Random(fault.seed)  # noqa: S311  a seed, not secrets

    def strikes(self, now: float) -> bool:
        if now < self._begin or (self._end is not None and now >= self._end):
            return False
        return self._dice.random() < self.fault.probability


def _absent(_faults: Faults, _message: Message, _forward: Forward) -> bytes:
    raise NoAcknowledgeError


def _bus_error(_faults: Faults, _message: Message, _forward: Forward) -> bytes:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def _timeout(faults: Faults, _message: Message, _forward: Forward) -> bytes:
    faults.hold_the_clock()
    raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))


def _bad_crc(_faults: Faults, message: Message, forward: Forward) -> bytes:
    answer = forward(message)
    return answer[:-1] + bytes([answer[-1] ^ 0x01]) if answer else answer


def _frozen(faults: Faults, message: Message, forward: Forward) -> bytes:
    answer = forward(message)
    frame = faults.last_frame(message)
    if message.data is None and len(answer) > len(frame):
        faults.remember(message, answer)  # there was none to repeat: repeat this one from now on
    return frame if message.data is None and len(answer) == len(frame) else answer


KINDS: dict[str, Callable[[Faults, Message, Forward], bytes]] = {
    "absent": _absent,
    "bus_error": _bus_error,
    "timeout": _timeout,
    "bad_crc": _bad_crc,
    "frozen": _frozen,
}


def _through(
    manipulator: Callable[[Faults, Message, Forward], bytes], faults: Faults, forward: Forward
) -> Forward:
    return lambda message: manipulator(faults, message, forward)


_TYPES: dict[str, tuple[type, ...]] = {
    "kind": (str,),
    "device": (str,),
    "at": (int, float),
    "for": (int, float),
    "probability": (int, float),
    "seed": (int,),
}
_TYPE_NAMES = {str: "text", int: "a whole number", float: "a number"}


def load_faults(path: Path) -> list[Fault]:
    """The faults of a file, in its order. Raises `FaultFileError` naming file, entry, key and reason."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FaultFileError(str(path), f"can't be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FaultFileError(str(path), f"is not TOML: {error}") from error
    entries = document.pop("fault", [])
    if document:
        unknown = ", ".join(document)
        raise FaultFileError(str(path), f"unknown key {unknown}; faults are [[fault]] entries", key=unknown)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise FaultFileError(str(path), "faults are [[fault]] entries", key="fault")
    return [_fault(str(path), number, entry) for number, entry in enumerate(entries, 1)]


def _fault(path: str, number: int, entry: dict[str, Any]) -> Fault:
    for key, value in entry.items():
        if key not in _TYPES:
            reason = f"unknown key {key!r}; known are {', '.join(_TYPES)}"
            raise FaultFileError(path, reason, entry=number, key=key)
        if not isinstance(value, _TYPES[key]) or isinstance(value, bool):
            reason = f"{key} must be {_TYPE_NAMES[_TYPES[key][-1]]}, not {value!r}"
            raise FaultFileError(path, reason, entry=number, key=key)
    for key in ("kind", "device"):
        if key not in entry:
            raise FaultFileError(path, f"{key} is missing", entry=number, key=key)
    fields = {"duration" if key == "for" else key: value for key, value in entry.items()}
    try:
        return Fault(**fields)
    except FaultError as error:
        raise FaultFileError(path, str(error), entry=number, key=error.key) from error
