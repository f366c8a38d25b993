"""Faults on the wire: what passes between bus and chip is refused, delayed, changed or repeated.

The chips know nothing of them. A faults file is TOML:

    [[fault]]
    kind = "bad_crc"        # absent, bus_error, timeout, bad_crc, frozen
    device = "scd30"        # or "bh1750", or an address on a bus: "i2c-1:0x61"; or one on a serial line,
                            # "mhz19", "mhz16" or its port: "/dev/serial0"
    at = 60                 # seconds after the start (default 0)
    for = 30                # seconds (default: until the end)
    probability = 0.5       # of each message (default 1)
    seed = 7                # of the dice (default 0)

On a serial line the kinds are absent, short, split, shifted, doubled, garbled, bad_checksum, frozen, warm_up,
unplugged, and renamed: plugged in under the next number, such as /dev/ttyUSB1 for /dev/ttyUSB0.
A pin, "gpio-18", knows one kind: refused, as one that another program holds.
"""

from __future__ import annotations

import errno
import os
import random
import re
import threading
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from growd_hwsim.chips.mhz19 import WARM_UP_PPM, reading
from growd_hwsim.errors import FaultError, FaultFileError
from growd_hwsim.i2c import NoAcknowledgeError
from growd_hwsim.uart import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from pathlib import Path

    from growd_hwsim.i2c import Message
    from growd_hwsim.uart import Forward as SerialForward

    Forward = Callable[[Message], bytes]

M = TypeVar("M")
A = TypeVar("A")

DEVICES = ("scd30", "bh1750", "mhz19", "mhz16")
BUS_TIMEOUT_S = 1.0
"""After which the Pi's adapter gives up (i2c-bcm2835 leaves Linux's default of 1 s)."""

PAUSE_S = 0.02
"""Between two pieces of a frame: a moment in which pyserial's read finds nothing."""

_PLACE = re.compile(r"i2c-\d+:0x[0-9a-f]{2}|/dev/.+|gpio-\d+")
_ON_SERIAL_LINES = ("mhz19", "mhz16")
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
        known_kinds = list(dict.fromkeys([*KINDS, *SERIAL_KINDS, *PLUG_KINDS, *PIN_KINDS]))
        if self.kind not in known_kinds:
            raise FaultError(f"kind must be one of {', '.join(known_kinds)}, not {self.kind!r}", key="kind")
        if self.device not in DEVICES and not _PLACE.fullmatch(self.device):
            known = f"{', '.join(DEVICES)} or an address such as i2c-1:0x61"
            raise FaultError(f"device must be {known}, not {self.device!r}", key="device")
        kinds = self._kinds_there
        if self.kind not in kinds:
            raise FaultError(
                f"kind {self.kind} can't be: for {self.device} there are {', '.join(kinds)}", key="kind"
            )
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

    @property
    def _kinds_there(self) -> list[str]:
        if self.device in _ON_SERIAL_LINES or self.device.startswith("/"):
            return [*SERIAL_KINDS, *PLUG_KINDS]
        return list(PIN_KINDS if self.device.startswith("gpio-") else KINDS)


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
        self._frames: dict[tuple[int, int] | str, bytes] = {}
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
        met = self._met_by(message.device, f"i2c-{message.bus}:{message.address:#04x}", kinds=KINDS)
        for fault in met:
            forward = _through(KINDS[fault.kind], self, forward)
        answer = forward(message)
        if not met and message.data is None and len(answer) >= len(self.last_frame(message)):
            self.remember(message, answer)
        return answer

    def serial_wire(self, query: Query, forward: SerialForward) -> list[bytes]:
        """Pass a command on, and its answer back, through the faults that it meets. For `SerialPorts`."""
        met = self._met_by(query.device, query.port, kinds=SERIAL_KINDS)
        for fault in met:
            forward = _through(SERIAL_KINDS[fault.kind], self, forward)
        pieces = forward(query)
        if not met and any(pieces):
            self.remember(query, b"".join(pieces))
        return pieces

    def plug(self, port: str, device: str) -> str | None:
        """The name by which a chip's port goes now, None while it is unplugged. For `SerialPorts`."""
        name: str | None = port
        for fault in self._met_by(device, port, kinds=PLUG_KINDS):
            name = None if name is None else PLUG_KINDS[fault.kind](name)
        return name

    def is_refused(self, pin: int) -> bool:
        """Whether a write to a pin (BCM) meets a fault. For `SimulatedGpio`."""
        return bool(self._met_by(f"gpio-{pin}", kinds=PIN_KINDS))

    def pause(self) -> None:
        """Let the time between two pieces of a frame pass."""
        self._sleep(PAUSE_S)

    def hold_the_clock(self) -> None:
        """Let the time pass after which the adapter gives up."""
        self._sleep(BUS_TIMEOUT_S)

    def last_frame(self, message: Message | Query) -> bytes:
        """The last measurement that came from there: from an address the longest answer. Empty before."""
        with self._lock:
            return self._frames.get(_place(message), b"")

    def remember(self, message: Message | Query, frame: bytes) -> None:
        """Take `frame` for the last measurement from there."""
        with self._lock:
            self._frames[_place(message)] = frame

    def _met_by(self, *names: str, kinds: Container[str]) -> list[Fault]:
        with self._lock:
            now = self._monotonic()
            return [
                armed.fault
                for armed in self._armed
                if armed.fault.device in names and armed.fault.kind in kinds and armed.strikes(now)
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


def _no_answer(_faults: Faults, _query: Query, _forward: SerialForward) -> list[bytes]:
    return []


def _short(_faults: Faults, query: Query, forward: SerialForward) -> list[bytes]:
    return [piece[:5] for piece in forward(query)]


def _split(_faults: Faults, query: Query, forward: SerialForward) -> list[bytes]:
    return [part for piece in forward(query) for part in (piece[:4], piece[4:]) if part]


def _shifted(_faults: Faults, query: Query, forward: SerialForward) -> list[bytes]:
    """A stray byte before the frame: the worst one, which looks like its start."""
    return [b"\xff" + piece for piece in forward(query) if piece]


def _doubled(_faults: Faults, query: Query, forward: SerialForward) -> list[bytes]:
    return [piece + piece for piece in forward(query)]


def _garbled(_faults: Faults, query: Query, forward: SerialForward) -> list[bytes]:
    return [bytes(byte ^ 0x5A for byte in piece) for piece in forward(query)]


def _bad_checksum(_faults: Faults, query: Query, forward: SerialForward) -> list[bytes]:
    return [piece[:-1] + bytes([piece[-1] ^ 0x01]) for piece in forward(query) if piece]


def _frozen_line(faults: Faults, query: Query, forward: SerialForward) -> list[bytes]:
    frame = b"".join(forward(query))
    if frame and not faults.last_frame(query):
        faults.remember(query, frame)  # there was none to repeat: repeat this one from now on
    return [faults.last_frame(query)] if frame else []


def _warm_up(_faults: Faults, query: Query, forward: SerialForward) -> list[bytes]:
    return [reading(WARM_UP_PPM) for piece in forward(query) if piece]


SERIAL_KINDS: dict[str, Callable[[Faults, Query, SerialForward], list[bytes]]] = {
    "absent": _no_answer,
    "short": _short,
    "split": _split,
    "shifted": _shifted,
    "doubled": _doubled,
    "garbled": _garbled,
    "bad_checksum": _bad_checksum,
    "frozen": _frozen_line,
    "warm_up": _warm_up,
}


def _unplugged(_port: str) -> str | None:
    return None


def _renamed(port: str) -> str | None:
    """As Linux names an adapter that comes back while its old name is still held open."""
    name = port.rstrip("0123456789")
    return f"{name}{int(port[len(name) :] or 0) + 1}"


PIN_KINDS = ("refused",)
PLUG_KINDS: dict[str, Callable[[str], str | None]] = {"unplugged": _unplugged, "renamed": _renamed}


def _through(
    manipulator: Callable[[Faults, M, Callable[[M], A]], A], faults: Faults, forward: Callable[[M], A]
) -> Callable[[M], A]:
    return lambda message: manipulator(faults, message, forward)


def _place(message: Message | Query) -> tuple[int, int] | str:
    return message.port if isinstance(message, Query) else (message.bus, message.address)


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
